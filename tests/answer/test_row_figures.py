"""A figure of another row of a table, of an ordinal, or of another hour is not the one that a sentence states."""

from __future__ import annotations

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage

PROGRAMMES = """程序表
| 程序 | 温度（℃） | 用时（分钟） |
| --- | --- | --- |
| 节能洗 | 50 | 190 |
| 强力洗 | 70 | 135 |
| 快洗 | 40 | 30 |"""


def accepted(sentence: str, *texts: str) -> bool:
    passages = [Passage(at, f"d{at}", f"资料{at}.md", f"c{at}", text) for at, text in enumerate(texts, start=1)]
    return check(Sentence(sentence, tuple(one.number for one in passages)), passages).accepted


@pytest.mark.parametrize("sentence", ["强力洗的温度是40℃。", "快洗用时190分钟。"])
def test_a_figure_of_another_row_is_wrong(sentence: str) -> None:
    assert not accepted(sentence, PROGRAMMES)


@pytest.mark.parametrize(
    "sentence",
    ["强力洗的温度是70℃。", "强力洗70℃，快洗40℃，相差30℃。", "快洗用时30分钟，比节能洗少160分钟。", "最高温度70℃。"],
)
def test_figures_of_the_rows_that_are_named_are_right(sentence: str) -> None:
    assert accepted(sentence, PROGRAMMES)


def test_the_number_of_an_article_is_no_measure() -> None:
    rule = "一年内再次违反的，取消资格六个月。"
    assert accepted("一年内再次违反的，取消资格6个月。", rule, "违反本条例第八条规定的，处警告。")
    assert not accepted("一年内再次违反的，取消资格8个月。", rule, "违反本条例第八条规定的，处警告。")


def test_an_hour_with_a_leading_zero_is_in_the_morning() -> None:
    assert accepted("每周三14时至16时回收。", "每周三下午2时至4时统一回收。")
    assert not accepted("每周三04时至16时回收。", "每周三下午2时至4时统一回收。")


def test_a_bound_denies_nothing() -> None:
    assert accepted("最大日剂量为80毫克。", "每次20毫克，最大日剂量不超过80毫克。")
    assert not accepted("最大日剂量超过80毫克。", "每次20毫克，最大日剂量不超过80毫克。")
    assert not accepted("库房的室内温度低于15度。", "库房的室内温度不低于15度。")


def test_what_is_worked_out_may_be_written_elsewhere_of_something_else() -> None:
    lease = "月租金为57600元。签约时支付押金172800元。提前退租的，支付相当于两个月租金的违约金，并提前3个月通知。"
    assert accepted("押金为17.28万元，相当于三个月租金。", lease)
    assert not accepted("押金为17.28万元，相当于四个月租金。", lease)


def test_a_date_that_is_put_alike_is_the_same() -> None:
    notice = "自2024年9月1日起，收费标准调整如下：每小时5元。原2021年3月发布的办法中的收费标准同时停止执行。"
    assert accepted("自2024年9月1日起执行新的收费标准。", notice)


BENEFITS = """| 级别 | 起付线（元） | 在职报销比例 | 退休报销比例 |
| --- | --- | --- | --- |
| 一级站 | 200 | 92% | 95% |
| 二级站 | 500 | 88% | 92% |"""


def test_a_figure_of_another_column_is_wrong() -> None:
    assert accepted("在职人员在二级站报销88%。", BENEFITS)
    assert accepted("退休人员在二级站报销92%。", BENEFITS, "退休人员的支付比例均提高10个百分点。")
    assert not accepted("在职人员在二级站报销92%。", BENEFITS)


def test_points_in_words_and_rates_by_the_month_are_read() -> None:
    assert accepted("未备案的，比例降低十五个百分点。", "未备案自行外出的，比例降低15个百分点。")
    assert not accepted("未备案的，比例降低十六个百分点。", "未备案自行外出的，比例降低15个百分点。")
    assert accepted(
        "银卡每月免费停车10小时。", "| 等级 | 免费停车（小时/月） |\n| --- | --- |\n| 银卡 | 10 |\n| 金卡 | 30 |"
    )


def test_a_figure_beside_its_own_companion_is_right() -> None:
    prizes = "特等奖每人八千元，不超过学生总数的1%；一等奖每人五千元，不超过百分之五；二等奖每人三千元，不超过10%。"
    assert accepted("一等奖每人5000元，不超过学生总数的5%。", prizes)
    assert not accepted("一等奖每人5000元，不超过学生总数的10%。", prizes)
