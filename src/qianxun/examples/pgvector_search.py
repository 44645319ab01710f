"""The nearest examples by pgvector's HNSW index.

The nearest are taken first, in a materialised CTE, and the threshold is held against them afterwards: beside
``ORDER BY … LIMIT`` it would keep PostgreSQL reading the index for rows that cannot pass. Filters stand inside, and an
iterative scan reads on until enough rows pass them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ARRAY, Connection, Float, Select, String, Table, Text, bindparam, cast, func, select
from sqlalchemy.sql.elements import ColumnElement

from qianxun.examples.ranking import FoundExample
from qianxun.examples.rows import ANY_EXAMPLE, ExampleFilter, dimension_of, found, in_order, shown_columns
from qianxun.examples.schema import PgVector, vector_text
from qianxun.examples.store import ExampleStore
from qianxun.types import Vector

EF_SEARCH: Final = 100  # candidates kept while the index is walked; pgvector's own 40 finds too few of the nearest 15
MOST_SCANNED: Final = 200_000  # rows that a filtered search may read from the index


@dataclass(frozen=True, slots=True)
class PgvectorSearch:
    """Searches of a library on PostgreSQL. Safe under threads: each search has a connection of its own."""

    store: ExampleStore
    seconds: float

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        statement = nearest_statement(self.store.tables[source], where)
        asked = {"asked": vector_text(vector), "most": limit, "least": threshold}
        with self.store.connection() as connection:
            _set_up(connection, max(limit, EF_SEARCH), self.seconds)
            return [found(row, row.similarity, source) for row in connection.execute(statement, asked)]

    def of_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        table = self.store.tables[source]
        similarity = (1.0 - _distance(table)).label("similarity")
        statement = select(*shown_columns(table), similarity).where(table.c.id.in_(ids))
        with self.store.connection() as connection:
            rows = connection.execute(statement, {"asked": vector_text(vector)})
            return in_order([found(row, row.similarity, source) for row in rows])


def nearest_statement(table: Table, where: ExampleFilter = ANY_EXAMPLE) -> Select[Any]:
    """Parameters: ``asked`` (a vector's text), ``most`` (rows), ``least`` (similarity)."""
    distance = _distance(table)
    nearest = (
        select(*shown_columns(table), distance.label("distance"))
        .where(*_conditions(table, where))
        .order_by(distance)
        .limit(bindparam("most"))
        .cte("nearest")
        .prefix_with("MATERIALIZED")
    )
    similarity = (1.0 - nearest.c.distance).label("similarity")
    shown = [column for column in nearest.c if column.name != "distance"]
    least = bindparam("least", type_=Float)
    return select(*shown, similarity).where(similarity.element >= least).order_by(nearest.c.distance, nearest.c.id)


def _distance(table: Table) -> ColumnElement[float]:
    asked = cast(bindparam("asked", type_=String), PgVector(dimension_of(table)))
    return table.c.embedding.op("<=>", return_type=Float())(asked)


def _conditions(table: Table, where: ExampleFilter) -> list[ColumnElement[bool]]:
    having: list[ColumnElement[bool]] = []
    if where.tags:
        having.append(table.c.tags.op("@>", is_comparison=True)(cast(list(where.tags), ARRAY(Text))))
    if where.grades:
        having.append(table.c.quality_grade.in_(where.grades))
    return having


def _set_up(connection: Connection, ef_search: int, seconds: float) -> None:
    """For this transaction alone. Plans are made for the numbers asked, not for any: with an unknown LIMIT the planner
    would rather read the whole table."""
    wanted = {
        "hnsw.ef_search": str(min(ef_search, 1000)),
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": str(MOST_SCANNED),
        "plan_cache_mode": "force_custom_plan",
        "statement_timeout": f"{max(int(seconds * 1000), 1)}ms",
    }
    connection.execute(select(*(func.set_config(name, value, True) for name, value in wanted.items())))
