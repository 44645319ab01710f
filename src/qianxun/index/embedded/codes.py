"""One-bit codes in lists, which propose the rows to score exactly.

Codes (RaBitQ, https://arxiv.org/abs/2405.12497) are relative to the nearest of many centres and stored in its list
(faiss IndexIVFRaBitQ). Up to `MANY_ROWS` there are at most 256 lists: a search of the whole base reads the nearest half
of them, a filtered one all. Beyond, there are `PER_ROOT` times as many as the square root of the rows, and a search
reads the `PROBES` whose centres have the best cosines, or more where a filter lets fewer rows through: by the cube root
of what is left, a filter costs no recall.

Rows are added without rebuilding anything: the latest are in an index of their own, until they are so many that all
are put together anew.

On disk a row's code is the number of its list (one byte; two where there are more than 256) and the code proper, in
the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.types import Vector, Vectors
from qianxun.index.embedded.precision import StoredVectors, widened

FEW = 2_000  # so many allowed rows are scored exactly even beside codes
POOL = 600  # rows that codes propose, whatever the limit: a longer list then starts with the shorter one
POOLED = 200  # … up to this limit; beyond it
OVERSAMPLING = 5  # rows are proposed per hit
LISTS = 256  # at most, up to `MANY_ROWS`
LIST_ROWS = 64  # … and at least so many rows to a list, which is also how many of them train its centre
LEAST_ROWS = 40_000  # of fewer rows every list is read: 200 hits are too large a share of them
PROBED = 0.5  # of the lists; measured on real text in docs/decisions/0006-recall-speed.md
WHOLE = 0.7  # a search that lets through so much of the rows is a search of the whole base
MANY_ROWS = 150_000  # more of them have finer lists; measured in docs/decisions/0032-a-million-chunks.md
PER_ROOT = 3
PROBES = 400  # lists that a search of the whole base reads then
LEAST_PROBED = 0.6  # … of these, where the base has grown since its lists were made and each holds more rows
MANY_POOL = 900  # rows that their codes propose
FEW_SHARE = 1 / 64  # of the rows are scored exactly
MANY_LIST_ROWS = 32  # that train the centre of one of many lists
MOST_LISTS = 60_000  # their numbers have two bytes
NEAR_GROUPS = 4  # groups of centres among which a row's own is looked for
TAIL_SHARE = 1 / 8  # of the rows may be in an index of their own
ENCODED = 1 << 14  # rows at a time
ROUNDS, MANY_ROUNDS = 8, 3
SEED = 20
QUERY_BITS = 4

Slots = NDArray[np.int64]
Mask = NDArray[np.bool_]
Centers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CodePart:
    """Codes of some rows after one another, as a faiss index that is never changed once readers see it."""

    index: Any
    rows: int


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Codes of the first ``rows`` rows: nearly all in the first part, those that came since in a second."""

    centers: Centers
    parts: tuple[CodePart, ...]
    few: int = FEW
    tail: bytes = b""  # the codes of the second part
    directions: Centers = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))  # of many centres

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def is_exact_for(self, passing: int, limit: int) -> bool:
        """Whether so few rows are scored sooner than they are proposed."""
        many = FEW_SHARE * self.rows if len(self.centers) > LISTS else 0
        return passing <= max(self.few, limit, many)

    def proposed(self, vector: Vector, limit: int, allowed: Mask, passing: int) -> Slots:
        """The allowed rows whose codes are nearest, ascending; ``allowed`` speaks of the coded rows, ``passing`` of
        them."""
        pool = POOL if len(self.centers) <= LISTS else MANY_POOL
        number = min(pool if limit <= POOLED else max(pool, OVERSAMPLING * limit), passing)
        lists, probes = len(self.centers), self._probes(limit, passing)
        if probes < lists:
            found = self._search(vector, number, allowed, passing, probes)
            if len(found) == number:  # not when the nearest lists are nearly empty
                return found
        return self._search(vector, number, allowed, passing, lists)

    def _probes(self, limit: int, passing: int) -> int:
        """How many lists to read."""
        lists = len(self.centers)
        if limit > POOLED or self.rows < LEAST_ROWS or passing == 0:
            return lists
        if lists > LISTS:
            # As large a share of the rows as of lists made today: of a million rows in 1,711 lists, 240 of these found
            # as many of the nearest ten as 400 did, in two thirds of the time.
            fineness = min(1.0, max(LEAST_PROBED, lists / (PER_ROOT * math.sqrt(self.rows))))
            return min(lists, math.ceil(PROBES * fineness * math.cbrt(self.rows / passing)))
        return int(PROBED * lists) if passing >= WHOLE * self.rows else lists

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
            if len(self.centers) <= LISTS:
                found = [part.index.search(vector[None, :], number, params=chosen) for part in self.parts]
            else:
                lists = self._nearest_lists(vector, probes)
                found = [_search_lists(part.index, vector, number, lists, chosen) for part in self.parts]
        slots: Slots = np.sort(found[0][1][0] if len(found) == 1 else _nearest_of(found, number))
        return slots[np.searchsorted(slots, 0) :]  # -1 where there were fewer

    def _nearest_lists(self, vector: Vector, probes: int) -> NDArray[np.int64]:
        """By the cosine of the centre: a wide cluster has a short one, and by distance would seem nearer than it is.
        Of the nearest ten, .97 were in the tenth of the rows nearest by cosine, and .95 by distance."""
        products = np.empty(len(self.centers), dtype=np.float32)
        pointers = map(faiss().swig_ptr, (products, vector, self.directions))
        faiss().fvec_inner_products_ny(*pointers, len(vector), len(products))
        best = np.argpartition(-products, min(probes, len(products) - 1))[:probes]
        return np.ascontiguousarray(best[np.argsort(-products[best], kind="stable")])


def _search_lists(
    index: Any, vector: Vector, number: int, lists: NDArray[np.int64], chosen: Any
) -> tuple[NDArray[np.float32], Slots]:
    """As faiss searches, in lists that it did not choose: its own wrapper of this call takes no parameters."""
    products, slots = np.empty((1, number), dtype=np.float32), np.empty((1, number), dtype=np.int64)
    distances = np.zeros(len(lists), dtype=np.float32)  # to the centres: codes have no use for them
    pointers = map(faiss().swig_ptr, (lists, distances, products, slots))
    index.search_preassigned_c(1, faiss().swig_ptr(vector), number, *pointers, False, chosen)
    return products, slots


def _nearest_of(found: Sequence[tuple[Any, Any]], number: int) -> Slots:
    """The nearest of several parts; of those that are as near the first, as if they were one."""
    products = np.concatenate([part[0][0] for part in found])
    slots: Slots = np.concatenate([part[1][0] for part in found])
    products, slots = products[slots >= 0], slots[slots >= 0]
    return slots[np.lexsort((slots, -products))[:number]]


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


def centers_of(rows: StoredVectors) -> Centers:
    """The centres of lists for rows like these; the same rows give the same centres."""
    if len(rows) >= MANY_ROWS:
        return _many_centers(rows, min(MOST_LISTS, int(PER_ROOT * len(rows) ** 0.5)))
    lists = max(1, min(LISTS, len(rows) // LIST_ROWS))
    if lists == 1:
        return np.mean(rows, axis=0, dtype=np.float64, keepdims=True).astype("<f4")
    return _clustered(_spread(rows, lists * LIST_ROWS), lists)


def _spread(rows: StoredVectors, number: int) -> Vectors:
    """So many of the rows, evenly spaced."""
    spread = np.linspace(0, len(rows) - 1, min(len(rows), number)).astype(np.int64)
    return widened(rows[spread])


def _clustered(rows: Vectors, number: int, first: Centers | None = None, rounds: int = ROUNDS) -> Centers:
    trained = faiss().Kmeans(
        rows.shape[1], number, niter=rounds, seed=SEED, min_points_per_centroid=1, max_points_per_centroid=LIST_ROWS
    )
    with OneThread():
        trained.train(rows, init_centroids=first)
    centers: Centers = trained.centroids.astype("<f4")
    return centers


def _many_centers(rows: StoredVectors, number: int) -> Centers:
    """Centres of clusters within clusters, then moved among all rows twice: in a third of the time that it takes to
    look for so many at once."""
    sample = _spread(rows, number * MANY_LIST_ROWS)
    groups = int(number**0.5)
    outer = _clustered(_spread(sample, groups * LIST_ROWS), groups)
    with OneThread():
        _, nearest = _flat(outer).search(sample, 1)
    made = []
    for group in range(groups):
        own = np.ascontiguousarray(sample[nearest[:, 0] == group])
        share = max(1, round(number * len(own) / len(sample)))
        if len(own) > 0:
            made.append(_clustered(own, share) if 1 < share < len(own) else own.mean(axis=0, keepdims=True))
    first = np.ascontiguousarray(np.concatenate(made), dtype="<f4")
    return _clustered(sample, len(first), first, MANY_ROUNDS)


def encode(centers: Centers, rows: StoredVectors) -> bytes:
    """The codes of rows, seen from the nearest of ``centers``."""
    index = _empty(centers)
    encoded = _among_many(index, centers) if len(centers) > LISTS else _among_few(index)
    return b"".join(encoded(widened(rows[start : start + ENCODED])) for start in range(0, len(rows), ENCODED))


def _among_few(index: Any) -> Callable[[Vectors], bytes]:
    def encoded(rows: Vectors) -> bytes:
        records = index.sa_encode(rows).reshape(len(rows), -1)
        if index.coarse_code_size() == 0:  # faiss does not number a single list
            records = np.hstack([np.zeros((len(rows), 1), dtype=np.uint8), records])
        codes: bytes = records.tobytes()
        return codes

    return encoded


def _among_many(index: Any, centers: Centers) -> Callable[[Vectors], bytes]:
    """As `_among_few`, except that a row's centre is looked for among those of the nearest groups alone."""
    grouped = _grouped(centers)

    def encoded(rows: Vectors) -> bytes:
        records = np.empty((len(rows), index.coarse_code_size() + index.code_size), dtype=np.uint8)
        with OneThread():
            _, lists = grouped.search(rows, 1)
        numbers = np.ascontiguousarray(lists[:, 0])
        index.encode_vectors(len(rows), *map(faiss().swig_ptr, (rows, numbers, records)), True)
        return records.tobytes()

    return encoded


def _grouped(centers: Centers) -> Any:
    """The centres in groups of their own, to find the nearest without comparing all."""
    groups = int(len(centers) ** 0.5)
    index = faiss().IndexIVFFlat(_flat(_clustered(_spread(centers, len(centers)), groups)), centers.shape[1], groups)
    index.is_trained = True
    with OneThread():
        index.add(np.ascontiguousarray(centers))
    index.nprobe = NEAR_GROUPS
    return index


def coded(centers: Centers, codes: bytes, few: int, first: CodePart | None = None) -> CodedRows:
    """An index over codes that `encode` made; ``first`` are the lists of the first of them, where there are any."""
    lengths = np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    directions = np.ascontiguousarray(centers / lengths, dtype=np.float32)
    made = CodedRows(centers, (first or _part(centers, codes, 0),), few, directions=directions)
    rest = b"" if first is None else codes[first.rows * (_width(centers) + first.index.code_size) :]
    return (extended(made, rest) or coded(centers, codes, few)) if rest else made


def extended(before: CodedRows, fresh: bytes) -> CodedRows | None:
    """The same with more codes; None when they are so many that all are to be put together anew."""
    tail, main = before.tail + fresh, before.parts[0]
    if len(tail) > TAIL_SHARE * main.rows * (_width(before.centers) + main.index.code_size):
        return None
    return replace(before, parts=(main, _part(before.centers, tail, main.rows)), tail=tail)


def _part(centers: Centers, codes: bytes, first: int) -> CodePart:
    index = _empty(centers)
    width = _width(centers)
    records = np.frombuffer(codes, dtype=np.uint8).reshape(-1, width + index.code_size)
    lists = records[:, 0] if width == 1 else np.ascontiguousarray(records[:, :2]).view("<u2")[:, 0]
    order = np.argsort(lists, kind="stable").astype(np.int64)
    bodies, ids = np.ascontiguousarray(records[order, width:]), order + first
    ends = np.cumsum(np.bincount(lists, minlength=len(centers))).tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            own, body = ids[start:end], bodies[start:end]
            index.invlists.add_entries(number, end - start, faiss().swig_ptr(own), faiss().swig_ptr(body))
    index.ntotal = len(records)
    return CodePart(index, len(records))


def _width(centers: Centers) -> int:
    """Bytes of a list's number."""
    return 1 if len(centers) <= LISTS else 2


def _flat(centers: Centers) -> Any:
    quantizer = faiss().IndexFlatL2(centers.shape[1])
    quantizer.add(np.ascontiguousarray(centers, dtype=np.float32))
    return quantizer


def _empty(centers: Centers) -> Any:
    quantizer = _flat(centers)
    index = faiss().IndexIVFRaBitQ(quantizer, centers.shape[1], len(centers), faiss().METRIC_INNER_PRODUCT)
    index.qb = QUERY_BITS
    index.is_trained = True
    return index
