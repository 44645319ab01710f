"""Files read byte by byte for passages of texts that should be in none of them any more.

`scan_apart` is for a folder whose database is open: it has another process read. SQLite's locks are the process's, and
to close any handle of a database file gives up all of them (sqlite.org/howtocorrupt.html, 2.2): the next process that
came and went would take the write-ahead log with it, and both would write over each other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

PASSAGES: Final = 32  # that are searched for, spread over all texts
LENGTH: Final = 12  # characters of one: short enough to lie within a page, long enough to be nobody else's
SHORTEST: Final = 6  # of a text that is shorter than that
ENCODINGS: Final = ("utf-8", "utf-16-le", "utf-16-be", "gb18030", "json")
WEIGHTS: Final = "models"  # a folder of downloaded models, in which no text of users is ever written
BLOCK: Final = 1 << 20  # bytes that are read at once

_IMPORT_ROOT: Final = str(Path(__file__).parents[3])
_RUN: Final = re.compile(r"\S+")


@dataclass(slots=True)
class Hits:
    """What was read, and in which files each passage was found."""

    files: int = 0
    bytes: int = 0
    found: dict[str, set[str]] = field(default_factory=dict)  # passage → files


class ScanFailed(Exception):
    """The files could not all be read; the message says why."""


def passages(texts: Sequence[str]) -> list[str]:
    """Some words of every text, without a space in them, and no more than `PASSAGES` in all."""
    found: list[str] = []
    share = max(PASSAGES // max(len(texts), 1), 1)
    for text in texts[:PASSAGES]:
        runs = _RUN.findall(text)
        windows = [run[at : at + LENGTH] for run in runs for at in range(0, len(run) - LENGTH + 1, LENGTH)]
        if windows:
            found += windows[:: -(-len(windows) // share)]
        else:
            found += [run for run in sorted(runs, key=len, reverse=True)[:1] if len(run) >= SHORTEST]
    return list(dict.fromkeys(found))


def scan_apart(folder: Path, wanted: Sequence[str]) -> Hits:
    """`scan` in a process of its own. Raises ScanFailed where that one fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-s", "-P", "-B", "-X", "utf8", "-m", __name__],
            input=json.dumps([str(folder.resolve()), list(wanted)]),  # never an argument, which everybody can read
            env={"PYTHONPATH": _IMPORT_ROOT},
            cwd="/",
            capture_output=True,
            check=False,
            text=True,
        )
    except OSError as error:  # it could not be started
        raise ScanFailed(str(error)) from error
    if done.returncode:
        raise ScanFailed(done.stderr.strip().rpartition("\n")[2] or f"进程以 {done.returncode} 结束")
    files, size, found = json.loads(done.stdout)
    return Hits(files, size, {passage: set(where) for passage, where in found.items()})


def scan(folder: Path, wanted: Sequence[str]) -> Hits:
    """Every file below the folder, but for the weights of models."""
    hits = Hits()
    needles = [(passage, needle) for passage in wanted for needle in _encoded(passage)]
    for path in _files(folder):
        try:
            with path.open("rb") as opened:
                size = os.fstat(opened.fileno()).st_size
                hits.files, hits.bytes = hits.files + 1, hits.bytes + size
                for passage in _passages_in(opened, needles):
                    hits.found.setdefault(passage, set()).add(str(path.relative_to(folder)))
        except FileNotFoundError:  # an index was merged meanwhile
            continue
    return hits


def _passages_in(opened: BinaryIO, needles: Sequence[tuple[str, bytes]]) -> set[str]:
    """Read and not mapped: a file that is cut shorter meanwhile, as the write-ahead log is, would kill the process."""
    found: set[str] = set()
    overlap = max((len(needle) for _, needle in needles), default=0)
    last = b""
    while needles and (block := opened.read(BLOCK)):
        content = last + block
        found.update(passage for passage, needle in needles if needle in content)
        last = content[-overlap:]
    return found


def _encoded(passage: str) -> Iterator[bytes]:
    for encoding in ENCODINGS:
        yield json.dumps(passage)[1:-1].encode() if encoding == "json" else passage.encode(encoding, "replace")


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if Path(place) != folder or name != WEIGHTS)
        for name in sorted(names):
            path = Path(place) / name
            if path.is_file() and not path.is_symlink():
                yield path


if __name__ == "__main__":
    _folder, _wanted = json.load(sys.stdin)
    _hits = scan(Path(_folder), _wanted)
    _found = {passage: sorted(where) for passage, where in _hits.found.items()}
    json.dump([_hits.files, _hits.bytes, _found], sys.stdout)
