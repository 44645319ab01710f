"""Copies a whole database into another: same ids, same keys, all or nothing.

The tables are those of the schema, so that none is forgotten; example libraries are copied where there are any. What
can be rebuilt from the records (the index, the cache) is not copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, func, inspect, select, text
from sqlalchemy.exc import DataError, IntegrityError

from qianxun.core.errors import AlreadyThere, BadInput, QianxunError
from qianxun.engine.admin.database import exclusive_records
from qianxun.engine.settings import Settings
from qianxun.examples.schema import models, version_table
from qianxun.examples.store import stamp_of, upgrade
from qianxun.records import Records
from qianxun.records.database.open import parse
from qianxun.records.database.postgres import BACKEND
from qianxun.records.database.statements import insert_rows
from qianxun.records.governance import audit
from qianxun.records.schema import Base, Counter, LeaseRow, OutboxClaimRow, SchemaReaderRow
from qianxun.records.secrets.sealing import FILE_NAME

BATCH = 200  # rows: a document may be large
LIBRARY = "example_library"  # how the name of the table ends that every library of examples has
OWN_COUNTERS = ("owner", "identity", "commit", "store")  # of a database itself, not of what is in it

OF_PROCESSES = (LeaseRow.__table__, OutboxClaimRow.__table__, SchemaReaderRow.__table__)

Watch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Library:
    """An example library: its tables, and what it takes to create them."""

    prefix: str
    dimension: int

    @property
    def tables(self) -> Sequence[Table]:
        return models(self.prefix, self.dimension).metadata.sorted_tables


def copy_database(source: Settings, target: Settings, started: Callable[[int], Watch]) -> dict[str, int]:
    """Copies the database of one data folder or server to another, with the file that opens sealed model keys.

    ``started`` is called once with the number of rows, and returns what is called with the size of every batch. Returns
    table → rows copied. Raises FolderInUse where an engine has either, and what `copy_records` raises.
    """
    schemas = {"source_schema": source.records.schema, "target_schema": target.records.schema}
    with exclusive_records(source) as read, exclusive_records(target) as written:
        copied = copy_records(read, written, started(count_rows(read, source.records.schema)), **schemas)
        place = _place(target)
        read.run(lambda tx: audit.append(tx, "", "database.copy", place, tenant=""))
    secret, copied_secret = source.folder / FILE_NAME, target.folder / FILE_NAME
    if secret.is_file() and secret.resolve() != copied_secret.resolve() and not copied_secret.exists():
        shutil.copy2(secret, copied_secret)
    return copied


def _place(settings: Settings) -> str:
    """Where a copy is, without the password to it: receipts of later deletions name it."""
    return parse(settings.records.url).render_as_string() if settings.records.url else str(settings.folder.resolve())


def count_rows(source: Records, schema: str = "") -> int:
    """How many rows `copy_records` will copy."""
    with source.reading() as tx:
        return sum(_count(tx, table) for table in _tables(_libraries(tx, schema)))


def copy_records(
    source: Records, target: Records, watch: Watch, *, source_schema: str = "", target_schema: str = ""
) -> dict[str, int]:
    """Table → rows copied. Raises AlreadyThere, and writes nothing, where the target has anything in it."""
    with source.reading() as read, target.writing() as write:
        libraries = _libraries(read, source_schema)
        _expect_empty(write, target_schema)
        for library in libraries:
            upgrade(write, library.prefix, library.dimension, schema=target_schema)
        copied = {table.name: _copy(read, write, table, watch) for table in _tables(libraries)}
        for library in libraries:
            _move_sequences(write, library)
        _compare(read, write, _tables(libraries))
    return copied


def _tables(libraries: Sequence[Library]) -> list[Table]:
    """Tables that others refer to come first. Who works on a database is no part of what is in it."""
    own = (table for table in Base.metadata.sorted_tables if table not in OF_PROCESSES)
    return [*own, *(table for library in libraries for table in library.tables)]


def _libraries(tx: Connection, schema: str) -> list[Library]:
    found = []
    for name in sorted(inspect(tx).get_table_names(schema=schema or None)):
        prefix = name.removesuffix(LIBRARY)
        stamp = stamp_of(tx, prefix, schema) if prefix != name else None
        if stamp is not None:
            found.append(Library(prefix, stamp.dimension))
    return found


def _expect_empty(tx: Connection, schema: str) -> None:
    filled = [table.name for table in _tables(()) if _count(tx, table)]
    filled += [version_table(library.prefix) for library in _libraries(tx, schema)]
    if filled:
        raise AlreadyThere(
            f"目标里已有内容（{'、'.join(filled[:5])}），没有复制任何东西", hint="换一个空的数据库或目录再试"
        )


def _copy(read: Connection, write: Connection, table: Table, watch: Watch) -> int:
    names = [column.name for column in table.columns]
    copied = 0
    for batch in _batches(read, table):
        try:
            insert_rows(write, table, names, batch)
        except (BadInput, DataError, IntegrityError, UnicodeEncodeError, ValueError) as error:
            first, last = copied + 1, copied + len(batch)
            raise BadInput(
                f"表 {table.name} 的第 {first}–{last} 行中有目标数据库存不下的内容：{_reason(error)}",
                hint="没有复制任何东西；改正或删除有问题的文档后重试",
            ) from error
        copied += len(batch)
        watch(len(batch))
    return copied


def _batches(read: Connection, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    rows = read.execute(_own(table).order_by(*table.primary_key), execution_options={"yield_per": BATCH})
    for batch in rows.partitions():
        yield [tuple(row) for row in batch]


def _own(table: Table) -> Any:
    """The rows of a table that are copied."""
    query = select(table)
    return query.where(table.c.name.not_in(OWN_COUNTERS)) if table is Counter.__table__ else query


def _count(tx: Connection, table: Table) -> int:
    return int(tx.execute(select(func.count()).select_from(_own(table).subquery())).scalar_one())


def _move_sequences(tx: Connection, library: Library) -> None:
    """PostgreSQL numbers examples by itself: it has to continue after the highest id that was copied."""
    if tx.dialect.name != BACKEND:
        return
    for table in library.tables:
        for column in table.primary_key:
            if column.autoincrement is True:
                tx.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence(:name, :column), max({column.name})) FROM {table.name} "
                        f"HAVING max({column.name}) IS NOT NULL"
                    ),
                    {"name": table.name, "column": column.name},
                )


def _compare(read: Connection, write: Connection, tables: Sequence[Table]) -> None:
    for table in tables:
        had, has = _count(read, table), _count(write, table)
        if had != has:
            raise QianxunError(
                f"表 {table.name} 应有 {had} 行，复制后却是 {has} 行，已全部撤销",
                hint="请重试；仍然如此时请报告这个问题",
            )


def _reason(error: Exception) -> str:
    if isinstance(error, BadInput):
        return error.message
    cause = error.orig if isinstance(error, DataError | IntegrityError) else error
    return (str(cause).strip().splitlines() or [type(error).__name__])[0][:200]
