"""A table as text that a reader can follow: title, header, a line per row, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qianxun.core.documents import Table


def _row_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "｜").replace("\n", " ") for cell in cells) + " |"


def _lines(table: Table) -> tuple[list[str], list[str], list[str]]:
    """The lines above the rows, the rows, and the lines below them."""
    above = [table.title] if table.title else []
    if any(column.path for column in table.columns):
        above.append(_row_line(column.name if column.path else "" for column in table.columns))
    below = table.notes.split("\n") if table.notes else []
    return above, [_row_line(row) for row in table.texts], below


def render(table: Table, clean: Callable[[str], str] = str) -> tuple[str, tuple[int, ...]]:
    """The readable text of a table (title, header, a line per row, notes) and where its data rows begin."""
    above, rows, below = _lines(table)
    parts = list(filter(None, map(clean, above)))
    offset = sum(len(line) + 1 for line in parts)
    starts: list[int] = []
    for line in map(clean, rows):
        starts.append(offset)
        parts.append(line)
        offset += len(line) + 1
    return "\n".join([*parts, *filter(None, map(clean, below))]), tuple(starts)
