"""Which files of an index were compared with their checksums, and how they lay on the disk then.

To read 760 MB takes a third of the time in which a million chunks open. A file that is written to, replaced or copied
has another mark (size, times, number), and is always checked before it is searched; so is everything where it is no
more than `BYTES_PER_OPENING`. Of larger indexes what has not changed is checked in turns, the one that was checked
longest ago first, so many bytes with each opening on average: a bit that fell over on the disk by itself is noticed
after some openings, and at once by `qianxun verify`, which reads all.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from qianxun.core.errors import IndexUnusable
from qianxun.core.limits import MIB
from qianxun.index.embedded.extents import sealed, unsealed

log = logging.getLogger(__name__)

BYTES_PER_OPENING: Final = 64 * MIB

Mark: TypeAlias = tuple[int, ...]
"""Size, times of change in nanoseconds, number of the file."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What earlier openings checked: names and marks of files, the one that was checked longest ago first; and how many
    bytes they left unread of those that they might have checked."""

    files: Mapping[str, Mark]
    unused: int = 0


def check_in_turns(files: Sequence[Path], place: Path, check: Callable[[Path], None]) -> None:
    """Has those of the files checked whose turn it is; ``place`` is where this is recorded."""
    marks = {file.name: _mark(file) for file in files}
    if sum(mark[0] for mark in marks.values()) <= BYTES_PER_OPENING:
        for file in files:
            check(file)
        return
    before = _load(place)
    unchanged = [name for name, mark in before.files.items() if mark and marks.get(name) == mark]
    again, unused = _due(unchanged, marks, before.unused + BYTES_PER_OPENING)
    skipped = unchanged[len(again) :]
    checked = [file.name for file in files if file.name not in skipped]
    for name in checked:
        check(place.parent / name)
    _save(place, CheckRecord({name: marks[name] for name in (*skipped, *checked)}, unused))


def _due(names: Sequence[str], marks: Mapping[str, Mark], room: int) -> tuple[Sequence[str], int]:
    """As many of the first as there is room for, and what is left of it: a large file waits until it is enough."""
    for number, name in enumerate(names):
        if marks[name][0] > room:
            return names[:number], room
        room -= marks[name][0]
    return names, 0


def _mark(file: Path) -> Mark:
    try:
        found = file.stat()
    except OSError:  # checked, and so refused
        return (0,)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _load(place: Path) -> CheckRecord:
    """Nothing where it is missing or damaged: everything is checked then."""
    try:
        found = json.loads(unsealed(place))
    except IndexUnusable:
        return CheckRecord({})
    return CheckRecord({name: tuple(mark) for name, mark in found["files"].items()}, found["unused"])


def _save(place: Path, record: CheckRecord) -> None:
    """Not made durable: what is lost, or half written, is checked again."""
    text = json.dumps({"files": record.files, "unused": record.unused})
    try:
        place.write_bytes(sealed(text))
    except OSError as error:
        log.warning("all of the keyword index will be checked again: %s", error)
