"""Errors that say the system ran out of something: descriptors, memory, space. They pass; no file is damaged."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the last: ulimit -f
NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
SHORTAGES: Final = frozenset({*NO_SPACE, *NO_DESCRIPTORS, errno.ENOMEM})
_UVLOOP_FAILURE: Final = -1  # uvloop's number for the pipes of a new process that it had no descriptors for
# As Rust writes them: ``Os { code: 24, kind: TooManyOpenFiles …}``, ``(os error 24)``, or the kind alone.
_CODE: Final = re.compile(r"(?:\bcode: |\bos error )(\d{1,3})\b")
_KINDS: Final = {
    "kind: TooManyOpenFiles": errno.EMFILE,
    "kind: StorageFull": errno.ENOSPC,
    "kind: QuotaExceeded": errno.EDQUOT,
    "kind: FileTooLarge": errno.EFBIG,
    "kind: OutOfMemory": errno.ENOMEM,
}


def shortage(error: BaseException) -> OSError | None:
    """The shortage that an error was raised for, without a path; None if it has another cause."""
    numbers = (cause.errno for cause in causes(error) if isinstance(cause, OSError))
    return _first(errno.EMFILE if number == _UVLOOP_FAILURE else number for number in numbers)


def shortage_of_rust(error: BaseException) -> OSError | None:
    """The same for an error of a library in Rust, which has the system's number in its text alone."""
    text = str(error)
    kinds = (number for kind, number in _KINDS.items() if kind in text)
    return shortage(error) or _first([*map(int, _CODE.findall(text)), *kinds])


def _first(numbers: Iterable[int | None]) -> OSError | None:
    found = next((number for number in numbers if number in SHORTAGES), None)
    return None if found is None else OSError(found, os.strerror(found))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
