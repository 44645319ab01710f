"""Vectors in rows of a memory-mapped file: scored exactly, all of them or those that codes propose (`codes`).

The cosines returned always come from the rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import NOTHING, Keys, Ranking, Scores, Vector
from qianxun.index.embedded.codes import CodedRows, faiss
from qianxun.index.embedded.precision import StoredVectors, row_sums
from qianxun.index.embedded.products import products, products_of
from qianxun.index.shared import COSINE_DECIMALS, mean_cosine, unusable

DENSE_SHARE = 0.3  # above this share of a stretch it is cheaper to score all its rows
BLOCK = 16_384  # rows that are checked in one go
UNCODED = 2_000  # rows that may wait for their codes once there are any: to score 5,000 takes half of a search

Slots = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class CheckedRows:
    """Which rows of a file have been compared with their sums since it was opened. To mark one twice does no harm."""

    _seen: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def seen(self, count: int) -> Mask:
        """A mark for each of at least ``count`` rows, to be read and set."""
        if len(self._seen) < count:
            grown = np.zeros(max(count, 2 * len(self._seen)), dtype=bool)
            grown[: len(self._seen)] = self._seen
            self._seen = grown
        return self._seen


@dataclass(frozen=True, slots=True)
class VectorRows:
    """The rows of one moment."""

    rows: StoredVectors
    sums: NDArray[np.uint64]
    keys: Keys
    coded: CodedRows | None
    checked: CheckedRows


def are_sound(rows: StoredVectors, sums: NDArray[np.uint64]) -> bool:
    """Whether each row is the one that was written."""
    return bool(np.array_equal(row_sums(rows), sums))


def require_sums(rows: StoredVectors, sums: NDArray[np.uint64]) -> None:
    """Raises IndexUnusable when a row is not the one that was written."""
    if not are_sound(rows, sums):
        raise unusable("向量文件已损坏")


def require_sums_from(table: VectorRows, first: int, end: int) -> None:
    """Checks a stretch of rows, except what has been checked since the file was opened."""
    seen = table.checked.seen(end)
    for start in range(first, end, BLOCK):
        stretch = slice(start, min(start + BLOCK, end))
        if not seen[stretch].all():
            require_sums(table.rows[stretch], table.sums[stretch])
            seen[stretch] = True


def _require_sums_of(table: VectorRows, slots: Slots) -> None:
    seen = table.checked.seen(len(table.rows))
    fresh = slots[~seen[slots]]
    for start in range(0, len(fresh), BLOCK):
        part = fresh[start : start + BLOCK]
        require_sums(table.rows[part], table.sums[part])
        seen[part] = True


def nearest(table: VectorRows, vector: Vector, limit: int, allowed: Mask, exact: int = 0) -> Ranking:
    """The nearest of the allowed rows. So many (``exact``), at least, are scored one by one."""
    faiss()  # also where nothing passes: loaded by the first search, not by one with a deadline
    passing = int(np.count_nonzero(allowed))
    if limit <= 0 or passing == 0:
        return NOTHING
    coded = table.coded
    first_uncoded = coded.rows if coded else 0
    uncoded = np.flatnonzero(allowed[first_uncoded:]) + first_uncoded
    if coded is not None and not coded.is_exact_for(passing, max(limit, exact)):
        chosen = coded.proposed(vector, limit, allowed[:first_uncoded], passing - len(uncoded))
    else:
        chosen = np.flatnonzero(allowed[:first_uncoded])
    scored = [_scored(table, vector, part) for part in (chosen, uncoded) if len(part)]
    return _ranked(table, vector, limit, scored[0] if len(scored) == 1 else _joined(*scored))


@dataclass(frozen=True, slots=True)
class _Scored:
    """Rows with their inner products; ``is_exact``: each taken by itself, as `products_of` does."""

    slots: Slots
    products: NDArray[np.float32]
    is_exact: bool


def _scored(table: VectorRows, vector: Vector, slots: Slots) -> _Scored:
    """Scores a stretch from end to end when most of it is needed, otherwise row by row, both in place."""
    first, end = int(slots[0]), int(slots[-1]) + 1
    if len(slots) >= DENSE_SHARE * (end - first):
        require_sums_from(table, first, end)
        return _Scored(slots, products(table.rows[first:end], vector)[slots - first], is_exact=False)
    _require_sums_of(table, slots)
    return _Scored(slots, products_of(table.rows, slots, vector), is_exact=True)


def _joined(one: _Scored, other: _Scored) -> _Scored:
    return _Scored(
        np.concatenate([one.slots, other.slots]),
        np.concatenate([one.products, other.products]),
        one.is_exact and other.is_exact,
    )


def _ranked(table: VectorRows, vector: Vector, limit: int, scored: _Scored) -> Ranking:
    """The best of them by their cosines, which do not depend on what else is scored."""
    best = _best(scored.products, limit)
    slots = scored.slots[best]
    cosines = _rounded(scored.products[best]) if scored.is_exact else _cosines(table, vector, slots)
    return Ranking.ordered(table.keys[slots], cosines).head(limit)


def _best(scores: NDArray[np.float32], limit: int) -> Slots:
    """Positions of those that can be among the best ``limit``, ties and rounding included."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= least - np.float32(4 * 10.0**-COSINE_DECIMALS))


def cosines(table: VectorRows, vector: Vector, slots: Slots) -> Scores:
    """Exactly the scores of `nearest` for these rows."""
    _require_sums_of(table, slots)
    return _cosines(table, vector, slots)


def likeness(table: VectorRows, slots: Slots) -> float:
    """The mean cosine between two different rows of these."""
    _require_sums_of(table, slots)
    return mean_cosine(table.rows[slots].astype(np.float64))


def _cosines(table: VectorRows, vector: Vector, slots: Slots) -> Scores:
    """Row by row, by one routine: a row's score does not depend on what else is scored."""
    return _rounded(products_of(table.rows, slots, vector))


def _rounded(products: NDArray[np.float32]) -> Scores:
    exact: Scores = products.astype(np.float64)
    return exact.round(COSINE_DECIMALS)
