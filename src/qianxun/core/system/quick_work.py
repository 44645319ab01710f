"""Pure computation in the course of a request: where it runs while it is quick, in a thread otherwise.

A hand-over to a thread costs .1 ms of its own and, on another core, whose caches know nothing of the request, about
1 ms more; and while either computes, no other runs Python. So what takes a few milliseconds is done on the event loop,
which gets a turn before it, and what may take longer in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

QUICK_SECONDS: Final = 0.01  # what one piece of work may take of the event loop's own time
LEAST_SECONDS: Final = 1e-6  # expected of a piece of size 1: a large piece that was over at once tells of no other
_DECAY: Final = 0.7  # a slow piece is remembered for the next half a dozen

Result = TypeVar("Result")


class QuickWork:
    """One kind of work. How long a piece will take is guessed from those before it, by their size."""

    def __init__(self) -> None:
        self._seconds: float | None = None  # of the processor, for a piece of size 1

    def is_quick(self, size: float = 1.0) -> bool:
        """False for the first piece: it may have to load what the others find loaded."""
        return self._seconds is not None and max(self._seconds, LEAST_SECONDS) * size < QUICK_SECONDS

    async def run(self, size: float, work: Callable[[], Result]) -> Result:
        """What ``work`` returns or raises. ``size``: of what it reads, in whatever its time grows with."""
        size = max(size, 1.0)
        if not self.is_quick(size):
            return await asyncio.to_thread(self._timed, size, work)
        await asyncio.sleep(0)  # nothing else may be awaited here, and other tasks must have their turn
        return self._timed(size, work)

    def _timed(self, size: float, work: Callable[[], Result]) -> Result:
        started = time.thread_time()
        try:
            return work()
        finally:
            seconds = (time.thread_time() - started) / size
            self._seconds = max(seconds, _DECAY * (self._seconds or 0.0))
