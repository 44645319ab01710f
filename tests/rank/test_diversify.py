from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.rank.diversify import SKETCH, diversified, resemblance, sketch
from tests.rank.results import found

LONG = "".join(chr(0x4E00 + place * 37 % 20_000) for place in range(2000))


def shingles(text: str) -> set[str]:
    bare = "".join(text.split()).casefold()
    return {bare[place : place + 5] for place in range(max(1, len(bare) - 4))} if bare else set()


@given(st.text("甲乙丙丁AB ", max_size=60), st.text("甲乙丙丁AB ", max_size=60))
def test_resemblance_is_the_jaccard_of_five_character_shingles(one: str, other: str) -> None:
    a, b = shingles(one), shingles(other)
    expected = len(a & b) / len(a | b) if a | b else 1.0
    assert resemblance(sketch(one), sketch(other)) == pytest.approx(expected)


def test_long_texts_are_compared_by_a_sample_that_comes_close() -> None:
    half = LONG[:1000] + LONG[:1000][::-1]
    a, b = shingles(LONG), shingles(half)
    assert len(a) > SKETCH
    assert resemblance(sketch(LONG), sketch(half)) == pytest.approx(len(a & b) / len(a | b), abs=0.1)
    assert resemblance(sketch(LONG), sketch(LONG)) == 1.0
    assert resemblance(sketch(LONG), sketch(LONG[::-1])) < 0.05
    assert resemblance(sketch(LONG[:100]), sketch(LONG)) == pytest.approx(96 / 1996, abs=0.05)


def test_a_sketch_is_the_same_in_every_process() -> None:
    assert sketch("住院报销比例").hashes == {10396215863479077122, 13890640175152770963}


def test_a_repeat_and_a_near_repeat_keep_the_better_one() -> None:
    text = LONG[:300]
    results = [
        found(1, 0.9, text),
        found(2, 0.8, text),
        found(3, 0.7, text[:150] + "改" + text[151:]),  # 291 of 301 shingles
        found(4, 0.6, text[:150] + LONG[900:1050]),
        found(5, 0.5, " ".join(text).upper()),
    ]
    assert [each.chunk.key for each in diversified(results)] == [1, 4]
    assert [each.chunk.key for each in diversified(results, near_duplicate=0.99)] == [1, 3, 4]
    assert diversified(results, near_duplicate=1.1) == results
    assert diversified([], balance=0.5) == []


def test_a_result_loses_by_what_it_repeats() -> None:
    text = LONG[:204]  # 200 shingles
    results = [found(1, 0.9, text), found(2, 0.8, text[:104] + LONG[500:600]), found(3, 0.7, LONG[1000:1200])]
    ranked = diversified(results, balance=0.5)
    shared = resemblance(sketch(results[0].chunk.text), sketch(results[1].chunk.text))
    assert shared == pytest.approx(100 / 300)
    assert [(each.chunk.key, each.score) for each in ranked] == [
        (1, 0.9),
        (3, 0.7),
        (2, pytest.approx(0.8 * (1 - 0.5 * shared))),
    ]
    assert diversified(results, balance=1.0) == results


def test_hostile_texts_cost_no_more_than_plain_ones() -> None:
    started = time.process_time()
    results = [found(key, 0.5, "\ud800" * key + LONG * 600) for key in range(1, 21)]
    assert len(diversified(results, balance=0.5)) == 1
    assert time.process_time() - started < 20  # the whole of 24 million characters would take minutes
