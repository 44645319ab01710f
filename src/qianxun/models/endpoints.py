"""Where remote models answer and how to ask them. A key is never shown, not even by ``repr``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What every remote model has: an address, a name there, and how much patience it deserves."""

    base_url: str  # with its version: https://host/v1
    model: str
    _: KW_ONLY
    api_key: str = field(default="", repr=False)
    name: str = ""  # under which it is known here; the model's own unless told otherwise
    timeout_seconds: float = 30.0  # for each wait on the service, and for all of a reply once its headers are here
    attempts: int = 4
    backoff_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    proxy: str = field(default="", repr=False)
    seed: int = 0  # of the jitter between attempts


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
    timeout_seconds: float = 60.0
    temperature: float = 0.0
    max_tokens: int | None = None  # of the reply; the service's own bound unless told otherwise
