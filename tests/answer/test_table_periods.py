"""What the parts of a year add up to, and averages over the rows of a table."""

from __future__ import annotations

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import CitedCell, TableAnswer, TableInput
from qianxun.core.types import Table
from tests.answer.test_table_answer import table

HALVES = table(
    "2024年各区销量",
    "区域|负责人|上半年销售额（万元）|下半年销售额（万元）|员工数",
    "城东|张一|1280|1460|36",
    "城南|王二|960|1105|28",
    "城北|李三|870|790|26",
    "合计||3110|3355|90",
)
QUARTERS = table(
    "各车间产量",
    "车间|一季度产量（吨）|二季度产量（吨）|三季度产量（吨）|四季度产量（吨）|合格率",
    "甲车间|10|20|30|40|99%",
    "乙车间|15|25|35|45|98%",
)
TARGETS = table(
    "各港吞吐量2031",
    "港口|第一季度（万吨）|第二季度（万吨）|第三季度（万吨）|第四季度（万吨）|全年目标（万吨）",
    "白鹭港|10|20|30|40|120",
    "青螺港|15|25|35|45|110",
)
ROWS = table("门诊", "季度|门诊人次|费用（元）", "第一季度|100|7", "第二季度|120|8", "第三季度|90|9", "第四季度|150|6")
BRANCHES = table(
    "利润", "分公司|期间|利润（万元）", "杭州|上半年|30", "杭州|下半年|45", "宁波|上半年|20", "宁波|下半年|25"
)


def answer(question: str, one: Table) -> TableAnswer:
    return answer_from_tables(question, [TableInput("t", one)])


@pytest.mark.parametrize(
    ("question", "one", "text"),
    [
        ("城东全年销售额是多少", HALVES, "2740万元"),
        ("全年销售额最高的是哪个区域", HALVES, "城东"),
        ("全年销售额一共多少", HALVES, "6465万元"),
        ("城东和城南全年销售额差多少", HALVES, "675万元"),
        ("下半年销售额前两名是哪些区域", HALVES, "城东、城南"),
        ("平均每个区域有多少员工", HALVES, "30"),
        ("平均每个区域全年销售额是多少", HALVES, "2155万元"),
        ("甲车间全年产量多少", QUARTERS, "100吨"),
        ("乙车间上半年产量是多少", QUARTERS, "40吨"),
        ("四个季度一共产量多少吨", QUARTERS, "220吨"),
        ("白鹭港2031年全年吞吐量是多少", TARGETS, "100万吨"),  # not what was to be reached
        ("白鹭港全年目标是多少", TARGETS, "120万吨"),
        ("白鹭港和青螺港哪个第四季度吞吐量多", TARGETS, "白鹭港 40万吨、青螺港 45万吨"),
        ("全年门诊人次是多少", ROWS, "460"),
        ("下半年门诊人次一共多少", ROWS, "240"),
        ("杭州全年利润是多少", BRANCHES, "75万元"),
        ("全年利润一共多少", BRANCHES, "120万元"),
        ("利润一共多少", BRANCHES, "120万元"),  # and no whole is counted beside its parts
    ],
)
def test_wholes_are_added_up_of_their_parts(question: str, one: Table, text: str) -> None:
    found = answer(question, one)
    assert (found.sure, found.text) == (True, text), found.reason


def test_the_parts_are_cited_and_named() -> None:
    found = answer("城东全年销售额是多少", HALVES)
    assert found.cells == (CitedCell("t", 0, 2), CitedCell("t", 0, 3))
    assert "由“上半年销售额（万元）”、“下半年销售额（万元）”相加" in found.reading
    rows = answer("上半年门诊人次是多少", ROWS)
    assert rows.cells == (CitedCell("t", 0, 1), CitedCell("t", 1, 1))
    assert rows.rows == (0, 1)


@pytest.mark.parametrize(
    "question", ["全年合格率是多少", "甲车间全年合格率是多少"]
)  # shares are not added up, nor is a year of three quarters
def test_what_does_not_add_up_is_not_answered(question: str) -> None:
    found = answer(question, QUARTERS)
    assert not found.sure or found.leftover
    three = table("产量", "车间|一季度产量|二季度产量|三季度产量", "甲|1|2|3", "乙|2|3|4")
    assert not answer("甲全年产量是多少", three).sure


def test_a_column_of_the_whole_is_not_made_again() -> None:
    stated = table("销量", "店|上半年销量|下半年销量|全年销量", "甲店|1|2|4", "乙店|2|3|5")
    assert answer("甲店全年销量是多少", stated).text == "4"


CARDS = table("权益", "等级|年费（元）|可否退款", "普通卡|0|否", "银卡|199|否", "金卡|499|是", "黑金卡|1299|是")
FAULTS = table("故障", "代码|含义|需要送修", "E01|悬空|否", "E02|缠绕|否", "E07|电池异常|是", "E09|主板故障|是")


@pytest.mark.parametrize(
    ("question", "one", "text"),
    [
        ("哪些卡可以退款？", CARDS, "金卡、黑金卡"),
        ("哪些故障需要送修", FAULTS, "电池异常、主板故障"),
        ("不需要送修的故障代码有哪些", FAULTS, "E01、E02"),
        ("年费最高的是哪张卡", CARDS, "黑金卡"),
    ],
)
def test_lists_have_only_the_rows_of_which_it_is_so(question: str, one: Table, text: str) -> None:
    assert answer(question, one).text == text
