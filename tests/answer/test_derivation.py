"""A figure that follows from others is kept however that is worded, one that may follow by coincidence is flagged, and
a cell of another row of a table is wrong."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage

LEASE = (
    "租赁期自2021年3月1日起至2024年2月29日止，月租金8600元，押金17200元。逾期支付租金的，每日按欠付租金的万分之五支付违约金。"
    "承租人王敏于2023年5月10日搬离，欠付租金两个月。水电费押金1000元于搬离后15日内退还。"
)
STAFF = """| 部门 | 期初人数 | 期末人数 |
| --- | --- | --- |
| 销售部 | 26 | 23 |
| 财务部 | 9 | 8 |
| 研发部 | 41 | 57 |"""
TOLD_HOW = """# 三号仓库改建合同

| 项目 | 金额（元） |
| --- | --- |
| 货架 | 120,000 |
| 照明 | 36,000 |
| **合计** | **156,000** |

合同签订后，甲方支付合同总价的20%作为预付款。改建共投入480万元，其中区财政拨款210万元，银行借款150万元，其余为自筹。
每人收费420元，含意外险18元。5月6日前退出的，全额退款；5月6日及之后退出的，退还除车费75元和意外险以外的部分。
每组配3名指导老师，共分5组。住院的，每次扣除免赔额300元后按80%赔付。"""


def checked(sentence: str, source: str) -> Checked:
    return check(Sentence(sentence, (1,)), [Passage(1, "d", "资料.md", "c", source)])


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("欠付的两个月租金一共17200元，逾期一天的违约金为8.6元。", LEASE),  # two steps: 8600 × 2 × .0005
        ("押金应当在2023年5月25日之前退还。", LEASE),
        ("租期三年。", LEASE),
        ("一年的租金是103200元。", LEASE),
        ("研发部的期末人数比期初人数多16人。", STAFF),
        ("销售部和财务部的期末人数合计31人。", STAFF),
        ("就期末人数来说，销售部是23人，财务部则是8人。", STAFF),
    ],
)
def test_what_follows_is_kept(sentence: str, source: str) -> None:
    assert checked(sentence, source).accepted


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("就期末人数来说，销售部是8人，财务部则是23人。", STAFF),
        ("月租金8700元。", LEASE),
        ("押金应当在2023年6月25日之前退还。", LEASE),
    ],
)
def test_what_does_not_follow_is_dropped(sentence: str, source: str) -> None:
    assert not checked(sentence, source).accepted


@pytest.mark.parametrize(
    "sentence",
    [
        "预付款为三万一千二百元。",  # 20 % of what the last row of the table has
        "改建的投入里有120万元是自筹的。",  # what is left of 480
        "5月9日退出的话，可以拿回327元。",  # a day that is supposed, and 420 − 75 − 18
        "住院花了2350元的，扣掉300元免赔额，能赔1640元。",  # a case that is made up, and what the rule makes of it
    ],
)
def test_what_a_source_tells_how_to_work_out_is_flagged_and_kept(sentence: str) -> None:
    result = checked(sentence, TOLD_HOW)
    assert result.accepted
    assert [flag.kind for flag in result.flags] == ["unsupported_number"]


@pytest.mark.parametrize(
    "sentence",
    [
        "预付款为三万七千九百元。",
        "改建的投入里有137万元是自筹的。",
        "5月9日退出的话，可以拿回371元。",
        "住院花了2350元的，扣掉300元免赔额，能赔1730元。",
    ],
)
def test_what_does_not_follow_as_the_source_tells_is_dropped(sentence: str) -> None:
    assert not checked(sentence, TOLD_HOW).accepted


def test_what_follows_from_other_cells_than_those_named_is_flagged() -> None:
    result = checked("销售部和财务部的期末人数合计65人。", STAFF)  # 57 + 8
    assert [flag.kind for flag in result.flags] == ["unsupported_number"]


def test_a_change_over_the_year_does_not_say_which_figures_it_is_of() -> None:
    source = (
        "2023年公司营业收入4.2亿元，其中华东区1.8亿元，华南区1.4亿元，华北区1.0亿元；净利润3600万元。"
        "2022年营业收入3.5亿元。"
    )
    assert checked("2023年营业收入同比增长25%。", source).verdict != "supported"  # 1.4 of 1.4 and 4.2


def test_two_cells_of_a_row_do_not_change_places() -> None:
    source = """| 项目 | 甲院（元） | 乙院（元） |
| --- | --- | --- |
| 挂号费 | 15 | 20 |
| CT检查 | 260 | 310 |"""
    assert checked("CT检查甲院260元，乙院310元。", source).verdict == "supported"
    assert checked("CT检查甲院310元，乙院260元。", source).verdict != "supported"
