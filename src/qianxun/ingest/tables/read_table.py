"""From a grid to a table: title, notes and header taken off, columns typed; or to text, where it is no table.

Read `read_table` first. Which rows are the header is decided in `headers`, what a column's values are in `cells`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from qianxun.core.documents import Block, CellValue, Column, Paragraph, Table, TableBlock
from qianxun.ingest.tables.cells import STRAYS, Reading, by_unit, is_missing, or_text, read_column, reader_of, unit_of
from qianxun.ingest.tables.grid import Cell, Grid, as_text
from qianxun.ingest.tables.headers import count_header_rows, spread_names, take_notes, take_top

WIDEST: Final = 2_000  # columns of a table: a question is compared with the name of each, 30 µs of the processor
_NUMERIC: Final = ("number", "percent", "money")


def read_table(
    grid: Grid, *, title: str = "", source: str = "", header_rows: int | None = None, titled: bool = True
) -> Table | None:
    """The table a grid holds: title and notes taken off, headers joined, columns typed; None if it is no table, or one
    too wide to be asked about: it is kept as text.

    ``header_rows`` is given by formats that mark their headers; otherwise the headers are recognised. ``titled`` is
    False where a first row of one cell is known to be no title.
    """
    height = len(grid.rows)
    grid, own_title, stated = take_top(grid) if titled else (grid, "", "")
    if header_rows is not None:
        header_rows = max(header_rows - (height - len(grid.rows)), 0)
    grid, below = take_notes(grid)
    notes = "\n".join(filter(None, (stated, below)))
    if not 2 <= grid.width <= WIDEST or not grid.rows:
        return None
    if header_rows is None:
        grid = spread_names(grid)
    count = count_header_rows(grid) if header_rows is None else min(header_rows, len(grid.rows))
    if count >= len(grid.rows) > 1:
        count = 1
    if count == len(grid.rows):
        return None
    return _table(grid, count, own_title or title, source, notes)


def _table(grid: Grid, count: int, title: str, source: str, notes: str) -> Table:
    body = grid.below(count)
    texts = [[_shown(body, r, c) for c in range(grid.width)] for r in range(len(body.rows))]
    columns: list[Column] = []
    values: list[Sequence[CellValue]] = []
    for c in range(grid.width):
        path = _path(grid, count, c)
        name = " / ".join(path) or f"列{c + 1}"
        column, typed = _read(name, path, [row[c] for row in texts], [row[c] for row in body.rows])
        columns.append(column)
        values.append(typed)
    rows = tuple(zip(*values, strict=True))
    return Table(title, tuple(columns), rows, tuple(tuple(row) for row in texts), source, notes)


def _shown(grid: Grid, row: int, col: int) -> str:
    """A merged cell is shown in each of its rows, in its first column."""
    origin = grid.origins.get((row, col))
    return "" if origin is not None and origin[1] != col else grid.rows[row][col].text


def _path(grid: Grid, count: int, col: int) -> tuple[str, ...]:
    path: list[str] = []
    for row in range(count):
        text = grid.rows[row][col].text
        if text and (not path or grid.origins.get((row, col)) != grid.origins.get((row - 1, col), (-1, -1))):
            path.append(text)
    return tuple(path)


def _read(name: str, path: tuple[str, ...], texts: list[str], cells: list[Cell]) -> tuple[Column, Sequence[CellValue]]:
    typed = Counter(
        "number" if cell.kind in _NUMERIC else cell.kind
        for cell, text in zip(cells, texts, strict=True)
        if text and not is_missing(text) and cell.kind not in (None, "text")
    )
    reading = _read_typed(name, texts, cells, *typed.most_common(1)[0]) if typed else None
    reading = reading or read_column(name, texts)
    return Column(name, path, reading.kind, reading.unit), reading.values


def _read_typed(name: str, texts: list[str], cells: list[Cell], family: str, count: int) -> Reading | None:
    """A column by the types its file gives its cells; None where too few agree. Other cells stay as they are shown."""
    # A formula without its result says nothing of the kind of its column.
    pairs = zip(cells, texts, strict=True)
    filled = [cell for cell, text in pairs if text and not text.startswith("=") and not is_missing(text)]
    like = [cell for cell in filled if cell.kind == family or (family == "number" and cell.kind in _NUMERIC)]
    units = {cell.unit for cell in like if cell.unit}
    kind = Counter(cell.kind for cell in like).most_common(1)[0][0]
    read = reader_of(kind) if kind is not None else None
    if kind is None or read is None or len(units) > 1:
        return None
    known = {id(cell) for cell in like}
    strays = sum(id(cell) not in known and read(cell.text) is None for cell in filled)
    if strays * STRAYS > len(filled):
        return None
    values = tuple(
        None if not text or is_missing(text) else cell.value if id(cell) in known else or_text(read(text), text)
        for cell, text in zip(cells, texts, strict=True)
    )
    return by_unit(kind, unit_of(name) or next(iter(units), ""), values)


def table_blocks(grid: Grid, page: int | None = None, **options: Any) -> Iterator[Block]:
    """The table a grid holds (`read_table` takes the options); its text where it is none."""
    table = read_table(grid, **options)
    if table is not None:
        yield TableBlock(table, page)
    elif text := as_text(grid):
        yield Paragraph(text, page)
