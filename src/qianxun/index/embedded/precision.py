"""How the numbers of vectors are stored: in half precision where that loses nothing, else in single precision.

What is embedded is rounded first (`core.vectors.rounded`), so that half precision is exact; vectors of earlier
programs, and those of few numbers, are not. One store has one precision: its first rows decide, and it is written anew
in single precision when a row comes that half precision would change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Vectors

StoredVectors: TypeAlias = NDArray[np.float16] | NDArray[np.float32]
AT_ONCE: Final = 16  # numbers that faiss multiplies at a time: what is left over it would add up in another order
COMPARED: Final = 1_024  # rows at a time


@dataclass(frozen=True, slots=True)
class Precision:
    """``file`` has the rows, numbers of ``kind``; a row's sum is that of its ``words``."""

    file: str
    kind: np.dtype[Any]
    words: np.dtype[Any]


SINGLE: Final = Precision("vectors", np.dtype("<f4"), np.dtype("<u4"))
HALF: Final = Precision("halves", np.dtype("<f2"), np.dtype("<u8"))


def precision_of(files: Iterable[str]) -> Precision | None:
    """That of a store with these files; None where it has no vectors yet."""
    names = set(files)
    return next((precision for precision in (HALF, SINGLE) if precision.file in names), None)


def can_be_half(dimension: int) -> bool:
    return dimension > 0 and dimension % AT_ONCE == 0


def is_half(rows: StoredVectors) -> bool:
    return rows.dtype == HALF.kind


def narrowest(rows: Vectors) -> Precision:
    """The one that takes the least space and loses nothing."""
    return HALF if can_be_half(rows.shape[1]) and is_exact(rows) else SINGLE


def is_exact(rows: Vectors) -> bool:
    """Whether half precision loses nothing."""
    parts = (rows[start : start + COMPARED] for start in range(0, len(rows), COMPARED))
    with np.errstate(over="ignore"):  # what is too large for it does not come back
        return all(np.array_equal(part.astype(HALF.kind).astype(SINGLE.kind), part) for part in parts)


def widened(rows: StoredVectors) -> Vectors:
    """The rows in single precision, one after another in memory; copied only where they are not."""
    wide: Vectors = np.ascontiguousarray(rows, dtype=np.float32)
    return wide


def row_sums(rows: StoredVectors) -> NDArray[np.uint64]:
    """A checksum that any flipped bit in the row changes, at the speed of memory."""
    words = (HALF if is_half(rows) else SINGLE).words
    sums: NDArray[np.uint64] = np.ascontiguousarray(rows).view(words).sum(axis=1, dtype=np.uint64)
    return sums
