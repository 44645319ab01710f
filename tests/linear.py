"""Whether the work grows with its input, or with its square."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Processor time of the quickest of a few runs, without the collector: it pays for what other tests left behind."""
    gc.collect()
    gc.disable()
    try:
        return min(_once(work) for _ in range(times))
    finally:
        gc.enable()


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def is_linear(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Four times the input costs about four times the time; quadratic work would cost sixteen times.

    What is too quick to tell passes: below a tenth of a second even a square would not hurt at this size.
    """
    once = work(4 * size)
    large = seconds(once, times=1)
    if large < 0.1:
        return True
    small = seconds(work(size))
    return large < 10 * small or seconds(once) < 10 * small  # a run may have met with something else
