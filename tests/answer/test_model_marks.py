"""Citations as models of several makers write them are marks; what only looks like one is not touched."""

from __future__ import annotations

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.verify.marks import model_marks
from qianxun.testing.scripted import ScriptedChat

CITED = [
    ("甲[^1^]乙[citation:2]丙[ref_3]丁[文档1]戊[资料 编号=2]", "甲[1]乙[2]丙[3]丁[1]戊[2]"),
    ("甲[来源1、来源3]乙【Source 2】", "甲[1,3]乙[2]"),
    ("甲【1†source】乙〔2〕丙\\[3\\]", "甲[1]乙[2]丙[3]"),
    ("甲（来源1）。乙（来源：2）。丙（文档3）。", "甲[1]。乙[2]。丙[3]。"),
    ("占60%¹。占60%。¹˒² 占60%¹²，", "占60%[1]。占60%。[1,2] 占60%[1,2]，"),
    ("报销一半。²报销一半¹˒³，", "报销一半。[2]报销一半[1,3]，"),
    ("占60%<sup>1</sup>，占60%<sup>[1][2]</sup>。", "占60%[1]，占60%[1][2]。"),
    ("甲<ref>1</ref>，乙<cite>[2]</cite>，丙$^{1}$，丁$^{[2]}$，戊^3^。", "甲[1]，乙[2]，丙[1]，丁[2]，戊[3]。"),
    ("甲**[1]**。乙`[2]`，丙[[3]]丁^[1]^", "甲[1]。乙[2]，丙[3]丁[1]"),
    ("甲[1]、[2]。乙[1]，[2][3]", "甲[1,2]。乙[1,2,3]"),
    ("根据[1]和[2]，每日一次。参见【3】。", "根据资料[1,2]，每日一次。参见资料[3]。"),
]
LEFT_ALONE = [
    "10⁶个，面积20m²、30米²，10<sup>2</sup>，m<sup>2</sup>，第¹²³⁴个",
    "BMI=体重÷身高²，(a+b)²=a²+2ab+b²，方差σ²，边长<sup>2</sup>、身高$^2$。",
    "**门诊**[1]**住院**[1]，[2]指出。",
    "[1-3]与[注1]及[9]，【通知】（来源：2023）",
    "[官网](文档1)",
    "$x^2$，$(a+b)^2$，2^1^，共$500，^甲^",
    "未完**[1]*",
    "未完[citation",
]


def _said(text: str, size: int) -> str:
    return "".join(model_marks((text[at : at + size] for at in range(0, len(text), size)), {1, 2, 3}))


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("text", "expected"), [*CITED, *((each, each) for each in LEFT_ALONE)])
def test_what_cites_a_given_passage_becomes_a_mark(text: str, expected: str, size: int) -> None:
    assert _said(text, size) == expected


@pytest.mark.parametrize(
    "mark",
    [
        "[1]",
        " [1]",
        "【1】",
        "[资料1]",
        "（资料1）",
        "（见[1]、[1]）",
        "[^1^]",
        "¹",
        "<sup>1</sup>",
        "**[1]**",
        "（来源1）",
    ],
)
def test_however_it_is_cited_the_answer_reads_the_same(mark: str) -> None:
    answer = AnswerGenerator(ScriptedChat(f"报销60%{mark}。")).generate("报销多少", ["门诊报销比例为60%。"])
    assert answer.answer == "报销60%。[1]"
    assert answer.flags == ()
