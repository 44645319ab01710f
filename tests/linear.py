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
    large = seconds(work(4 * size))
    return large < 0.1 or large < 10 * seconds(work(size))
