"""Where remote models answer and how to ask them. A key is never shown, not even by ``repr``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from qianxun.models.remote.url_policy import Reach


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What every remote model has: an address, a name there, and how much patience it deserves."""

    base_url: str  # with its version: https://host/v1
    model: str
    _: KW_ONLY
    api_key: str = field(default="", repr=False)
    name: str = ""  # under which it is known here; the model's own unless told otherwise
    # The operator's own endpoints may stand anywhere; an address that a user brought gets `Reach(allow=…)`.
    reach: Reach = field(default_factory=Reach.anywhere)
    timeout_seconds: float = 30.0  # of one attempt, from looking up the name to the last byte of the reply
    attempts: int = 4
    backoff_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    seed: int = 0  # of the jitter between attempts
    outages: int = 5  # one after the other, and the service is left alone …
    pause_seconds: float = 30.0  # … for so long; then one request finds out whether it is back


@dataclass(frozen=True, slots=True)
class RemoteEndpoint(Endpoint):
    """An embedding model: POST {base_url}/embeddings. Vectors are stored under its ``name``."""

    dimension: int
    _: KW_ONLY
    query_prefix: str = ""
    passage_prefix: str = ""
    batch_size: int = 32
    ask_dimension: bool = False  # for models that shorten their vectors on request


@dataclass(frozen=True, slots=True)
class RerankEndpoint(Endpoint):
    """A reranker in the Cohere and Jina form: POST {base_url}/rerank.

    ``scale`` says what its scores are: ``unit``, already in [0, 1], anything else is a bad reply; ``logit``, always
    put through a sigmoid; ``auto``, put through a sigmoid when any score of a call lies outside [0, 1].
    """

    _: KW_ONLY
    batch_size: int = 64  # passages in one request
    scale: Literal["auto", "unit", "logit"] = "auto"


@dataclass(frozen=True, slots=True)
class ChatEndpoint(Endpoint):
    """A language model: POST {base_url}/chat/completions."""

    _: KW_ONLY
    timeout_seconds: float = 60.0  # of a whole reply; of a streamed one, for its first piece and every next one …
    stream_seconds: float = 600.0  # … and so long for all of them
    temperature: float = 0.0
    top_p: float | None = None  # the service's own unless told otherwise, as below
    max_tokens: int | None = None  # of the reply
