"""Which rows of a grid are its header, and what above and below the table is a title or a note.

Formats that mark their headers (`Cell.header`, or a count given to `read_table`) are believed; in the others
`count_header_rows` recognises them: words above, values below, years over numbers, wide cells above several short ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from qianxun.ingest.tables.cells import is_missing, number, percent
from qianxun.ingest.tables.grid import Cell, Grid

_NOTE: Final = re.compile(
    r"\s*+[(（]?(注|备注|说明|附注|资料来源|数据来源|来源|(?:金额|计量|货币|编制|填报)?单位|币种|Notes?|Source)"
    r"\s*+\d{0,2}+\s*+[:：.．、]"
)
_SIGNED: Final = re.compile(
    r"(?:制表|制单|填表|填报|编制|审核|复核|审批|批准|经办|负责|主管|会计|日期|时间)[^:：]{0,5}[:：]"
)
_LABELLED: Final = re.compile(r"[^\d:：][^:：]{0,9}[:：](?!//)")  # 部门：销售部
_MOST_ABOVE: Final = 4
_MOST_HEADER_ROWS: Final = 4
_LONGEST_LABEL: Final = 24


def take_top(grid: Grid) -> tuple[Grid, str, str]:
    """Without the rows above the header: the title, and notes such as the unit or the author."""
    titles: list[str] = []
    notes: list[str] = []
    taken = 0
    while len(grid.rows) > 2 and grid.width > 1 and taken < _MOST_ABOVE:
        cells = grid.distinct(0)
        is_stated = _is_stated(grid)
        noted = [cell.text for cell in cells if is_stated or _NOTE.match(cell.text)]
        others = [cell for cell in cells if not is_stated and not _NOTE.match(cell.text)]
        if len(others) > 1 or not cells or (others and not noted and not _is_title(grid)):
            break
        titles += [cell.text for cell in others]
        notes += noted
        whole = _is_whole(grid, 0)
        grid = grid.below(cells[0].row_span if whole else 1)
        taken += 1
    return grid, " ".join(titles), "\n".join(notes)


def _is_stated(grid: Grid) -> bool:
    """Whether the first row, and maybe some after it, says only what the names below are about: 部门：销售部"""
    rows = [grid.distinct(row) for row in range(min(len(grid.rows) - 1, _MOST_ABOVE + 1))]
    at = next((row for row, cells in enumerate(rows) if not _is_labelled(cells)), 0)
    names = rows[at]
    is_named = len(names) > len(rows[0]) and _is_header(grid, at)
    return at > 0 and is_named and not any(_LABELLED.match(cell.text) for cell in names)


def _is_labelled(cells: Sequence[Cell]) -> bool:
    """Whether a row is of labels with what they say, in one cell or in the next."""
    labels = [_LABELLED.match(cell.text) is not None for cell in cells]
    values = [before.text[-1] in ":：" for before in cells]
    return any(labels) and all(is_label or (at and values[at - 1]) for at, is_label in enumerate(labels))


def _is_whole(grid: Grid, row: int) -> bool:
    """Whether one merged cell takes the whole row."""
    return all(grid.origins.get((row, c)) == grid.origins.get((row, 0)) is not None for c in range(grid.width))


def _is_title(grid: Grid) -> bool:
    """Whether the single cell of the first row is the title of what is below it."""
    if _is_whole(grid, 0):
        return True
    if not grid.rows[0][0].text or grid.rows[0][0].header:
        return False
    return grid.width > 2 or (all(cell.text for cell in grid.rows[1]) and _is_header(grid, 1))


def take_notes(grid: Grid) -> tuple[Grid, str]:
    notes: list[str] = []
    while len(grid.rows) > 2:
        last = grid.distinct(len(grid.rows) - 1)
        noted = len(last) == 1 and _NOTE.match(last[0].text)
        if not noted and not all(_SIGNED.match(cell.text) for cell in last):
            break
        notes.insert(0, " ".join(cell.text for cell in last))
        grid = grid.part(0, len(grid.rows) - 1)
    return grid, "\n".join(notes)


def spread_names(grid: Grid) -> Grid:
    """A first row whose names span several columns without being merged: 2023年, blank, above 收入, 成本.

    Only where the second row names just those columns and has numbers below it.
    """
    if len(grid.rows) < 3 or grid.origins or any(cell.header for cell in grid.rows[0]):
        return grid
    first, second, third = grid.rows[:3]
    blank = [c for c, cell in enumerate(first) if not cell.text]
    named = [c for c, cell in enumerate(second) if cell.text]
    if not blank or not first[0].text or not set(blank) <= set(named) or not _are_names(second):
        return grid
    if not all(_is_value(third[c]) for c in named) or len(named) == grid.width or not _are_names(first):
        return grid
    rows = [list(row) for row in grid.rows]
    origins: dict[tuple[int, int], tuple[int, int]] = {}
    start = 0
    for c, cell in enumerate(first):
        start = c if cell.text else start
        if not second[c].text:
            rows[0][c] = rows[1][c] = replace(cell, row_span=2)
            origins[0, c] = origins[1, c] = (0, c)
        elif start != c:
            rows[0][c] = first[start]
            origins[0, c] = origins[0, start] = (0, start)
    for at, origin in list(origins.items()):
        wide = sum(other == origin and r == 0 for (r, _), other in origins.items())
        rows[at[0]][at[1]] = replace(rows[at[0]][at[1]], col_span=max(wide, 1))
    return Grid(rows, origins)


def _are_names(row: Sequence[Cell]) -> bool:
    filled = [cell for cell in row if cell.text]
    return all(len(cell.text) <= _LONGEST_LABEL and (not _is_value(cell) or _is_year(cell.text)) for cell in filled)


def _is_value(cell: Cell) -> bool:
    if cell.kind is not None:
        return cell.kind not in ("text", "category") or number(cell.text) is not None
    return number(cell.text) is not None or percent(cell.text) is not None or is_missing(cell.text)


def count_header_rows(grid: Grid) -> int:
    if _is_form(grid) or not _is_header(grid, 0):
        return 0
    count = 1
    row = 0
    while row < min(count, len(grid.rows)):  # empty rows have been dropped
        for col in range(grid.width):
            cell = grid.rows[row][col]
            if not grid.is_origin(row, col):
                continue
            count = max(count, row + cell.row_span)
            ends = row + cell.row_span
            if ends == count and _is_refined(grid, ends, col, cell.col_span) and _is_header(grid, count):
                count += 1
        row += 1
    return count if count <= _MOST_HEADER_ROWS and count < len(grid.rows) else 1


def _is_refined(grid: Grid, row: int, col: int, span: int) -> bool:
    """Whether a wide cell has several short ones right under it, and is not the title of all."""
    if not 1 < span < grid.width or row >= len(grid.rows):
        return False
    under = range(col, min(col + span, grid.width))  # empty columns have been dropped
    begins = [c for c in under if grid.rows[row][c].text and grid.is_origin(row, c)]
    return len(begins) > 1 and all(len(cell.text) <= _LONGEST_LABEL for cell in grid.distinct(row))


def _is_header(grid: Grid, row: int) -> bool:
    """Words above, values below. Years over numbers are headers; a first row of numbers is data."""
    cells = [cell for cell in grid.rows[row] if cell.text]
    if any(cell.header for cell in cells):
        return True
    if any(cell.kind not in (None, "text", "date") and not _is_year(cell.text) for cell in cells):
        return False
    numbers = [cell.text for cell in cells if number(cell.text) is not None or percent(cell.text) is not None]
    return len(cells) * 2 >= grid.width and all(_is_year(text) for text in numbers)


def _is_year(text: str) -> bool:
    return text.strip().isdecimal() and len(text.strip()) == 4 and 1900 <= int(text) <= 2100


def _is_form(grid: Grid) -> bool:
    """A form says name, value, name, value: its first row heads nothing, though a wide value may look like it."""
    first = grid.distinct(0)
    if grid.width <= 3 or any(cell.row_span > 1 or cell.header for cell in first):
        return False
    wide = [c for c in range(grid.width) if grid.is_origin(0, c) and grid.rows[0][c].col_span > 1]
    return len(first) * 2 <= grid.width or any(not _is_split(grid, c, grid.rows[0][c].col_span) for c in wide)


def _is_split(grid: Grid, col: int, span: int) -> bool:
    """Whether the row below the first has more than one cell under a wide one."""
    return len({grid.origins.get((1, c), (1, c)) for c in range(col, min(col + span, grid.width))}) > 1
