"""The one cache of the package: bounded, the least recently used entry goes first, safe under threads.

Ours and not `cachetools`: that has no lock, and no class with both a bound in bytes and a lifetime per entry. What is
computed from the texts of documents, over and over, is stored by `cached_texts` and `sized_texts`.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Final, Generic, TypeVar

from qianxun.core.limits import MIB
from qianxun.core.types import Recall

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])

ENTRY_BYTES: Final = 2_000  # what an answer costs beside its results
LONGEST_TEXT: Final = 1_000  # characters
RESULT_BYTES: Final = 2_500  # what a result costs beside its text: chunk, attributes, arms' scores


class LRUCache(Generic[K, V]):
    """At most ``entries`` entries and ``bytes_limit`` bytes, as ``size`` counts them."""

    def __init__(
        self,
        entries: float = math.inf,
        *,
        bytes_limit: float = math.inf,
        size: Callable[[K, V], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries = entries
        self._bytes_limit = bytes_limit
        self._size = size
        self._clock = clock
        self._stored: OrderedDict[K, tuple[float, int, V]] = OrderedDict()  # expires at, bytes, value
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._stored.get(key)
            if found is None:
                return None
            expires, _, value = found
            if expires < math.inf and self._clock() >= expires:
                self._drop(key)
                return None
            self._stored.move_to_end(key)
            return value

    def put(self, key: K, value: V, seconds: float = math.inf) -> None:
        """Replaces what is there. A value larger than the whole cache, or without a lifetime, is not stored."""
        size = self._size(key, value) if self._size is not None else 0
        with self._lock:
            self._drop(key)
            if not seconds > 0 or size > self._bytes_limit:
                return
            expires = self._clock() + seconds if seconds < math.inf else math.inf
            self._stored[key] = (expires, size, value)
            self._bytes += size
            while len(self._stored) > self._entries or self._bytes > self._bytes_limit:
                self._drop(next(iter(self._stored)))

    def items(self) -> list[tuple[K, V]]:
        """What is stored now, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (_, _, value) in self._stored.items()]

    def remove(self, is_outdated: Callable[[K, V], bool]) -> None:
        """Drops every entry of which that is true."""
        with self._lock:
            for key in [key for key, (_, _, value) in self._stored.items() if is_outdated(key, value)]:
                self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._stored.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def size(self) -> int:
        """Bytes in use, about."""
        return self._bytes

    def _drop(self, key: K) -> None:
        found = self._stored.pop(key, None)
        if found is not None:
            self._bytes -= found[1]


def cached_texts(entries: int, longest: int = LONGEST_TEXT, *, lasting: bool = False) -> Callable[[F], F]:
    """`lru_cache` for a pure function whose last argument is a text of a document. A longer one than ``longest`` is
    computed every time: a bound on the number of texts alone is none on memory. ``lasting`` for what is compared with
    every question, such as the names of all tables."""

    def decorate(function: F) -> F:
        lru = lru_cache(maxsize=entries)(function)
        _text_caches.append((lru.cache_clear, lasting))

        @wraps(function)
        def call(*given: Any) -> Any:
            return lru(*given) if len(given[-1]) <= longest else function(*given)

        call.lru = lru  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def sized_texts(most_bytes: int, size: Callable[[Any], int]) -> Callable[[F], F]:
    """`cached_texts` for a pure function whose values are much larger than the text that they come from: bounded by the
    bytes that ``size`` says a value takes."""

    def decorate(function: F) -> F:
        known = LRUCache[tuple[Any, ...], Any](bytes_limit=most_bytes, size=lambda _, value: size(value))
        _text_caches.append((known.clear, False))

        @wraps(function)
        def call(*given: Any) -> Any:
            found = known.get(given)
            if found is None:
                found = function(*given)
                known.put(given, found)
            return found

        call.known = known  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


_text_caches: list[tuple[Callable[[], None], bool]] = []  # how each is emptied, and whether it is a lasting one


def forget_texts(*, lasting: bool = True) -> None:
    """Empties what `cached_texts` and `sized_texts` remember: texts that were purged are not to be in memory, either.
    Not what is ``lasting``, if that is false: to compute it again for 50,000 names of columns takes half a second."""
    for clear, is_lasting in _text_caches:
        if lasting or not is_lasting:
            clear()


def answer_prefix(knowledge_base: int) -> str:
    """What the keys of all answers of a base begin with."""
    return f"rag:retrieval:{knowledge_base}:"


class MemoryCache:
    """Answers of searches in this process; implements `ports.Cache`. They are never changed, so none is copied."""

    def __init__(
        self, entries: int = 1000, bytes_limit: int = 64 * MIB, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = LRUCache[str, Recall](entries, bytes_limit=bytes_limit, size=size_of, clock=clock)

    async def get(self, key: str) -> Recall | None:
        return self._cache.get(key)

    async def put(self, key: str, answer: Recall, seconds: float) -> None:
        self._cache.put(key, answer, seconds)

    async def epoch(self, base: str, generation: int) -> str:
        return ""  # records go back to an earlier state only while no process has them open

    async def outdate(self, knowledge_base: int, records: int) -> None:
        own = answer_prefix(knowledge_base)

        def is_outdated(key: str, answer: Recall) -> bool:
            return key.startswith(own) and answer.generation is not None and answer.generation.records < records

        self._cache.remove(is_outdated)

    async def forget(self, knowledge_base: int, identity: str) -> int:
        self._cache.clear()  # a purge is rare, and answers are soon made again
        return len(self._cache)

    async def aclose(self) -> None:
        self._cache.clear()

    def clear(self) -> None:
        self._cache.clear()

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def size(self) -> int:
        return self._cache.size


def size_of(key: str, answer: Recall) -> int:
    """About what an entry takes: texts at up to four bytes a character, and the objects around them."""
    texts = sum(len(found.chunk.text) + sum(map(len, found.highlights)) for found in answer.results)
    return 4 * (len(key) + len(answer.query) + texts) + RESULT_BYTES * len(answer.results) + ENTRY_BYTES
