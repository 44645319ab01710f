"""A connection that the caller opened with a driver of its own, as SQLAlchemy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

from qianxun.core.errors import BadInput

_DIALECTS: Final = {"psycopg": "postgresql+psycopg", "psycopg2": "postgresql+psycopg2", "sqlite3": "sqlite"}
_IDLE: Final = 0  # `TransactionStatus.IDLE` of psycopg and psycopg2


@contextmanager
def driver_connection(given: Any) -> Iterator[Connection]:
    """Within the caller's transaction if one has begun, which is then the caller's to commit; otherwise in its own.

    The connection stays open, and in the caller's mode. Raises BadInput for what is no such connection.
    """
    driver = type(given).__module__.partition(".")[0]
    if driver not in _DIALECTS or not hasattr(given, "cursor"):
        raise BadInput(
            f"db_conn 应是数据库的连接，而不是 {type(given).__module__}.{type(given).__name__}",
            hint="psycopg.connect(…)、sqlite3.connect(…)，或 SQLAlchemy 的 create_engine(…).connect()",
        )
    within = _is_in_transaction(given, driver)
    was_automatic = bool(getattr(given, "autocommit", False)) and driver != "sqlite3"
    if was_automatic and not within:
        given.autocommit = False  # all or nothing, as with any other connection
    engine = create_engine(
        f"{_DIALECTS[driver]}://", creator=lambda: given, poolclass=StaticPool, pool_reset_on_return=None
    )
    dialect: Any = engine.dialect
    dialect.do_close = _nothing
    if within:  # not ours to end; savepoints have calls of their own
        dialect.do_commit = dialect.do_rollback = _nothing
    try:
        with engine.connect() as connection:
            if within:
                connection.begin()
            yield connection
    finally:
        if was_automatic and not within:
            given.rollback()  # what SQLAlchemy read when it connected
            given.autocommit = True


def _is_in_transaction(given: Any, driver: str) -> bool:
    if driver == "sqlite3":
        return bool(given.in_transaction)
    status = given.info.transaction_status
    return int(getattr(status, "value", status)) != _IDLE


def _nothing(*_: object) -> None:
    """In the place of what would end the caller's transaction, or close its connection."""
