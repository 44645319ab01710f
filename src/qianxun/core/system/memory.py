"""How the C library shares out memory, and that it gives back what is free."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
from collections.abc import Callable
from typing import Final

from qianxun.core.system.cache import forget_texts

log = logging.getLogger(__name__)

M_ARENA_MAX: Final = -8  # of mallopt(3)
M_MMAP_THRESHOLD: Final = -3
ARENAS: Final = 2
LARGE_BYTES: Final = 128 * 1024  # where glibc begins
TRIM_SECONDS: Final = 2.0  # until whoever had a large document has returned
REGULAR_SECONDS: Final = 30.0  # between two looks at what is free


def limit_memory_pools() -> None:
    """Has glibc share few pools of memory between all threads, in place of eight for every core.

    Each index write has threads of its own, whose pool keeps what they freed: 240 small writes left 205–231 MB with
    the usual pools, and 120–125 MB with two of them. What is large never comes from a pool: glibc raises that limit to
    as much as 32 MB when something large is freed, and the buffers of writes then leave holes between small values that
    stay, 20 MB more after 30,000 calls than after 10,000 with as much in use. For programs that run long: a library
    does not decide that for the process it is in.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        choose = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library, which has no such pools
        return
    is_set = choose(M_ARENA_MAX, ARENAS) and choose(M_MMAP_THRESHOLD, LARGE_BYTES)
    log.debug("pools of memory: %s", ARENAS if is_set else "as they were")


def trim_soon() -> None:
    """Gives back to the system, in a moment and in a thread, what is free by then: the C library would keep it."""
    loop = asyncio.get_running_loop()
    loop.call_later(TRIM_SECONDS, loop.run_in_executor, None, trim)


async def trim_regularly(release: Callable[[], None] = lambda: None, seconds: float = REGULAR_SECONDS) -> None:
    """Gives back what is free again and again, after ``release`` has freed what it can, until it is cancelled. Small
    writes leave holes, too: 40 MB of them in a service that had worked for a quarter of an hour.

    What was computed from texts goes first. It serves the wordings of one question; left to be displaced it lies, for
    thousands of requests, between whatever else comes and goes, and what is free around it cannot be given back."""
    while True:
        await asyncio.sleep(seconds)
        forget_texts(lasting=False)
        await asyncio.to_thread(release)
        await asyncio.to_thread(trim)


def trim() -> None:
    """Only glibc has a way to do so."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
