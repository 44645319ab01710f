"""Tables that plain text draws with pipes, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.linear import is_linear

from qianxun.core.types import Text
from qianxun.ingest.assemble import assemble, read_structure
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

RAILWAYS = "年份 | 铁路营业里程 | 同比增长\n2012 | 9 | 2.4%\n2015 | 12.7 | 5.6%"


def spans_hold(text: Text) -> None:
    """Each row begins where its line begins, and shows its cells there."""
    for span in text.tables:
        assert len(span.row_starts) == len(span.table.texts)
        for start, cells in zip(span.row_starts, span.table.texts, strict=True):
            line = text.content[start:].split("\n", 1)[0]
            assert start == 0 or text.content[start - 1] == "\n"
            assert all(part in line for cell in cells for part in cell.split(" | "))
            assert span.start <= start < span.end


def test_lines_that_agree_on_their_pipes_are_a_table_titled_by_the_document() -> None:
    text = read_structure(RAILWAYS, "text", name="铁路运输.txt")
    (span,) = text.tables
    assert text.content == RAILWAYS
    assert (span.start, span.end) == (0, len(RAILWAYS))
    assert span.table.title == "铁路运输"
    assert [column.name for column in span.table.columns] == ["年份", "铁路营业里程", "同比增长"]
    assert [column.kind for column in span.table.columns] == ["number", "number", "percent"]
    assert span.table.rows == ((2012, 9, 0.024), (2015, 12.7, 0.056))
    spans_hold(text)


def test_the_line_above_is_the_caption_and_belongs_to_the_table() -> None:
    text = read_structure("交通运输 铁路运输旅客\n" + RAILWAYS, "text", name="别的名字")
    (span,) = text.tables
    assert span.table.title == "交通运输 铁路运输旅客"
    assert span.start == 0
    (piece,) = ChunkSplitter().pieces(text)
    assert (piece.kind, piece.body) == ("table", text.content)


def test_a_sentence_above_is_prose_and_not_the_caption() -> None:
    text = read_structure("历年情况如下：\n" + RAILWAYS + "\n以上数据来自年报。", "text", name="年报")
    (span,) = text.tables
    assert span.table.title == "年报"
    assert [piece.kind for piece in ChunkSplitter().pieces(text)] == ["text", "table", "text"]
    spans_hold(text)


def test_blank_cells_at_the_end_are_cells_and_outer_pipes_are_none() -> None:
    open_ended = read_structure("项目 | 期末余额 | 备注\n应收利息 |  | \n应收股利 | 3 | 已收", "text")
    assert open_ended.tables[0].table.texts == (("应收利息", "", ""), ("应收股利", "3", "已收"))
    framed = read_structure("| 项目 | 余额 |\n| 利息 | 5 |\n|  | 6 |", "text")
    assert framed.tables[0].table.texts == (("利息", "5"), ("", "6"))
    ruled = read_structure("项目 | 余额\n---|---:\n利息 | 5\n股利 | 6", "text")
    assert ruled.tables[0].table.texts == (("利息", "5"), ("股利", "6"))
    drawn = read_structure("+----+----+\n| 项目 | 余额 |\n+----+----+\n| 利息 | 5 |\n+----+----+", "text")
    assert drawn.tables[0].table.texts == (("利息", "5"),)
    for text in (open_ended, framed, ruled, drawn):
        spans_hold(text)


def test_later_row_groups_repeat_caption_and_header() -> None:
    rows = "\n".join(f"客户{n} | {n * 10} | 华东" for n in range(1, 200))
    text = read_structure("销售明细\n客户 | 金额 | 大区\n" + rows, "text")
    pieces = ChunkSplitter(200, 20).pieces(text)
    assert len(pieces) > 10
    assert {piece.table for piece in pieces} == {0}
    assert all(piece.text.startswith("销售明细\n客户 | 金额 | 大区\n") for piece in pieces)
    assert all(text.content[piece.start : piece.end] == piece.body for piece in pieces)


def test_a_row_that_lost_a_merged_cell_stands_whole() -> None:
    text = read_structure(
        "担保单位 | 抵押权人 | 标的物 | 余额\n本公司 | 南京银行 | 厂房 | 334.00\n"
        "本公司 | 上海银行 | 400.00\n甲 | 乙 | 丙 | 5",
        "text",
    )
    (span,) = text.tables
    assert span.table.texts[1] == ("本公司 | 上海银行 | 400.00", "", "", "")
    assert span.table.columns[3].name == "余额"
    spans_hold(text)


def test_a_header_over_two_lines_is_joined_where_only_one_reading_is_left() -> None:
    text = read_structure(
        "项目 | 期末余额 | 期初余额\n账面余额 | 坏账准备 | 账面余额 | 坏账准备\n其他应收款 | 200 | 10 | 180 | 9", "text"
    )
    (span,) = text.tables
    names = [column.name for column in span.table.columns]
    assert names == [
        "项目",
        "期末余额 / 账面余额",
        "期末余额 / 坏账准备",
        "期初余额 / 账面余额",
        "期初余额 / 坏账准备",
    ]
    assert span.table.rows == (("其他应收款", 200, 10, 180, 9),)


@pytest.mark.parametrize(
    "prose",
    [
        "首页 | 关于我们 | 联系方式",
        "他说 a | b 表示或者。\n这里没有表格。",
        "cat 日志.txt | grep 错误\nls -l | wc -l",
        "ps aux | sort -k3 | head\ndocker ps | awk '{print $1}' | xargs docker stop",
        "type Kind = 'text' | 'table'\ntype Mode = 'a' | 'b'",
        "value: int | None\nother: str | None",
        "expr ::= term | expr + term\nterm ::= factor | term * factor",
        "if (a || b) {\n  return c || d;\n}",
        r"  /\_/\  |" + "\n" + r" ( o.o ) |" + "\n" + r"  > ^ <  |",
        " _____\n|     |\n|  o  |\n|_____|",
        "|x| 表示绝对值。\n它总是不小于零。",
    ],
)
def test_what_only_has_pipes_in_it_stays_prose(prose: str) -> None:
    assert read_structure(prose, "text").tables == ()


def test_a_text_file_gives_the_table_between_its_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "门店.txt"
    table = "水果价目\n品名 | 单价（元）\n苹果 | 5.5\n香蕉 | 3"
    path.write_text(f"第一章 概况\n本店经营水果。\n\n{table}\n\n欢迎选购。", encoding="utf-8")
    text = assemble(parse(path, ParseLimits()))
    assert text.content == path.read_text("utf-8")
    (span,) = text.tables
    assert text.content[span.start : span.end] == table
    assert (span.table.title, span.table.rows) == ("水果价目", (("苹果", 5.5), ("香蕉", 3)))
    assert [mark.title for mark in text.marks] == ["第一章 概况"]


def test_markdown_rows_without_their_rule_are_a_table_and_code_is_not() -> None:
    text = read_structure("# 水果\n\n品名 | 单价\n苹果 | 5\n香蕉 | 3\n\n```\n甲 | 乙\n丙 | 丁\n```\n", "markdown")
    assert [(span.table.title, span.table.rows) for span in text.tables] == [("水果", (("苹果", 5), ("香蕉", 3)))]


def test_a_markdown_table_without_a_heading_is_titled_by_the_document_but_its_text_stays() -> None:
    text = read_structure("| 甲 | 乙 |\n|---|---|\n| 1 | 2 |", "markdown", name="对照.md")
    assert text.tables[0].table.title == "对照"
    assert "对照" not in text.content


def test_a_line_that_is_almost_a_rule_takes_linear_time() -> None:
    def work(characters: int) -> Callable[[], object]:
        text = "a|b\n" + "=" * characters + "x"
        return lambda: read_structure(text, "text")

    assert is_linear(work, 250)  # it was a cube: a second for these
    assert is_linear(work, 50_000)


def test_many_lines_with_pipes_take_linear_time() -> None:
    text = read_structure("\n".join("a | b" if n % 2 else "x" for n in range(40_000)), "text")
    assert text.tables == ()
    wide = read_structure("\n".join("|" * 2_000 for _ in range(200)), "text")
    assert wide.tables == ()
