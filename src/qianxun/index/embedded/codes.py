"""One-bit codes in lists, which propose the rows to score exactly.

Codes (RaBitQ, https://arxiv.org/abs/2405.12497) are relative to the nearest of at most 256 centres and stored in
its list (faiss IndexIVFRaBitQ). A search of the whole base reads the lists nearest to the query, `PROBED` of
them; a filtered one reads them all, so a filter costs no recall. Rows are added without rebuilding anything.

On disk a row's code is the number of its list (one byte) and the code proper, in the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Vector, Vectors

FEW = 2_000  # so many allowed rows are scored exactly even beside codes
POOL = 600  # rows that codes propose, whatever the limit: a longer list then starts with the shorter one
POOLED = 200  # … up to this limit; beyond it
OVERSAMPLING = 5  # rows are proposed per hit
LISTS = 256  # at most: a list's number is one byte
LIST_ROWS = 64  # … and at least so many rows to a list, which is also how many of them train its centre
LEAST_ROWS = 40_000  # of fewer rows every list is read: 200 hits are too large a share of them
PROBED = 0.5  # of the lists; measured on real text in docs/decisions/0006-recall-speed.md
WHOLE = 0.7  # a search that lets through so much of the rows is a search of the whole base
ROUNDS = 8
SEED = 20
QUERY_BITS = 4

Slots = NDArray[np.int64]
Mask = NDArray[np.bool_]
Centers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes of the first ``rows`` rows, as a faiss index that is never changed once readers see it."""

    index: Any
    rows: int
    few: int = FEW

    def proposed(self, vector: Vector, limit: int, allowed: Mask, passing: int) -> Slots:
        """The allowed rows whose codes are nearest, ascending; ``allowed`` speaks of the coded rows, ``passing`` of
        them."""
        number = min(POOL if limit <= POOLED else OVERSAMPLING * limit, passing)
        lists: int = self.index.nlist
        if limit <= POOLED and self.rows >= LEAST_ROWS and passing >= WHOLE * self.rows:
            found = self._search(vector, number, allowed, passing, int(PROBED * lists))
            if len(found) == number:  # not when the nearest lists are nearly empty
                return found
        return self._search(vector, number, allowed, passing, lists)

    def _search(self, vector: Vector, number: int, allowed: Mask, passing: int, probes: int) -> Slots:
        if number == 0:
            return np.empty(0, dtype=np.int64)
        if passing == self.rows:
            chosen = _unfiltered(probes)
        else:
            # Both the bitmap and its selector must outlive the search.
            bitmap = np.packbits(allowed, bitorder="little")
            selector = faiss().IDSelectorBitmap(bitmap)
            chosen = faiss().IVFRaBitQSearchParameters(nprobe=probes, qb=QUERY_BITS, sel=selector)
        with OneThread():
            _, found = self.index.search(vector[None, :], number, params=chosen)
        slots: Slots = np.sort(found[0])
        return slots[np.searchsorted(slots, 0) :]  # -1 where there were fewer


@cache
def faiss() -> Any:
    """Loaded with the first vectors. Its type stubs know only the C++ signatures."""
    return import_module("faiss")


@cache
def _unfiltered(probes: int) -> Any:
    return faiss().IVFRaBitQSearchParameters(nprobe=probes, qb=QUERY_BITS)


class OneThread:
    """One query is too little to share out: 1.0 ms alone; with a second thread 0.6 ms on an idle machine, 8 on a busy
    one, where OpenMP waits for it. The setting belongs to the calling thread."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = faiss().omp_get_max_threads()
        faiss().omp_set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        faiss().omp_set_num_threads(self._before)


def centers_of(rows: Vectors) -> Centers:
    """The centres of lists for rows like these; the same rows give the same centres."""
    lists = max(1, min(LISTS, len(rows) // LIST_ROWS))
    if lists == 1:
        return np.mean(rows, axis=0, dtype=np.float64, keepdims=True).astype("<f4")
    spread = np.linspace(0, len(rows) - 1, min(len(rows), lists * LIST_ROWS)).astype(np.int64)
    trained = faiss().Kmeans(
        rows.shape[1], lists, niter=ROUNDS, seed=SEED, min_points_per_centroid=1, max_points_per_centroid=LIST_ROWS
    )
    with OneThread():
        trained.train(np.ascontiguousarray(rows[spread]))
    centers: Centers = trained.centroids.astype("<f4")
    return centers


def encode(centers: Centers, rows: Vectors) -> bytes:
    """The codes of rows, seen from the nearest of ``centers``."""
    index = _empty(centers)
    records = index.sa_encode(np.ascontiguousarray(rows)).reshape(len(rows), -1)
    if index.coarse_code_size() == 0:  # faiss does not number a single list
        records = np.hstack([np.zeros((len(rows), 1), dtype=np.uint8), records])
    codes: bytes = records.tobytes()
    return codes


def coded(centers: Centers, codes: bytes, few: int) -> Coded:
    """An index over codes that `encode` made."""
    index = _empty(centers)
    records = np.frombuffer(codes, dtype=np.uint8).reshape(-1, 1 + index.code_size)
    lists = records[:, 0]
    order = np.argsort(lists, kind="stable").astype(np.int64)
    bodies = np.ascontiguousarray(records[order, 1:])
    ends = np.cumsum(np.bincount(lists, minlength=len(centers))).tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            ids, body = order[start:end], bodies[start:end]
            index.invlists.add_entries(number, end - start, faiss().swig_ptr(ids), faiss().swig_ptr(body))
    index.ntotal = len(records)
    return Coded(index, len(records), few)


def _empty(centers: Centers) -> Any:
    quantizer = faiss().IndexFlatL2(centers.shape[1])
    quantizer.add(np.ascontiguousarray(centers, dtype=np.float32))
    index = faiss().IndexIVFRaBitQ(quantizer, centers.shape[1], len(centers), faiss().METRIC_INNER_PRODUCT)
    index.qb = QUERY_BITS
    index.is_trained = True
    return index
