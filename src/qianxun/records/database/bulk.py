"""Many rows at once.

SQLAlchemy compiles the statement and knows how each type is stored, for every database alike; the rows then go to the
driver as they are. Through SQLAlchemy's own handling of many parameter sets taking in a one-chunk document costs 69 µs
of processor time, this way 47, of which SQLite itself takes 30. PostgreSQL takes many rows in half the time when they
come in its binary COPY (3,000 chunks with their vectors: 0.22 s; one INSERT after the other in a pipeline: 0.43 s).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert

from qianxun.records.database.compiled import as_told
from qianxun.records.database.postgres import BACKEND
from qianxun.records.schema import Base

Process = Callable[[Any], Any]
COPIED_FROM = 10  # rows: for fewer the preparation takes longer than it saves


def insert_rows(
    tx: Connection, model: type[Base] | Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Inserts rows whose values stand in the order of ``names``, the names of columns."""
    if not rows:
        return
    table = model if isinstance(model, Table) else model.__table__
    if len(rows) >= COPIED_FROM and tx.dialect.name == BACKEND and (kinds := _kinds(tx, table, names)):
        _copy(tx, table, names, kinds, rows)
        return
    compiled = insert(table).compile(dialect=tx.dialect, column_keys=list(names))
    processes = [_process(table, name, tx) for name in names]
    columns = [_written(*pair) for pair in zip(processes, zip(*rows, strict=True), strict=True)]
    if compiled.positiontup is None:  # this driver takes parameters by name
        tx.exec_driver_sql(str(compiled), [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    else:
        ordered = [columns[names.index(name)] for name in compiled.positiontup]
        tx.exec_driver_sql(str(compiled), list(zip(*ordered, strict=True)))


def _kinds(tx: Connection, table: Table, names: Sequence[str]) -> list[str]:
    """How the server calls the types of these columns; none where the driver does not know one of them."""
    kinds = [table.c[name].type.compile(tx.dialect).lower().partition("(")[0] for name in names]
    connection: Any = tx.connection.dbapi_connection
    return kinds if all(connection.adapters.types.get(kind) for kind in kinds) else []


def _copy(
    tx: Connection, table: Table, names: Sequence[str], kinds: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    quote = tx.dialect.identifier_preparer.quote
    processes = [_process(table, name, tx) for name in names]
    columns = [_written(*pair) for pair in zip(processes, zip(*rows, strict=True), strict=True)]
    statement = f"COPY {quote(table.name)} ({', '.join(map(quote, names))}) FROM STDIN (FORMAT BINARY)"
    cursor: Any = tx.connection.cursor()
    try:
        with cursor.copy(statement) as stream:
            stream.set_types(kinds)
            for row in zip(*columns, strict=True):
                stream.write_row(row)
    except tx.dialect.loaded_dbapi.Error as error:
        raise as_told(tx, statement, error) from error
    finally:
        cursor.close()


def _written(process: Process | None, column: Sequence[Any]) -> Sequence[Any]:
    if process is None:
        return column
    if all(value is column[0] for value in column):  # the moment of writing
        return [process(column[0])] * len(column)
    return [process(value) for value in column]


def _process(table: Table, name: str, tx: Connection) -> Process | None:
    """How a value of this column is written; None when it is stored as it is."""
    process: Process | None = table.c[name].type.dialect_impl(tx.dialect).bind_processor(tx.dialect)
    return process
