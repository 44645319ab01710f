"""Statistics of a library: counts, grades, tags, and near-duplicates."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from sqlalchemy import Connection, Table, select

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.types import Vector, Vectors
from qianxun.examples.schema import DEFAULT_GRADE, GRADES
from qianxun.examples.store import ExampleStore, Stamp

NEAR: Final = 0.95  # cosine of near-duplicates
MOST_PAIRS: Final = 50
MOST_COMPARED: Final = 20_000  # examples, the newest; 20,000 are 200 million pairs
_BLOCK: Final = 256  # rows at once, to bound memory


@dataclass(frozen=True, slots=True)
class TableStatistics:
    count: int
    grades: Mapping[str, int]  # every grade, best first
    tagged: int  # examples with at least one tag
    tags: Mapping[str, int]  # the most used first

    @property
    def coverage(self) -> float:
        """The share of examples with a tag; 0 if there are none."""
        return self.tagged / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class ExampleRef:
    source: str
    id: int
    user_input: str


@dataclass(frozen=True, slots=True)
class NearPair:
    similarity: float
    first: ExampleRef
    second: ExampleRef


@dataclass(frozen=True, slots=True)
class LibraryStatistics:
    stamp: Stamp
    tables: Mapping[str, TableStatistics]  # by category
    near: float
    pairs: tuple[NearPair, ...]  # the most similar first, at most `MOST_PAIRS`
    pair_count: int
    compared: int  # examples

    @property
    def count(self) -> int:
        return sum(table.count for table in self.tables.values())


def library_statistics(store: ExampleStore, near: float = NEAR) -> LibraryStatistics:
    """Needs no model. Raises NotFound if there is no library yet."""
    if not 0.0 < near <= 1.0:
        raise BadInput(f"相似度应在 0 与 1 之间，而不是 {near}", hint=f"例如 {NEAR}")
    with store.connection() as connection:
        stamp = store.stamp(connection)
        if stamp is None:
            raise NotFound("还没有示例库", hint="先运行 qianxun examples import FILE.xlsx")
        tables = store.models_of(stamp.dimension).tables
        counted = {name: _counted(connection, table) for name, table in tables.items()}
        refs, vectors = _newest(connection, tables, stamp.dimension)
    pairs, pair_count = near_pairs(vectors, near)
    near_duplicates = tuple(NearPair(similarity, refs[first], refs[second]) for similarity, first, second in pairs)
    return LibraryStatistics(stamp, counted, near, near_duplicates, pair_count, len(refs))


def is_empty(store: ExampleStore) -> bool:
    """Whether no category has an example."""
    with store.connection() as connection:
        return all(connection.execute(select(table.c.id).limit(1)).first() is None for table in store.tables.values())


def _counted(connection: Connection, table: Table) -> TableStatistics:
    grades: Counter[str] = Counter(dict.fromkeys(GRADES, 0))
    tags: Counter[str] = Counter()
    count = tagged = 0
    for row in connection.execute(select(table.c.quality_grade, table.c.tags)):
        count += 1
        grades[row.quality_grade or DEFAULT_GRADE] += 1
        tagged += bool(row.tags)
        tags.update(row.tags or ())
    return TableStatistics(count, dict(grades), tagged, dict(tags.most_common()))


def _newest(connection: Connection, tables: Mapping[str, Table], dimension: int) -> tuple[list[ExampleRef], Vectors]:
    refs: list[ExampleRef] = []
    rows: list[Vector] = []
    share = MOST_COMPARED // len(tables)
    for name, table in tables.items():
        columns = (table.c.id, table.c.user_input, table.c.embedding)
        for row in connection.execute(select(*columns).order_by(table.c.id.desc()).limit(share)):
            refs.append(ExampleRef(name, row.id, row.user_input))
            rows.append(row.embedding)
    return refs, np.array(rows, np.float32) if rows else np.empty((0, dimension), np.float32)


def near_pairs(vectors: Vectors, near: float, most: int = MOST_PAIRS) -> tuple[list[tuple[float, int, int]], int]:
    """The most similar (cosine, row, later row), best first, and the number of pairs of at least ``near``."""
    best: list[tuple[float, int, int]] = []
    count = 0
    for start in range(0, len(vectors), _BLOCK):
        cosines = np.triu(vectors[start : start + _BLOCK] @ vectors[start:].T, 1)
        firsts, seconds = np.nonzero(cosines >= near)
        values = np.minimum(cosines[firsts, seconds], 1.0)
        count += len(values)
        top = np.argpartition(-values, most)[:most] if len(values) > most else np.arange(len(values))
        found = zip(values[top].tolist(), (start + firsts[top]).tolist(), (start + seconds[top]).tolist(), strict=True)
        best = heapq.nsmallest(most, [*best, *found], key=lambda pair: (-pair[0], pair[1], pair[2]))
    return best, count
