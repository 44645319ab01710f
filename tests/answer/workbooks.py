"""Workbooks made at random, with everything about them known: what stands in which row, and how it is laid out."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import xlsxwriter

LABELS = ("门店", "学校", "客户", "仓库", "酒店", "景区", "工厂", "医院")
CITIES = ("北京", "上海", "广州", "深圳", "杭州", "成都")
FIRST_DAY = date(2001, 1, 1)


@dataclass(frozen=True)
class Row:
    name: str
    city: str
    opened: date
    sales: Decimal  # 万元, two decimals
    returned: int  # hundredths of a percent
    staff: int


@dataclass(frozen=True)
class Layout:
    """How a table is written down."""

    title: str  # none | merged | single | apart
    unit: str  # header | format | left | right
    header: str  # flat | merged | loose
    blank: float  # how often an empty row stands before a row of values
    total: str  # none | value | formula
    below: str  # none | note | apart | signed
    hidden_column: bool
    hidden_rows: bool
    texts: bool  # some numbers are stored as text, some cells say 暂无


@dataclass
class Written:
    """A table as it stands on a sheet; what its cells should show is worked out from its rows."""

    label: str
    rows: tuple[Row, ...]
    layout: Layout
    sheet: str = ""
    title: str = ""
    staff_unknown: set[int] = field(default_factory=set)

    @property
    def columns(self) -> list[str]:
        over = "" if self.layout.header == "flat" else "2024年 / "
        unit = "（万元）" if self.layout.unit == "header" else ""
        return [f"{self.label}名称", "城市", "开业日期", f"{over}销售额{unit}", f"{over}退货率", "员工数"]


def random_layout(chance: random.Random) -> Layout:
    return Layout(
        chance.choice(("none", "merged", "single", "apart")),
        chance.choice(("header", "format", "left", "right")),
        chance.choice(("flat", "merged", "loose")),
        chance.choice((0.0, 0.05, 0.2)),
        chance.choice(("none", "value", "formula")),
        chance.choice(("none", "note", "apart", "signed")),
        chance.random() < 0.2,
        chance.random() < 0.2,
        chance.random() < 0.3,
    )


def random_rows(chance: random.Random, label: str, count: int) -> tuple[Row, ...]:
    sales = chance.sample(range(1, 10_000_000), count)
    return tuple(
        Row(
            f"{label}{chance.choice('甲乙丙丁')}{number:05d}号",
            chance.choice(CITIES),
            FIRST_DAY + timedelta(days=chance.randrange(8_000)),
            Decimal(sales[number]) / 100,
            chance.randrange(1, 10_000),
            chance.randrange(1, 5_000),
        )
        for number in range(count)
    )


def make_workbook(path: Path, seed: int, rows: int = 0) -> list[Written]:
    """One to three sheets with one to three tables each; ``rows`` makes one table of that many rows instead."""
    chance = random.Random(seed)
    labels = chance.sample(LABELS, len(LABELS))
    book = xlsxwriter.Workbook(str(path))
    made: list[Written] = []
    for number in range(1 if rows else chance.randint(1, 3)):
        sheet = book.add_worksheet(f"数据{number + 1}")
        arrangement = chance.choice(("one", "below", "beside", "beside under one title"))
        count = 1 if rows or arrangement == "one" else 2
        tables = [
            Written(
                label := labels.pop(),
                random_rows(chance, label, rows or chance.randint(6, 30)),
                random_layout(chance),
                sheet.get_name(),
            )
            for _ in range(count)
        ]
        _arrange(book, sheet, tables, arrangement, chance)
        made += tables
    book.close()
    return made


def _arrange(book: Any, sheet: Any, tables: list[Written], arrangement: str, chance: random.Random) -> None:
    top = chance.choice((0, 0, 2))
    left = chance.choice((0, 0, 1))
    if arrangement == "beside under one title":
        sheet.merge_range(top, left, top, left + 14, "两类单位经营情况", book.add_format({"align": "center"}))
        top += 1
    for table in tables:
        below = _write(book, sheet, top, left, table, chance)
        if arrangement == "below":
            top = below + chance.choice((1, 2, 3))
        else:
            left += 8 + chance.choice((0, 1))


def _write(book: Any, sheet: Any, top: int, left: int, table: Written, chance: random.Random) -> int:
    layout = table.layout
    row = _write_above(book, sheet, top, left, table)
    row = _write_header(book, sheet, row, left, table)
    first = row
    for number, each in enumerate(table.rows):
        if chance.random() < layout.blank and number > 0:
            row += chance.choice((1, 1, 2))
        _write_row(book, sheet, row, left, table, number, each, chance)
        if layout.hidden_rows and chance.random() < 0.3:
            sheet.set_row(row, None, None, {"hidden": True})
        row += 1
    if layout.total != "none":
        total = float(sum((each.sales for each in table.rows), Decimal(0)))
        sheet.write(row, left, "合计")
        money = _format(book, _money_format(layout))
        if layout.total == "formula":
            span = f"{_letters(left + 3)}{first + 1}:{_letters(left + 3)}{row}"
            sheet.write_formula(row, left + 3, f"=SUM({span})", money, total)
        else:
            sheet.write_number(row, left + 3, total, money)
        row += 1
    return _write_below(sheet, row, left, layout)


def _write_above(book: Any, sheet: Any, row: int, left: int, table: Written) -> int:
    layout = table.layout
    if layout.title != "none":
        table.title = f"{table.label}经营情况表"
        if layout.title == "merged":
            sheet.merge_range(row, left, row, left + 5, table.title, book.add_format({"bold": True}))
        else:
            sheet.write(row, left, table.title)
        row += 2 if layout.title == "apart" else 1
    if layout.unit in ("left", "right"):
        sheet.write(row, left if layout.unit == "left" else left + 5, "单位：万元")
        row += 1
    return row


def _write_header(book: Any, sheet: Any, row: int, left: int, table: Written) -> int:
    names = [name.rpartition(" / ")[2] for name in table.columns]
    if table.layout.header == "flat":
        for at, name in enumerate(names):
            sheet.write(row, left + at, name)
        row += 1
    else:
        plain = book.add_format({"bold": True})
        for at in (0, 1, 2, 5):
            if table.layout.header == "merged":
                sheet.merge_range(row, left + at, row + 1, left + at, names[at], plain)
            else:
                sheet.write(row, left + at, names[at])
        if table.layout.header == "merged":
            sheet.merge_range(row, left + 3, row, left + 4, "2024年", plain)
        else:
            sheet.write(row, left + 3, "2024年")
        sheet.write(row + 1, left + 3, names[3])
        sheet.write(row + 1, left + 4, names[4])
        row += 2
    if table.layout.hidden_column:
        sheet.write(row - 1, left + 6, "内部编码")
        sheet.set_column(left + 6, left + 6, None, None, {"hidden": True})
    return row


def _write_row(
    book: Any, sheet: Any, row: int, left: int, table: Written, number: int, each: Row, chance: random.Random
) -> None:
    layout = table.layout
    sheet.write_string(row, left, each.name)
    sheet.write_string(row, left + 1, each.city)
    day = chance.choice(("yyyy-mm-dd", "yyyy/m/d", 'yyyy"年"m"月"d"日"'))
    sheet.write_datetime(row, left + 2, each.opened, _format(book, day))
    money = _format(book, _money_format(layout))
    if chance.random() < 0.2:
        sheet.write_formula(row, left + 3, f"={each.sales}", money, float(each.sales))
    else:
        sheet.write_number(row, left + 3, float(each.sales), money)
    sheet.write_number(row, left + 4, each.returned / 10_000, _format(book, "0.00%"))
    if layout.texts and chance.random() < 0.1:
        table.staff_unknown.add(number)
        sheet.write_string(row, left + 5, "—")
    elif layout.texts and chance.random() < 0.1:
        sheet.write_string(row, left + 5, str(each.staff))
    else:
        sheet.write_number(row, left + 5, each.staff)
    if layout.hidden_column:
        sheet.write_number(row, left + 6, chance.randrange(10_000))


def _format(book: Any, number_format: str) -> Any:
    """The same format object for the same format: a workbook has few."""
    made = next((each for each in book.formats if each.num_format == number_format), None)
    return made or book.add_format({"num_format": number_format})


def _money_format(layout: Layout) -> str:
    return '#,##0.00"万元"' if layout.unit == "format" else "#,##0.00"


def _write_below(sheet: Any, row: int, left: int, layout: Layout) -> int:
    if layout.below == "none":
        return row
    if layout.below == "signed":
        sheet.write(row, left, "制表人：张三")
        sheet.write(row, left + 3, "审核人：李四")
        return row + 1
    row += layout.below == "apart"
    sheet.write(row, left, "注：销售额不含税。")
    return row + 1


def _letters(column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
