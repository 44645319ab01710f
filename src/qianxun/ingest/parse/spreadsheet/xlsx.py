"""Excel workbooks: every visible sheet, every table on it, with merged headers and typed cells.

Hidden sheets and columns are left out, as their author does not show them; hidden rows are taken in, as a filter or
a folded group hides rows that still count. A warning names each.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import openpyxl
from openpyxl.utils.datetime import from_excel
from openpyxl.utils.exceptions import InvalidFileException

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.core.errors import Unreadable
from qianxun.ingest.parse.office.package import BROKEN, count_cells, inspect
from qianxun.ingest.parse.pairs import pairs_in
from qianxun.ingest.parse.spreadsheet.sheet_regions import Region, regions
from qianxun.ingest.parse.spreadsheet.workbook import check_workbook, column_letters, position
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.cells import is_measure, is_money_unit
from qianxun.ingest.tables.grid import Cell, as_text, clean, place
from qianxun.ingest.tables.read_table import read_table

_BROKEN: Final = (*BROKEN, InvalidFileException)
_UNIT_LINE: Final = re.compile(r"[(（]?(?:金额|计量|货币)?单位|币种")
_NOTE_LINE: Final = re.compile(r"(?:注|备注|说明|附注|资料来源|数据来源|来源)\s*+\d{0,2}+\s*+[:：.．、]")
_DATE_NAME: Final = re.compile(r"日期(?:[(（][^(（]{0,20})?$|\b[Dd]ate$")
_TIME_NAME: Final = re.compile("[时期]间|日$")  # 入职时间, where others are days; 响应时间 may be a number
_SERIALS: Final = range(20_000, 75_000)  # the days from 1954 to 2105 as Excel counts them
_LONGEST_TITLE: Final = 60
_Formulas = Mapping[tuple[int, int], str]


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    inspect(path, limits)
    count_cells(path, limits)
    unsolved = check_workbook(path, limits.cells)
    book = _open(path)
    blocks: list[Block] = []
    notes: list[str] = []
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            notes.append(f"工作表“{sheet.title}”是隐藏的，未收录")
            continue
        found = list(_sheet_blocks(sheet, unsolved.get(sheet.title, {}), notes))
        if found and len(shown) > 1:
            blocks.append(Heading(sheet.title, 1))
        blocks.extend(found)
    if count := sum(map(len, unsolved.values())):
        notes.append(f"{count} 个公式没有保存计算结果，按公式本身收录；用 Excel 打开并保存一次即可")
    if book.chartsheets:
        notes.append(f"{len(book.chartsheets)} 张图表工作表没有文字，未收录")
    title = (book.properties.title or "").strip() or path.stem
    return ParsedFile(tuple(blocks), "xlsx", title, {"sheets": len(book.worksheets)}, pairs_in(blocks), tuple(notes))


def _open(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns of styles it drops; nothing here needs them
        try:
            with path.open("rb") as opened:  # given a path it checks the name: many a new workbook is called .xls
                return openpyxl.load_workbook(opened, data_only=True)
        except _BROKEN as failure:
            what = f"工作簿已损坏（{type(failure).__name__}：{str(failure)[:120]}）"
            raise Unreadable(
                what, hint="这个文件的内容都没有收录；请用 Excel 打开、修复并另存，再添加一次"
            ) from failure


# ── the blocks of a sheet ───────────────────────────────────────────────────────────────────────


def _sheet_blocks(sheet: Any, unsolved: _Formulas, notes: list[str]) -> Iterator[Block]:
    """Tables and the lines between them: above a table its title or unit; 注：… belongs to the one before.

    A line belongs to the table below it where no other table is between them.
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
    """With the lines above it: units as notes, the others before its own title."""
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
    """The filled cells by position, merged ones with their spans.

    Read from the sheet's own mapping: walking rows and columns would visit every empty slot up to the last used one,
    seventeen billion in a sheet with one cell in its far corner.
    """
    spans = {(m.min_row, m.min_col): (m.size["rows"], m.size["columns"]) for m in sheet.merged_cells.ranges}
    hidden = _hidden_columns(sheet)
    found: dict[tuple[int, int], Cell] = {}
    left_out: set[int] = set()
    for at, stored in sheet._cells.items():
        cell = _shown(stored) if at not in unsolved else Cell(unsolved[at], value=unsolved[at], kind="text")
        if cell.text and at[1] in hidden and spans.get(at, (1, 1))[1] == 1:
            left_out.add(at[1])
        elif cell.text:
            rows, columns = spans.get(at, (1, 1))
            found[at] = replace(cell, row_span=rows, col_span=columns) if rows * columns > 1 else cell
    if left_out:
        names = "、".join(column_letters(column) for column in sorted(left_out)[:10])
        notes.append(f"工作表“{sheet.title}”的 {names} 列是隐藏的，未收录")
    folded = {row for row, dimension in sheet.row_dimensions.items() if dimension.hidden} & {row for row, _ in found}
    if folded:
        notes.append(f"工作表“{sheet.title}”有 {len(folded)} 行被隐藏（筛选或折叠），照常收录")
    return found | _days(sheet, found)


def _days(sheet: Any, cells: Mapping[tuple[int, int], Cell]) -> dict[tuple[int, int], Cell]:
    """The days that lost their format when they were pasted, as days: 45123 below 入职日期."""
    columns: dict[tuple[int, str], list[tuple[int, int]]] = {}
    names: dict[int, str] = {}
    for at in sorted(cells):
        if cells[at].kind == "text":
            names[at[1]] = cells[at].text
        else:
            columns.setdefault((at[1], names.get(at[1], "")), []).append(at)
    found = {}
    for (_, name), column in columns.items():
        has_day = any(cells[at].kind == "date" for at in column)
        if _DATE_NAME.search(name) or (has_day and _TIME_NAME.search(name)):
            for at in column:
                if _is_serial(cells[at]) and sheet._cells[at].number_format == "General":
                    text = _iso(from_excel(cells[at].value, sheet.parent.epoch))
                    found[at] = replace(cells[at], text=text, value=text, kind="date")
    return found


def _is_serial(cell: Cell) -> bool:
    return cell.kind == "number" and isinstance(cell.value, int) and cell.value in _SERIALS


def _hidden_columns(sheet: Any) -> frozenset[int]:
    """Columns that are hidden by themselves; those of a folded group are only folded."""
    found: set[int] = set()
    for letters, column in sheet.column_dimensions.items():
        first = column.min or (position(f"{letters}1") or (1, 0))[1]
        if column.hidden and not column.outlineLevel:
            found.update(range(first, min(column.max or first, first + 16_384) + 1))
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
        return shown_number(value, str(cell.number_format))
    text = _hours(value) if isinstance(value, timedelta) else clean(str(value))
    return Cell(text, value=text, kind="text")


def _iso(value: datetime | date | time) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.replace(microsecond=0).isoformat(" ")
    return value.isoformat()


def _hours(value: timedelta) -> str:
    minutes, seconds = divmod(round(value.total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


# ── numbers as their format shows them ────────────────────────────────────────────────────────────

_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]|\[[^\]]*\]'
    r"|(?P<pattern>General|@|[0#?][0#?,]*(?:\.[0#?]*)?,*(?:[Ee][+-][0#?]+)?)|(?P<literal>.)"
)
_LONGEST_FORMAT: Final = 255  # characters: Excel writes no more
_CURRENCIES: Final = {
    **{"¥": "元", "￥": "元", "RMB": "元", "CNY": "元", "HK$": "港元", "$": "美元", "US$": "美元", "USD": "美元"},
    **{"€": "欧元", "EUR": "欧元", "£": "英镑", "GBP": "英镑"},
}


_LARGEST_SET: Final = Decimal(10) ** 18  # beyond it a pattern would only add noughts


@dataclass(frozen=True, slots=True)
class _Format:
    """One section of a number format: the text before and after the digits, and their pattern."""

    before: str
    after: str
    digits: str  # "" where the format is General, or one that is not understood
    percent: bool


def shown_number(value: int | float, number_format: str) -> Cell:
    """Excel keeps fifteen digits of a number; what lies beyond is noise of binary fractions."""
    exact = value if isinstance(value, int) else _whole(float(f"{value:.15g}"))
    shape = _read(number_format)
    if shape.percent:
        text = f"{_set(Decimal(str(exact)) * 100, shape.digits or '0')}%"
        return Cell(text, value=exact, kind="percent")
    if re.fullmatch("00+", shape.digits) and isinstance(exact, int) and not shape.before + shape.after:
        text = str(exact).zfill(len(shape.digits))  # a code: 000123 is no quantity
        return Cell(text, value=text, kind="text")
    bare = _set(Decimal(str(exact)), shape.digits)
    before, after = shape.before, shape.after
    text = f"-{before}{bare[1:]}{after}" if bare.startswith("-") else f"{before}{bare}{after}"
    if after.strip() in ("%", "％"):
        return Cell(text, value=float(Decimal(str(exact)) / 100), kind="percent")
    unit = after.strip() or _CURRENCIES.get(before.strip(), "")
    if is_money_unit(unit) or before.strip() in _CURRENCIES:
        return Cell(text, value=exact, kind="money", unit=unit)
    return Cell(text, value=exact, kind="number", unit=unit if is_measure(unit) else "")


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


@lru_cache(maxsize=1_000)
def _read(number_format: str) -> _Format:
    before = after = digits = ""
    percent = False
    for token in _TOKEN.finditer(number_format[:_LONGEST_FORMAT].split(";")[0]):
        if token["pattern"] is not None:
            if digits:  # 0!.0, and 000-0000: not one number with words around it
                return _Format("", "", "", percent)
            digits = token["pattern"]
            continue
        words = token["quoted"] or token["escaped"] or token["currency"] or token["literal"] or ""
        if token["literal"] == "%":
            percent = True
        elif digits:
            after += words
        else:
            before += words
    plain = digits in ("General", "@") or "e" in digits.lower() or digits.endswith(",")
    marks = before.strip("( ") + after.strip(") ")
    if plain and not marks:
        return _Format("", "", "", percent)
    return _Format(before.replace("(", "").strip(), after.replace(")", "").rstrip(), "" if plain else digits, percent)


def _set(number: Decimal, digits: str) -> str:
    """A number under a pattern such as #,##0.00; as it is where there is none."""
    whole, dot, after = digits.partition(".")
    if not digits or abs(number) >= _LARGEST_SET:
        return f"{number.normalize():f}" if number else "0"
    most = len(after) if dot else 0
    least = len(after.rstrip("#?")) if dot else 0
    text = f"{number.quantize(Decimal(1).scaleb(-most), rounding=ROUND_HALF_UP):f}"
    if most > least:
        head, _, tail = text.partition(".")
        tail = tail.rstrip("0").ljust(least, "0")
        text = f"{head}.{tail}" if tail else head
    if text.startswith("-") and not any(mark in "123456789" for mark in text):
        text = text[1:]
    if "," in whole:
        sign = "-" if text.startswith("-") else ""
        head, point, tail = text.lstrip("-").partition(".")
        text = f"{sign}{int(head or 0):,}{point}{tail}"
    return text
