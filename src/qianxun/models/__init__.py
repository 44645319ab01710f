"""Models: cards say what is known of them, `open_embedding` and `open_reranker` open one, `pull` fetches its files."""

from qianxun.models.cards import CARDS, RERANK_CARDS, ModelCard, RerankCard, any_card, card, rerank_card
from qianxun.models.embedding import SENTENCE_PREFIX, EmbeddingEngine, open_embedding
from qianxun.models.endpoints import ChatEndpoint, RemoteEndpoint, RerankEndpoint
from qianxun.models.maxsim import MaxSim
from qianxun.models.pull import PullEvent, pull, standard_sources
from qianxun.models.weights import find_local

__all__ = [
    "CARDS",
    "RERANK_CARDS",
    "SENTENCE_PREFIX",
    "ChatEndpoint",
    "EmbeddingEngine",
    "MaxSim",
    "ModelCard",
    "PullEvent",
    "RemoteEndpoint",
    "RerankCard",
    "RerankEndpoint",
    "any_card",
    "card",
    "find_local",
    "open_embedding",
    "pull",
    "rerank_card",
    "standard_sources",
]
