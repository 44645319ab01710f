"""Embedding, rerank and chat models: on this machine (`local`), of services (`remote`), registered by users.

Read `open_model` first: it opens a model of each kind. `cards` has the known local models as data, `local.pull` fetches
their files, `embedding` opens one on first use, `remote.http` is the one HTTP client (retries, breaker, redaction),
`registry` has the models that users registered, with their keys sealed in the records, and `threads` runs calls so that
a hanging model blocks nothing else. Imports `core`, `text` and `records`; the names below may be imported from here.
"""

from qianxun.models.cards import CARDS, EVERY_CARD, RERANK_CARDS, ModelCard, RerankCard, any_card, card, rerank_card
from qianxun.models.local.maxsim import MaxSim
from qianxun.models.local.pull import PullEvent, pull, standard_sources
from qianxun.models.local.weights import find_local
from qianxun.models.open_model import SENTENCE_PREFIX, open_chat, open_embedding, open_reranker
from qianxun.models.remote.endpoints import ChatEndpoint, RemoteEndpoint, RerankEndpoint
from qianxun.models.remote.url_policy import UrlPolicy, check_url

__all__ = [
    "CARDS",
    "EVERY_CARD",
    "RERANK_CARDS",
    "SENTENCE_PREFIX",
    "ChatEndpoint",
    "MaxSim",
    "ModelCard",
    "PullEvent",
    "RemoteEndpoint",
    "RerankCard",
    "RerankEndpoint",
    "UrlPolicy",
    "any_card",
    "card",
    "check_url",
    "find_local",
    "open_chat",
    "open_embedding",
    "open_reranker",
    "pull",
    "rerank_card",
    "standard_sources",
]
