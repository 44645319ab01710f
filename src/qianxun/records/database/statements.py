"""How statements reach the database: rows in bulk, long lists in slices, the statements of every search compiled once.

SQLAlchemy compiles a statement and knows how each type is stored, for every database alike; rows and parameters then go
to the driver as they are. That takes 47 µs instead of 69 to insert a one-chunk document (SQLite itself takes 30), and
half the time of a statement that reads ten chunks. PostgreSQL takes many rows in half the time when they come in its
binary COPY (3,000 chunks with their vectors: 0.22 s; one INSERT after the other in a pipeline: 0.43 s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, Dialect, Float, Select, Table, bindparam, delete, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from qianxun.core.types import Keys
from qianxun.records.database.postgres import BACKEND
from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.server import SQLITE, server_of
from qianxun.records.schema import Base, ChunkRow, DocumentRow

Process = Callable[[Any], Any]
COPIED_FROM = 10  # rows: for fewer the preparation takes longer than it saves


def insert_rows(
    tx: Connection, model: type[Base] | Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Inserts rows whose values are in the order of ``names``, the names of columns."""
    if not rows:
        return
    table = model if isinstance(model, Table) else model.__table__
    if len(rows) >= COPIED_FROM and tx.dialect.name == BACKEND and (kinds := _kinds(tx, table, names)):
        _copy(tx, table, names, kinds, rows)
        return
    insertion = _insertion(table, tuple(names), tx.dialect)
    columns = [_written(*pair) for pair in zip(insertion.writes, zip(*rows, strict=True), strict=True)]
    if insertion.order is None:
        tx.exec_driver_sql(insertion.sql, [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    else:
        tx.exec_driver_sql(insertion.sql, list(zip(*(columns[at] for at in insertion.order), strict=True)))


@dataclass(frozen=True, slots=True)
class _Insertion:
    sql: str
    order: tuple[int, ...] | None  # of the columns among the parameters; None: the driver takes them by name
    writes: tuple[Process | None, ...]


@lru_cache(maxsize=512)
def _insertion(table: Table, names: tuple[str, ...], dialect: Dialect) -> _Insertion:
    """Compiled once: a single document has five of them, and to compile them takes longer than to run them."""
    made = insert(table).compile(dialect=dialect, column_keys=list(names))
    order = None if made.positiontup is None else tuple(map(names.index, made.positiontup))
    return _Insertion(str(made), order, tuple(_process(table, name, dialect) for name in names))


def _kinds(tx: Connection, table: Table, names: Sequence[str]) -> list[str]:
    """The server's names for the types of these columns; none where the driver does not know one of them."""
    kinds = [table.c[name].type.compile(tx.dialect).lower().partition("(")[0] for name in names]
    connection: Any = tx.connection.dbapi_connection
    return kinds if all(connection.adapters.types.get(kind) for kind in kinds) else []


def _copy(
    tx: Connection, table: Table, names: Sequence[str], kinds: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    quote = tx.dialect.identifier_preparer.quote
    processes = [_process(table, name, tx.dialect) for name in names]
    columns = [_written(*pair) for pair in zip(processes, zip(*rows, strict=True), strict=True)]
    statement = f"COPY {quote(table.name)} ({', '.join(map(quote, names))}) FROM STDIN (FORMAT BINARY)"
    cursor: Any = tx.connection.cursor()
    try:
        with cursor.copy(statement) as stream:
            stream.set_types(kinds)
            for row in zip(*columns, strict=True):
                stream.write_row(row)
    except tx.dialect.loaded_dbapi.Error as error:
        raise translated(tx, statement, error) from error
    finally:
        cursor.close()


def _written(process: Process | None, column: Sequence[Any]) -> Sequence[Any]:
    if process is None:
        return column
    if all(value is column[0] for value in column):  # the moment of writing
        return [process(column[0])] * len(column)
    if any(type(value) in (list, dict) for value in column):  # most of which are empty
        empty: dict[type[Any], Any] = {list: process([]), dict: process({})}
        return [empty[type(value)] if type(value) in empty and not value else process(value) for value in column]
    return [process(value) for value in column]


def _process(table: Table, name: str, dialect: Dialect) -> Process | None:
    """How a value of this column is written; None when it is stored as it is."""
    process: Process | None = table.c[name].type.dialect_impl(dialect).bind_processor(dialect)
    return process


# ── statements that every search runs, compiled once ──────────────────────────────────────────────

FLOAT8 = 701  # PostgreSQL's number of the type
UNDECODABLE = "Could not decode to UTF-8"  # how the message of SQLite's driver begins
_lenient = partial(str, encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Compiled:
    sql: str
    names: tuple[str, ...] | None  # of the parameters, in order; None: the driver takes them by name
    reads: tuple[tuple[int, Callable[[Any], Any]], ...]  # columns that are not stored as they are
    is_open: bool = True  # tells nothing of documents that a principal may not see

    def rows(self, tx: Connection, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
        if not self.is_open and permitted_in(tx) is not None:
            raise RuntimeError("a compiled statement that does not ask who may see what it reads")
        given = parameters if self.names is None else tuple(parameters[name] for name in self.names)
        driver = tx.dialect.loaded_dbapi
        cursor = tx.connection.cursor()
        try:
            try:
                cursor.execute(self.sql, given)
                found = cursor.fetchall()
            except driver.OperationalError as error:
                if UNDECODABLE not in str(error):
                    raise
                with reading_damage(tx):
                    cursor.execute(self.sql, given)
                    found = cursor.fetchall()
        except driver.Error as error:
            raise translated(tx, self.sql, error) from error
        finally:
            cursor.close()
        return [self._read(row) for row in found] if self.reads else list(found)

    def _read(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for at, read in self.reads:
            values[at] = read(values[at])
        return values


@contextmanager
def reading_damage(tx: Connection) -> Iterator[None]:
    """Texts that are not UTF-8 any more are read as far as they are: their row's checksum tells, and they keep nothing
    else that a statement reads from being read. Not always: it takes SQLite's driver six times as long a text."""
    if tx.dialect.name != SQLITE:  # servers check what they are given
        yield
        return
    connection: Any = tx.connection.dbapi_connection
    connection.text_factory = _lenient
    try:
        yield
    finally:
        connection.text_factory = str


def translated(tx: Connection, sql: str, error: Any) -> Any:
    """The error that SQLAlchemy would raise, or ours. A broken connection does not go back to the pool."""
    is_disconnect = tx.dialect.is_disconnect(error, tx.connection.dbapi_connection, None)
    if is_disconnect:
        tx.invalidate(error)
    server = server_of(tx.dialect.name)
    if server is not None:
        server.without_detail(error)
        ours = server.translate(error, is_disconnect=is_disconnect, is_connected=True)
        if ours is not None:
            return ours
    return DBAPIError.instance(sql, None, error, tx.dialect.loaded_dbapi.Error)


def _stored_as(kind: TypeEngine[Any]) -> int | None:
    """The type number of a column in a result; SQLAlchemy needs it for PostgreSQL's numbers."""
    return FLOAT8 if isinstance(kind, Float) else None


def compiled(statement: Select[Any], dialect: Dialect, *, is_restricted: bool = False) -> Compiled:
    """``statement`` with every parameter named by a `bindparam`. ``is_restricted``: it compares itself what a principal
    may see."""
    made = statement.compile(dialect=dialect)
    kinds = [column.type.dialect_impl(dialect) for column in statement.selected_columns]
    reads = [(at, kind.result_processor(dialect, _stored_as(kind))) for at, kind in enumerate(kinds)]
    return Compiled(
        str(made),
        tuple(made.positiontup) if made.positiontup is not None else None,
        tuple((at, read) for at, read in reads if read is not None),
        is_restricted or not _reads_documents(statement),
    )


def _reads_documents(statement: Select[Any]) -> bool:
    """Of the outbox only the last number is read this way, which every write raises."""
    return any(
        not isinstance(found, Table) or "document_key" in found.c or found is DocumentRow.__table__
        for found in statement.get_final_froms()
    )


IN_LIMIT = 500  # values in one list: every database takes so many
PAGE = 10  # results of a search, mostly

T = TypeVar("T")


def in_slices(values: Sequence[T], size: int = IN_LIMIT) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def select_in(tx: Connection, query: Any, column: Any, values: Iterable[Any]) -> Iterator[Any]:
    """The rows of a query whose ``column`` is one of ``values``, however many these are."""
    for part in in_slices(list(values)):
        yield from tx.execute(query.where(column.in_(part)))


@dataclass(frozen=True, eq=False)
class KeyedQuery:
    """A query that searches run for lists of keys, compiled once for every length. ``statement`` has the parameter
    `knowledge_base`; rows are read by position."""

    statement: Any  # a Select
    column: Any

    def rows(self, tx: Connection, knowledge_base: int, keys: Iterable[int]) -> Iterator[Sequence[Any]]:
        own = {"knowledge_base": knowledge_base}
        if permitted_in(tx) is not None:  # what a principal may see is compared in every statement anew
            for part in in_slices(list(keys)):
                yield from tx.execute(self.statement.where(self.column.in_(part)), own)
            return
        for part in in_slices(list(keys)):
            padded = padded_keys(part)
            numbered = {f"key_{at}": key for at, key in enumerate(padded)}
            yield from _keyed(self, tx.dialect, len(padded)).rows(tx, own | numbered)


def padded_keys(keys: Sequence[int]) -> Sequence[int]:
    """A list of one of few lengths, filled up with its last key: a statement is compiled for every length. Those of a
    page are as they are."""
    size = len(keys) if len(keys) == PAGE else min(1 << (len(keys) - 1).bit_length(), IN_LIMIT)
    return keys if size == len(keys) else (*keys, *(keys[-1],) * (size - len(keys)))


@lru_cache
def _keyed(query: KeyedQuery, dialect: Dialect, size: int) -> Compiled:
    keys = [bindparam(f"key_{at}", type_=query.column.type) for at in range(size)]
    return compiled(query.statement.where(query.column.in_(keys)), dialect, is_restricted=True)


def delete_in(tx: Connection, model: type[Base], column: Any, values: Iterable[Any], *conditions: Any) -> None:
    """Deletes the rows that meet the conditions and whose ``column`` is one of ``values``."""
    for part in in_slices(list(values)):
        tx.execute(delete(model).where(column.in_(part), *conditions))


def keys_of(tx: Connection, query: Any) -> Keys:
    """The single integer column of a query as an array. A hundred thousand rows of SQLAlchemy's own take 60 ms, the
    driver's 20, and integers need no conversion."""
    with tx.execute(query) as result:
        cursor = result.cursor
        assert cursor is not None  # a SELECT has one
        rows = cursor.fetchall()
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows))


def served_chunks(knowledge_base: int, *columns: Any) -> Select[Any]:
    """A query over the chunks of a base that are of the served generation of their document."""
    return (
        select(*columns)
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.generation == DocumentRow.served)
    )
