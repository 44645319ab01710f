"""From a model's cosine to a score that means the same for every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from qianxun.core.types import Scores

STEEPEST = 700.0  # as far as an exponent is a number
TABLE_BY_WORDS = (0.149, 18.8)  # fitted by `benchmarks.table_layers`, as the cards' own curves of tables


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic curve: .5 at the cosine ``midpoint``, rising with ``slope``. Fitted by `qianxun eval --calibrate`."""

    midpoint: float
    slope: float

    def __call__(self, cosines: Scores) -> Scores:
        exponents = _within(self.slope * (cosines - self.midpoint), -STEEPEST, STEEPEST)
        curve: Scores = 1.0 / (1.0 + np.exp(-exponents))
        return curve


def clipped(cosines: Scores) -> Scores:
    """For a model without calibration: its cosine; below zero means unrelated, and counts as zero."""
    return _within(cosines, 0.0, 1.0)


def _within(values: Scores, low: float, high: float) -> Scores:
    """As `np.clip`, which for a page of scores takes eight times as long."""
    bounded: Scores = np.minimum(np.maximum(values, low), high)
    return bounded


Curve: TypeAlias = Callable[[Scores], Scores]

BACKGROUND: Final = 100  # the candidate after which a question's candidates have nothing to do with it, as a rule


def background(cosines: Scores, likeness: float) -> float:
    """The cosine of what has nothing to do with a question, in this base: that of its hundredth candidate. Where there
    are fewer, two chunks of the base have as little in common. Of few more than a hundred, the hundredth is the least
    alike of all, which says little: from one to the other in even steps, so that one document more does not change
    what a score means."""
    share = min(1.0, len(cosines) / BACKGROUND - 1.0)
    if share <= 0.0:
        return likeness
    hundredth = float(np.partition(cosines, len(cosines) - BACKGROUND)[len(cosines) - BACKGROUND])
    return likeness + share * (hundredth - likeness)


@dataclass(frozen=True, slots=True)
class Chance:
    """How likely a result is right, by how far the first one stands out.

    The chance of the first is logistic in ``offset + standing · (its cosine − the background's)``, and for a question
    with codes in ``code_found`` for those that it has, ``code_missing`` for those that it has not; of every other
    result it falls by ``slope`` with the distance of its score from the first one's. So it is one curve for all results
    of a question, rising with their scores. Fitted by `benchmarks.rotations`.
    """

    offset: float
    standing: float
    slope: float
    code_found: float = 0.0
    code_missing: float = 0.0

    def curve(self, first: float, cosine: float, background: float, codes: float | None = None) -> Calibration:
        """For results of which the ``first`` has this score, this cosine and this share of the question's codes;
        None: the question has none."""
        logit = self.offset + self.standing * (cosine - background)
        if codes is not None:
            logit += self.code_found * codes + self.code_missing * (1.0 - codes)
        return Calibration(first - logit / self.slope, self.slope)


@dataclass(frozen=True, slots=True)
class Curves:
    """What the scores of a model mean, alone and beside other signals.

    Each pair is (midpoint, slope), fitted on labelled questions (`models/cards`). The midpoint of a weighted sum is the
    same sum of its parts' midpoints: of cosines, of word shares, of a reranker's own scores. So a curve fits whatever
    weights a request chooses. Signals of other packages only add: a result without them shows what it would show if
    they took no part.
    """

    cosine: tuple[float, float] | None = None
    words: tuple[float, float] | None = None  # the midpoint of word shares; the slope of cosine and words together
    reader: tuple[float, float] | None = None  # the midpoint of MaxSim; the slope of all three
    table_cosine: tuple[float, float] | None = None  # rows of cells lie farther from a question than prose does
    table: tuple[float, float] | None = None  # of .6 · words and meaning, as shown, and .4 · structure
    chances: Mapping[str, Chance] = field(default_factory=dict)  # of results by "vector", "hybrid" and "reranked"

    @property
    def vector(self) -> Curve:
        return clipped if self.cosine is None else Calibration(*self.cosine)

    def fused(self, weights: Mapping[str, float]) -> Curve:
        """For the weighted sum of cosines and word shares. Words alone are shown as they are: a share already."""
        vector, keyword = weights.get("vector", 0.0), weights.get("keyword", 0.0)
        if self.cosine is None or vector == 0.0 or (keyword and self.words is None):
            return clipped
        slope = self.words[1] if self.words and keyword else self.cosine[1]
        part = (vector + keyword) / sum(weights.values()) if len(weights) > 2 else 1.0  # without other signals
        return Calibration(self._middle(vector, keyword) * part, slope / part)

    def reranked(self, weights: Mapping[str, float], share: float) -> Curve:
        """For that sum with a reranker's share in it."""
        vector, keyword = weights.get("vector", 0.0), weights.get("keyword", 0.0)
        if self.cosine is None or self.words is None or self.reader is None or share == 1.0 or vector == 0.0:
            return clipped
        part = (vector + keyword) / sum(weights.values()) if len(weights) > 2 else 1.0
        middle = (1.0 - share) * (self._middle(vector, keyword) * part) + share * self.reader[0]
        return Calibration(middle, self.reader[1])

    @property
    def table_vector(self) -> Curve:
        return self.vector if self.table_cosine is None else Calibration(*self.table_cosine)

    def tables(self, *, has_vectors: bool) -> Curve:
        """For the score of a table, by its structure beside words and meaning, or beside words alone."""
        if not has_vectors:
            return Calibration(*TABLE_BY_WORDS)
        return clipped if self.table is None else Calibration(*self.table)

    def _middle(self, vector: float, keyword: float) -> float:
        assert self.cosine is not None
        words = self.words[0] if self.words and keyword else 0.0
        return self.cosine[0] if not keyword else (vector * self.cosine[0] + keyword * words) / (vector + keyword)


UNCALIBRATED = Curves()
