from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.rank.calibrate import UNCALIBRATED, Calibration, Chance, Curves, background, clipped
from tests.hypothesis_settings import examples

FITTED = Curves(cosine=(0.5, 12.0), words=(0.3, 9.0), reader=(0.7, 10.0))


def test_the_curve_is_logistic() -> None:
    curve = Calibration(0.5, 12.0)
    for cosine in (-1.0, 0.0, 0.5, 0.61, 1.0):
        assert curve(np.array([cosine]))[0] == pytest.approx(1 / (1 + math.exp(-12 * (cosine - 0.5))))


@examples(150)
@given(
    midpoint=st.floats(-1, 1),
    slope=st.floats(0.1, 1e6),
    cosines=st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=40),
)
def test_a_curve_stays_in_bounds_and_says_the_same_of_one_and_of_many(
    midpoint: float, slope: float, cosines: list[float]
) -> None:
    curve = Calibration(midpoint, slope)
    together = curve(np.array(cosines))
    assert ((together >= 0.0) & (together <= 1.0)).all()
    assert together.tolist() == [float(curve(np.array([cosine]))[0]) for cosine in cosines]
    rising = curve(np.sort(np.array(cosines)))
    assert (np.diff(rising) >= -1e-15).all()


def test_the_chance_of_the_first_follows_how_far_it_stands_out() -> None:
    chance = Chance(offset=-2.0, standing=10.0, slope=30.0)
    for cosine, unrelated in ((0.8, 0.5), (0.6, 0.5), (0.5, 0.5)):
        curve = chance.curve(0.4, cosine, unrelated)
        expected = 1 / (1 + math.exp(2.0 - 10.0 * (cosine - unrelated)))
        assert curve(np.array([0.4]))[0] == pytest.approx(expected)
    first, second = chance.curve(0.4, 0.7, 0.5)(np.array([0.4, 0.3]))
    assert second == pytest.approx(1 / (1 + math.exp(0.0 + 30.0 * 0.1)))
    assert first == pytest.approx(0.5)


def test_the_background_is_the_hundredth_candidate_or_what_two_chunks_have_in_common() -> None:
    cosines = np.random.default_rng(1).permutation(np.arange(300) / 300)
    assert background(cosines, 0.4) == pytest.approx(200 / 300)
    assert background(cosines[:99], 0.4) == 0.4


def test_no_document_more_changes_the_background_at_once() -> None:
    """In a base of a hundred chunks the hundredth is the least alike of all: every score would jump to 1."""
    cosines = np.linspace(0.05, 0.6, 200)
    found = [background(cosines[-count:], 0.4) for count in range(95, 201)]
    assert max(abs(after - before) for before, after in pairwise(found)) < 0.01
    assert found[-1] == pytest.approx(cosines[100])


def test_signals_of_others_only_add() -> None:
    """A sum without them is shown as it would be if they took no part."""
    alone, beside = (
        FITTED.fused({"vector": 0.6, "keyword": 0.4}),
        FITTED.fused({"vector": 0.6, "keyword": 0.4, "x": 0.5}),
    )
    sums = np.linspace(0.0, 1.0, 11)
    assert beside(sums / 1.5) == pytest.approx(alone(sums))


def test_without_a_fit_a_cosine_is_shown_as_it_is_and_less_than_nothing_as_nothing() -> None:
    assert clipped(np.array([-0.2, 0.0, 0.4, 1.0000001])).tolist() == [0.0, 0.0, 0.4, 1.0]
    every = {"vector": 0.6, "keyword": 0.4}
    assert UNCALIBRATED.vector is UNCALIBRATED.fused(every) is UNCALIBRATED.reranked(every, 0.3) is clipped


def test_the_middle_of_a_sum_is_the_sum_of_the_middles() -> None:
    assert FITTED.fused({"vector": 0.6, "keyword": 0.4}) == Calibration(0.6 * 0.5 + 0.4 * 0.3, 9.0)
    reranked = FITTED.reranked({"vector": 0.6, "keyword": 0.4}, 0.3)
    assert reranked == Calibration(0.7 * (0.6 * 0.5 + 0.4 * 0.3) + 0.3 * 0.7, 10.0)


def test_one_side_alone_is_judged_by_its_own_curve() -> None:
    assert FITTED.fused({"vector": 0.6}) == FITTED.vector == Calibration(0.5, 12.0)
    assert FITTED.fused({"keyword": 0.4}) is clipped
    assert FITTED.reranked({"vector": 1.0}, 1.0) is clipped


def test_a_code_raises_the_chance_and_one_that_is_missing_lowers_it() -> None:
    chance = Chance(offset=-2.0, standing=10.0, slope=30.0, code_found=5.0, code_missing=-4.0)

    def first(codes: float | None) -> float:
        return float(chance.curve(0.4, 0.6, 0.5, codes)(np.array([0.4]))[0])

    assert first(None) == pytest.approx(1 / (1 + math.exp(1.0)))
    assert first(1.0) == pytest.approx(1 / (1 + math.exp(1.0 - 5.0)))
    assert first(0.0) == pytest.approx(1 / (1 + math.exp(1.0 + 4.0)))
    assert first(0.5) == pytest.approx(1 / (1 + math.exp(1.0 - 2.5 + 2.0)))
