"""The cache of answers, by everything that an answer depends on: a key that a write has outdated is never read again.

A replay (`replaying`) searches for real and leaves no trace: it reads no cache, fills none, and is not logged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from qianxun.core.ports import Cache
from qianxun.core.types import Generation, Recall

VERSION: Final = 1  # of the ranking and of the encoding: answers of another version are not used

_canonical = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_replaying: ContextVar[bool] = ContextVar("replaying", default=False)


@contextmanager
def replaying() -> Iterator[None]:
    """The searches of this task inside the block are replays; those of other tasks are not."""
    token = _replaying.set(True)
    try:
        yield
    finally:
        _replaying.reset(token)


def is_replaying() -> bool:
    return _replaying.get()


def cache_key(knowledge_base: int, query: str, params: Mapping[str, Any], generation: Generation) -> str:
    """``rag:retrieval:{kb_id}:{md5(query)}:{params_hash}:{generation}``.

    ``generation`` must have been read *before* the search: read afterwards, it could name a write that the answer
    does not know of.
    """
    text = hashlib.md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    options = _canonical({"version": VERSION, "params": params}).encode("utf-8", "surrogatepass")
    return f"rag:retrieval:{knowledge_base}:{text}:{hashlib.sha256(options).hexdigest()[:32]}:{generation}"


async def get_cached(cache: Cache, key: str, query: str) -> Recall | None:
    """The answer under a key; None if it is of another query (md5 can be made to collide)."""
    found = None if is_replaying() else await cache.get(key)
    return found if found is not None and found.query == query else None


async def put_cached(cache: Cache, key: str, recall: Recall, seconds: float) -> None:
    """Stores an answer, unless it is degraded: the next search may be whole again."""
    if not recall.degraded and not recall.from_cache and not is_replaying():
        await cache.put(key, recall, seconds)
