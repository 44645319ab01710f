"""Questions about prose as its readers ask them: another model, whether something is so, what a term means."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Answer, Passage
from qianxun.question.evidence_query import evidence_query, named_documents


def passage(text: str, *headings: str, number: int = 1, name: str = "说明.md", score: float = 0.8) -> Passage:
    return Passage(number, name, name, f"c{number}", text, 0, len(text), score, {"headings": list(headings)})


def answer(question: str, *passages: Passage) -> Answer:
    return AnswerGenerator().generate(question, passages)


# ── another model, another building ──────────────────────────────────────────────────────────────

OVEN = passage("BK-20的容积为65升，额定功率2400瓦，重量31公斤。", "技术参数", name="BK-20烤箱手册.md")
LEASE = passage("租金每月5200元，押金为一个月租金。", "租金", name="滨河苑6栋租赁合同.md")


@pytest.mark.parametrize(
    ("question", "source"),
    [("BK-35的容积是多少", OVEN), ("滨河苑8栋的租金是多少", LEASE), ("滨河苑八栋的租金是多少", LEASE)],
)
def test_another_model_or_building_is_not_answered_for(question: str, source: Passage) -> None:
    assert answer(question, source).form == "declined"


@pytest.mark.parametrize(
    ("question", "source", "fact"),
    [("BK-20的容积是多少", OVEN, "65升"), ("滨河苑六栋的租金是多少", LEASE, "5200元")],  # 六 as 6
)
def test_the_model_or_building_itself_is(question: str, source: Passage, fact: str) -> None:
    given = answer(question, source)
    assert given.form == "extractive"
    assert fact in given.answer


def test_a_part_of_a_code_names_no_document() -> None:
    assert named_documents("bk-35的容积", ["BK-20烤箱手册.md"]) == ()
    assert named_documents("ht-2024-009的金额", ["HT-2024-008采购合同.md"]) == ()
    assert named_documents("bk-20的容积", ["BK-20烤箱手册.md"]) == ("bk-20",)


# ── whether something is so ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("question", ["过了报名时间还能退费吗", "有效期内能不能换货", "是否需要填写日期"])
def test_whether_something_is_so_asks_for_no_figure(question: str) -> None:
    assert evidence_query(question).needs == frozenset()


@pytest.mark.parametrize("question", ["能不能告诉我要等多久", "知道几点关门吗"])
def test_a_figure_that_is_asked_for_politely_is(question: str) -> None:
    assert evidence_query(question).needs


def test_whether_it_may_be_is_answered_by_the_clause_that_decides_it() -> None:
    rules = passage(
        "第二条 退课应在开课3日前办理，逾期不退报名费。\n第四条 报名费200元，65周岁以上减免报名费50元。", "报名与退课"
    )
    assert "逾期不退报名费" in answer("过了退课时间还能退报名费吗", rules).answer


# ── what is asked of whom, and of what is done ───────────────────────────────────────────────────


def test_an_attribute_of_another_firm_is_not_answered_for() -> None:
    report = passage(
        "云川化工有限公司成立于2012年，住所地为滨州。法定代表人为田文海。本次由云川化工向汉江投资增发股份。"
        "认购款由汉江投资分两次支付。",
        "基本情况",
    )
    assert answer("汉江投资的法定代表人是谁", report).form != "extractive"


def test_a_figure_of_something_else_than_what_is_done_is_no_answer() -> None:
    prize = passage("晨星奖每人每年8000元，全校每年评15人。", "种类与金额")
    assert answer("晨星奖哪一年设立的", prize).form != "extractive"
    founded = passage("晨星奖设立于2009年。晨星奖每人每年8000元。", "种类与金额")
    assert "2009年" in answer("晨星奖哪一年设立的", founded).answer


def test_a_sum_may_be_stated_by_another_sum() -> None:
    lease = passage("任何一方提前解除合同的，应当支付相当于两个月租金的违约金。\n租期为三年。", "违约责任")
    assert "两个月租金" in answer("提前解除合同要赔多少钱", lease).answer


def test_what_a_term_means_is_answered_by_the_line_that_defines_it() -> None:
    service = passage(
        "1.1 **在线率**：当月在线分钟数除以当月总分钟数。\n"
        "在线率低于99%的，退还当月服务费的10%；在线率低于95%的，退还30%。",
        "服务承诺",
    )
    given = answer("在线率怎么算", service).answer
    assert "除以当月总分钟数" in given
    assert "退还" not in given


def test_who_somebody_is_is_answered_by_the_section_that_is_called_so() -> None:
    people = (
        passage("女，三十岁，落霞镇的大夫。", "人物", "秦霜", number=1),
        passage("男，四十岁，镖师，秦霜的旧识。", "人物", "高远", number=2),
    )
    assert answer("秦霜是谁", *people).answer.startswith("女，三十岁")


# ── everyday wordings ────────────────────────────────────────────────────────────────────────────

LIBRARY = passage(
    "儿童最多借5册，借期20天；成人最多借10册，借期40天。\n不得在自习室内用餐，饮用水除外。\n还书柜每周一、周四清空。",
    "借阅规则",
)


def test_both_subjects_have_what_is_asked_of_them_without_a_mark_between() -> None:
    given = answer("儿童和成人借书期限分别是多久", LIBRARY)
    assert "20天" in given.answer
    assert "没有找到" not in given.answer


def test_the_day_of_the_week_is_asked_for() -> None:
    assert "周一、周四" in answer("还书柜星期几清空", LIBRARY).answer
    assert answer("自习室星期几开放", LIBRARY).form != "extractive"


def test_today_and_yesterday_are_no_words_of_documents() -> None:
    doses = passage("当天想起漏服的，立即补服；第二天才想起的，不要补服。", "漏服怎么办")
    assert answer("昨天漏服了今天要不要补服", doses).form == "extractive"


def test_a_verb_with_its_object_is_about_its_object() -> None:
    costs = passage("洗衣费、个人罚款不予报销。\n差旅费据实报销。", "不予报销")
    assert "洗衣费" in answer("洗衣服的钱能报销吗", costs).answer


def test_a_document_of_a_series_is_about_its_models() -> None:
    manual = passage("BK-20的容积为65升。", "技术参数", name="BK-20烤箱手册.md")
    faq = passage("不行。金属餐盘会打火。", "可以放金属餐盘吗？", number=2, name="BK系列常见问题.md")
    given = answer("BK-20可以放金属餐盘吗", manual, faq)
    assert given.form == "extractive"
    assert given.answer.startswith("不行。")


def test_people_are_named_by_their_part_in_a_ticket() -> None:
    ticket = passage(
        "客户：邵晴（个人会员）　受理：客服 彭远\n问题：要求退年费。\n处理：主管批准，退还165元。", "工单 0318"
    )
    assert "165元" in answer("邵晴退了多少钱", ticket).answer
