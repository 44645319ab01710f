"""The nearest examples by pgvector's HNSW index.

The nearest are selected in a materialised CTE and the threshold is applied afterwards: next to ``ORDER BY … LIMIT`` it
would make PostgreSQL read the index for rows that cannot pass. Filters are inside, with an iterative scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sqlalchemy import Engine, Table

from qianxun.core.types import Vector
from qianxun.examples.results import ANY_EXAMPLE, ExampleFilter, FoundExample, by_similarity, from_row
from qianxun.examples.schema import vector_text
from qianxun.examples.store import SHOWN, ExampleStore, Stamp, check_stamp, search_error

# Candidates during the index scan. Of the true nearest 15 among 20,000 passages pgvector's own 40 finds .83,
# 100 finds .93, 200 .977, 400 .996 (`python -m benchmarks.examples`).
EF_SEARCH: Final = 400
MOST_SCANNED: Final = 200_000  # rows that a filtered search may read from the index

_COLUMNS: Final = ", ".join(SHOWN)
_DISTANCE: Final = "embedding <=> %(query)s::vector"


@dataclass(frozen=True)
class PgvectorSearch:
    """Searches of a library on PostgreSQL. Thread-safe: each search has a connection of its own."""

    store: ExampleStore
    seconds: float  # statement timeout

    def nearest(
        self, source: str, vector: Vector, limit: int, threshold: float, where: ExampleFilter = ANY_EXAMPLE
    ) -> list[FoundExample]:
        parameters = {"query": vector_text(vector), "most": limit, "least": threshold, **filter_parameters(where)}
        settings = settings_statement(max(limit, EF_SEARCH), self.seconds, is_filtered=bool(where))
        rows = self._rows(settings, nearest_statement(self.store.tables[source], where), parameters)
        return [_found(row, source) for row in rows]

    def rank_ids(self, source: str, vector: Vector, ids: Sequence[int]) -> list[FoundExample]:
        table = self.store.tables[source].name
        statement = f'SELECT {_COLUMNS}, 1 - ({_DISTANCE}) FROM "{table}" WHERE id = ANY(%(ids)s)'
        settings = settings_statement(EF_SEARCH, self.seconds)
        rows = self._rows(settings, statement, {"query": vector_text(vector), "ids": list(ids)})
        return by_similarity([_found(row, source) for row in rows])

    def _rows(self, settings: str, statement: str, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Settings and search in one round trip, which is also one transaction, so that the settings end with it.

        On the driver's own connection, because SQLAlchemy has no pipelines.
        """
        with self._engine.connect() as pooled:
            connection: Any = pooled.connection.driver_connection
            try:
                with connection.pipeline():
                    connection.execute(settings)
                    stamped = connection.execute(f'SELECT model, dimension FROM "{self.store.models.stamp.name}"')
                    cursor = connection.execute(statement, parameters)
                stamp: Any = stamped.fetchone()
                rows: Sequence[Any] = cursor.fetchall()
            except self._engine.dialect.loaded_dbapi.Error as error:
                raise search_error(error) from error
        check_stamp(self.store, Stamp(*stamp) if stamp else None)
        return rows

    @cached_property
    def _engine(self) -> Engine:
        return self.store.engine.execution_options(isolation_level="AUTOCOMMIT")


def nearest_statement(table: Table, where: ExampleFilter = ANY_EXAMPLE) -> str:
    """Parameters: ``query`` (a vector's text), ``most`` (rows), ``least`` (similarity), `filter_parameters`."""
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


def filter_parameters(where: ExampleFilter) -> dict[str, list[str]]:
    values = {"tags": list(where.tags), "grades": list(where.grades)}
    return {name: value for name, value in values.items() if value}


def settings_statement(width: int = EF_SEARCH, seconds: float = 10.0, *, is_filtered: bool = False) -> str:
    """For one transaction.

    In memory and on an SSD a random page costs hardly more than the next one: with the default of 4.0 the planner would
    compare 20,000 examples one by one instead of using the index. Under a filter that is right: those that pass are
    compared exactly, and the others not at all.
    """
    settings = {
        "hnsw.ef_search": min(width, 1000),
        "hnsw.iterative_scan": "relaxed_order",
        "hnsw.max_scan_tuples": MOST_SCANNED,
        **({} if is_filtered else {"random_page_cost": 1.1}),
        "statement_timeout": f"{max(int(seconds * 1000), 1)}ms",
    }
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


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
    named = _Row(*row)
    return from_row(named, named.similarity, source)
