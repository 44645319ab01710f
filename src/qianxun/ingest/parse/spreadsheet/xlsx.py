"""Excel workbooks: every visible sheet, every table on it, with merged headers and typed cells.

Hidden sheets and columns are left out, as their author does not show them; hidden rows are taken in, as a filter or
a folded group hides rows that still count. Each is said in a warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from qianxun.core.errors import Unreadable
from qianxun.core.types import Block, Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.ingest.parse.office.package import count_cells, inspect
from qianxun.ingest.parse.pairs import pairs_in
from qianxun.ingest.parse.spreadsheet.number_format import shown_number
from qianxun.ingest.parse.spreadsheet.sheet_regions import Region, regions
from qianxun.ingest.parse.spreadsheet.workbook import column_letters, look_through, position
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, as_text, clean, place, read_table

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
_UNIT_LINE: Final = re.compile(r"[(（]?(?:金额|计量|货币)?单位|币种")
_NOTE_LINE: Final = re.compile(r"(?:注|备注|说明|附注|资料来源|数据来源|来源)\s*\d{0,2}\s*[:：.．、]")
_LONGEST_TITLE: Final = 60
_Formulas = Mapping[tuple[int, int], str]


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    inspect(path, limits)
    count_cells(path, limits)
    looked = look_through(path, limits.cells)
    book = _open(path)
    blocks: list[Block] = []
    notes: list[str] = []
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            notes.append(f"工作表“{sheet.title}”是隐藏的，未收录")
            continue
        found = list(_sheet_blocks(sheet, looked.unsolved.get(sheet.title, {}), notes))
        if found and len(shown) > 1:
            blocks.append(Heading(sheet.title, 1))
        blocks.extend(found)
    if looked.count:
        notes.append(f"{looked.count} 个公式没有保存计算结果，按公式本身收录；用 Excel 打开并保存一次即可")
    if book.chartsheets:
        notes.append(f"{len(book.chartsheets)} 张图表工作表没有文字，未收录")
    pairs = tuple(pair for block in blocks if isinstance(block, TableBlock) for pair in pairs_in(block.table))
    title = (book.properties.title or "").strip() or path.stem
    return ParsedFile(tuple(blocks), "xlsx", title, {"sheets": len(book.worksheets)}, pairs, tuple(notes))


def _open(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells of styles it does not keep; nothing here needs them
        try:
            with path.open("rb") as opened:  # of a path it would look at the name: many a new workbook is called .xls
                return openpyxl.load_workbook(opened, data_only=True)
        except _BROKEN as failure:
            what = f"工作簿已损坏（{type(failure).__name__}：{str(failure)[:120]}）"
            raise Unreadable(
                what, hint="这个文件的内容都没有收录；请用 Excel 打开、修复并另存，再添加一次"
            ) from failure


# ── what stands on a sheet ───────────────────────────────────────────────────────────────────────


def _sheet_blocks(sheet: Any, unsolved: _Formulas, notes: list[str]) -> Iterator[Block]:
    """Tables and the lines between them: above a table its title or unit; 注：… belongs to the one before.

    A line stands above a table where no other table stands between them.
    """
    blocks: list[tuple[Region, Block]] = []
    waiting: list[tuple[Region, str]] = []
    taken: set[int] = set()
    for region in regions(_cells(sheet, unsolved, notes)):
        grid = place((r - region.top, c - region.left, cell) for r, c, cell in region.cells)
        table = read_table(grid, source=sheet.title)
        if table is not None:
            above = [at for at, (one, _) in enumerate(waiting) if _is_next(region, one, blocks)]
            blocks.append((region, TableBlock(_titled(table, [waiting[at][1] for at in above], sheet.title))))
            taken.update(above)
            continue
        text = as_text(grid)
        if "\n" in text or len(text) > _LONGEST_TITLE:
            blocks.append((region, Paragraph(text)))
        elif _NOTE_LINE.match(text) and (at := _table_above(blocks, region)) is not None:
            blocks[at] = (blocks[at][0], _with_note(blocks[at][1], text))
        elif text:
            waiting.append((region, text))
    blocks += [(region, Paragraph(text)) for at, (region, text) in enumerate(waiting) if at not in taken]
    yield from (block for _, block in sorted(blocks, key=lambda one: (one[0].top, one[0].left)))


def _is_next(region: Region, line: Region, blocks: list[tuple[Region, Block]]) -> bool:
    between = (one for one, block in blocks if isinstance(block, TableBlock) and region.is_under(one))
    return region.is_under(line) and not any(one.is_under(line) for one in between)


def _titled(table: Table, above: list[str], sheet: str) -> Table:
    """With what stands above: the lines of units as notes, the others as title; a title of its own goes before."""
    units = [text for text in above if _UNIT_LINE.match(text)]
    titles = [text for text in above if not _UNIT_LINE.match(text)]
    title = " ".join([*titles, table.title] if table.title else titles) or sheet
    return replace(table, title=title, notes="\n".join(filter(None, (*units, table.notes))))


def _table_above(blocks: list[tuple[Region, Block]], region: Region) -> int | None:
    above = [at for at, (one, block) in enumerate(blocks) if isinstance(block, TableBlock) and region.is_under(one)]
    return max(above, key=lambda at: blocks[at][0].bottom, default=None)


def _with_note(block: Block, text: str) -> Block:
    if not isinstance(block, TableBlock):
        return block
    notes = "\n".join(filter(None, (block.table.notes, text)))
    return replace(block, table=replace(block.table, notes=notes))


# ── cells ────────────────────────────────────────────────────────────────────────────────────────


def _cells(sheet: Any, unsolved: _Formulas, notes: list[str]) -> dict[tuple[int, int], Cell]:
    """The cells that say something, by position, merged ones with their spans.

    Read from the sheet's own mapping: walking its rows and columns would visit every empty slot up to the last used
    one, seventeen billion in a sheet with one cell in its far corner.
    """
    spans = {(m.min_row, m.min_col): (m.size["rows"], m.size["columns"]) for m in sheet.merged_cells.ranges}
    hidden = _hidden_columns(sheet)
    found: dict[tuple[int, int], Cell] = {}
    left_out: set[int] = set()
    for at, held in sheet._cells.items():
        cell = _shown(held) if at not in unsolved else Cell(unsolved[at], value=unsolved[at], kind="text")
        if cell.text and at[1] in hidden and spans.get(at, (1, 1))[1] == 1:
            left_out.add(at[1])
        elif cell.text:
            rows, columns = spans.get(at, (1, 1))
            found[at] = replace(cell, row_span=rows, col_span=columns) if rows * columns > 1 else cell
    if left_out:
        names = "、".join(column_letters(column) for column in sorted(left_out)[:10])
        notes.append(f"工作表“{sheet.title}”的 {names} 列是隐藏的，未收录")
    folded = {row for row, held in sheet.row_dimensions.items() if held.hidden} & {row for row, _ in found}
    if folded:
        notes.append(f"工作表“{sheet.title}”有 {len(folded)} 行被隐藏（筛选或折叠），照常收录")
    return found


def _hidden_columns(sheet: Any) -> frozenset[int]:
    """Columns that are hidden by themselves; those of a folded group are only folded."""
    found: set[int] = set()
    for letters, held in sheet.column_dimensions.items():
        first = held.min or (position(f"{letters}1") or (1, 0))[1]
        if held.hidden and not held.outlineLevel:
            found.update(range(first, min(held.max or first, first + 16_384) + 1))
    return frozenset(found)


def _shown(cell: Any) -> Cell:
    """A cell as Excel shows it, as a value, and what kind of value that is."""
    value = cell.value
    if value is None:
        return Cell("")
    if isinstance(value, bool):
        return Cell("是" if value else "否", value=value, kind="boolean")
    if isinstance(value, datetime | date | time):
        text = _iso(value)
        return Cell(text, value=text, kind="text" if isinstance(value, time) else "date")
    if isinstance(value, int | float):
        shown = shown_number(value, str(cell.number_format))
        return Cell(shown.text, value=shown.value, kind=shown.kind, unit=shown.unit)
    text = _hours(value) if isinstance(value, timedelta) else clean(str(value))
    return Cell(text, value=text, kind="text")


def _iso(value: datetime | date | time) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.replace(microsecond=0).isoformat(" ")
    return value.isoformat()


def _hours(value: timedelta) -> str:
    minutes, seconds = divmod(round(value.total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
