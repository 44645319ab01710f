"""What is shown of a table: the whole of a small one; of a large one its header and the rows that match."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.chinese import fold, stands_in
from qianxun.types import Chunk

ROWS: Final = 50  # of a large table that are shown


@dataclass(frozen=True, slots=True)
class RowsShown:
    """What is shown of a table: of a large one the header and the rows that match."""

    content: str
    numbers: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]


def rows_shown(groups: Sequence[Chunk], starts: Sequence[int], words: Sequence[str]) -> RowsShown:
    lines: dict[int, str] = {}
    for group in groups:
        lines |= _lines(group, starts)
    first = groups[0]
    if len(lines) == len(starts) and len(groups) == 1:
        return RowsShown(first.text, tuple(lines), tuple(map(_cells, lines.values())))
    matching = {row for row, line in lines.items() if any(stands_in(word, fold(line)) for word in words)}
    shown = sorted(matching or lines)[:ROWS]
    above = first.text[: _first_row(first, starts)].rstrip("\n")
    content = "\n".join(filter(None, [above, *(lines[row] for row in shown)]))
    return RowsShown(content, tuple(shown), tuple(_cells(lines[row]) for row in shown))


def _lines(chunk: Chunk, starts: Sequence[int]) -> dict[int, str]:
    """The rows of a row group by their numbers."""
    offset = _offset(chunk)
    lines = {}
    for row in range(bisect_left(starts, chunk.start), bisect_left(starts, chunk.end)):
        stop = min(starts[row + 1] if row + 1 < len(starts) else chunk.end, chunk.end)
        lines[row] = chunk.text[starts[row] + offset : stop + offset].split("\n", 1)[0]
    return lines


def _first_row(chunk: Chunk, starts: Sequence[int]) -> int:
    """Where in its text the first row of a row group begins: above it stand title and header."""
    row = bisect_left(starts, chunk.start)
    return starts[row] + _offset(chunk) if row < len(starts) and starts[row] < chunk.end else 0


def _offset(chunk: Chunk) -> int:
    """From a place in the document to one in the chunk's text, which begins with a repeated header."""
    return len(chunk.text) - chunk.end


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
