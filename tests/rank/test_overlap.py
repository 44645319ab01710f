"""Short questions against passages, by segmented words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.retrieve.layered.texts import is_short, overlap
from qianxun.text.chinese import analyse_query, words

PASSAGE = "高血压患者常用的药有氨氯地平、缬沙坦与氢氯噻嗪，请遵医嘱服用。"


def of(question: str, passage: str) -> float:
    return overlap(analyse_query(question).words, words(passage), len(passage))


def test_a_chinese_question_meets_the_passage_that_answers_it() -> None:
    """Cut at spaces, as the seed does it, the two share nothing: the score was 0."""
    assert of("高血压吃什么药", PASSAGE) > 0.5
    assert of("高血压吃什么药", "山城的茶馆里坐满了人，说书先生拍了一下醒木。") == 0.0


def test_the_formula() -> None:
    """.7 · Jaccard of the best stretch + .3 · density, one word in a hundred characters being dense."""
    told = ["甲", "乙", "丙", "丁", "戊", "己"]
    assert overlap(("甲", "乙"), told, 1000) == pytest.approx(0.7 * 1.0 + 0.3 * 0.2)
    # One of two words, in a stretch as long as the question: 1 shared of 3.
    assert overlap(("甲", "无"), told, 1000) == pytest.approx(0.7 / 3 + 0.3 * 0.1)
    assert overlap(("甲", "丙"), told, 1000) == pytest.approx(0.7 * 2 / 3 + 0.3 * 0.2)
    assert overlap(("甲", "乙"), told, 100) == pytest.approx(1.0)


def test_one_common_word_of_three_is_not_enough_for_the_keyword_layer() -> None:
    assert overlap(("住院", "报销", "比例"), ["报销"] * 20, 60) < 0.5
    assert overlap(("住院", "报销", "比例"), ["住院", "费用", "报销", "时"], 20) >= 0.5


def test_nothing_asked_or_nothing_there_is_nothing() -> None:
    assert overlap((), ["甲"], 1) == overlap(("甲",), [], 0) == 0.0


def test_fifteen_characters_are_long() -> None:
    assert is_short("一" * 14)
    assert not is_short("一" * 15)


@given(st.lists(st.sampled_from("甲乙丙丁戊"), max_size=6), st.lists(st.sampled_from("甲乙丙丁戊己庚"), max_size=40))
def test_always_a_share(asked: list[str], told: list[str]) -> None:
    assert 0.0 <= overlap(asked, told, len(told)) <= 1.0
