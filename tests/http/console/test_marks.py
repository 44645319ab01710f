"""Texts of documents as the pages show them."""

from __future__ import annotations

from qianxun.doors.http.console.charts import bar_plot
from qianxun.doors.http.console.marks import excerpt, table_excerpt

PRICES = """办公用品价目
| 编号 | 品名 | 单价（元） |
| QH-1 | 白板笔 | 12.8 |
| QH-2 | 升降\\|书桌 | 2199 |
| QH-3 | <b>椅子</b> | |
价格含税"""


def test_a_table_shows_the_rows_that_match_cell_by_cell() -> None:
    shown = table_excerpt(PRICES, "书桌多少钱")
    assert "<p>办公用品价目</p>" in shown
    assert "<thead><tr><th>编号</th><th>品名</th><th>单价（元）</th></tr></thead>" in shown
    assert "<tbody><tr><td>QH-2</td><td>升降|<mark>书桌</mark></td><td>2199</td></tr></tbody>" in shown
    assert "白板笔" not in shown


def test_cells_are_text_and_an_empty_one_is_a_cell() -> None:
    shown = table_excerpt(PRICES, "QH-3 椅子")
    assert "<td>&lt;b&gt;<mark>椅子</mark>&lt;/b&gt;</td><td></td></tr>" in shown
    assert "<b>" not in shown


def test_a_table_without_pipes_is_prose() -> None:
    assert table_excerpt("第一行\n第二行", "第二行") == "第一行 <mark>第二行</mark>"


def test_prose_is_one_line_around_what_matches() -> None:
    assert excerpt("退休\n人员  报销", "报销") == "退休 人员 <mark>报销</mark>"


def test_the_scale_of_a_plot_has_room_for_its_number() -> None:
    """Left of the plot there are thirty units: 165 ms was cut off."""
    drawn = bar_plot([("22:00", 165.2)], "平均用时", unit=" ms")
    assert ">165</text>" in drawn
    assert "22:00: 165 ms" in drawn
