"""A table's rows that somebody wrote anew, read as rows of the same table.

What is written is what a chunk of the table shows: its title and header, or neither, and a line for each row. Where it
is something else, other columns included, it is no table any more, and only text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qianxun.core.documents import CellValue, Column, RowCells, Table
from qianxun.ingest.tables.cells import is_missing, read_column
from qianxun.ingest.tables.pipes import is_rule, split_cells


def edited_rows(table: Table, before: str, written: str) -> tuple[RowCells, ...] | None:
    """The rows that ``written`` has, in the place of ``before``, which has some of the table's; None: it is no table,
    or not with these columns."""
    lines = [line for line in written.splitlines() if "|" in line and not is_rule(line)]
    names = tuple(column.name for column in table.columns)
    had_header = any(_cells(line, len(names)) == names for line in before.splitlines())
    has_header = bool(lines) and _cells(lines[0], len(names)) == names
    if had_header and not has_header:
        return None
    rows = [_cells(line, len(names)) for line in lines[has_header:]]
    if not rows or not any("|" in line for line in before.splitlines()):
        return None
    whole = [row for row in rows if row is not None]
    return tuple(RowCells(_values(table.columns, row), row) for row in whole) if len(whole) == len(rows) else None


def _cells(line: str, width: int) -> tuple[str, ...] | None:
    """The cells of a row of so many; None for another number. Pipes at its ends may be there or not."""
    cells = split_cells(line)
    for left, right in ((0, 0), (1, 1), (1, 0), (0, 1)):
        inner = cells[left : len(cells) - right]
        if len(inner) == width and not any((*cells[:left], *cells[len(cells) - right :])):
            return inner
    return None


def _values(columns: Iterable[Column], texts: Sequence[str]) -> tuple[CellValue, ...]:
    return tuple(_value(column, text) for column, text in zip(columns, texts, strict=True))


def _value(column: Column, text: str) -> CellValue:
    """By the kind of its column; what is of another kind stays text."""
    if is_missing(text):
        return None
    reading = read_column(column.name, [text])
    return reading.values[0] if reading.kind == column.kind else text
