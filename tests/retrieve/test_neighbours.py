"""Related words by their vectors: near enough, and no opposites."""

from __future__ import annotations

import numpy as np
import pytest

from qianxun.core.types import Vector, Vectors
from qianxun.retrieve.terms.related import (
    IN_BASE,
    NEIGHBOURS,
    NOT_IN_BASE,
    Nearness,
    are_opposites,
    can_have_neighbours,
    neighbours,
)

WORD = np.array([1.0, 0.0], dtype=np.float32)


def at(cosine: float) -> list[float]:
    return [cosine, float(np.sqrt(1.0 - cosine * cosine))]


def rows(*cosines: float) -> Vectors:
    return np.array([at(cosine) for cosine in cosines], dtype=np.float32)


def near(word: str, least: Nearness = IN_BASE, **terms: float) -> list[str]:
    vector: Vector = WORD
    return [term for term, _ in neighbours(word, vector, tuple(terms), rows(*terms.values()), least)]


def test_the_nearest_come_first_and_only_the_near() -> None:
    assert near("脖子", 颈部=0.8, 喉咙=0.9, 天气=IN_BASE.apart - 0.01) == ["喉咙", "颈部"]
    assert len(near("脖子", 颈部=0.8, 喉咙=0.9, 咽喉=0.85)) == NEIGHBOURS


def test_words_that_share_a_character_must_be_nearer() -> None:
    assert IN_BASE.apart < IN_BASE.sharing
    assert near("事故", 故事=IN_BASE.sharing - 0.01) == []
    assert near("腰疼", 腰痛=IN_BASE.sharing + 0.01) == ["腰痛"]


def test_a_word_that_the_base_lacks_is_content_with_less() -> None:
    between = (IN_BASE.apart + NOT_IN_BASE.apart) / 2
    assert near("脖子", IN_BASE, 颈部=between) == []
    assert near("脖子", NOT_IN_BASE, 颈部=between) == ["颈部"]


def test_a_word_is_not_its_own_neighbour_nor_one_inside_it() -> None:
    assert near("高血压", 高血压=1.0, 血压=0.95, 高血压病=0.95) == []


def test_ties_go_by_the_word() -> None:
    assert near("脖子", 颈部=0.8, 喉咙=0.8) == sorted(["颈部", "喉咙"])


def test_without_terms_there_are_no_neighbours() -> None:
    assert neighbours("脖子", WORD, (), np.empty((0, 2), dtype=np.float32)) == []


@pytest.mark.parametrize(
    ("one", "other"), [("左侧", "右边"), ("上午", "下午"), ("能用", "不能用"), ("今天", "昨天"), ("男性", "女性")]
)
def test_opposites_are_no_neighbours(one: str, other: str) -> None:
    assert are_opposites(one, other)
    assert are_opposites(other, one)
    assert near(one, **{other: 0.99}) == []


@pytest.mark.parametrize(("one", "other"), [("无法", "不能"), ("左边", "左侧"), ("嗓子", "喉咙")])
def test_others_are_not_taken_for_opposites(one: str, other: str) -> None:
    assert not are_opposites(one, other)


@pytest.mark.parametrize("word", ["2023", "ai", "covid", "三十", "第一", "的", "什么", "发a烧", ""])
def test_numbers_letters_and_empty_words_have_none(word: str) -> None:
    assert not can_have_neighbours(word)


def test_words_have_them() -> None:
    assert can_have_neighbours("脖子")
