"""A difference, a sum or a product that a question plainly asks for, of two figures that passages state in prose."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import Answer, Passage


def _passages(*texts: str) -> tuple[Passage, ...]:
    return tuple(
        Passage(number, f"d{number}", f"展馆资料{number}.md", f"c{number}", text, 0, len(text), 0.9 - number / 50)
        for number, text in enumerate(texts, start=1)
    )


TICKETS = _passages(
    "成人票每张120元，学生票每张75元，老人票免费。停车费每小时8元，凭票停车不另减免。",
    "东馆展出面积为3200平方米。西馆展出面积为1850平方米，其中库房占400平方米。",
    "参观者中外省游客占45%，外国游客占12%。副馆长津贴1200元，馆长津贴1500元，讲解员津贴600元。",
    "色带每支65元，墨盒每支180元。展馆设施由物业维修。",
)


def _answer(question: str, passages: tuple[Passage, ...] = TICKETS) -> Answer:
    return AnswerGenerator().generate(question, passages)


@pytest.mark.parametrize(
    ("question", "arithmetic"),
    [
        ("成人票比学生票贵多少钱", "120元 − 75元 = 45元"),
        ("学生票比成人票便宜多少", "120元 − 75元 = 45元"),
        ("成人票和学生票哪个贵，贵多少", "120元 − 75元 = 45元"),
        ("东馆和西馆的展出面积相差多少", "3200平方米 − 1850平方米 = 1350平方米"),  # of two sentences
        ("外省游客和外国游客一共占多少", "45% + 12% = 57%"),
        ("馆长津贴比讲解员津贴多多少", "1500元 − 600元 = 900元"),  # 馆长 is also the end of another title
        ("停车4小时要多少钱", "8元 × 4 = 32元"),
        ("展馆的成人票比学生票每张贵多少钱", "120元 − 75元 = 45元"),  # 展馆: the document is called so
        ("买3支色带要多少钱", "65元 × 3 = 195元"),  # of two rates, that of what is named
    ],
)
def test_the_arithmetic_is_shown_with_the_sentences_that_state_its_figures(question: str, arithmetic: str) -> None:
    given = _answer(question)
    assert given.form == "extractive"
    assert arithmetic in given.answer
    assert given.citations
    assert all(citation.numbers for citation in given.citations)


def test_both_sources_are_cited() -> None:
    parts = _passages("东馆的展出面积为3200平方米。", "东馆每天开放8小时。", "西馆的展出面积为1850平方米。")
    alike = tuple(Passage(p.number, "d1", "馆.md", p.chunk_id, p.text, 0, len(p.text), p.score) for p in parts)
    given = _answer("东馆和西馆的展出面积相差多少", alike)
    assert given.answer.endswith("3200平方米 − 1850平方米 = 1350平方米[1][2]")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("成人票比军人票贵多少钱", "成人票每张120元，学生票每张75元。"),  # one of the two is not written
        ("东馆比西馆多多少", "东馆展出面积为3200平方米。西馆员工有40人。"),  # of another kind
        ("停车4小时要多少钱", "停车首小时10元，之后每小时8元。"),  # not the same for each
        ("停车4小时要多少钱", "进场费20元，停车费每小时8元。"),  # there is more to pay
        ("工作8年年假有几天", "工作满10年的，每年休年假10天。"),  # 每年 is how often
        ("3级伤残补多少个月工资", "伤残补助每级加发2个月工资。"),  # a number, no quantity
    ],
)
def test_nothing_is_worked_out_without_both_figures_of_one_kind(question: str, text: str) -> None:
    assert " = " not in _answer(question, _passages(text)).answer


def test_two_documents_that_differ_are_not_chosen_between() -> None:
    editions = _passages("成人票每张120元，学生票每张75元。", "成人票每张100元，学生票每张70元。")
    assert " = " not in _answer("成人票比学生票贵多少钱", editions).answer
