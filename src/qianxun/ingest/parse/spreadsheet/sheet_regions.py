"""Several tables on one sheet, separated by the empty rows and columns around them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias

from qianxun.ingest.tables.cells import is_missing, number
from qianxun.ingest.tables.grid import Cell

At: TypeAlias = tuple[int, int, Cell]
_TYPED: Final = ("number", "percent", "money", "date", "boolean")
_FAMILY: Final = {"percent": "number", "money": "number"}
_WIDEST_GAP: Final = 2  # blank rows or columns inside one table
_NAMING_NUMBERS: Final = re.compile(
    "(?:序号|编号|编码|代码|号码|工号|学号|单号|排名|名次|年份|(?<!\\d)年度?|(?<!\\d)月份?|日期|No\\.?|id)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of cells with nothing around it; ``bottom`` and ``right`` are not part of it."""

    top: int
    left: int
    bottom: int
    right: int
    cells: tuple[At, ...]

    def is_under(self, other: Region) -> bool:
        """Whether it is below another, with columns in common."""
        return other.bottom <= self.top and other.left < self.right and self.left < other.right


def regions(cells: Mapping[tuple[int, int], Cell]) -> list[Region]:
    """The rectangles of a sheet, top to bottom, left to right; a table with blank rows inside is one."""
    whole = _closed_up([(r, c, cell) for (r, c), cell in sorted(cells.items(), key=lambda item: item[0])])
    pieces = [_region(piece) for piece in _separate(whole)]
    return _joined(_region(part) for region in _side_by_side(pieces) for part in _stacked(list(region.cells)))


# ── sheets with blanks between all cells ───────────────────────────────────────────────────────


def _closed_up(whole: list[At]) -> list[At]:
    """Without the blank rows and columns of a sheet that has some between all of its cells: nothing there parts one
    table from another. Lists of words side by side may be of different things, and stay as they are."""
    rows, columns = sorted({row for row, _, _ in whole}), sorted({column for _, column, _ in whole})
    if len(rows) < 3 or len(columns) < 2 or not _are_apart(rows) or not _are_apart(columns):
        return whole
    filled = Counter(row for row, _, _ in whole)
    lines = [row for row in rows if filled[row] > 1]  # a title is alone in its row
    is_full = 4 * sum(filled[row] for row in lines) >= 3 * len(lines) * len(columns)
    typed = {row for row, _, cell in whole if cell.kind in _TYPED}
    is_whole = all(cell.row_span == cell.col_span == 1 for _, _, cell in whole)
    if not is_full or not is_whole or 2 * len(typed) <= len(lines):
        return whole
    down, across = ({at: place for place, at in enumerate(used)} for used in (rows, columns))
    return [(down[row], across[column], cell) for row, column, cell in whole]


def _are_apart(used: Sequence[int]) -> bool:
    return all(1 < after - before <= _WIDEST_GAP + 1 for before, after in pairwise(used))


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────


def _separate(whole: list[At]) -> list[list[At]]:
    """Cuts along empty rows, then along empty columns, until nothing can be cut."""
    done: list[list[At]] = []
    stack = [(whole, 0, False)] if whole else []
    while stack:
        part, axis, stuck = stack.pop()
        pieces = _cut(part, axis)
        if len(pieces) > 1:
            stack.extend((piece, 1 - axis, False) for piece in reversed(pieces))
        elif not stuck:
            stack.append((part, 1 - axis, True))
        elif len(peeled := _peeled(part)) > 1:
            stack.extend((piece, 1, False) for piece in reversed(peeled))
        else:
            done.append(part)
    return done


def _cut(part: Sequence[At], axis: int) -> list[list[At]]:
    extents = sorted((_start(placed, axis), _start(placed, axis) + _span(placed[2], axis)) for placed in part)
    borders: set[int] = set()
    reach = extents[0][1] if extents else 0
    for start, end in extents:
        if start > reach:
            borders.add(start)
        reach = max(reach, end)
    pieces: list[list[At]] = [[] for _ in range(len(borders) + 1)]
    ordered = sorted(borders)
    for placed in part:
        pieces[bisect_right(ordered, _start(placed, axis))].append(placed)
    return pieces


def _peeled(part: Sequence[At]) -> list[list[At]]:
    """One merged line above or below two tables side by side bridges the gap between them: taken off."""
    rows = [row for row, _, _ in part]
    for edge in (min(rows), max(rows)):
        line = [placed for placed in part if placed[0] == edge]
        rest = [placed for placed in part if placed[0] != edge]
        if len(line) == 1 and line[0][2].col_span > 2 and len(_cut(rest, 1)) > 1:
            return [line, rest] if edge == min(rows) else [rest, line]
    return [list(part)]


def _start(placed: At, axis: int) -> int:
    return placed[0] if axis == 0 else placed[1]


def _span(cell: Cell, axis: int) -> int:
    return cell.row_span if axis == 0 else cell.col_span


def _region(part: Sequence[At]) -> Region:
    return Region(
        min(r for r, _, _ in part),
        min(c for _, c, _ in part),
        max(r + cell.row_span for r, _, cell in part),
        max(c + cell.col_span for _, c, cell in part),
        tuple(part),
    )


# ── a table with blank columns inside ────────────────────────────────────────────────────────────


def _side_by_side(pieces: Sequence[Region]) -> list[Region]:
    """Names, a blank column, and numbers next to them are one table: a single column of names and columns without any
    are none by themselves. Tables side by side have names of their own."""
    result: list[Region] = []
    named: set[int] = set()  # places in the result of columns of names, and what was put next to them
    for piece in pieces:
        at = len(result) - 1
        if at in named and _is_right_of(result[at], piece) and _is_nameless(piece):
            result[at] = _region(sorted((*result[at].cells, *piece.cells), key=lambda placed: placed[:2]))
            continue
        result.append(piece)
        if piece.right - piece.left == 1 and not _kinds(piece):
            named.add(len(result) - 1)
    return result


def _is_right_of(left: Region, right: Region) -> bool:
    near = 0 < right.left - left.right <= _WIDEST_GAP
    return near and left.top == right.top and 2 < right.bottom - right.top <= left.bottom - left.top


def _is_nameless(region: Region) -> bool:
    """Whether every column holds numbers, and the first no days, years or running numbers, which are names too."""
    kinds = _kinds(region)
    heading = next((cell.text for row, column, cell in region.cells if (row, column) == (region.top, region.left)), "")
    numbers = all(kinds.get(column) == "number" for column in range(region.left, region.right))
    return numbers and not _NAMING_NUMBERS.search(heading)


# ── tables right below one another ───────────────────────────────────────────────────────────────


def _stacked(part: list[At]) -> list[list[At]]:
    """Tables with no blank row between them: a line of its own, then names where there were numbers. A header that
    only comes again (a printed page began there) is left out."""
    rows: dict[int, list[At]] = {}
    for placed in part:
        rows.setdefault(placed[0], []).append(placed)
    order = sorted(rows)
    first = next((row for row in order if len(rows[row]) > 1), order[0])
    header = _texts(rows[first])
    starts: list[int] = []
    again: set[int] = set()
    for before, row, after in zip(order, order[1:], order[2:], strict=False):
        if row <= first + 1 or not _are_names(rows[row], rows[after]):
            continue
        if _texts(rows[row]) == header:
            again.add(row)
        elif len(rows[before]) == 1 and before > first + 1:
            starts.append(before)
            header = _texts(rows[row])
    pieces: list[list[At]] = [[] for _ in range(len(starts) + 1)]
    for placed in part:
        if placed[0] not in again:
            pieces[bisect_right(starts, placed[0])].append(placed)
    return pieces


def _texts(row: Sequence[At]) -> tuple[tuple[int, str], ...]:
    return tuple((column, cell.text) for _, column, cell in row)


def _are_names(row: Sequence[At], below: Sequence[At]) -> bool:
    """Whether a row is all words, each another, over a row with values in some of its columns."""
    texts = [cell.text for _, _, cell in row]
    typed = {column for _, column, cell in below if cell.kind in _TYPED}
    words = all(cell.kind not in _TYPED and not is_missing(cell.text) for _, _, cell in row)
    return len(row) > 1 and words and len(set(texts)) == len(texts) and any(c in typed for _, c, _ in row)


# ── tables with blank rows inside ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Contents:
    """What is known of a table that more rows may continue: added to, not computed again for each of them."""

    cells: list[At]
    families: dict[int, Counter[str]]  # of the values of each column, below the first row
    words: set[tuple[int, str]]  # column and text, below the first row

    def add(self, cells: Iterable[At], top: int) -> None:
        for row, column, cell in cells:
            self.cells.append((row, column, cell))
            if row > top:
                self.words.add((column, cell.text))
                _count(self.families, column, cell)


def _joined(found: Iterable[Region]) -> list[Region]:
    """An empty row inside a table does not end it: rows of values under the same columns go on with it."""
    result: list[Region] = []  # of the tables' extents, and the rows that were added last
    tables: list[_Contents] = []
    for region in found:
        above = [at for at, other in enumerate(result) if region.is_under(other)]
        nearest = max(above, key=lambda at: result[at].bottom, default=None)
        if nearest is not None and _goes_on(result[nearest], tables[nearest], region):
            tables[nearest].add(region.cells, result[nearest].top)
            result[nearest] = replace(result[nearest], bottom=region.bottom, cells=region.cells)
        else:
            result.append(region)
            tables.append(_Contents([], {}, set()))
            tables[-1].add(region.cells, region.top)
    return [replace(region, cells=tuple(contents.cells)) for region, contents in zip(result, tables, strict=True)]


def _goes_on(last: Region, contents: _Contents, region: Region) -> bool:
    inside = last.left <= region.left and region.right <= last.right and region.top - last.bottom <= _WIDEST_GAP
    first = [(column, cell) for row, column, cell in region.cells if row == region.top]
    if not inside or last.right - last.left < 2 or len(first) < 2:
        return False
    kinds = _most(contents.families)
    typed = any(cell.kind in _TYPED for _, _, cell in region.cells)
    if not kinds and typed:  # a header with nothing below it yet
        return sum(row + cell.row_span == last.bottom for row, _, cell in last.cells) > 1
    if not kinds:  # a word repeats one of the rows above in its column: 财务部 under 部门 once more
        alike = (last.left, last.right) == (region.left, region.right)
        return alike and any((column, cell.text) in contents.words for column, cell in first)
    under = [(cell, kinds[column]) for column, cell in first if column in kinds and not is_missing(cell.text)]
    return bool(under) and all(_fits(cell, family) for cell, family in under)


def _kinds(region: Region) -> dict[int, str]:
    """The columns that hold values, and of which family, among the rows below the first."""
    families: dict[int, Counter[str]] = {}
    for row, column, cell in region.cells:
        if row > region.top:
            _count(families, column, cell)
    return _most(families)


def _count(families: dict[int, Counter[str]], column: int, cell: Cell) -> None:
    if cell.kind in _TYPED:
        families.setdefault(column, Counter())[_family(cell.kind)] += 1


def _most(families: Mapping[int, Counter[str]]) -> dict[int, str]:
    return {column: counts.most_common(1)[0][0] for column, counts in families.items()}


def _family(kind: str | None) -> str:
    return _FAMILY.get(kind or "text", kind or "text")


def _fits(cell: Cell, family: str) -> bool:
    return _family(cell.kind) == family or (family == "number" and number(cell.text) is not None)
