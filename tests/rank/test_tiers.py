from __future__ import annotations

import math

import pytest

from qianxun.core.types import TermCounts, Tier
from qianxun.rank.tiers import COVERED, FUZZY, STRICT, coverage, matched_in, rarity, tier_of
from qianxun.text.chinese import fold


@pytest.mark.parametrize(
    ("similarity", "covered", "named", "meets", "tier"),
    [
        (0.71, 0.51, False, True, "strict"),
        (0.70, 0.51, False, True, "fuzzy"),  # above, not at
        (0.71, 0.50, False, True, "fuzzy"),  # more than half
        (0.99, 0.00, False, False, "fuzzy"),
        (0.71, 0.51, True, True, "strict"),  # the tightest one it belongs to
        (0.10, 0.10, True, True, "document"),
        (0.00, 0.00, True, False, "document"),
        (0.35, 0.00, False, False, "fuzzy"),
        (0.34, 0.00, False, False, None),
        (0.34, 0.00, False, True, "fuzzy"),  # any term
        (None, 0.51, False, True, "strict"),  # words alone
        (None, 0.50, False, True, "fuzzy"),
        (None, 0.00, False, False, None),
        (None, 0.00, True, False, "document"),
    ],
)
def test_the_tier_of_a_result(
    similarity: float | None, covered: float, named: bool, meets: bool, tier: Tier | None
) -> None:
    assert tier_of(similarity, covered, is_named=named, meets=meets) == tier


def test_the_bounds_are_those_that_were_agreed() -> None:
    assert (STRICT, COVERED, FUZZY) == (0.7, 0.5, 0.35)


def test_a_rare_word_tells_more_than_a_common_one() -> None:
    weights = rarity(TermCounts(100, {"报销": 60, "生育": 2, "没有的": 0}, {}))
    assert weights["报销"] == pytest.approx(math.log(1 + 40.5 / 60.5))
    assert weights["报销"] < weights["生育"] < weights["没有的"]
    assert coverage(["生育"], {"报销": weights["报销"], "生育": weights["生育"]}) > COVERED
    assert coverage(["报销"], {"报销": weights["报销"], "生育": weights["生育"]}) < COVERED


def test_coverage_of_nothing_is_nothing() -> None:
    assert coverage([], {}) == 0.0
    assert coverage([], {"报销": 1.0}) == 0.0
    assert coverage(["报销"], rarity(TermCounts(0, {"报销": 0}, {}))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "words", "held"),
    [
        ("醫保報銷比例", ("医保", "报销"), ("医保", "报销")),
        ("ＲＡＧ系统", ("rag", "系统"), ("rag", "系统")),
        ("2012年", ("12",), ()),
        ("邮件 email", ("ai", "mail"), ()),
        ("第12条，2012年", ("12",), ("12",)),
        ("abc abcd abc", ("abc",), ("abc",)),
        ("5G网络", ("5g",), ("5g",)),
        ("", ("报销",), ()),
        ("报销", (), ()),
    ],
)
def test_which_words_stand_in_a_text(text: str, words: tuple[str, ...], held: tuple[str, ...]) -> None:
    assert matched_in(fold(text), words) == held
