"""Whether the work grows with its input, or with its square."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Processor time of the quickest of a few runs, without the collector: it pays for what other tests left behind.

    It is only switched off. To collect first would take a second of a process that holds the whole suite, and change
    nothing of what is measured.
    """
    gc.disable()
    try:
        return min(_once(work) for _ in range(times))
    finally:
        gc.enable()


def _once(work: Callable[[], object]) -> float:
    start = time.thread_time()  # what other tests left running counts for the process, and not for this thread
    work()
    return time.thread_time() - start


def is_linear(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Four times the input costs about four times the time; quadratic work would cost sixteen times.

    What is too quick to tell passes: below a tenth of a second even a square would not hurt at this size.
    """
    once = work(4 * size)
    large = seconds(once, times=1)
    if large < 0.1:
        return True
    part = work(size)
    # A run may have met with something else on a busy machine; a square meets with itself every time.
    return large < 10 * seconds(part) or any(seconds(once) < 10 * seconds(part) for _ in range(3))
