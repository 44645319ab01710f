"""Models: cards say what is known of them, `open_embedding` and its kin open one, `pull` fetches one's files."""

from qianxun.models.cards import CARDS, EVERY_CARD, RERANK_CARDS, ModelCard, RerankCard, any_card, card, rerank_card
from qianxun.models.embedding import SENTENCE_PREFIX, EmbeddingEngine, open_embedding
from qianxun.models.local.cross_encoder import CrossEncoder, open_cross_encoder
from qianxun.models.local.maxsim import MaxSim
from qianxun.models.local.pull import PullEvent, pull, standard_sources
from qianxun.models.local.weights import find_local
from qianxun.models.remote.endpoints import ChatEndpoint, RemoteEndpoint, RerankEndpoint
from qianxun.models.remote.url_policy import Reach, check_url

__all__ = [
    "CARDS",
    "EVERY_CARD",
    "RERANK_CARDS",
    "SENTENCE_PREFIX",
    "ChatEndpoint",
    "CrossEncoder",
    "EmbeddingEngine",
    "MaxSim",
    "ModelCard",
    "PullEvent",
    "Reach",
    "RemoteEndpoint",
    "RerankCard",
    "RerankEndpoint",
    "any_card",
    "card",
    "check_url",
    "find_local",
    "open_cross_encoder",
    "open_embedding",
    "pull",
    "rerank_card",
    "standard_sources",
]
