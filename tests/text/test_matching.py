from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from qianxun.text.matching import query_terms, snippet, spans, weights


def shown(text: str, query: str) -> list[str]:
    return [text[start:end] for start, end in spans(text, query_terms(query))]


def test_words_are_found_in_either_script_and_width() -> None:
    assert shown("開發票請提前講，ＱＨ－２０８７。", "发票 QH-2087") == ["發票", "ＱＨ－２０８７"]


def test_offsets_stand_where_folding_changes_the_length() -> None:
    assert shown("面积为 20㎡ 的Ⅱ型发票柜", "发票") == ["发票"]


def test_a_number_is_not_found_inside_another() -> None:
    assert shown("2012 年的 12 张", "12") == ["12"]


def test_touching_words_are_one_place() -> None:
    assert shown("医保报销比例", "报销比例") == ["报销比例"]


def test_question_words_are_not_pointed_at() -> None:
    assert query_terms("请问发票的报销时限是多少") == ("发票", "报销", "时限")


def test_a_snippet_shows_where_most_matches_stand() -> None:
    text = "甲" * 200 + "发票报销" + "乙" * 200
    start, end = snippet(text, spans(text, ["发票", "报销"]), 50)
    assert end - start == 50
    assert "发票报销" in text[start:end]


def test_rare_terms_weigh_more_than_common_ones() -> None:
    lines = ["编号 QH-1001", "编号 QH-2087", "编号 QH-3005"]
    told = weights(lines, "QH-2087 编号")
    assert max(range(3), key=lambda at: told[at]) == 1
    assert told[0] == told[2]


@given(st.text(), st.lists(st.text(min_size=1), max_size=5))
def test_spans_are_ordered_apart_and_inside_the_text(text: str, words: list[str]) -> None:
    found = spans(text, words)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(st.text(), st.integers(1, 50))
def test_a_snippet_lies_inside_the_text(text: str, width: int) -> None:
    start, end = snippet(text, spans(text, ["的"]), width)
    assert 0 <= start <= end <= len(text)
    assert end - start == min(width, len(text))


@given(st.text("ab1发票 。"), st.lists(st.text("ab1发票", min_size=1, max_size=3), min_size=1, max_size=5))
def test_words_are_found_as_a_pattern_would_find_them(text: str, words: list[str]) -> None:
    longest_first = "|".join(sorted(words, key=len, reverse=True))
    inside = r"(?<=[ab1])(?=[ab1])"
    found = [one.span() for one in re.finditer(longest_first, text)]
    whole = [span for span in found if not any(re.compile(inside).match(text, at) for at in span)]
    places = {at for start, end in whole for at in range(start, end)}
    assert {at for start, end in spans(text, words) for at in range(start, end)} == places
