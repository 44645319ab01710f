"""Files and folders that survive power loss.

By POSIX what was written is durable once its file has been synced, and a name (of a new, renamed or deleted file) once
its folder has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Final

THREADS: Final = 8  # a batch of an index has as many files


def sync(paths: Iterable[Path]) -> None:
    """Forces files and folders to disk, side by side: the disk is waited for once, not once per file."""
    known = list(dict.fromkeys(paths))
    if len(known) <= 1:
        for path in known:
            _sync_one(path)
        return
    list(_threads().map(_sync_one, known))


@cache
def _threads() -> ThreadPoolExecutor:
    """They last: with threads of its own for each batch of an index, more than half of all that a service started were
    for this."""
    return ThreadPoolExecutor(THREADS, "qianxun-sync")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of the threads


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, *before: Path) -> None:
    """Puts ``data`` in the place of ``path``, atomically and durably; what is at ``before`` is durable by then, too."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(data)
    sync((temporary, *before))
    os.replace(temporary, path)
    _sync_one(path.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Creates a folder, and those above it that are missing, durably. Raises OSError."""
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    for made in missing:
        with suppress(PermissionError):  # who may write to a folder need not be able to read, and so sync, it
            _sync_one(made.parent)
