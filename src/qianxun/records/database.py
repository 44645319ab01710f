"""Opens the database of record and brings its schema up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.engine.interfaces import DBAPIConnection

MIGRATIONS = Path(__file__).parent / "migrations"
WRITING = "qianxun_writing"

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: json.dumps makes one a call
_decode = json.JSONDecoder().decode


def _loads(stored: str) -> Any:
    """Most tags, headings and metadata are empty, and a search reads three of them per chunk."""
    if stored == "[]":
        return []
    if stored == "{}":
        return {}
    return _decode(stored)


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def open_database(url: str) -> Engine:
    """An engine for the URL, migrated to the newest schema."""
    engine = connect(url)
    migrate(engine)
    return engine


def connect(url: str) -> Engine:
    # Parameters hold what people wrote: an error that quotes them would carry it into logs.
    engine = create_engine(url, json_serializer=_dumps, json_deserializer=_loads, hide_parameters=True)
    if make_url(url).get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def for_writing(engine: Engine) -> Engine:
    """The same engine, whose transactions are writers from their first statement."""
    return engine.execution_options(**{WRITING: True})


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that has read and then writes fails at once, without waiting, when another process (`qianxun keys`
    # beside a service) wrote in between; one that is a writer from the start waits for its turn.
    is_writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _prepare_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    # The driver's own transaction control commits before DDL and delays BEGIN; ours is explicit (see "begin" above).
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "page_size=8192",  # a 512-d vector row is 2 KB: three to a page instead of one
        "journal_mode=WAL",
        "synchronous=FULL",  # an acknowledged write survives power loss
        "foreign_keys=ON",
        "busy_timeout=10000",
        "cache_size=-65536",
        "temp_store=MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def migrate(engine: Engine, revision: str = "head") -> None:
    with for_writing(engine).begin() as connection:
        command.upgrade(_alembic(connection), revision)


def downgrade(engine: Engine, revision: str) -> None:
    with for_writing(engine).begin() as connection:
        command.downgrade(_alembic(connection), revision)


def _alembic(connection: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def integrity_problems(tx: Connection) -> list[str]:
    """What the database itself says is wrong with its files; other databases check themselves."""
    if tx.dialect.name != "sqlite":
        return []
    found = [row[0] for row in tx.exec_driver_sql("PRAGMA quick_check(5)")]
    return [problem for problem in found if problem != "ok"]
