"""A database as it was before anybody wrote to it, and its sessions ended."""

from __future__ import annotations

from sqlalchemy import Connection, NullPool, create_engine

from qianxun.records.schema import Base
from qianxun.testing.postgres import with_driver

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def empty(url: str) -> None:
    """Takes every row of the records away, and ends whatever sessions are left."""
    engine = create_engine(with_driver(url), poolclass=NullPool)
    with engine.begin() as connection:
        _end_sessions(connection)
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())


def end_sessions(url: str) -> int:
    """Kills every connection to the database, as a restart of the server would; answers how many there were."""
    engine = create_engine(with_driver(url), poolclass=NullPool)
    with engine.begin() as connection:
        return _end_sessions(connection)


def _end_sessions(connection: Connection) -> int:
    """Answers once they are gone: their locks with them."""
    ended = connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid, 5000) {OTHERS}").all()
    return len(ended)
