"""What a worker may use until its next sign of life: address space and processor time.

Recognising a picture takes far more of both than reading a text: it gets more, and only while it is at it. Outside of a
worker nothing is bounded.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qianxun.core.limits import MIB
from qianxun.ingest.sandbox.limits import ParseLimits


@dataclass(frozen=True, slots=True)
class _Budget:
    limits: ParseLimits
    seconds: float


_current: _Budget | None = None


def begin(limits: ParseLimits, size: int, *, is_packed: bool = False) -> None:
    """Bounds this process for the next document, of so many bytes; what is packed holds more in each of them."""
    global _current
    steps = 1 + size // (MIB if is_packed else 5 * MIB)
    _current = _Budget(limits, min(limits.step_seconds * steps, limits.seconds))
    renew()


def renew() -> None:
    """Bounds this process until the next sign of life."""
    if _current is not None:
        _bound(_current.limits.memory_bytes, _current.seconds)


@contextmanager
def for_pictures() -> Iterator[None]:
    """Bounds this process as recognition needs it, while the block runs."""
    if _current is not None:
        _bound(_current.limits.ocr_memory_bytes, _current.limits.total_seconds * (os.cpu_count() or 1))
    try:
        yield
    finally:
        renew()


def relax() -> None:
    """Lets this process say what went wrong."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _bound(memory: int, seconds: float) -> None:
    """Soft limits, on top of what is mapped and was spent already; the hard ones stay for later files."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _mapped() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, hard))


def _mapped() -> int:
    """Bytes of address space in use: the libraries, after a first picture the recognition models."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # only Linux has it
        return 0
    return pages * resource.getpagesize()
