"""Questions for a tie: the lines that state it, and where none does, those that speak of all names."""

from __future__ import annotations

from qianxun.answer.generate import AnswerGenerator
from qianxun.core.answer_types import AnswerContext, Passage, StatedTie

TEXT = "戊三住在甲城。丁一是丙二的师兄。丁一与丙二同行。"
OTHER = "丁一见过丙二。她是丁一的邻居。"
NAMES = ("丁一", "丙二")


def passage(number: int, text: str, start: int) -> Passage:
    return Passage(number, f"d{number}", f"第{number}回", f"c{number}", text, start, start + len(text), 0.5)


PASSAGES = (passage(1, TEXT, 100), passage(2, OTHER, 0))


def answered(question: str, *places: tuple[str, int, int], names: tuple[str, ...] = NAMES) -> str:
    context = AnswerContext(PASSAGES, tie=StatedTie(names, places))
    return AnswerGenerator().generate(question, context).answer


def test_the_line_at_the_place_that_states_it_answers() -> None:
    at = 100 + TEXT.index("丁一是")
    assert answered("丁一和丙二是什么关系", ("d1", at, at + 8)) == "丁一是丙二的师兄。[1]"


def test_the_same_place_of_another_document_does_not() -> None:
    at = OTHER.index("丁一见")
    assert answered("丁一和丙二是什么关系", ("d2", at, at + 6)) == "丁一见过丙二。[1]"


def test_a_line_that_goes_on_with_the_one_before_comes_behind_it() -> None:
    at = OTHER.index("她是")
    assert answered("丁一和丙二是什么关系", ("d2", at, at + 4)) == "丁一见过丙二。[1]她是丁一的邻居。[1]"


def test_a_line_that_speaks_of_one_name_alone_does_not_answer() -> None:
    question = "丁一和戊三是什么关系"
    assert "没有找到" in answered(question, names=("丁一", "戊三"))
    assert not AnswerGenerator().judge(question, AnswerContext(PASSAGES, tie=StatedTie(("丁一", "戊三"))))
