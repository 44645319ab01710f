"""Statements that one database has compiled serve the next one, too.

The tests open some thousand SQLite files one after another. SQLAlchemy keeps what it compiles with the engine of one
database, by that engine's dialect: every file would compile everything anew, a tenth of what opening, writing and
searching takes. All files have the same dialect, so its instances count as one here, and share one cache.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

STATEMENTS = 4_000  # more than there are


class _OneDialect:
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def share_compiled_statements() -> None:
    """Of all SQLite files that are opened from now on."""
    compiled = LRUCache(STATEMENTS)  # type: ignore[var-annotated]  # its own key and value
    SQLiteDialect_pysqlite.__eq__ = _OneDialect.__eq__  # type: ignore[method-assign,assignment]
    SQLiteDialect_pysqlite.__hash__ = _OneDialect.__hash__  # type: ignore[method-assign,assignment]

    @event.listens_for(Engine, "engine_connect")
    def share(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.engine._compiled_cache = compiled
