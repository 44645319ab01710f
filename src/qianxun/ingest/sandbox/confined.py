"""Runs a program within limits: ``python -m …sandbox.confined MEMORY SECONDS FILE_BYTES PROGRAM ARGUMENT…``

Its address space, processor time and the size of what it writes are bounded, it dies with its parent, and has no
network where the system lets an ordinary process take that away.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000


def main(arguments: list[str]) -> None:
    memory, seconds, file_bytes = map(int, arguments[:3])
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most, most) if hard == resource.RLIM_INFINITY or most < hard else (hard, hard))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # Refused to an ordinary process on some systems; the profile of the program forbids links as well.
        libc.unshare(_NEW_USER | _NEW_NET)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    program = os.path.realpath(arguments[3])
    binary = f"{program}.bin"  # without the script in front of it, which would live on as a parent
    os.execv(binary if os.access(binary, os.X_OK) else program, [program, *arguments[4:]])


if __name__ == "__main__":
    main(sys.argv[1:])
