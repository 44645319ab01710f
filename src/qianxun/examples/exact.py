"""Exact nearest-neighbour search on SQLite: vectors are cached until their table changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import LargeBinary, Table, select, type_coerce

from qianxun.core.types import Vector, Vectors
from qianxun.examples.results import ANY_EXAMPLE, DIGITS, ExampleFilter, FoundExample, by_similarity, from_row
from qianxun.examples.revision import LibraryWatch
from qianxun.examples.store import ExampleStore, check_stamp, dimension_of, shown_columns

_ALIKE: Final = 10.0**-DIGITS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a table at one moment, with unit vectors."""

    ids: NDArray[np.int64]
    vectors: Vectors
    tags: tuple[frozenset[str], ...]
    grades: tuple[str | None, ...]

    def nearest(self, vector: Vector, limit: int, threshold: float, where: ExampleFilter) -> list[tuple[int, float]]:
        """(id, similarity), best first; of equals the lower id."""
        similarities = self.vectors @ vector
        if where:
            similarities = np.where(self._passing(where), similarities, -np.inf)
        similarities = np.where(np.isfinite(similarities), similarities, -np.inf)
        rows = np.flatnonzero(similarities >= max(self._least(similarities, limit), -2.0))
        near = sorted((-round(float(similarities[row]), DIGITS), int(self.ids[row]), row) for row in rows)
        return [(key, float(similarities[row])) for _, key, row in near[:limit] if similarities[row] >= threshold]

    def similarities(self, vector: Vector, ids: Sequence[int]) -> dict[int, float]:
        places = np.searchsorted(self.ids, np.array(ids, dtype=np.int64))
        here = [(key, place) for key, place in zip(ids, places, strict=True) if place < len(self.ids)]
        return {key: float(self.vectors[place] @ vector) for key, place in here if self.ids[place] == key}

    def _least(self, similarities: NDArray[np.float32], limit: int) -> float:
        """The similarity of the last of the nearest, a little less so that rounding loses none of its equals."""
        if limit >= len(similarities):
            return -np.inf
        return float(np.partition(similarities, -limit)[-limit]) - _ALIKE

    def _passing(self, where: ExampleFilter) -> NDArray[np.bool_]:
        passing = (where.passes(tags, grade) for tags, grade in zip(self.tags, self.grades, strict=True))
        return np.fromiter(passing, dtype=np.bool_, count=len(self.ids))


@dataclass
class ExactSearch:
    """Searches of a library on SQLite. Thread-safe."""

    store: ExampleStore
    watch: LibraryWatch
    _cached: dict[str, tuple[object, Snapshot]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        return self._joined(source, self._snapshot(source).nearest(_unit(vector), limit, threshold, where))

    def rank_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        near = self._snapshot(source).similarities(_unit(vector), ids)
        return self._joined(source, list(near.items()))

    def _joined(self, source: str, near: Sequence[tuple[int, float]]) -> list[FoundExample]:
        table, similarity = self.store.tables[source], dict(near)
        with self.store.connection() as connection:
            rows = connection.execute(select(*shown_columns(table)).where(table.c.id.in_(similarity)))
            return by_similarity([from_row(row, similarity[row.id], source) for row in rows])

    def _snapshot(self, source: str) -> Snapshot:
        return self.watch.cached(
            source, self._cached, self._lock, lambda name: load(self.store, self.store.tables[name])
        )


def load(store: ExampleStore, table: Table) -> Snapshot:
    raw = type_coerce(table.c.embedding, LargeBinary).label("raw")
    with store.connection() as connection:
        check_stamp(store, store.stamp(connection))
        columns = (table.c.id, table.c.tags, table.c.quality_grade, raw)
        rows = connection.execute(select(*columns).order_by(table.c.id)).all()
    vectors = np.frombuffer(b"".join(row.raw for row in rows), dtype="<f4").reshape(len(rows), dimension_of(table))
    with np.errstate(invalid="ignore", divide="ignore"):  # a zero vector is similar to nothing
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return Snapshot(
        np.array([row.id for row in rows], dtype=np.int64),
        vectors.astype(np.float32),
        tuple(frozenset(row.tags or ()) for row in rows),
        tuple(row.quality_grade for row in rows),
    )


def _unit(vector: Vector) -> Vector:
    unit: Vector = vector / np.linalg.norm(vector)
    return unit
