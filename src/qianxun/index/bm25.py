"""BM25 as tantivy counts it, for backends that score with numpy: the constants, the rounded lengths, the ceiling."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Bm25
from qianxun.index.shared import SCORE_DECIMALS

TOKEN: Final = re.compile(r"[^ \t\n\f\r]+")  # what tantivy's whitespace tokenizer keeps


def _norms() -> NDArray[np.int64]:
    """The lengths that a byte stands for, as in Lucene's SmallFloat: exact up to 40, then three bits of each."""

    def value(code: int) -> int:
        if code < 24:
            return code
        bits, shift = (code - 24) & 7, ((code - 24) >> 3) - 1
        return 24 + (bits if shift < 0 else (bits | 8) << shift)

    return np.array([value(code) for code in range(256)], dtype=np.int64)


NORMS: Final = _norms()


def norm_codes(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The byte that stands for each length: of the longest that is no longer."""
    return np.searchsorted(NORMS, lengths, side="right") - 1


def damping(average: float, bm25: Bm25) -> NDArray[np.float64]:
    """k1 (1 − b + b · length ÷ average) for each code of a length."""
    found: NDArray[np.float64] = bm25.k1 * (1 - bm25.b + bm25.b * NORMS.astype(np.float64) / average)
    return found


def average_length(total: int, entries: int) -> float:
    return total / entries if total else 1.0


def term_weight(entries: int, holding: int, bm25: Bm25) -> float:
    """The most that a term can add to a score: (k1 + 1) times its inverse document frequency."""
    return (bm25.k1 + 1) * math.log(1 + (entries - holding + 0.5) / (holding + 0.5))


def ceiling(weights: Iterable[float]) -> float:
    """The most that a query of these weights can score; rounded up, never down."""
    return math.ceil(sum(weights) * 10.0**SCORE_DECIMALS) / 10.0**SCORE_DECIMALS
