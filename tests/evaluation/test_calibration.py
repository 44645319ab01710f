from __future__ import annotations

import numpy as np
import pytest

from qianxun.core.errors import BadInput
from qianxun.evaluation.calibration import Candidate, Curve, calibrate, expected_calibration_error, fit
from qianxun.rank.calibrate import Calibration


def labelled(midpoint: float, slope: float, count: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Cosines, each right with the probability that the curve gives it; right and wrong are equally many on average."""
    random = np.random.default_rng(seed)
    cosines = midpoint + random.uniform(-0.3, 0.3, count)
    return cosines, random.random(count) < Curve(midpoint, slope)(cosines)


@pytest.mark.parametrize(("midpoint", "slope"), [(0.55, 14.0), (0.3, 6.0), (0.8, 30.0)])
def test_known_parameters_are_found_again(midpoint: float, slope: float) -> None:
    found = fit(*labelled(midpoint, slope, 40_000))
    assert found.midpoint == pytest.approx(midpoint, abs=0.01)
    assert found.slope == pytest.approx(slope, rel=0.05)


def test_how_many_are_wrong_does_not_matter() -> None:
    cosines, labels = labelled(0.55, 14.0, 40_000)
    more = np.concatenate([cosines, np.repeat(cosines[~labels], 9)])
    marks = np.concatenate([labels, np.zeros(9 * int((~labels).sum()), dtype=bool)])
    once, often = fit(cosines, labels), fit(more, marks)
    assert often.midpoint == pytest.approx(once.midpoint, abs=1e-3)
    assert often.slope == pytest.approx(once.slope, rel=1e-2)


@pytest.mark.parametrize("count", [1, 2, 100, 5000])
def test_perfectly_separable_data_do_not_diverge(count: int) -> None:
    cosines = np.concatenate([np.linspace(0.2, 0.4, count), np.linspace(0.6, 0.8, count)])
    labels = np.arange(2 * count) >= count
    found = fit(cosines, labels)
    assert 0.39 < found.midpoint < 0.61
    assert 0.0 < found.slope < 1000.0
    assert found(np.array([0.3]))[0] < 0.5 < found(np.array([0.7]))[0]


@pytest.mark.parametrize(
    ("cosines", "labels", "told"),
    [
        ([], [], "没有相关的文档"),
        ([0.5, 0.6], [False, False], "没有相关的文档"),
        ([0.5, 0.6], [True, True], "没有无关的文档"),
        ([0.5, 0.5], [True, False], "余弦都一样"),
        ([0.5, float("nan")], [True, False], "不是数字"),
        ([0.9, 0.8, 0.2, 0.1], [False, False, True, True], "并不比无关文档的高"),
    ],
)
def test_what_cannot_be_fitted_is_told(cosines: list[float], labels: list[bool], told: str) -> None:
    with pytest.raises(BadInput, match=told) as raised:
        fit(np.array(cosines, dtype=float), np.array(labels, dtype=bool))
    assert raised.value.hint


def test_the_error_is_the_gap_between_score_and_truth() -> None:
    # Two right, two wrong, so each weighs 1/4. The bin of .9 holds one right and one wrong: a gap of .9 - .5 at
    # weight 1/2; the bin of .2 the same: .2 - .5.
    scores = np.array([0.95, 0.85, 0.25, 0.15]) + np.array([-0.05, 0.05, -0.05, 0.05])
    labels = np.array([True, False, True, False])
    assert expected_calibration_error(scores, labels) == pytest.approx(0.5 * 0.4 + 0.5 * 0.3)


def test_both_classes_weigh_the_same_in_the_error() -> None:
    # One right at 1 (weight 1/2) and nine wrong at .4 (1/18 each): 1/2 · 0 + 1/2 · .4.
    scores = np.array([1.0] + [0.4] * 9)
    assert expected_calibration_error(scores, np.array([True] + [False] * 9)) == pytest.approx(0.2)


def test_a_perfect_score_has_no_error() -> None:
    assert expected_calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0
    assert expected_calibration_error(np.array([]), np.array([], dtype=bool)) == 0.0


def test_the_curve_is_that_of_the_ranking() -> None:
    cosines = np.linspace(-1.0, 1.0, 21)
    assert Curve(0.6, 12.0)(cosines) == pytest.approx(Calibration(0.6, 12.0)(cosines))
    assert np.isfinite(Curve(0.6, 1e6)(cosines)).all()


def test_a_calibration_lowers_the_error_on_queries_it_has_not_seen() -> None:
    cosines, labels = labelled(0.6, 15.0, 4000)
    each = [Candidate(float(cosine), bool(label)) for cosine, label in zip(cosines, labels, strict=True)]
    report = calibrate([each[start : start + 10] for start in range(0, 4000, 10)])
    assert (report.queries, report.candidates, report.relevant) == (400, 4000, int(labels.sum()))
    assert report.errors[1] < 0.03 < report.errors[0]
    assert report.validation_errors[1] < 0.06 < report.validation_errors[0]
    assert calibrate([each[start : start + 10] for start in range(0, 4000, 10)]) == report


def test_a_calibration_of_one_query_is_an_error_and_no_crash() -> None:
    with pytest.raises(BadInput):
        calibrate([[Candidate(0.5, True), Candidate(0.4, False)]])
    with pytest.raises(BadInput):
        calibrate([])
