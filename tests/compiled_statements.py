"""Statements that one database has compiled serve the next one, too.

The tests open some thousand databases one after another. SQLAlchemy keeps what it compiles with the engine of one
database, by that engine's dialect: every one would compile everything anew, a tenth of what opening, writing and
searching takes. All files of SQLite have the same dialect, and so have all databases of servers of the same version:
its instances count as one here, and share one cache.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

STATEMENTS = 4_000  # more than there are
# What is compiled depends on them: the version of the server, whose it is, and what `qianxun.records` puts in place.
ATTRIBUTES = "server_version_info", "is_mariadb", "ddl_compiler", "paramstyle", "_backslash_escapes"


class _OneDialect:
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _attributes(self) == _attributes(other)

    def __hash__(self) -> int:
        return hash(type(self))


def _attributes(dialect: object) -> list[Any]:
    return [getattr(dialect, name, None) for name in ATTRIBUTES]


def share_compiled_statements() -> None:
    """Of all databases that are opened from now on."""
    compiled = LRUCache(STATEMENTS)  # type: ignore[var-annotated]  # its own key and value
    for dialect in (SQLiteDialect_pysqlite, PGDialect_psycopg, MySQLDialect_pymysql):
        dialect.__eq__ = _OneDialect.__eq__  # type: ignore[method-assign,assignment]
        dialect.__hash__ = _OneDialect.__hash__  # type: ignore[method-assign,assignment]

    @event.listens_for(Engine, "engine_connect")
    def share(connection: Connection) -> None:
        if isinstance(connection.dialect, SQLiteDialect_pysqlite | PGDialect_psycopg | MySQLDialect_pymysql):
            connection.engine._compiled_cache = compiled
