"""Whether a library has changed since it was last looked at, told without reading it all."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Integer,
    Table,
    cast,
    extract,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement

from qianxun.examples.store import ExampleStore

SETTLED_SECONDS: Final = 3.0  # SQLite's clock has whole seconds: a later change may bear the time of an earlier one


@dataclass(frozen=True, slots=True)
class Revision:
    """Equal while nothing has changed. ``seen`` makes one that was taken too soon after a change equal to no other."""

    rows: int
    last: int | None
    changed: float | None
    letters: int | None
    seen: float = 0.0


@dataclass
class LibraryWatch:
    """The revisions of a library's tables. Safe under threads."""

    store: ExampleStore
    _taken: tuple[Hashable, dict[str, Revision]] | None = field(default=None, repr=False)
    _line: Any = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def revision(self, source: str) -> Revision:
        return self.revisions()[source]

    def revisions(self) -> dict[str, Revision]:
        """Of every table, by category."""
        with self._lock:
            version = self._version()
            if self._taken is not None and version is not None and self._taken[0] == version:
                return self._taken[1]
            with self.store.connection() as connection:
                taken = taken_now(connection, self.store.tables)
            self._taken = version, taken
            return taken

    def close(self) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
                self._line = None

    def _version(self) -> Hashable:
        """SQLite tells a connection in a few microseconds whether another has changed the file; None: cannot be told.

        This one never writes, so every change is another's. Asked before the tables are: what changes in between is
        seen the next time.
        """
        if self.store.engine.dialect.name != "sqlite":
            return None
        if self._line is None:
            pooled = self.store.engine.raw_connection()
            self._line = pooled.driver_connection
            pooled.detach()  # it takes no place from those who search
        cursor = self._line.cursor()
        try:
            cursor.execute("PRAGMA data_version")
            row = cursor.fetchone()
            return int(row[0]) if row else None
        finally:
            cursor.close()


def taken_now(connection: Connection, tables: Mapping[str, Table]) -> dict[str, Revision]:
    now = time.time()
    rows = connection.execute(union_all(*(_asked(connection, name, table) for name, table in tables.items())))
    return {
        row.source: Revision(
            row.rows,
            row.last,
            None if row.changed is None else float(row.changed),
            row.letters,
            now if row.latest is not None and abs(now - float(row.latest)) < SETTLED_SECONDS else 0.0,
        )
        for row in rows
    }


def _asked(connection: Connection, source: str, table: Table) -> Any:
    changed = _seconds(connection, table)
    return select(
        literal(source).label("source"),
        func.count().label("rows"),
        func.max(table.c.id).label("last"),
        func.sum(changed).label("changed"),
        func.max(changed).label("latest"),
        func.sum(func.length(table.c.user_input) + func.length(table.c.agent_response)).label("letters"),
    ).select_from(table)


def _seconds(connection: Connection, table: Table) -> ColumnElement[Any]:
    if connection.dialect.name == "postgresql":
        return extract("epoch", table.c.updated_at)
    return cast(func.strftime("%s", table.c.updated_at), Integer)
