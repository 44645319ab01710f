"""Parallel clauses tell which words belong together: a sentence that mixes up two of them is found out, one that says
both, or leaves some out, is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.parallel_clauses import exchanged
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Passage
from tests.linear import is_linear

RULES = (
    "本市用车由车队长调度；外省用车由行政总监调度。运输途中的损坏由承运人赔偿，仓储期间的损坏由保管人赔偿。"
    "周三上午开放阅览室，周四下午开放展厅。阅览室与展厅均可预约。一号泵每月润滑2次，二号泵每月润滑3次。"
)


@pytest.mark.parametrize(
    "sentence",
    ["到外省去的用车由车队长调度就行。", "本市用车要由行政总监调度。", "运输途中出现损坏，由保管人赔偿。"],
)
def test_parts_of_two_clauses_that_are_mixed_up_are_a_contradiction(sentence: str) -> None:
    assert exchanged(sentence, [RULES])
    found = check(Sentence(sentence, (1,)), [Passage(1, "d", "资料.md", "c", RULES)])
    assert not found.accepted
    assert found.verdict == "contradicted"


@pytest.mark.parametrize(
    "sentence",
    [
        "外省用车由行政总监调度。",
        "本市用车找车队长调度，外省用车找行政总监调度。",
        "调度由车队长或者行政总监负责，看是本市用车还是外省用车。",
        "运输途中的损坏由承运人赔偿。",
        "损坏由承运人或保管人赔偿。",
        "阅览室与展厅都可以预约。",
        "二号泵每月润滑三次。",
    ],
)
def test_what_says_one_or_both_of_them_is_none(sentence: str) -> None:
    assert not exchanged(sentence, [RULES])


def test_another_clause_that_has_both_parts_speaks_for_the_sentence() -> None:
    sentence = "外省用车由车队长调度。"
    assert exchanged(sentence, [RULES])
    assert not exchanged(sentence, [RULES + "节假日的外省用车，可由车队长调度。"])


def test_figures_are_left_to_those_who_know_how_they_are_worked_out() -> None:
    assert not exchanged("一号泵每月润滑3次。", [RULES])


def test_long_sources_take_no_longer_than_their_length() -> None:
    def work(size: int) -> Callable[[], object]:
        text = "".join(f"第{at}组用车由车队长调度；" for at in range(size))
        return lambda: exchanged("外省用车由行政总监调度，本市用车由车队长调度。", [text])

    assert is_linear(work, 200)
