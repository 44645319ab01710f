"""Models: cards say what is known of them, `open_embedding` opens one, `pull` fetches one's files."""

from qianxun.models.cards import CARDS, ModelCard, RemoteEndpoint, card
from qianxun.models.embedding import SENTENCE_PREFIX, EmbeddingEngine, open_embedding
from qianxun.models.pull import PullEvent, pull, standard_sources
from qianxun.models.weights import find_local

__all__ = [
    "CARDS",
    "SENTENCE_PREFIX",
    "EmbeddingEngine",
    "ModelCard",
    "PullEvent",
    "RemoteEndpoint",
    "card",
    "find_local",
    "open_embedding",
    "pull",
    "standard_sources",
]
