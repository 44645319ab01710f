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
