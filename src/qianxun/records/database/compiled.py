"""Statements that stand on the way of every search, compiled once.

SQLAlchemy compiles them and knows how each type is read, for every database alike; the driver is then given the text
as it is. To look a statement up among those compiled, to spread a list over its parameters and to wrap the rows takes
as long as to run it for ten chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect, Float, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from qianxun.records.database.postgres import BACKEND, told, without_detail

FLOAT8 = 701  # PostgreSQL's number of the type


@dataclass(frozen=True, slots=True)
class Compiled:
    sql: str
    names: tuple[str, ...] | None  # of the parameters, in order; None: the driver takes them by name
    reads: tuple[tuple[int, Callable[[Any], Any]], ...]  # columns that are not stored as they are

    def rows(self, tx: Connection, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
        given = parameters if self.names is None else tuple(parameters[name] for name in self.names)
        driver = tx.dialect.loaded_dbapi
        cursor = tx.connection.cursor()
        try:
            cursor.execute(self.sql, given)
            found = cursor.fetchall()
        except driver.Error as error:
            raise as_told(tx, self.sql, error) from error
        finally:
            cursor.close()
        return [self._read(row) for row in found] if self.reads else list(found)

    def _read(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for at, read in self.reads:
            values[at] = read(values[at])
        return values


def as_told(tx: Connection, sql: str, error: Any) -> Any:
    """As SQLAlchemy would say it, whose errors callers know. A broken connection does not go back to the pool."""
    is_disconnect = tx.dialect.is_disconnect(error, tx.connection.dbapi_connection, None)
    if is_disconnect:
        tx.invalidate(error)
    if tx.dialect.name == BACKEND:
        meant = told(error, is_disconnect=is_disconnect, is_connected=True)
        if meant is not None:
            return meant
        without_detail(error)
    return DBAPIError.instance(sql, None, error, tx.dialect.loaded_dbapi.Error)


def _stored_as(kind: TypeEngine[Any]) -> int | None:
    """What the driver would say of the column in a result; PostgreSQL's wants to know it of numbers."""
    return FLOAT8 if isinstance(kind, Float) else None


def compiled(statement: Select[Any], dialect: Dialect) -> Compiled:
    """``statement`` with every parameter named by a `bindparam`."""
    made = statement.compile(dialect=dialect)
    kinds = [column.type.dialect_impl(dialect) for column in statement.selected_columns]
    reads = [(at, kind.result_processor(dialect, _stored_as(kind))) for at, kind in enumerate(kinds)]
    return Compiled(
        str(made),
        tuple(made.positiontup) if made.positiontup is not None else None,
        tuple((at, read) for at, read in reads if read is not None),
    )
