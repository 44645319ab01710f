"""Excel workbooks: every visible sheet, every table on it, with merged headers and typed cells."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from qianxun.errors import Unreadable
from qianxun.ingest.limits import ParseLimits
from qianxun.ingest.parse.package import count_cells, inspect
from qianxun.ingest.parse.pairs import pairs_in
from qianxun.ingest.tables import Cell, as_text, clean, place, read_table
from qianxun.types import Block, CellValue, ColumnKind, Heading, Paragraph, ParsedFile, TableBlock

_CURRENCY: Final = ("¥", "￥", "$", "€", "£", "元", "[$")
_BROKEN: Final = (
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    InvalidFileException,
    SyntaxError,
    OSError,
)
_Placed = dict[tuple[int, int], Cell]
_At = tuple[int, int, Cell]


@dataclass(frozen=True, slots=True)
class _Region:
    """A rectangle of cells with nothing around it."""

    top: int
    left: int
    bottom: int
    right: int
    cells: tuple[_At, ...]


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    inspect(path, limits)
    unsolved = count_cells(path, limits)
    book = _open(path)
    blocks: list[Block] = []
    notes: list[str] = []
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            notes.append(f"工作表“{sheet.title}”是隐藏的，未收录")
            continue
        found = list(_sheet_blocks(sheet))
        if found and len(shown) > 1:
            blocks.append(Heading(sheet.title, 1))
        blocks.extend(found)
    if unsolved:
        notes.append(f"{unsolved} 个公式没有保存计算结果，按空单元格收录；用 Excel 打开并保存一次即可")
    if book.chartsheets:
        notes.append(f"{len(book.chartsheets)} 张图表工作表没有文字，未收录")
    pairs = tuple(pair for block in blocks if isinstance(block, TableBlock) for pair in pairs_in(block.table))
    title = (book.properties.title or "").strip() or path.stem
    return ParsedFile(tuple(blocks), "xlsx", title, {"sheets": len(book.worksheets)}, pairs, tuple(notes))


def _open(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells of styles it does not keep; nothing here needs them
        try:
            return openpyxl.load_workbook(path, data_only=True)
        except _BROKEN as failure:
            raise Unreadable("工作簿已损坏", hint="请用 Excel 打开后另存") from failure


def _sheet_blocks(sheet: Any) -> Iterator[Block]:
    regions = _joined(_regions(_cells(sheet)))
    heading = ""
    for region in regions:
        grid = place((r - region.top, c - region.left, cell) for r, c, cell in region.cells)
        table = read_table(grid, title=heading or sheet.title, source=sheet.title)
        if table is not None:
            yield TableBlock(table)
            heading = ""
            continue
        if heading:
            yield Paragraph(heading)
        heading = as_text(grid)
        if "\n" in heading or len(heading) > 60:
            yield Paragraph(heading)
            heading = ""
    if heading:
        yield Paragraph(heading)


# ── cells ────────────────────────────────────────────────────────────────────────────────────────


def _cells(sheet: Any) -> _Placed:
    """The cells that say something, by position, merged ones with their spans.

    Read from the sheet's own mapping: walking its rows and columns would visit every empty slot up to the last used
    one, seventeen billion in a sheet with one cell in its far corner.
    """
    spans = {(m.min_row, m.min_col): (m.size["rows"], m.size["columns"]) for m in sheet.merged_cells.ranges}
    found: _Placed = {}
    for position, cell in sheet._cells.items():
        text, value, kind = _shown(cell)
        if text:
            rows, columns = spans.get(position, (1, 1))
            found[position] = Cell(text, rows, columns, value, kind)
    return found


def _shown(cell: Any) -> tuple[str, CellValue, ColumnKind]:
    """A cell as Excel shows it, as a value, and what kind of value that is."""
    value = cell.value
    if value is None:
        return "", None, "text"
    if isinstance(value, bool):
        return ("是" if value else "否"), value, "boolean"
    if isinstance(value, datetime | date | time):
        text = _iso(value)
        return text, text, "date"
    if isinstance(value, int | float):
        return _number(value, str(cell.number_format))
    text = clean(str(value))
    return text, text, "date" if isinstance(value, timedelta) else "text"


def _iso(value: datetime | date | time) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.replace(microsecond=0).isoformat(" ")
    return value.isoformat()


def _number(value: int | float, number_format: str) -> tuple[str, CellValue, ColumnKind]:
    shape = number_format.split(";")[0]
    decimals = _decimals(shape)
    if "%" in shape:
        return f"{value * 100:.{decimals}f}%", value, "percent"
    plain = str(value) if isinstance(value, int) else f"{value:.15g}"
    text = f"{value:,.{decimals}f}" if "#,#" in shape else plain
    currency = next((sign for sign in _CURRENCY if sign in shape), "")
    if currency:
        sign = "¥" if "¥" in shape or "￥" in shape else currency if currency in "$€£" else ""
        return sign + text + ("元" if currency == "元" else ""), value, "money"
    return text, value, "number"


def _decimals(shape: str) -> int:
    _, dot, after = shape.partition(".")
    count = 0
    for sign in after if dot else "":
        if sign not in "0#?":
            break
        count += 1
    return min(count, 15)


# ── several tables on one sheet ──────────────────────────────────────────────────────────────────


def _regions(cells: _Placed) -> list[_Region]:
    """Cuts along empty rows, then along empty columns, until nothing can be cut; top to bottom, left to right."""
    whole = [(r, c, cell) for (r, c), cell in sorted(cells.items(), key=lambda item: item[0])]
    regions: list[_Region] = []
    stack = [(whole, 0, False)]
    while stack:
        part, axis, stuck = stack.pop()
        pieces = _cut(part, axis)
        if len(pieces) > 1:
            stack.extend((piece, 1 - axis, False) for piece in reversed(pieces))
        elif not stuck:
            stack.append((part, 1 - axis, True))
        elif part:
            regions.append(_region(part))
    return regions


def _cut(part: list[_At], axis: int) -> list[list[_At]]:
    extents = sorted((_start(placed, axis), _start(placed, axis) + _span(placed[2], axis)) for placed in part)
    borders: set[int] = set()
    reach = extents[0][1] if extents else 0
    for start, end in extents:
        if start > reach:
            borders.add(start)
        reach = max(reach, end)
    return _dealt(part, axis, sorted(borders))


def _dealt(part: list[_At], axis: int, borders: list[int]) -> list[list[_At]]:
    pieces: list[list[_At]] = [[] for _ in range(len(borders) + 1)]
    for placed in part:
        pieces[bisect_right(borders, _start(placed, axis))].append(placed)
    return pieces


def _start(placed: _At, axis: int) -> int:
    return placed[0] if axis == 0 else placed[1]


def _span(cell: Cell, axis: int) -> int:
    return cell.row_span if axis == 0 else cell.col_span


def _region(part: list[_At]) -> _Region:
    return _Region(
        min(r for r, _, _ in part),
        min(c for _, c, _ in part),
        max(r + cell.row_span for r, _, cell in part),
        max(c + cell.col_span for _, c, cell in part),
        tuple(part),
    )


def _joined(regions: Iterable[_Region]) -> list[_Region]:
    """An empty row inside a table does not end it: rows of values under the same columns go on with it."""
    result: list[_Region] = []
    for region in regions:
        last = result[-1] if result else None
        if last is not None and _goes_on(last, region):
            result[-1] = _region([*last.cells, *region.cells])
        else:
            result.append(region)
    return result


def _goes_on(last: _Region, region: _Region) -> bool:
    inside = last.left <= region.left and region.right <= last.right and region.top - last.bottom <= 2
    first = [cell for r, _, cell in region.cells if r == region.top]
    is_data = len(first) > 1 and any(cell.kind in ("number", "percent", "money") for cell in first)
    return inside and last.bottom - last.top > 2 and last.right - last.left > 1 and is_data
