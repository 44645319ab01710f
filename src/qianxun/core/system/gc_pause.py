"""How often the garbage collector runs: not within bulk steps, and seldom over what a service has loaded."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SERVICE_THRESHOLD: Final = 10_000  # values between two collections of a service; Python's is 700
MANY: Final = 20_000  # values; a small write leaves the collector what it has made

_lock = threading.Lock()
_steps = 0  # under way, in all threads
_was_on = True


@contextmanager
def paused_collection() -> Iterator[None]:
    """For a bounded step that makes many values which all live to its end: collecting meanwhile finds nothing.

    It would take a tenth of the processor time of a bulk ingest (361 against 324 µs a passage). The collector comes
    back when the last such step ends; a program that has switched it off finds it off.
    """
    global _steps, _was_on
    with _lock:
        if _steps == 0:
            _was_on = gc.isenabled()
            gc.disable()
        _steps += 1
    try:
        yield
    finally:
        with _lock:
            _steps -= 1
            if _steps == 0 and _was_on:
                gc.enable()


@contextmanager
def bulk_step() -> Iterator[None]:
    """`paused_collection` for a step of an ingest, whose values the next steps need, too: where they are many, whatever
    is alive at its end counts as old at once, unseen.

    The collector would otherwise go through all of it as soon as it is back, again in every generation: a tenth of the
    processor time of 50,000 passages, for nothing. What such a step leaves in circles goes with the next full
    collection. What a program has frozen itself stays so, and then everything is looked at.
    """
    with paused_collection():
        yield
        if gc.get_count()[0] >= MANY and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()


@contextmanager
def collection_of_a_service() -> Iterator[None]:
    """Within the block what exists now is not looked at, and the rest less often: code, lexicons and routes stay as
    long as the process.

    Values of requests that wait outlive the young generations. With 400 clients a sixth of the processor time went into
    looking at all 200,000 values of the process again and again, with 32 a sixteenth.
    """
    before, had_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(SERVICE_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not had_frozen:  # a program that had keeps to that
            gc.unfreeze()
