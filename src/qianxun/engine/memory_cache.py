"""A cache in this process: the least recently used goes first. Answers are kept as they are: nothing changes them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from qianxun.core.types import Recall

MIB = 1024 * 1024
ENTRY_BYTES = 2_000  # what an entry costs beside its results
RESULT_BYTES = 2_500  # what a result costs beside its text: chunk, attributes, arms' scores


@dataclass
class MemoryCache:
    """At most so many entries and so many bytes, each for its time to live. Safe under threads."""

    entries: int = 1000
    bytes_limit: int = 64 * MIB
    clock: Callable[[], float] = time.monotonic
    _held: OrderedDict[str, tuple[float, Recall]] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    async def get(self, key: str) -> Recall | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            until, answer = found
            if self.clock() >= until:
                self._drop(key)
                return None
            self._held.move_to_end(key)
            return answer

    async def put(self, key: str, answer: Recall, seconds: float) -> None:
        """Replaces what is there. An answer that is larger than the whole cache, or lives no time, is not kept."""
        with self._lock:
            self._drop(key)
            size = size_of(key, answer)
            if not seconds > 0 or size > self.bytes_limit:
                return
            self._held[key] = (self.clock() + seconds, answer)
            self._bytes += size
            while len(self._held) > self.entries or self._bytes > self.bytes_limit:
                self._drop(next(iter(self._held)))

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        return self._bytes

    def _drop(self, key: str) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= size_of(key, found[1])


def size_of(key: str, answer: Recall) -> int:
    """About what an entry takes: texts at up to four bytes a character, and the objects around them."""
    texts = sum(len(each.chunk.text) + sum(map(len, each.highlights)) for each in answer.found)
    return 4 * (len(key) + len(answer.query) + texts) + RESULT_BYTES * len(answer.found) + ENTRY_BYTES
