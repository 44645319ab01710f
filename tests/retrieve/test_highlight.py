from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.retrieve.rerank_and_tiers import HIGHLIGHT_WINDOW as WINDOW
from qianxun.retrieve.rerank_and_tiers import HIGHLIGHTS as MOST
from qianxun.retrieve.rerank_and_tiers import highlights
from tests.hypothesis_settings import examples

PADDING = "一二三四五六七八九十" * 12


def test_a_short_text_is_shown_whole() -> None:
    assert highlights("住院的报销比例为百分之八十五。", ["报销", "比例"]) == ("住院的报销比例为百分之八十五。",)


def test_at_most_three_of_at_most_fifty_characters_each_around_its_word_in_the_text_order() -> None:
    text = PADDING.join(["报销甲", "报销乙", "报销丙", "报销丁", "报销戊"])
    found = highlights(text, ["报销"])
    assert len(found) == MOST == 3
    assert all(len(each) == WINDOW == 50 and "报销" in each for each in found)
    assert [text.index(each) for each in found] == sorted(text.index(each) for each in found)


def test_those_that_would_overlap_are_one() -> None:
    text = PADDING + "报销" + "一" * 30 + "比例" + PADDING
    (one,) = highlights(text, ["报销", "比例"])
    assert "报销" in one
    assert "比例" in one
    assert 50 < len(one) <= 100


def test_the_fullest_are_kept() -> None:
    text = PADDING.join(["甲报销", "乙报销", "丙报销", "丁报销比例住院"])
    assert any("丁报销比例住院" in each for each in highlights(text, ["报销", "比例", "住院"], most=1))


@pytest.mark.parametrize(("text", "words"), [("", ["报销"]), ("住院", []), ("住院", ["报销"])])
def test_nothing_to_show_is_nothing(text: str, words: list[str]) -> None:
    assert highlights(text, words) == ()


def test_a_word_longer_than_the_window_is_shown_whole() -> None:
    word = "长" * 80
    assert highlights("甲" * 60 + word + "乙" * 60, [word]) == (word,)


@examples(150)
@given(
    text=st.text(st.sampled_from("报销比例住院發票Ⅱ㎡ｉ\u0130a1 。\n"), max_size=400),
    words=st.lists(st.sampled_from(["报销", "比例", "发票", "ii", "m2", "a1", "报", "院"]), max_size=4),
)
def test_highlights_are_few_stand_in_the_text_and_do_not_overlap(text: str, words: list[str]) -> None:
    found = highlights(text, words)
    assert len(found) <= MOST
    at = 0
    for each in found:
        place = text.find(each, at)
        assert place >= at
        at = place + len(each)
        assert each
    if found:
        assert words
