"""How the C library shares out memory."""

from __future__ import annotations

import ctypes
import logging
import sys
from typing import Final

log = logging.getLogger(__name__)

M_ARENA_MAX: Final = -8  # of mallopt(3)
ARENAS: Final = 2


def limit_arenas() -> None:
    """Has glibc share few pools of memory between all threads, in place of eight for every core.

    Each index write has threads of its own, whose pool keeps what they freed: 240 small writes left 205–231 MB with
    the usual pools, and 120–125 MB with two of them. For programs that run long: a library does not decide that for the
    process it is in.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        is_set = ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)
    except AttributeError:  # another C library, which has no such pools
        return
    log.debug("pools of memory: %s", ARENAS if is_set else "as they were")
