"""A cache in this process: the least recently used goes first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MIB = 1024 * 1024
ENTRY_BYTES = 300  # what an entry costs beside its key and value: dictionary slot, tuple, objects' heads


@dataclass
class MemoryCache:
    """At most so many entries and so many bytes, each for its time to live. Safe under threads."""

    entries: int = 1000
    bytes_limit: int = 64 * MIB
    clock: Callable[[], float] = time.monotonic
    _held: OrderedDict[str, tuple[float, bytes]] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    async def get(self, key: str) -> bytes | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            until, value = found
            if self.clock() >= until:
                self._drop(key)
                return None
            self._held.move_to_end(key)
            return value

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        """Replaces what is there. A value that is larger than the whole cache, or lives no time, is not kept."""
        with self._lock:
            self._drop(key)
            size = _size(key, value)
            if not seconds > 0 or size > self.bytes_limit:
                return
            self._held[key] = (self.clock() + seconds, value)
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
        """Bytes held, keys and bookkeeping included."""
        return self._bytes

    def _drop(self, key: str) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= _size(key, found[1])


def _size(key: str, value: bytes) -> int:
    return 4 * len(key) + len(value) + ENTRY_BYTES
