"""From a grid of cells to a table, and from a table to text a reader can follow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from qianxun.core.documents import Block, CellValue, Column, ColumnKind, Paragraph, Table, TableBlock
from qianxun.core.errors import TooLarge
from qianxun.ingest.tables.cells import (
    STRAYS,
    Reading,
    by_unit,
    is_missing,
    number,
    or_text,
    percent,
    read_column,
    reader_of,
    unit_of,
)

_SPACE: Final = re.compile(r"\s+")
_BETWEEN_HAN: Final = re.compile(r"(?<=[\u3400-\u9fff，。、；：）】》]) (?=[\u3400-\u9fff（【《])")
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
_WIDEST_SPAN: Final = 1_000
WIDEST: Final = 2_000  # columns of a table: a question is compared with the name of each, 30 µs of the processor
_LONGEST_LABEL: Final = 24


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell as its file shows it. ``value`` and ``kind`` are set where the file itself is typed (Excel)."""

    text: str
    row_span: int = 1
    col_span: int = 1
    value: CellValue = None
    kind: ColumnKind | None = None
    header: bool = False
    unit: str = ""  # what its number format adds: 0.0"万元"


EMPTY: Final = Cell("")
_NUMERIC: Final = ("number", "percent", "money")


@dataclass(slots=True)
class Grid:
    """A rectangle of cells. A merged cell is in every slot it covers; ``origins`` maps these to where it begins."""

    rows: list[list[Cell]]
    origins: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    def is_origin(self, row: int, col: int) -> bool:
        return self.origins.get((row, col), (row, col)) == (row, col)

    def distinct(self, row: int) -> list[Cell]:
        """The filled cells of a row, a merged one once."""
        seen: set[tuple[int, int]] = set()
        found = []
        for col, cell in enumerate(self.rows[row]):
            origin = self.origins.get((row, col), (row, col))
            if cell.text and origin not in seen:
                seen.add(origin)
                found.append(cell)
        return found

    def below(self, count: int) -> Grid:
        return self.part(count, len(self.rows))

    def part(self, start: int, stop: int) -> Grid:
        inside = (item for item in self.origins.items() if start <= item[0][0] < stop)
        origins = {(r - start, c): (max(r0 - start, 0), c0) for (r, c), (r0, c0) in inside}
        return Grid(self.rows[start:stop], origins)


def clean(text: str) -> str:
    """A cell's text on one line; line breaks between Chinese characters leave no space."""
    flat = _SPACE.sub(" ", text).strip()
    return _BETWEEN_HAN.sub("", flat) if "\n" in text else flat


def flow(rows: Sequence[Sequence[Cell]], most_cells: int) -> Grid:
    """Places cells the way HTML does: each goes to the next free slot of its row, spans cover what they say."""
    taken: set[tuple[int, int]] = set()
    placed: list[tuple[int, int, Cell]] = []
    for r, row in enumerate(rows):
        c = 0
        for cell in row:
            while (r, c) in taken:
                c += 1
            tall = min(max(cell.row_span, 1), len(rows) - r)
            wide = min(max(cell.col_span, 1), _WIDEST_SPAN)
            if len(taken) + tall * wide > most_cells:
                raise TooLarge(f"表格超过 {most_cells} 个单元格", hint="请拆分表格")
            if cell.row_span == cell.col_span == 1:  # as nearly all of them are
                taken.add((r, c))
                placed.append((r, c, cell))
            else:
                taken.update((r + i, c + j) for i in range(tall) for j in range(wide))
                placed.append((r, c, replace(cell, row_span=tall, col_span=wide)))
            c += wide
    return place(placed)


def place(placed: Iterable[tuple[int, int, Cell]]) -> Grid:
    """A grid from cells whose positions are known; empty rows and columns are dropped."""
    cells = list(placed)
    height = max((r + cell.row_span for r, _, cell in cells), default=0)
    width = max((c + cell.col_span for _, c, cell in cells), default=0)
    rows = [[EMPTY] * width for _ in range(height)]
    origins: dict[tuple[int, int], tuple[int, int]] = {}
    for r, c, cell in cells:
        if cell.row_span == cell.col_span == 1:
            rows[r][c] = cell
            continue
        for i in range(r, r + cell.row_span):
            for j in range(c, c + cell.col_span):
                rows[i][j] = cell
                origins[i, j] = (r, c)
    return _without_gaps(Grid(rows, origins))


def _without_gaps(grid: Grid) -> Grid:
    """Drops rows and columns in which no filled cell begins."""
    live_rows: set[int] = set()
    live_cols: set[int] = set()
    for r, row in enumerate(grid.rows):
        for c, cell in enumerate(row):
            if cell.text and (not grid.origins or grid.is_origin(r, c)):
                live_rows.add(r)
                live_cols.add(c)
    if len(live_rows) == len(grid.rows) and len(live_cols) == grid.width:
        return grid
    row_at = {old: new for new, old in enumerate(sorted(live_rows))}
    col_at = {old: new for new, old in enumerate(sorted(live_cols))}
    rows = [[grid.rows[r][c] for c in sorted(live_cols)] for r in sorted(live_rows)]
    origins = {
        (row_at[r], col_at[c]): (row_at[r0], col_at[c0])
        for (r, c), (r0, c0) in grid.origins.items()
        if r in row_at and c in col_at and r0 in row_at and c0 in col_at
    }
    return Grid(rows, origins)


# ── the table in a grid ──────────────────────────────────────────────────────────────────────────


def read_table(
    grid: Grid, *, title: str = "", source: str = "", header_rows: int | None = None, titled: bool = True
) -> Table | None:
    """The table a grid holds: title and notes taken off, headers joined, columns typed; None if it is no table, or one
    too wide to be asked about: it is kept as text.

    ``header_rows`` is given by formats that mark their headers; otherwise the headers are recognised. ``titled`` is
    False where a first row of one cell is known to be no title.
    """
    height = len(grid.rows)
    grid, own_title, stated = _take_top(grid) if titled else (grid, "", "")
    if header_rows is not None:
        header_rows = max(header_rows - (height - len(grid.rows)), 0)
    grid, below = _take_notes(grid)
    notes = "\n".join(filter(None, (stated, below)))
    if not 2 <= grid.width <= WIDEST or not grid.rows:
        return None
    if header_rows is None:
        grid = _spread(grid)
    count = _header_rows(grid) if header_rows is None else min(header_rows, len(grid.rows))
    if count >= len(grid.rows) > 1:
        count = 1
    if count == len(grid.rows):
        return None
    return _table(grid, count, own_title or title, source, notes)


def _take_top(grid: Grid) -> tuple[Grid, str, str]:
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


def _take_notes(grid: Grid) -> tuple[Grid, str]:
    notes: list[str] = []
    while len(grid.rows) > 2:
        last = grid.distinct(len(grid.rows) - 1)
        noted = len(last) == 1 and _NOTE.match(last[0].text)
        if not noted and not all(_SIGNED.match(cell.text) for cell in last):
            break
        notes.insert(0, " ".join(cell.text for cell in last))
        grid = grid.part(0, len(grid.rows) - 1)
    return grid, "\n".join(notes)


def _spread(grid: Grid) -> Grid:
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


def _header_rows(grid: Grid) -> int:
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


# ── the text of a table ──────────────────────────────────────────────────────────────────────────


def row_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "｜").replace("\n", " ") for cell in cells) + " |"


def lines(table: Table) -> tuple[list[str], list[str], list[str]]:
    """The lines above the rows, the rows, and the lines below them."""
    above = [table.title] if table.title else []
    if any(column.path for column in table.columns):
        above.append(row_line(column.name if column.path else "" for column in table.columns))
    below = table.notes.split("\n") if table.notes else []
    return above, [row_line(row) for row in table.texts], below


def render(table: Table, clean: Callable[[str], str] = str) -> tuple[str, tuple[int, ...]]:
    """The readable text of a table (title, header, a line per row, notes) and where its data rows begin."""
    above, rows, below = lines(table)
    parts = list(filter(None, map(clean, above)))
    offset = sum(len(line) + 1 for line in parts)
    starts: list[int] = []
    for line in map(clean, rows):
        starts.append(offset)
        parts.append(line)
        offset += len(line) + 1
    return "\n".join([*parts, *filter(None, map(clean, below))]), tuple(starts)


def as_text(grid: Grid) -> str:
    """A grid that is no table, line by line."""
    return "\n".join(filter(None, (" ".join(cell.text for cell in grid.distinct(r)) for r in range(len(grid.rows)))))
