"""The cache of answers, by everything that an answer depends on: a key that a write has outdated is never read again.

A replay (`replaying`) searches for real and leaves no trace: it reads no cache, fills none, and is not logged.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from qianxun.core.ports import Cache
from qianxun.core.system.cache import LRUCache, answer_prefix
from qianxun.core.types import Generation, Recall

VERSION: Final = 1  # of the ranking and of the encoding: answers of another version are not used
BASES: Final = 10_000  # whose last change is remembered

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


def cache_key(knowledge_base: int, query: str, params: Mapping[str, Any], generation: Generation, *origin: str) -> str:
    """``rag:retrieval:{kb_id}:{md5(query)}:{params_hash}:{generation}``.

    ``generation`` must have been read *before* the search: read afterwards, it could name a write that the answer
    does not know of. ``origin`` tells apart what has the same numbers: other records, another history of them.
    """
    text = hashlib.md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    options = _canonical({"version": VERSION, "params": params, "origin": origin}).encode("utf-8", "surrogatepass")
    return f"{answer_prefix(knowledge_base)}{text}:{hashlib.sha256(options).hexdigest()[:32]}:{generation}"


class Lifetimes:
    """How long answers are cached: for as long as their base has not changed by then, within bounds."""

    def __init__(self, least: float, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        """In seconds; with ``least`` 0 nothing is cached."""
        self._least, self._most = least, most if least > 0 else 0.0
        self._clock = clock
        self._changes = LRUCache[int, tuple[int, float]](BASES)  # base → its state, and since when

    def seconds(self, knowledge_base: int, generation: int) -> float:
        state, since = self._changes.get(knowledge_base) or (None, 0.0)
        if state != generation:
            since = self._clock()
            self._changes.put(knowledge_base, (generation, since))
        return min(max(self._clock() - since, self._least), max(self._most, self._least))


async def get_cached(cache: Cache, key: str, query: str) -> Recall | None:
    """The answer under a key; None if it is of another query (md5 can be made to collide)."""
    found = None if is_replaying() else await cache.get(key)
    return found if found is not None and found.query == query else None


async def put_cached(cache: Cache, key: str, recall: Recall, seconds: float) -> None:
    """Stores an answer, unless it is degraded: the next search may be whole again."""
    if not recall.degraded and not recall.from_cache and not is_replaying():
        await cache.put(key, recall, seconds)
