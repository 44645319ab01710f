"""How people lay out a sheet, and what is read from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import xlsxwriter
from tests.linear import is_linear

from qianxun.core.errors import Unreadable
from qianxun.core.types import ParsedFile, Table, TableBlock
from qianxun.ingest.parse import parse
from qianxun.ingest.parse.spreadsheet.sheet_regions import regions
from qianxun.ingest.parse.spreadsheet.xlsx import shown_number
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell

Rows = Sequence[Sequence[object]]


def read(
    path: Path, rows: Rows, merged: Sequence[str] = (), other: Rows = (), at: tuple[int, int] = (0, 0)
) -> ParsedFile:
    """A sheet called 表 with these rows, and with other ones from ``at`` on."""
    book = xlsxwriter.Workbook(str(path / "a.xlsx"))
    sheet = book.add_worksheet("表")
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for top, left, part in ((0, 0, rows), (*at, other)):
        for r, row in enumerate(part, top):
            for c, value in enumerate(row, left):
                if value is not None:
                    sheet.write(r, c, value, day if isinstance(value, date) else None)
    for area in merged:
        sheet.merge_range(area, _at(rows, area), book.add_format())
    book.close()
    return parse(path / "a.xlsx", ParseLimits())


def _at(rows: Rows, area: str) -> Any:
    first = area.partition(":")[0]
    return rows[int(first[1:]) - 1][ord(first[0]) - 65]


def tables(parsed: ParsedFile) -> list[Table]:
    return [block.table for block in parsed.blocks if isinstance(block, TableBlock)]


def names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def test_tables_right_below_one_another(tmp_path: Path) -> None:
    rows = [["甲表"], ["品名", "数量", "单价"], ["苹果", 3, 4], ["梨", 5, 6]]
    rows += [["乙表"], ["城市", "人口", "面积"], ["杭州", 1200, 16], ["宁波", 900, 9]]
    first, second = tables(read(tmp_path, rows, ["A1:C1", "A5:C5"]))
    assert (first.title, names(first), len(first.rows)) == ("甲表", ["品名", "数量", "单价"], 2)
    assert (second.title, names(second), second.rows[1]) == ("乙表", ["城市", "人口", "面积"], ("宁波", 900, 9))


def test_a_header_that_is_printed_again_is_no_row(tmp_path: Path) -> None:
    header = ["品名", "数量", "单价"]
    (table,) = tables(read(tmp_path, [header, ["苹果", 3, 4], ["梨", 5, 6], header, ["桃", 7, 8]]))
    assert table.rows == (("苹果", 3, 4), ("梨", 5, 6), ("桃", 7, 8))


def test_who_made_it_when_and_in_what_unit_stands_above(tmp_path: Path) -> None:
    rows = [
        ["资产负债表", None, None, None],
        ["编制单位：青禾公司", None, "2023年12月31日", "单位：元"],
        ["资产", "期末余额", "期初余额", "备注"],
        ["货币资金", 100, 90, None],
        ["应收账款", 50, 40, None],
        ["制表：王五", None, None, "日期：2024-01-05"],
    ]
    (table,) = tables(read(tmp_path, rows, ["A1:D1"]))
    assert table.title == "资产负债表 2023年12月31日"
    assert table.notes == "编制单位：青禾公司\n单位：元\n制表：王五 日期：2024-01-05"
    assert names(table)[1] == "期末余额"
    assert len(table.rows) == 2


def test_a_merged_category_stands_in_each_of_its_rows(tmp_path: Path) -> None:
    rows = [
        ["大区", "城市", "销售额"],
        ["华东", "上海", 10],
        [None, "杭州", 20],
        ["华南", "广州", 30],
        [None, "深圳", 40],
    ]
    (table,) = tables(read(tmp_path, rows, ["A2:A3", "A4:A5"]))
    assert [row[0] for row in table.rows] == ["华东", "华东", "华南", "华南"]


@pytest.mark.parametrize(
    "rows",
    [
        [["姓名", "部门"], ["张三", "财务部"], ["李四", "人事部"], [], ["王五", "财务部"]],
        [["品名", "数量"], [], ["苹果", 3], ["梨", 5], ["桃", 6]],
        [["品名", "数量"], ["苹果", 3], [], [], ["梨", "5"], ["桃", "—"]],
        [["品名", "日期"], ["苹果", date(2023, 1, 1)], [], ["梨", date(2023, 1, 2)], ["桃", date(2023, 1, 3)]],
    ],
)
def test_blank_rows_inside(tmp_path: Path, rows: Rows) -> None:
    (table,) = tables(read(tmp_path, rows))
    assert names(table) == list(rows[0])
    assert len(table.rows) == 3


def test_two_tables_of_the_same_columns_with_a_header_each_are_two(tmp_path: Path) -> None:
    rows = [["品名", "数量"], ["苹果", 3], ["梨", 5], [], ["品名", "数量"], ["桃", 7]]
    assert [len(table.rows) for table in tables(read(tmp_path, rows))] == [2, 1]


def test_a_mosaic_of_tables(tmp_path: Path) -> None:
    left = [["部门", "预算"], ["教育", 100], ["卫生", 80], [], ["文化", 30]]
    right = [["年份", "人口"], [2021, 5], [2022, 6], [2023, 7], [], [], ["年份", "产值"], [2021, 50]]
    found = {tuple(names(table)): table for table in tables(read(tmp_path, left, other=right, at=(0, 3)))}
    assert found["部门", "预算"].rows == (("教育", 100), ("卫生", 80), ("文化", 30))
    assert found["年份", "人口"].rows == ((2021, 5), (2022, 6), (2023, 7))
    assert found["年份", "产值"].rows == ((2021, 50),)


def test_one_title_over_two_tables_side_by_side(tmp_path: Path) -> None:
    left = [["经营情况", None, None, None, None], ["品名", "数量"], ["苹果", 3], ["梨", 5]]
    right = [["城市", "人口"], ["杭州", 1200]]
    found = tables(read(tmp_path, left, ["A1:E1"], right, (1, 3)))
    assert [(table.title, names(table)) for table in found] == [
        ("经营情况", ["品名", "数量"]),
        ("经营情况", ["城市", "人口"]),
    ]


def test_headers_of_three_lines_of_years_and_of_dates(tmp_path: Path) -> None:
    rows = [
        ["地区", "2023年", None, None, None],
        [None, "上半年", None, "下半年", None],
        [None, "收入", "成本", "收入", "成本"],
        ["华东", 1, 2, 3, 4],
    ]
    (table,) = tables(read(tmp_path, rows, ["A1:A3", "B1:E1", "B2:C2", "D2:E2"]))
    assert table.columns[3].path == ("2023年", "下半年", "收入")
    (years,) = tables(read(tmp_path, [["地区", 2021, 2022], ["华东", 1, 2]]))
    assert names(years) == ["地区", "2021", "2022"]
    (days,) = tables(read(tmp_path, [["项目", date(2023, 1, 1)], ["收入", 100]]))
    assert names(days) == ["项目", "2023-01-01"]


def test_names_over_several_columns_that_were_not_merged(tmp_path: Path) -> None:
    rows = [["地区", "2022年", None, "2023年", None], [None, "收入", "成本", "收入", "成本"], ["华东", 1, 2, 3, 4]]
    (table,) = tables(read(tmp_path, rows))
    assert names(table) == ["地区", "2022年 / 收入", "2022年 / 成本", "2023年 / 收入", "2023年 / 成本"]
    assert table.rows == (("华东", 1, 2, 3, 4),)


@pytest.mark.parametrize(
    ("value", "number_format", "text", "held", "kind", "unit"),
    [
        (1234567.5, '"¥"#,##0.00', "¥1,234,567.50", 1234567.5, "money", "元"),
        (-3.5, '"¥"#,##0.00_);("¥"#,##0.00)', "-¥3.50", -3.5, "money", "元"),
        (3, "[$$-409]#,##0", "$3", 3, "money", "美元"),
        (5, '0.0"万元"', "5.0万元", 5, "money", "万元"),
        (5, '0"人"', "5人", 5, "number", "人"),
        (0.125, "0%", "13%", 0.125, "percent", ""),
        (12, '0"%"', "12%", 0.12, "percent", ""),
        (2.675, "0.00", "2.68", 2.675, "number", ""),
        (0.1 + 0.2, "General", "0.3", 0.3, "number", ""),
        (123, "000000", "000123", "000123", "text", ""),
        (1e300, "0.00", f"{1e300:.0f}"[:1], 1e300, "number", ""),
    ],
)
def test_numbers_as_excel_shows_them(
    value: float, number_format: str, text: str, held: object, kind: str, unit: str
) -> None:
    shown = shown_number(value, number_format)
    assert (shown.value, shown.kind, shown.unit) == (held, kind, unit)
    assert shown.text == text or shown.text.startswith(text + "0" * 100)


def test_amounts_in_two_currencies_are_not_one_column_of_numbers(tmp_path: Path) -> None:
    book = xlsxwriter.Workbook(str(tmp_path / "a.xlsx"))
    sheet = book.add_worksheet()
    sheet.write_row(0, 0, ["项目", "金额"])
    for row, (name, shape) in enumerate((("甲", '"¥"0.00'), ("乙", "[$$-409]0.00")), 1):
        sheet.write(row, 0, name)
        sheet.write(row, 1, 5, book.add_format({"num_format": shape}))
    book.close()
    (table,) = tables(parse(tmp_path / "a.xlsx", ParseLimits()))
    assert [row[1] for row in table.rows] == ["¥5.00", "$5.00"]


def test_an_empty_sheet_costs_nothing(tmp_path: Path) -> None:
    """Excel used to give a new workbook three sheets, and most people fill only the first."""
    book = xlsxwriter.Workbook(str(tmp_path / "a.xlsx"))
    for name in ("Sheet1", "Sheet2", "Sheet3"):
        book.add_worksheet(name)
    for r, row in enumerate([["姓名", "分数"], ["张三", 90]]):
        book.get_worksheet_by_name("Sheet1").write_row(r, 0, row)
    book.close()
    (table,) = tables(parse(tmp_path / "a.xlsx", ParseLimits()))
    assert table.rows == (("张三", 90),)


def test_an_empty_workbook_says_that_it_is(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="没有可收录的文字"):
        read(tmp_path, [])


@pytest.mark.parametrize(
    "rows",
    [
        [["职级", None, "一线城市", None, "二线城市"], ["总监", None, 800, None, 600], ["经理", None, 600, None, 450]],
        [["职级", None, "一线城市", "二线城市"], ["总监", None, 800, 600], ["经理", None, 600, 450], ["注：含早餐"]],
    ],
)
def test_blank_columns_inside(tmp_path: Path, rows: Rows) -> None:
    (table,) = tables(read(tmp_path, rows))
    assert names(table) == ["职级", "一线城市", "二线城市"]
    assert table.rows == (("总监", 800, 600), ("经理", 600, 450))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([["水果", None, "城市"], ["苹果", None, "杭州"], ["梨", None, "宁波"]], []),  # two lists
        ([["产品", None, "年份", "收入"], ["苹果", None, 2021, 5], ["梨", None, 2022, 7]], [["年份", "收入"]]),
        (
            [["产品", "销量", None, "季度", "收入"], ["苹果", 4, None, 1, 5], ["梨", 9, None, 2, 7]],
            [["产品", "销量"], ["季度", "收入"]],
        ),
    ],
)
def test_what_stands_side_by_side_with_names_of_its_own_is_not_put_together(
    tmp_path: Path, rows: Rows, found: list[list[str]]
) -> None:
    assert [names(table) for table in tables(read(tmp_path, rows))] == found


@pytest.mark.parametrize("name", ["台账.xls", "台账.et", "台账"])
def test_a_new_workbook_under_an_old_name(tmp_path: Path, name: str) -> None:
    """What systems call an export, and what it is, differ; the content decides."""
    read(tmp_path, [["客户", "金额"], ["甲", 5], ["乙", 7]])
    (table,) = tables(parse((tmp_path / "a.xlsx").rename(tmp_path / name), ParseLimits()))
    assert table.rows == (("甲", 5), ("乙", 7))


def _spread(rows: Rows, gap: int = 1) -> Rows:
    """The same with blank rows and columns between all cells."""
    wide = [[cell for each in row for cell in (each, *[None] * gap)] for row in rows]
    return [line for row in wide for line in (row, *[[None]] * gap)]


@pytest.mark.parametrize("gap", [1, 2])
def test_blank_rows_and_columns_between_all_cells(tmp_path: Path, gap: int) -> None:
    rows = [["地区", "负责人", "销售额"], ["华东", "张伟", 1200], ["华北", "李娜", 900], ["华南", None, 700]]
    (table,) = tables(read(tmp_path, _spread(rows, gap)))
    assert names(table) == ["地区", "负责人", "销售额"]
    assert table.rows == (("华东", "张伟", 1200), ("华北", "李娜", 900), ("华南", None, 700))
    (titled,) = tables(read(tmp_path, _spread([["各地区销售情况"], *rows], gap)))
    assert (titled.title, names(titled)) == ("各地区销售情况", ["地区", "负责人", "销售额"])


def test_lists_of_words_that_stand_apart_are_not_put_together(tmp_path: Path) -> None:
    rows = [["水果", "城市"], ["苹果", "杭州"], ["梨", "宁波"]]
    assert tables(read(tmp_path, _spread(rows))) == []


def test_a_long_table_with_blank_rows_costs_what_its_rows_cost() -> None:
    def sheet(rows: int) -> Callable[[], object]:
        cells = {(1, 1): Cell("姓名", kind="text"), (1, 2): Cell("分数", kind="text")}
        for row in range(1, rows):
            cells[3 * row + 1, 1] = Cell(f"学生{row}", kind="text")
            cells[3 * row + 1, 2] = Cell(str(row), value=row, kind="number")
        return lambda: regions(cells)

    assert is_linear(sheet, 300)


def test_a_day_that_lost_its_format_is_a_day(tmp_path: Path) -> None:
    """Pasted without formats, a date of Excel is its number: 45123."""
    rows = [["姓名", "入职日期", "转正时间", "工号", "响应时间"], ["周敏", date(2019, 3, 4), 45123, 45123, 45123]]
    rows += [["陈可", 45123, date(2024, 2, 26), 45124, 45124], ["田甜", 20250302, "未转正", 45125, 45125]]
    (table,) = tables(read(tmp_path, rows))
    assert [row[1] for row in table.texts] == ["2019-03-04", "2023-07-16", "20250302"]
    assert [row[2] for row in table.texts] == ["2023-07-16", "2024-02-26", "未转正"]
    assert [row[3:] for row in table.rows] == [(45123, 45123), (45124, 45124), (45125, 45125)]


def test_a_number_beside_its_name_is_no_day(tmp_path: Path) -> None:
    rows = [["签订日期", date(2025, 3, 2), "到期", date(2026, 3, 1)], ["合同金额", 45123, "已付", 30000]]
    text = read(tmp_path, rows)
    assert "45123" in str(text.blocks)
    assert "30000" in str(text.blocks)
