"""Detects changes of a library without reading all of it.

Both databases can tell quickly that nothing at all has been written. Otherwise the tables are counted: the change may
have been to others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Integer, Table, cast, func, literal, literal_column, null, select, text, union_all
from sqlalchemy.sql.elements import ColumnElement

from qianxun.examples.store import ExampleStore

SETTLED_SECONDS: Final = 3.0  # SQLite's clock has whole seconds: two changes may have the same time
Cached = TypeVar("Cached")


@dataclass(frozen=True, slots=True)
class Revision:
    """Equal while nothing has changed. ``seen`` makes one taken too soon after a change equal to no other."""

    rows: int
    last: int
    changed: int
    letters: int
    seen: float = 0.0


@dataclass
class LibraryWatch:
    """The revisions of a library's tables. Thread-safe."""

    store: ExampleStore
    _revisions: dict[str, Revision] = field(default_factory=dict, repr=False)  # by category
    _version_seen: Hashable = field(default=None, repr=False)
    _connection: Any = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def revision(self, source: str) -> Revision:
        return self.revisions([source])[0]

    def revisions(self, sources: Sequence[str]) -> tuple[Revision, ...]:
        """Of these tables alone."""
        with self._lock:
            version = self._version()  # before tables are counted: changes in between are seen the next time
            if version is None or version != self._version_seen:
                self._revisions, self._version_seen = {}, version
            tables = {source: self.store.tables[source] for source in sources if source not in self._revisions}
            if tables:
                with self.store.connection() as connection:
                    self._revisions |= counted(connection, tables)
            return tuple(self._revisions[source] for source in sources)

    def cached(
        self,
        source: str,
        cache: dict[str, tuple[object, Cached]],
        lock: threading.Lock,
        load: Callable[[str], Cached],
    ) -> Cached:
        """What ``load`` made of a table; loaded again after the table has changed.

        It is read after its revision: it may be newer, and is then loaded once more, but never older.
        """
        revision = self.revision(source)
        entry = cache.get(source)
        if entry is None or entry[0] != revision:
            with lock:
                entry = cache.get(source)
                if entry is None or entry[0] != revision:
                    entry = cache[source] = revision, load(source)
        return entry[1]

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _version(self) -> Hashable:
        """Equal while nothing has been written; None: unknown."""
        engine = self.store.engine
        if engine.dialect.name == "postgresql":
            # Covers the transactions that have ended; those that only read have no number.
            with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
                return str(connection.execute(text("SELECT pg_current_snapshot()")).scalar())
        if engine.url.database in (None, "", ":memory:"):
            return None  # every connection has a database of its own
        return self._file_version()

    def _file_version(self) -> int:
        """SQLite tells a connection in microseconds whether others have changed the file; this one never does."""
        if self._connection is None:
            pooled = self.store.engine.raw_connection()
            self._connection = pooled.driver_connection
            pooled.detach()  # so that searches have the whole pool
        cursor = self._connection.cursor()
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
    """PostgreSQL stores the number of the writing transaction with every row."""
    writers: ColumnElement[Any] = func.sum(literal_column("xmin::text::bigint"))
    return _counts(source, table, writers, null(), null())


def _by_clock(source: str, table: Table) -> Any:
    changed = cast(func.strftime("%s", table.c.updated_at), Integer)
    # Manual changes may leave the time as it was: most of them change the length of a text.
    lengths = (func.length(table.c[name]) for name in ("user_input", "agent_response", "tags"))
    grade = func.unicode(table.c.quality_grade)
    letters = reduce(add, (func.coalesce(func.sum(part), 0) for part in (*lengths, grade)))
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
