"""What is shown of a table: the whole of a small one; of a large one its header and the rows that match."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.core.types import Chunk
from qianxun.text.chinese import fold, occurs_in

ROWS: Final = 50  # of a large table that are shown


@dataclass(frozen=True, slots=True)
class RowsShown:
    """What is shown of a table: of a large one the header and the rows that match."""

    content: str
    numbers: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]
    is_cut: bool = False  # a row is longer than a chunk: ``content`` has parts of it, and ``cells`` are not the row's


def rows_shown(
    groups: Sequence[Chunk], starts: Sequence[int], words: Mapping[str, float], width: int, notes: str = ""
) -> RowsShown:
    """``words`` of the question with their weights; ``width`` is the number of columns."""
    first = groups[0]
    parts = _parts(groups, starts, notes)
    if not parts:
        return RowsShown(first.text, (), ())  # a table that has no rows, or what is below them
    rows = {row: "…".join(part) for row, part in parts.items()}
    shown = list(rows) if len(groups) == 1 and len(rows) == len(starts) else _matching(rows, words)
    content = first.text if len(groups) == 1 and len(shown) == len(starts) else _joined(first, starts, rows, shown)
    cells = tuple(_cells(rows[row]) for row in shown)
    return RowsShown(content, tuple(shown), cells, not all(_is_whole(parts[row], width) for row in shown))


def _matching(rows: Mapping[int, str], words: Mapping[str, float]) -> list[int]:
    """The rows that match most of the question, in the order of the table; if none does, the first."""
    folded = {row: fold(line) for row, line in rows.items()}
    scores = {row: sum(words[word] for word in words if occurs_in(word, line)) for row, line in folded.items()}
    matching = [row for row in rows if scores[row] > 0.0] or list(rows)
    return sorted(sorted(matching, key=lambda row: (-scores[row], row))[:ROWS])


def _joined(first: Chunk, starts: Sequence[int], rows: Mapping[int, str], shown: Sequence[int]) -> str:
    above = first.text[: _first_row(first, starts)].rstrip("\n")
    return "\n".join(filter(None, [above, *(rows[row] for row in shown)]))


def _parts(groups: Sequence[Chunk], starts: Sequence[int], notes: str) -> dict[int, list[str]]:
    """The rows of these row groups by their numbers: each one whole, or the parts of it that are at hand."""
    parts: dict[int, list[str]] = {}
    for group in sorted(groups, key=lambda chunk: chunk.start):
        for row, part in _parts_of(group, starts, notes):
            parts.setdefault(row, []).append(part)
    return parts


def _parts_of(chunk: Chunk, starts: Sequence[int], notes: str) -> Iterator[tuple[int, str]]:
    if chunk.is_edited:  # a place in the document is none in its text, which has a line for each row
        rows = range(bisect_left(starts, chunk.start), bisect_left(starts, chunk.end))
        yield from zip(rows, _lines(chunk)[-len(rows) :], strict=False)
        return
    offset = _offset(chunk)
    for row in range(max(bisect_right(starts, chunk.start) - 1, 0), bisect_left(starts, chunk.end)):
        stop = min(starts[row + 1] if row + 1 < len(starts) else chunk.end, chunk.end)
        part = chunk.text[max(starts[row], chunk.start) + offset : stop + offset].split("\n", 1)[0]
        is_below = starts[row] < chunk.start and row + 1 == len(starts) and part in notes
        if not is_below:
            yield row, part


def _lines(chunk: Chunk) -> list[str]:
    return [line for line in chunk.text.splitlines() if "|" in line]


def _first_row(chunk: Chunk, starts: Sequence[int]) -> int:
    """Where in its text the first row of a row group, or the part of it, begins: title and header are above it."""
    if chunk.is_edited:
        rows = bisect_left(starts, chunk.end) - bisect_left(starts, chunk.start)
        return chunk.text.find(_lines(chunk)[-rows]) if rows else 0
    row = bisect_right(starts, chunk.start) - 1
    return max(starts[max(row, 0)], chunk.start) + _offset(chunk)


def _offset(chunk: Chunk) -> int:
    """From a place in the document to one in the chunk's text, which begins with a repeated header."""
    return len(chunk.text) - chunk.end


def _is_whole(parts: Sequence[str], width: int) -> bool:
    line = parts[0]
    return len(parts) == 1 and line.startswith("|") and line.endswith("|") and len(_cells(line)) == width


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))
