"""The curve that turns the cosines of a model into calibrated scores.

The curve is a logistic: ``1 / (1 + exp(-slope · (cosine - midpoint)))``. It is fitted to labelled candidates, the right
and the wrong ones weighing the same in all: .5 then says that a candidate is as likely right as wrong when both are
equally many.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput

Numbers: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.bool_]

BINS = 10
STEPS = 100
SEED = 20260101


@dataclass(frozen=True, slots=True)
class Curve:
    midpoint: float
    slope: float

    def __call__(self, cosines: Numbers) -> Numbers:
        return _logistic(self.slope * (cosines - self.midpoint))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One document that a query found, and whether it is relevant."""

    cosine: float
    is_relevant: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The curve fitted to everything, and how far scores are from the truth: the clipped cosine, then the curve.

    ``validation_errors`` are the same two numbers on a held-out half of the queries, with a curve fitted to the other.
    """

    curve: Curve
    queries: int
    candidates: int
    relevant: int
    errors: tuple[float, float]
    validation_errors: tuple[float, float]


def calibrate(queries: Sequence[Sequence[Candidate]]) -> Report:
    """Fits the curve to the candidates of every query. Raises BadInput where they cannot be calibrated."""
    order = list(queries)
    random.Random(SEED).shuffle(order)
    half = len(order) // 2
    cosines, labels = _columns(order)
    curve = fit(cosines, labels)
    learnt = _columns(order[:half])
    return Report(
        curve=curve,
        queries=len(order),
        candidates=len(cosines),
        relevant=int(labels.sum()),
        errors=_errors(curve, cosines, labels),
        validation_errors=_errors(fit(*learnt), *_columns(order[half:])),
    )


def _columns(queries: Sequence[Sequence[Candidate]]) -> tuple[Numbers, Labels]:
    candidates = [candidate for query in queries for candidate in query]
    cosines = np.array([candidate.cosine for candidate in candidates], dtype=np.float64)
    return cosines, np.array([candidate.is_relevant for candidate in candidates], dtype=np.bool_)


def _errors(curve: Curve, cosines: Numbers, labels: Labels) -> tuple[float, float]:
    before = expected_calibration_error(np.clip(cosines, 0.0, 1.0), labels)
    return before, expected_calibration_error(curve(cosines), labels)


def fit(cosines: Numbers, labels: Labels) -> Curve:
    """The likeliest curve, by Newton's method with halved steps where a whole one overshoots.

    The labels are drawn a little towards the middle as Platt (1999) does, (n+1)/(n+2) and 1/(m+2): with n and m in the
    hundreds that changes nothing, and where right and wrong are perfectly apart it keeps the slope finite.
    """
    _check(cosines, labels)
    centre, spread = float(cosines.mean()), float(cosines.std())
    scaled = (cosines - centre) / spread
    weights = _equal_weights(labels)
    right, wrong = int(labels.sum()), int((~labels).sum())
    targets = np.where(labels, (right + 1.0) / (right + 2.0), 1.0 / (wrong + 2.0))
    slope, offset = _newton(scaled, targets, weights)
    if slope <= 1e-9:
        raise BadInput(
            "相关文档的余弦并不比无关文档的高，这个模型无法在这些数据上校准", hint="核对标注与模型，或换一个评测集"
        )
    return Curve(midpoint=centre - spread * offset / slope, slope=slope / spread)


def _check(cosines: Numbers, labels: Labels) -> None:
    if len(cosines) != len(labels):
        raise ValueError("one label for each cosine")
    if not np.isfinite(cosines).all():
        raise BadInput("候选的余弦里有不是数字的值", hint="用 qianxun models test 检查模型")
    if not labels.any() or labels.all():
        absent = "无关" if labels.any() else "相关"
        raise BadInput(f"候选里没有{absent}的文档，无法校准", hint="用更多查询（增大 --limit），或换一个评测集")
    if float(cosines.std()) < 1e-9:
        raise BadInput("所有候选的余弦都一样，无法校准", hint="核对模型是否正常，或换一个评测集")


def _newton(at: Numbers, targets: Numbers, weights: Numbers) -> tuple[float, float]:
    """(slope, offset) of the weighted logistic regression of ``targets`` on ``at``."""
    columns = np.stack([at, np.ones_like(at)], axis=1)
    found = np.zeros(2)
    loss = _loss(columns @ found, targets, weights)
    for _ in range(STEPS):
        scores = _logistic(columns @ found)
        gradient = columns.T @ (weights * (scores - targets))
        curvature = columns.T @ (columns * (weights * scores * (1.0 - scores))[:, None]) + 1e-12 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        share = 1.0
        while share > 1e-10 and (after := _loss(columns @ (found - share * step), targets, weights)) > loss:
            share /= 2.0
        if share <= 1e-10 or loss - after < 1e-14:
            break
        found, loss = found - share * step, after
    return float(found[0]), float(found[1])


def _loss(at: Numbers, targets: Numbers, weights: Numbers) -> float:
    return float(np.sum(weights * (np.logaddexp(0.0, at) - targets * at)))


def _logistic(at: Numbers) -> Numbers:
    found: Numbers = np.exp(-np.logaddexp(0.0, -at))
    return found


def _equal_weights(labels: Labels) -> Numbers:
    """Both classes weigh a half in all."""
    right, wrong = int(labels.sum()), int((~labels).sum())
    shares: Numbers = np.where(labels, 0.5 / max(right, 1), 0.5 / max(wrong, 1))
    shares /= shares.sum()
    return shares


def expected_calibration_error(scores: Numbers, labels: Labels) -> float:
    """How far scores are from the share of right candidates among those that have them, both classes weighing the same.

    Scores fall into `BINS` of equal width; each bin counts by its weight.
    """
    if not len(scores):
        return 0.0
    weights = _equal_weights(labels)
    places = np.clip((scores * BINS).astype(np.int64), 0, BINS - 1)
    gaps = np.bincount(places, weights=weights * (scores - labels), minlength=BINS)
    return float(np.abs(gaps).sum())
