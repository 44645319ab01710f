"""Endpoints of remote models. A key is never shown, not even by ``repr``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from qianxun.models.remote.url_policy import UrlPolicy


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What every remote model has: an address, a name there, timeouts and retries."""

    base_url: str  # with its version: https://host/v1
    model: str
    _: KW_ONLY
    api_key: str = field(default="", repr=False)
    name: str = ""  # by which it is known here; default: the model's own
    # The operator's own endpoints may be anywhere; a user's address gets `UrlPolicy(allow=…)`.
    policy: UrlPolicy = field(default_factory=UrlPolicy.anywhere)
    timeout_seconds: float = 30.0  # of one attempt, from name resolution to the last byte of the reply
    attempts: int = 4
    backoff_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    seed: int = 0  # of the jitter between attempts
    outages: int = 5  # in a row, after which the service is not called …
    pause_seconds: float = 30.0  # … for so long; then one request probes it


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

    ``scale`` of its scores: ``unit``, in [0, 1], anything else is a bad reply; ``logit``, put through a sigmoid;
    ``auto``, put through a sigmoid if any score of a call is outside [0, 1].
    """

    _: KW_ONLY
    batch_size: int = 64  # passages per request
    scale: Literal["auto", "unit", "logit"] = "auto"


@dataclass(frozen=True, slots=True)
class ChatEndpoint(Endpoint):
    """A language model: POST {base_url}/chat/completions."""

    _: KW_ONLY
    timeout_seconds: float = 60.0  # of a whole reply; of a streamed one, for its first piece and every next one …
    stream_seconds: float = 600.0  # … and for all of them
    temperature: float = 0.0
    top_p: float | None = None  # default: the service's own, as below
    max_tokens: int | None = None  # of the reply
