"""What differs between database servers, under the same names: `postgres` and `mysql` are the two that there are."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from qianxun.core.errors import RecordsUnavailable

SQLITE: Final = "sqlite"
CREATING: Final = "creating"  # in the place of a version while the tables of a new database are being created
WRITING: Final = "qianxun_writing"  # the execution option of a transaction that writes
WRITE_SECONDS: Final = 600  # for one statement of a writer: to remove a large base takes a while
IDLE_WRITER_SECONDS: Final = 30  # a process that hangs inside a transaction blocks all writers no longer than this
IDLE_SESSION_SECONDS: Final = 300  # … where a server has no such limit but that of a session
KEEPALIVE_SECONDS: Final = 30
GRACE_SECONDS: Final = 5.0  # in which a server is to report that a statement's time is up; one that does not hangs


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How a database server is reached. SQLite is a file and takes none of it."""

    pool_size: int = 10  # connections of one process
    connect_seconds: float = 5.0
    statement_seconds: float = 30.0  # after which a reading statement is cancelled
    schema: str = ""  # of PostgreSQL; "": the first of the search path, which is `public` unless chosen otherwise


DEFAULT_CONNECTION: Final = ConnectionOptions()


class Deadlocked(RecordsUnavailable):
    """Undone by the server in favour of another transaction: the same again works."""


class Server(Protocol):
    """Implemented by modules."""

    DRIVER: str  # SQLAlchemy's name of dialect and driver
    PACKAGE: str  # the driver, and the extra that brings it
    EXTRA: str
    READING: Mapping[str, Any]  # execution options of transactions that see one state, and of single statements
    SINGLE: Mapping[str, Any]

    def address(self, url: URL) -> URL:
        """The URL as the driver takes it."""

    def arguments(self, url: URL, connecting: ConnectionOptions) -> dict[str, Any]:
        """The arguments of SQLAlchemy's `create_engine` besides the URL. Raises BadSettings."""

    def prepare(self, engine: Engine, connecting: ConnectionOptions) -> Engine:
        """Sets every new connection up, and translates errors."""

    def begin(self, connection: Connection) -> None:
        """Called when a transaction begins. A writer waits for the other writers of this database."""

    def create(self, engine: Engine, head: str) -> bool:
        """Creates the newest tables in a new database, where that is quicker or safer than all migrations in turn.
        Returns False where nothing was to be done, or the migrations do it."""

    def migrating(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A connection to migrate on, alone: two processes that find the schema old do it one after the other."""

    def translate(self, error: BaseException, *, is_disconnect: bool, is_connected: bool) -> Exception | None:
        """An error of the driver as one of ours; None where it is not about reaching the database."""

    def without_detail(self, error: Any) -> bool:
        """Removes what an error quotes of a row: user data does not belong in logs. False: it quotes nothing."""

    def is_quiet(self, connection: Any) -> bool:
        """Whether an idle connection is alive, as far as this end knows."""

    def wait_at_most(self, connection: Connection, seconds: float | None) -> None:
        """How long the rest of this transaction waits for the reply to a statement; None: without limit."""

    def lock_session(self, session: Connection, purpose: str, *, is_shared: bool) -> bool:
        """Takes a lock of this session if it is free, or shared by all who have it. The server lets go of it when the
        session ends, however it ends."""

    def unlock_session(self, session: Connection, purpose: str, *, is_shared: bool) -> None: ...

    def lock_holder(self, session: Connection, purpose: str) -> str:
        """Who has the lock, for people to read."""

    def database_bytes(self, tx: Connection) -> int: ...


def server_of(dialect: str) -> Server | None:
    """By SQLAlchemy's name of the dialect; None for SQLite, which is a file."""
    if dialect == "postgresql":
        from qianxun.records.database import postgres

        return postgres
    if dialect == "mysql":
        from qianxun.records.database import mysql  # .02 s, for those who have it

        return mysql
    return None


def own_name() -> str:
    """The name of our sessions in the server's lists."""
    command = " ".join([Path(sys.argv[0]).name, *(word for word in sys.argv[1:2] if word.isalpha())])  # no secret
    name = f"qianxun {os.getpid()} {platform.node()} {command}"
    return name.encode("ascii", "replace").decode()[:63]  # bytes that PostgreSQL takes


def first_line(error: BaseException) -> str:
    """The drivers name hosts, users and databases; passwords they never name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
