"""What is shown of a table: the whole of a small one; of a large one its header and the rows that match."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from qianxun.core.types import Chunk
from qianxun.text.chinese import fold, occurs_in

ROWS: Final = 50  # of a large table that are shown
ROWS_BYTES: Final = 1_000  # what rows cost in memory beside their characters: together, and each
ROW_BYTES: Final = 500


@dataclass(frozen=True, slots=True)
class RowsShown:
    """What is shown of a table: of a large one the header and the rows that match."""

    content: str
    numbers: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]
    is_cut: bool = False  # a row is longer than a chunk: ``content`` has parts of it, and ``cells`` are not the row's


@dataclass(frozen=True)
class RowGroups:
    """The rows of some chunks of a table, cut out once for any question. ``starts`` is where all rows begin."""

    first: Chunk
    starts: Sequence[int]
    rows: Mapping[int, str]
    whole: frozenset[int]  # the rows that are all there
    is_one: bool  # they are of one chunk

    def size(self) -> int:
        """Bytes, at up to four a character: the rows, folded and as cells."""
        return ROWS_BYTES + sum(ROW_BYTES + 12 * len(row) for row in self.rows.values())

    def shown(self, words: Mapping[str, float]) -> RowsShown:
        """``words`` of the question with their weights: they choose among the rows, where not all are at hand."""
        if not self.rows:
            return RowsShown(self.first.text, (), ())  # a table that has no rows, or what is below them
        return self._all if self.is_one and len(self.rows) == len(self.starts) else self._of(self._matching(words))

    @cached_property
    def _all(self) -> RowsShown:
        return replace(self._of(list(self.rows)), content=self.first.text)

    def _of(self, shown: Sequence[int]) -> RowsShown:
        content = self.first.text if self.is_one and len(shown) == len(self.starts) else self._joined(shown)
        cells = tuple(_cells(self.rows[row]) for row in shown)
        return RowsShown(content, tuple(shown), cells, not self.whole.issuperset(shown))

    def _matching(self, words: Mapping[str, float]) -> list[int]:
        """The rows that match most of the question, in the order of the table; if none does, the first."""
        scores = {row: sum(words[word] for word in words if occurs_in(word, line)) for row, line in self._folded}
        matching = [row for row in self.rows if scores[row] > 0.0] or list(self.rows)
        return sorted(sorted(matching, key=lambda row: (-scores[row], row))[:ROWS])

    @cached_property
    def _folded(self) -> Sequence[tuple[int, str]]:
        return [(row, fold(line)) for row, line in self.rows.items()]

    def _joined(self, shown: Sequence[int]) -> str:
        above = self.first.text[: _first_row(self.first, self.starts)].rstrip("\n")
        return "\n".join(filter(None, [above, *(self.rows[row] for row in shown)]))


def row_groups(groups: Sequence[Chunk], starts: Sequence[int], width: int, notes: str = "") -> RowGroups:
    """``width`` is the number of columns; the first of the groups matches best."""
    parts = _parts(groups, starts, notes)
    rows = {row: "…".join(part) for row, part in parts.items()}
    whole = frozenset(row for row, part in parts.items() if _is_whole(part, width))
    return RowGroups(groups[0], starts, rows, whole, len(groups) == 1)


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
