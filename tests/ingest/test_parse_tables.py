"""Cells to values, grids to tables, tables to text with exact offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.types import Block, Column, Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse.pages.reflow import reflow
from qianxun.ingest.tables.cells import day, money, number, percent, read_column, unit_of
from qianxun.ingest.tables.grid import Cell, flow
from qianxun.ingest.tables.read_table import read_table
from qianxun.ingest.tables.render import render


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5), ("-3", -3), ("(12)", -12), ("−0.5", -0.5), ("1e3", 1000.0), ("0.10", 0.1),
        ("007", None), ("1,23", None), ("12345678901234567", None), ("3.1.4", None), ("", None), ("约5", None),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float | None) -> None:
    assert number(text) == value


def test_percentages_money_and_dates() -> None:
    assert (percent("12.5%"), percent("85％"), percent("85")) == (0.125, 0.85, None)
    assert (money("¥1,200"), money("3.5万元"), money("1.2亿元"), money("5元"), money("5")) == (
        1200, 35_000, 120_000_000, 5, None,
    )  # fmt: skip
    assert day("2023年1月5日") == day("2023/1/5") == day("2023-01-05") == day("2023.1.5") == "2023-01-05"
    assert (day("2023年1月"), day("2023-02-30"), day("1.5")) == ("2023-01", None, None)
    assert day("2023-01-05 8:30") == "2023-01-05T08:30"


def test_a_column_is_what_most_of_its_cells_are() -> None:
    mostly = read_column("数量（台）", ["1", "2", "—", "3", "4", "约5"])
    assert (mostly.kind, mostly.unit, mostly.values) == ("number", "台", (1, 2, None, 3, 4, "约5"))
    assert read_column("身份证号", ["123456", "234567"]).kind == "text"
    assert read_column("增长率(%)", ["10", "-5"]).values == (0.1, -0.05)
    assert (unit_of("金额（万元）"), unit_of("备注（选填）")) == ("万元", "")


def test_years_over_numbers_are_headers_and_numbers_over_numbers_are_not() -> None:
    years = read_table(flow([[Cell(t) for t in row] for row in (["地区", "2022", "2023"], ["浙江", "1", "2"])], 100))
    plain = read_table(flow([[Cell(t) for t in row] for row in (["浙江", "5", "6"], ["江苏", "1", "2"])], 100))
    assert years is not None
    assert [column.name for column in years.columns] == ["地区", "2022", "2023"]
    assert plain is not None
    assert len(plain.rows) == 2


@pytest.mark.parametrize(
    "above",
    [
        [["制表人：张三", "", "制表日期：2026-04-02", ""]],
        [["三月费用明细表", "", "", ""], ["部门：", "销售部", "", ""], ["制表人：张三", "", "", "日期：2026-04-02"]],
    ],
)
def test_what_is_said_above_the_names_is_no_header(above: list[list[str]]) -> None:
    rows = [["日期", "部门", "项目", "金额"], ["2026-03-02", "销售部", "差旅费", "3,280.50"]]
    table = read_table(flow([[Cell(text) for text in row] for row in (*above, *rows)], 100))
    assert table is not None
    assert [column.name for column in table.columns] == ["日期", "部门", "项目", "金额"]
    assert "制表人：张三" in table.notes
    assert len(table.rows) == 1


def test_a_list_of_labels_and_values_keeps_its_rows() -> None:
    rows = [["姓名：", "张三"], ["部门：", "技术部"], ["备注", "无"]]
    table = read_table(flow([[Cell(text) for text in row] for row in rows], 100))
    assert table is None or len(table.rows) >= 2


def test_a_form_has_no_header() -> None:
    rows = [
        [Cell("姓名"), Cell("张三"), Cell("性别"), Cell("男")],
        [Cell("住址"), Cell("杭州市西湖区", col_span=3)],
        [Cell("电话"), Cell("0571"), Cell("邮编"), Cell("310000")],
    ]
    swapped = read_table(flow([rows[1], rows[0], rows[2]], 100))
    assert swapped is not None
    assert swapped.texts[0] == ("住址", "杭州市西湖区", "", "")


words = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=8)


@given(st.lists(st.lists(words, min_size=2, max_size=4), min_size=1, max_size=6), words)
def test_row_offsets_point_at_their_rows(rows: list[list[str]], title: str) -> None:
    width = len(rows[0])
    texts = tuple(tuple((row + [""] * width)[:width]) for row in rows)
    columns = tuple(Column(f"列{i}", (f"列{i}",)) for i in range(width))
    table = Table(title.strip(), columns, texts, texts)
    text, starts = render(table)
    assert len(starts) == len(rows)
    for start, row in zip(starts, texts, strict=True):
        line = text[start:].split("\n")[0]
        assert line.startswith("| ")
        assert line.count("|") == width + 1
        assert row[0].replace("|", "｜").strip() in line or not row[0].isprintable()


blocks = st.lists(
    st.one_of(
        st.builds(Heading, words, st.integers(1, 6), st.none() | st.integers(1, 3)),
        st.builds(Paragraph, words, st.none() | st.integers(1, 3)),
        st.just(
            TableBlock(Table("表　题", (Column("甲", ("甲",)), Column("乙", ("乙",))), (("ａ", 1),), (("ａ", "1"),)), 2)
        ),
    ),
    max_size=8,
)


@given(blocks)
def test_every_offset_of_the_text_of_record_is_exact(found: list[Block]) -> None:
    text = assemble(ParsedFile(tuple(found), "txt"))
    for mark in text.marks:
        assert text.content[mark.start : mark.start + len(mark.title)] == mark.title
        assert mark.title
    for span in text.tables:
        assert text.content[span.start : span.end] == "表 题\n| 甲 | 乙 |\n| a | 1 |"
        assert [text.content[row:][:9] for row in span.row_starts] == ["| a | 1 |"]
    starts = [page.start for page in text.pages]
    assert starts == sorted(starts)
    assert all(start <= len(text.content) for start in starts)
    assert "\n\n\n" not in text.content


def test_reflow_joins_what_was_wrapped_and_nothing_else() -> None:
    lines = [
        "可用无钥匙启动功能启动、锁止或解锁车辆。为此，只需随身携带钥匙。无钥匙启动功能可以与传统钥",
        "匙的功能结合在一起使用。",
        "1. 车门",
        "2. 行李箱盖",
        "The quick brown fox jumps over the lazy dog and goes on its way through the for\ufffe",
        "est of wrapped lines.",
    ]
    assert reflow(lines) == [
        "可用无钥匙启动功能启动、锁止或解锁车辆。为此，只需随身携带钥匙。无钥匙启动功能可以与传统钥匙的功能结合在一起使用。",
        "1. 车门",
        "2. 行李箱盖",
        "The quick brown fox jumps over the lazy dog and goes on its way through the forest of wrapped lines.",
    ]


def test_a_header_over_a_column_that_says_nothing_is_read() -> None:
    rows = [
        [Cell("姓名"), Cell("单位"), Cell("成绩", col_span=3)],
        [Cell("张三"), Cell("甲"), Cell("90"), Cell("80"), Cell("")],
        [Cell("李四"), Cell("乙"), Cell("70"), Cell("60"), Cell("")],
    ]
    table = read_table(flow(rows, 100))
    assert table is not None
    assert [column.name for column in table.columns] == ["姓名", "单位", "成绩", "成绩"]
    assert table.texts[1] == ("李四", "乙", "70", "60")


def test_a_few_short_words_that_come_back_are_categories() -> None:
    assert read_column("大区", ["华东", "华南", "华东", "华东", "华南", "华北"] * 2).kind == "category"
    assert read_column("是否达标", ["达标", "达标", "未达标", "达标", "达标", "达标"]).kind == "category"
    assert read_column("大区", ["华东", "华南", "华东"]).kind == "text"  # too few rows to tell
    assert read_column("姓名", [f"员工{n}" for n in range(12)]).kind == "text"
    assert read_column("说明", ["这句话很长，不是哪一类事物的名字，只是碰巧重复了许多次。"] * 9).kind == "text"
    assert read_column("得分", ["1", "2"] * 6).kind == "number"


def test_a_header_of_two_rows_of_which_one_says_nothing_heads_no_table() -> None:
    grid = flow([[Cell("甲", row_span=2), Cell("乙", row_span=2)], [Cell("")]], 100)
    assert read_table(grid) is None
