"""A database as it was before anybody wrote to it, and its sessions ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import OperationalError

from qianxun.records.schema import Base
from tests.servers import mysql, postgres

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
OTHERS_OF_MYSQL = "FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"

PAUSE = 0.005  # seconds; pg_terminate_backend would wait for one after another, and look ten times a second
PATIENCE = 60.0


def empty(url: str) -> None:
    """Takes every row of the records away, and ends whatever sessions are left."""
    end_sessions(url)
    with _engine(url).connect() as connection:
        named = connection.dialect.identifier_preparer.format_table
        deletions = [f"DELETE FROM {named(table)}" for table in reversed(Base.metadata.sorted_tables)]
        cursor = connection.connection.cursor()  # the driver's own: nothing of this has to be compiled
        if connection.dialect.name == "postgresql":
            deletions = ["; ".join(deletions)]
        for statement in ("BEGIN", *deletions, "COMMIT"):
            cursor.execute(statement)


def end_sessions(url: str) -> int:
    """Kills every connection to the database, as a restart of the server would; answers how many there were.

    Answers once they are gone: their locks with them.
    """
    with _engine(url).connect() as connection:
        ended = _terminated(connection)
        give_up = time.monotonic() + PATIENCE
        while _left(connection, ended):
            assert time.monotonic() < give_up, "a session does not end"
            time.sleep(PAUSE)
    return len(ended)


@cache
def _engine(url: str) -> Engine:
    """With one connection, which stays: a new one would have to look every table up."""
    return create_engine(
        with_driver(url), isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0, pool_pre_ping=True
    )


def with_driver(url: str) -> str:
    """In the form that `create_engine` takes, of either server."""
    return (mysql if url.startswith("mysql") else postgres).with_driver(url)


def _terminated(connection: Connection) -> Sequence[int]:
    if connection.dialect.name == "postgresql":
        return connection.exec_driver_sql(f"SELECT pid, pg_terminate_backend(pid) {OTHERS}").scalars().all()
    numbers = connection.exec_driver_sql(f"SELECT id {OTHERS_OF_MYSQL}").scalars().all()
    for number in numbers:
        with suppress(OperationalError):  # it has ended by itself
            connection.exec_driver_sql(f"KILL {number}")
    return numbers


def _left(connection: Connection, ended: Sequence[int]) -> bool:
    """Of those that were told to go: another may have come since."""
    if connection.dialect.name == "postgresql":
        statement = f"SELECT pid {OTHERS} AND pid = ANY(%(ended)s)"
        return bool(connection.exec_driver_sql(statement, {"ended": list(ended)}).all())
    left = connection.exec_driver_sql(f"SELECT id {OTHERS_OF_MYSQL}").scalars().all()
    return bool(set(left) & set(ended))
