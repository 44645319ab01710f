"""A folder in memory for what the tests write, where the machine has memory to lend.

Every write of an engine waits for the disk, some twenty times a document: that is what it promises its users, and what
most of a test run was spent on. A file system in memory is told to flush in the same places and answers at once. What
is proven of a killed process holds there as well; power loss is nothing that a test tries.

`QIANXUN_TEST_ON_DISK=1 make test` keeps to the disk, as ``--basetemp`` does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LENT = Path("/dev/shm")
PREFIX = "qianxun-tests-"
LOCK = ".lock"
ROOM = 4 * 2**30  # bytes of the file system; a run has less than one at any time
SPARE = 6 * 2**30  # … of memory that nobody uses
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
SMALLEST = 8 * 2**30  # … that a container may have in all


def is_there() -> bool:
    if os.environ.get("QIANXUN_TEST_ON_DISK") or not os.access(LENT, os.W_OK | os.X_OK):
        return False
    if os.statvfs(LENT).f_flag & os.ST_NOEXEC:  # a test may write a program, or need a server's copied
        return False
    return shutil.disk_usage(LENT).free >= ROOM and _spare() >= SPARE and all(map(_is_wide, LIMITS))


@contextmanager
def lent_folder() -> Iterator[Path]:
    """Gone when the block ends. What a killed run left is gone when the next one begins."""
    _sweep()
    handle, name = tempfile.mkstemp(LOCK, PREFIX, LENT)
    fcntl.flock(handle, fcntl.LOCK_EX)  # the kernel lets go of it when the process ends, however it ends
    folder = Path(name.removesuffix(LOCK))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():  # a process that was left behind may be writing still: then the next run clears it
            os.unlink(name)
        os.close(handle)


def _sweep() -> None:
    for lock in LENT.glob(f"{PREFIX}*{LOCK}"):
        with contextlib.suppress(OSError), lock.open("r+") as held:  # its run still goes on, or somebody else clears it
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(str(lock).removesuffix(LOCK), ignore_errors=True)
            lock.unlink()


def _spare() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemAvailable":
            return int(size.split()[0]) * 1024
    return 0


def _is_wide(limit: Path) -> bool:
    """Of the container that we may be in: what is written counts as its memory."""
    if not limit.exists():
        return True
    told = limit.read_text().strip()
    return told == "max" or int(told) >= SMALLEST
