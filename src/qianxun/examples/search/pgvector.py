"""The nearest examples by pgvector's HNSW index.

The nearest are taken first, in a materialised CTE, and the threshold is held against them afterwards: beside
``ORDER BY … LIMIT`` it would keep PostgreSQL reading the index for rows that cannot pass. Filters stand inside, and an
iterative scan reads on until enough rows pass them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sqlalchemy import Engine, Table

from qianxun.core.types import Vector
from qianxun.examples.rows import ANY_EXAMPLE, SHOWN, ExampleFilter, check_stamp, found, in_order, not_searched
from qianxun.examples.schema import vector_text
from qianxun.examples.search.ranking import FoundExample
from qianxun.examples.store import ExampleStore, Stamp

# Candidates kept while the index is walked. Of the true nearest 15 among 20,000 passages pgvector's own 40 finds .83,
# 100 finds .93, 200 .977, 400 .996 (`python -m benchmarks.examples`).
EF_SEARCH: Final = 400
MOST_SCANNED: Final = 200_000  # rows that a filtered search may read from the index

_COLUMNS: Final = ", ".join(SHOWN)
_DISTANCE: Final = "embedding <=> %(asked)s::vector"


@dataclass(frozen=True)
class PgvectorSearch:
    """Searches of a library on PostgreSQL. Safe under threads: each search has a connection of its own."""

    store: ExampleStore
    seconds: float  # after which the server gives a search up

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        asked = {"asked": vector_text(vector), "most": limit, "least": threshold, **asked_for(where)}
        settings = settings_statement(max(limit, EF_SEARCH), self.seconds, is_filtered=bool(where))
        rows = self._rows(settings, nearest_statement(self.store.tables[source], where), asked)
        return [_found(row, source) for row in rows]

    def of_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        table = self.store.tables[source].name
        statement = f'SELECT {_COLUMNS}, 1 - ({_DISTANCE}) FROM "{table}" WHERE id = ANY(%(ids)s)'
        settings = settings_statement(EF_SEARCH, self.seconds)
        rows = self._rows(settings, statement, {"asked": vector_text(vector), "ids": list(ids)})
        return in_order([_found(row, source) for row in rows])

    def _rows(self, settings: str, statement: str, asked: Mapping[str, Any]) -> Sequence[Any]:
        """The driver's own connection, because SQLAlchemy has no pipelines: settings and search in one round trip,
        which is also one transaction, so that the settings last no longer than that."""
        with self._engine.connect() as pooled:
            connection: Any = pooled.connection.driver_connection
            try:
                with connection.pipeline():
                    connection.execute(settings)
                    stamped = connection.execute(f'SELECT model, dimension FROM "{self.store.models.stamp.name}"')
                    cursor = connection.execute(statement, asked)
                stamp: Any = stamped.fetchone()
                rows: Sequence[Any] = cursor.fetchall()
            except self._engine.dialect.loaded_dbapi.Error as error:
                raise not_searched(error) from error
        check_stamp(self.store, Stamp(*stamp) if stamp else None)
        return rows

    @cached_property
    def _engine(self) -> Engine:
        return self.store.engine.execution_options(isolation_level="AUTOCOMMIT")


def nearest_statement(table: Table, where: ExampleFilter = ANY_EXAMPLE) -> str:
    """Parameters: ``asked`` (a vector's text), ``most`` (rows), ``least`` (similarity), and those of `asked_for`."""
    conditions = [
        *(["tags @> %(tags)s::text[]"] if where.tags else []),
        *(["quality_grade = ANY(%(grades)s::text[])"] if where.grades else []),
    ]
    filtered = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"""
        WITH nearest AS MATERIALIZED (
            SELECT {_COLUMNS}, {_DISTANCE} AS distance
            FROM "{table.name}" {filtered}
            ORDER BY {_DISTANCE}
            LIMIT %(most)s
        )
        SELECT {_COLUMNS}, 1 - distance AS similarity
        FROM nearest
        WHERE 1 - distance >= %(least)s
        ORDER BY distance, id
    """


def asked_for(where: ExampleFilter) -> dict[str, list[str]]:
    given = {"tags": list(where.tags), "grades": list(where.grades)}
    return {name: values for name, values in given.items() if values}


def settings_statement(width: int = EF_SEARCH, seconds: float = 10.0, *, is_filtered: bool = False) -> str:
    """For the transaction alone.

    A page out of order costs hardly more than the next one, in memory and on an SSD: with the planner's own 4.0 it
    would rather compare 20,000 examples one by one than walk the index. Under a filter it should: those that pass are
    compared exactly, and the others not at all.
    """
    wanted = {
        "hnsw.ef_search": min(width, 1000),
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": MOST_SCANNED,
        **({} if is_filtered else {"random_page_cost": 1.1}),
        "statement_timeout": f"{max(int(seconds * 1000), 1)}ms",
    }
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in wanted.items())


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    user_input: str
    agent_response: str
    tags: Sequence[str] | None
    quality_grade: str | None
    created_at: Any
    updated_at: Any
    similarity: float


def _found(row: Sequence[Any], source: str) -> FoundExample:
    told = _Row(*row)
    return found(told, told.similarity, source)
