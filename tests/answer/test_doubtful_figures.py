"""Figures that a source has somewhere, and not so: they are kept in the answer, and marked."""

from __future__ import annotations

from decimal import Decimal

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.answer.verify.stance import lexicon
from qianxun.core.answer_types import Passage
from qianxun.text.figures import Number, figures, same_amount

RECORD = "初步诊断：2型糖尿病，高血压病2级。第8床。左肌力4/5级。\n谷丙转氨酶参考范围7–40，体温36.5℃，2023-11-07复查。"
RULES = "布套可用30℃以下温水手洗。每逾期一日按合同总价的0.5‰支付违约金。岗前培训不少于80学时。"
SHOPS = """门店表
| 地区 | 年末数（家） | 本年关闭（家） |
| --- | --- | --- |
| 华东 | 343 | 21 |
| 华中 | 163 | 8 |
| 华南 | 226 | 17 |"""
GOODS = """商品表
| 编号 | 品牌 | 名称 |
| --- | --- | --- |
| A01 | 佳印 | 打印机 |
| A02 | 佳印 | 墨盒 |
| A03 | 恒达 | 鼠标 |"""
FAULTS = "| 代码 | 含义 |\n| --- | --- |\n| E1 | 传感器故障 |\n| E2 | 过热 |"


def checked(sentence: str, *texts: str) -> Checked:
    passages = [Passage(at, f"d{at}", f"资料{at}.md", f"c{at}", text) for at, text in enumerate(texts, start=1)]
    return check(Sentence(sentence, tuple(one.number for one in passages)), passages)


def is_doubted(sentence: str, *texts: str) -> bool:
    found = checked(sentence, *texts)
    return not found.accepted or bool(found.flags)


@pytest.mark.parametrize(
    ("right", "wrong", "text"),
    [
        ("患者有2型糖尿病。", "患者有8型糖尿病。", RECORD),
        ("左肌力为4/5级。", "左肌力为5/5级。", RECORD),
        ("谷丙转氨酶参考范围是7–40。", "谷丙转氨酶参考范围是7–20。", RECORD),
        ("用30℃以下温水手洗。", "用31℃以下温水手洗。", RULES),
        ("岗前培训不少于80学时。", "岗前培训不少于90学时。", RULES),
        ("逾期一日按总价的0.5‰付违约金。", "逾期一日按总价的0.4‰付违约金。", RULES),
        ("华中本年关闭8家。", "华中本年关闭1家。", f"{SHOPS}\n\n另有1家在装修。"),
        ("佳印共有2种商品。", "佳印共有9种商品。", f"{GOODS}\n\n客服9人。"),
        ("代码表里没有E5。", "代码表里没有E2。", FAULTS),
    ],
)
def test_what_a_source_has_otherwise_is_doubted(right: str, wrong: str, text: str) -> None:
    assert checked(right, text).accepted
    assert is_doubted(wrong, text)


@pytest.mark.parametrize(
    "right",
    [
        "患者有2型糖尿病。",
        "参考范围为7到40。",
        "复查（2023-11-07）参考范围7–40。",
        "华东和华南共569家。",
        "华中关闭8家，华东关闭21家。",
    ],
)
def test_what_it_has_so_is_not(right: str) -> None:
    assert not is_doubted(right, RECORD, SHOPS)


def test_a_total_is_that_of_the_figures_before_it() -> None:
    text = "小区有乘客电梯8台、载货电梯2台，共10台。另有1台停用。"
    assert not is_doubted("乘客电梯8台、载货电梯2台，共10台。", text)
    assert is_doubted("乘客电梯8台、载货电梯1台，共10台。", text)
    assert not is_doubted("电梯共10台，其中乘客电梯8台。", text)


def test_a_difference_is_no_sum() -> None:
    text = "营业收入为3000万元，净利润为500万元。"
    assert not is_doubted("营业收入3000万元，净利润500万元，相差2500万元。", text)
    assert not checked("营业收入3000万元，净利润500万元，相差3500万元。", text).accepted


def test_a_date_follows_from_a_time_that_is_beside_it() -> None:
    text = "双方于2024年5月10日签订合同，乙方应在30日内交货，货物保修1年。次日甲方付款。"
    assert not is_doubted("合同签订30日后，即2024年6月9日前须交货。", text)
    assert not is_doubted("甲方在2024年5月11日付款。", text)
    assert is_doubted("货物于2024年6月9日运抵。", text)


@pytest.mark.parametrize(
    ("one", "other", "is_same"), [("8次", "8小时", False), ("4个", "4小时", True), ("6床", "6天", True)]
)
def test_what_is_counted_is_not_what_is_measured(one: str, other: str, is_same: bool) -> None:
    first, second = figures(one)[0], figures(other)[0]
    assert isinstance(first, Number)
    assert isinstance(second, Number)
    assert same_amount(first, second) == is_same


def test_the_number_of_a_heading_is_none() -> None:
    assert figures("## 4 排水方式\n接软管。") == []
    assert [one.written for one in figures("## 4 台设备")] == ["4 台"]


def test_ten_thousand_times_ten_thousand() -> None:
    found = figures("负债二十万万港元")[0]
    assert isinstance(found, Number)
    assert (found.values, found.unit) == ((Decimal(2_000_000_000),), "港元")


@pytest.mark.parametrize(
    "wrong",
    [
        "小微企业的投标一律给予10%的扣除。",
        "只有医院才可以申请退款。",
        "所有门诊费用由统筹基金支付。",
    ],
)
def test_what_is_said_of_all_must_be_so_in_the_source(wrong: str) -> None:
    text = "部分小微企业的投标给予10%的扣除。医院可以申请退款。门诊费用超过起付线的由统筹基金支付。"
    assert "contradicted" in {flag.kind for flag in checked(wrong, text).flags}


@pytest.mark.parametrize("right", ["所有员工都要参加培训。", "任何人不得带宠物入馆。", "只有持证人员才可以进入机房。"])
def test_in_other_words_of_the_kind_it_is(right: str) -> None:
    assert not is_doubted(right, "员工均应参加培训。宠物不得入馆。机房仅限持证人员进入。")


def test_by_whom_it_is_done_may_share_a_character_with_another() -> None:
    text = "本规约由业主委员会负责解释。"
    assert is_doubted("本规约由物业服务中心负责解释。", text)
    assert not is_doubted("本规约由业主委员会负责解释。", text)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("展品陈列在二楼东侧展厅。", "展品陈列在二楼西侧展厅。"),
        ("该队获得全国少年组比赛的冠军。", "该队获得全国少年组比赛的亚军。"),
        ("检修时指示灯为红色常亮。", "检修时指示灯为绿色常亮。"),
    ],
)
def test_values_that_exclude_each_other_do_so_in_what_is_copied(right: str, wrong: str) -> None:
    assert not is_doubted(right, right)
    assert is_doubted(wrong, right)


def test_no_word_is_on_both_sides_of_a_pair() -> None:
    assert all(side in (0, 1) for _, side in lexicon().sides.values())


@pytest.mark.parametrize(
    "sentence",
    ["租赁期限至2027年6月30日止。", "前两年月租金为每平方米18元，每月5.76万元。", "租赁期限自2022年7月1日起。"],
)
def test_a_figure_right_beside_another_of_its_kind_is_not_taken_out(sentence: str) -> None:
    """What is around the one is around the other: they were dropped, though the source says them."""
    source = (
        "租赁期限自2022年7月1日起至2027年6月30日止，其中前两个月为免租装修期。"
        "前两年月租金为每平方米18元，即每月57600元；自第三年起每年递增5%。"
    )
    assert check(Sentence(sentence, (1,)), [Passage(1, "d", "合同.md", "c", source)]).accepted


def test_a_figure_of_the_clause_beside_it_is_still_taken_out() -> None:
    source = "赵甲的心率为90次，钱乙的体温是38.5℃，赵甲的体温是36.8℃。"
    assert not check(Sentence("赵甲的体温是38.5℃。", (1,)), [Passage(1, "d", "记录.md", "c", source)]).accepted
