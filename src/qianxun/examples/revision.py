"""Whether a library has changed since it was last looked at, told without reading it all.

Both databases can say in no time that nobody has written anything anywhere. Where somebody has, the tables are counted:
the change may have been to others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Final

from sqlalchemy import Connection, Integer, Table, cast, func, literal, literal_column, null, select, text, union_all
from sqlalchemy.sql.elements import ColumnElement

from qianxun.examples.store import ExampleStore

SETTLED_SECONDS: Final = 3.0  # SQLite's clock has whole seconds: a later change may bear the time of an earlier one


@dataclass(frozen=True, slots=True)
class Revision:
    """Equal while nothing has changed. ``seen`` makes one that was taken too soon after a change equal to no other."""

    rows: int
    last: int
    changed: int
    letters: int
    seen: float = 0.0


@dataclass
class LibraryWatch:
    """The revisions of a library's tables. Safe under threads."""

    store: ExampleStore
    _taken: dict[str, Revision] = field(default_factory=dict, repr=False)  # by category
    _taken_at: Hashable = field(default=None, repr=False)
    _line: Any = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def revision(self, source: str) -> Revision:
        return self.revisions([source])[0]

    def revisions(self, sources: Sequence[str]) -> tuple[Revision, ...]:
        """Of these tables alone: what befalls the others is no matter here."""
        with self._lock:
            version = self._version()  # before tables are counted: what changes in between is seen the next time
            if version is None or version != self._taken_at:
                self._taken, self._taken_at = {}, version
            tables = {source: self.store.tables[source] for source in sources if source not in self._taken}
            if tables:
                with self.store.connection() as connection:
                    self._taken |= counted(connection, tables)
            return tuple(self._taken[source] for source in sources)

    def close(self) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
                self._line = None

    def _version(self) -> Hashable:
        """The same while nobody has written; None: cannot be told."""
        engine = self.store.engine
        if engine.dialect.name == "postgresql":
            # The transactions that have ended, by their numbers; one that only reads has none.
            with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                return str(connection.execute(text("SELECT pg_current_snapshot()")).scalar())
        if engine.url.database in (None, "", ":memory:"):
            return None  # every connection has a database of its own
        return self._file_version()

    def _file_version(self) -> int:
        """SQLite tells a connection in a few microseconds whether others have changed the file; this one never does."""
        if self._line is None:
            pooled = self.store.engine.raw_connection()
            self._line = pooled.driver_connection
            pooled.detach()  # it takes no place from those who search
        cursor = self._line.cursor()
        try:
            cursor.execute("PRAGMA data_version")
            return int(cursor.fetchone()[0])
        finally:
            cursor.close()


def counted(connection: Connection, tables: Mapping[str, Table]) -> dict[str, Revision]:
    now = time.time()
    counting = _by_transaction if connection.dialect.name == "postgresql" else _by_clock
    rows = connection.execute(union_all(*(counting(source, table) for source, table in tables.items())))
    return {
        row.source: Revision(
            row.rows,
            row.last or 0,
            int(row.changed or 0),
            row.letters or 0,
            now if row.latest is not None and abs(now - row.latest) < SETTLED_SECONDS else 0.0,
        )
        for row in rows
    }


def _by_transaction(source: str, table: Table) -> Any:
    """PostgreSQL keeps with every row the number of the transaction that wrote it."""
    writers: ColumnElement[Any] = func.sum(literal_column("xmin::text::bigint"))
    return _counts(source, table, writers, null(), null())


def _by_clock(source: str, table: Table) -> Any:
    changed = cast(func.strftime("%s", table.c.updated_at), Integer)
    # Who changes a row by hand may leave its time as it was: most such changes are seen in what the row says.
    said = (func.length(table.c[name]) for name in ("user_input", "agent_response", "tags"))
    grade = func.unicode(table.c.quality_grade)
    letters = reduce(add, (func.coalesce(func.sum(part), 0) for part in (*said, grade)))
    return _counts(source, table, func.sum(changed), func.max(changed), letters)


def _counts(source: str, table: Table, changed: Any, latest: Any, letters: Any) -> Any:
    return select(
        literal(source).label("source"),
        func.count().label("rows"),
        func.max(table.c.id).label("last"),
        changed.label("changed"),
        cast(latest, Integer).label("latest"),
        cast(letters, Integer).label("letters"),
    ).select_from(table)
