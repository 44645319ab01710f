"""From a model's cosine to a score that means the same for every model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from qianxun.types import Scores


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic curve: .5 at the cosine ``midpoint``, rising with ``slope``. Fitted by `qianxun eval --calibrate`."""

    midpoint: float
    slope: float

    def __call__(self, cosines: Scores) -> Scores:
        curve: Scores = 1.0 / (1.0 + np.exp(-self.slope * (cosines - self.midpoint)))
        return curve

    def cosine_at(self, score: float) -> float:
        """The cosine that has this score."""
        return float(self.midpoint + np.log(score / (1.0 - score)) / self.slope)


def clipped(cosines: Scores) -> Scores:
    """For a model that nobody has calibrated: its cosine; below zero means unrelated, and counts as zero."""
    kept: Scores = np.clip(cosines, 0.0, 1.0)
    return kept


Curve: TypeAlias = Callable[[Scores], Scores]


@dataclass(frozen=True, slots=True)
class Curves:
    """What a model's scores mean: its cosine, the weighted sum of cosine and words, and the same after a rerank."""

    vector: Curve
    hybrid: Curve
    reranked: Curve


UNCALIBRATED = Curves(clipped, clipped, clipped)
