"""Vectors in rows of a memory-mapped file: exact search, and one-bit codes that choose what is scored exactly.

Codes (RaBitQ, https://arxiv.org/abs/2405.12497) are scanned from end to end, so a filter is just a bitmap and costs no
recall, and rows are added without rebuilding anything. The cosines returned always come from the float32 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.errors import BadModelReply
from qianxun.index.extents import unusable
from qianxun.types import NOTHING, Keys, Ranking, Vector, Vectors

DECIMALS = 6  # beyond this, float32 sums depend on the order of adding
GATHER_SHARE = 0.3  # below this share of the rows it is cheaper to copy them out than to score them all
BLOCK = 16_384  # rows that are scored or checked in one go
FEW = 2_000  # so many allowed rows are scored exactly even beside codes
UNCODED = 8_000  # rows that may wait for their codes once there are any
CANDIDATES = 200  # least number of rows that codes propose
OVERSAMPLING = 10  # … and how many of them per wanted hit

Slots = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes of the first ``rows`` rows, as a faiss index that is never changed once readers see it."""

    index: Any
    rows: int
    few: int = FEW


@dataclass(slots=True)
class Checked:
    """How many rows of a file, from its start, have been compared with their sums since it was opened."""

    rows: int = 0


@dataclass(frozen=True, slots=True)
class VectorRows:
    """The rows of one moment."""

    rows: Vectors
    sums: NDArray[np.uint64]
    keys: Keys
    coded: Coded | None
    checked: Checked


def require_vectors(vectors: list[Vector], dimension: int) -> Vectors:
    """One matrix. Raises BadModelReply on a wrong dimension or a value that is not a number."""
    for vector in vectors:
        if np.shape(vector) != (dimension,):
            raise BadModelReply(f"向量应为 {dimension} 维，实为 {np.shape(vector)}", hint="请检查嵌入模型，或重建索引")
    matrix = np.array(vectors, dtype=np.float32, order="C").reshape(len(vectors), dimension)
    if not np.isfinite(matrix).all():
        raise BadModelReply("向量里有 NaN 或无穷大", hint="请检查嵌入模型的输出")
    return matrix


def row_sums(rows: Vectors) -> NDArray[np.uint64]:
    """A sum that any flipped bit in the row changes, at the speed of memory."""
    sums: NDArray[np.uint64] = np.ascontiguousarray(rows).view(np.uint32).sum(axis=1, dtype=np.uint64)
    return sums


def require_sums(rows: Vectors, sums: NDArray[np.uint64]) -> None:
    """Raises IndexUnusable when a row is not the one that was written."""
    if not np.array_equal(row_sums(rows), sums):
        raise unusable("向量文件已损坏")


def require_sums_from(held: VectorRows, first: int, end: int) -> None:
    """Checks a stretch of rows, except those that have been checked since the file was opened."""
    for start in range(max(first, held.checked.rows), end, BLOCK):
        stretch = slice(start, min(start + BLOCK, end))
        require_sums(held.rows[stretch], held.sums[stretch])
    if first <= held.checked.rows < end:
        held.checked.rows = end


def nearest(held: VectorRows, vector: Vector, limit: int, allowed: NDArray[np.bool_]) -> Ranking:
    """The nearest of the allowed rows."""
    slots = np.flatnonzero(allowed)
    if limit <= 0 or len(slots) == 0:
        return NOTHING
    if held.coded is not None and len(slots) > max(held.coded.few, limit):
        slots = _proposed(held.coded, vector, limit, allowed)
    first_uncoded = np.searchsorted(slots, held.coded.rows if held.coded else 0)
    scores = np.concatenate([_scores(held, vector, part) for part in np.split(slots, [first_uncoded])])
    best = _best(slots, scores, limit)
    return _exactly(held, vector, limit, best)


def _proposed(coded: Coded, vector: Vector, limit: int, allowed: NDArray[np.bool_]) -> Slots:
    """Rows worth scoring: those whose codes are nearest, and every allowed row that has no code yet."""
    faiss: Any = import_module("faiss")  # its type stubs know only the C++ signatures
    count = max(CANDIDATES, OVERSAMPLING * limit)
    bitmap = np.packbits(allowed[: coded.rows], bitorder="little")
    chosen = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bitmap))
    with _one_thread(faiss):
        _, found = coded.index.search(vector[None, :], min(count, coded.rows), params=chosen)
    proposed = np.sort(found[0][found[0] >= 0])
    uncoded = np.flatnonzero(allowed[coded.rows :]) + coded.rows
    return np.concatenate([proposed, uncoded])


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """One query is too little to share out: 1.0 ms alone; with a second thread 0.6 ms on an idle machine, 8 on a busy
    one, where OpenMP waits for it. The setting belongs to the calling thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _scores(held: VectorRows, vector: Vector, slots: Slots) -> NDArray[np.float32]:
    """Scores rows where they lie when most of that stretch is wanted, otherwise copies them out."""
    if len(slots) == 0:
        return np.empty(0, dtype=np.float32)
    first, end = int(slots[0]), int(slots[-1]) + 1
    scores = np.empty(len(slots), dtype=np.float32)
    if len(slots) >= GATHER_SHARE * (end - first):
        require_sums_from(held, first, end)
        np.take(_products(held.rows[first:end], vector), slots - first, out=scores)
        return scores
    for start in range(0, len(slots), BLOCK):
        part = slots[start : start + BLOCK]
        rows = held.rows[part]
        if held.checked.rows < len(held.rows):
            require_sums(rows, held.sums[part])
        scores[start : start + BLOCK] = _products(rows, vector)
    return scores


def _products(rows: Vectors, vector: Vector) -> NDArray[np.float32]:
    """Inner products on this thread: 50,000 × 512 in 4 ms, where BLAS on two busy cores took 20."""
    faiss: Any = import_module("faiss")
    rows = np.ascontiguousarray(rows)
    products = np.empty(len(rows), dtype=np.float32)
    faiss.fvec_inner_products_ny(
        faiss.swig_ptr(products), faiss.swig_ptr(vector), faiss.swig_ptr(rows), rows.shape[1], len(rows)
    )
    return products


def _best(slots: Slots, scores: NDArray[np.float32], limit: int) -> Slots:
    """The slots that can be among the best ``limit``, ties and rounding included."""
    if len(slots) <= limit:
        return slots
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    best: Slots = slots[scores >= least - np.float32(4 * 10.0**-DECIMALS)]
    return best


def _exactly(held: VectorRows, vector: Vector, limit: int, slots: Slots) -> Ranking:
    """Cosines summed in double precision, so that a row scores the same whatever is scored beside it."""
    wanted = vector.astype(np.float64)
    scores = np.round(np.einsum("ij,j->i", held.rows[slots].astype(np.float64), wanted), DECIMALS)
    return Ranking.ordered(held.keys[slots], scores).head(limit)


def _empty(dimension: int, center: NDArray[np.float32]) -> Any:
    import faiss

    index = faiss.IndexRaBitQ(dimension, faiss.METRIC_INNER_PRODUCT)
    index.qb = 4
    faiss.copy_array_to_vector(np.ascontiguousarray(center, dtype=np.float32), index.center)
    index.is_trained = True
    return index


def encode(center: NDArray[np.float32], rows: Vectors) -> bytes:
    """The codes of rows, seen from ``center``."""
    codes: bytes = _empty(rows.shape[1], center).sa_encode(np.ascontiguousarray(rows)).tobytes()
    return codes


def coded(center: NDArray[np.float32], codes: bytes, few: int) -> Coded:
    """An index over codes that `encode` made."""
    import faiss

    index = _empty(len(center), center)
    faiss.copy_array_to_vector(np.frombuffer(codes, dtype=np.uint8).copy(), index.codes)
    index.ntotal = len(codes) // index.code_size
    return Coded(index, int(index.ntotal), few)


def codes_of(held: Coded) -> bytes:
    import faiss

    codes: bytes = faiss.vector_to_array(held.index.codes).tobytes()
    return codes
