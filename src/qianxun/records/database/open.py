"""Opens the database of record and brings its schema up to date."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    Connection,
    Engine,
    column,
    create_engine,
    create_mock_engine,
    delete,
    event,
    insert,
    inspect,
    select,
    table,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection

from qianxun.core.errors import BadSettings, MissingExtra
from qianxun.core.limits import MIB
from qianxun.records.database.postgres import schema_of
from qianxun.records.database.restrict import watch_statements
from qianxun.records.database.server import CREATING, DEFAULT_CONNECTION, SQLITE, WRITING, ConnectionOptions, server_of
from qianxun.records.schema import VERSIONS, Base, SchemaReaderRow

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parents[1] / "migrations"
HEAD = "0020"  # the newest of them
# Of each connection, of which there may be fifteen: with 64 MB each they could take a gigabyte. A page that is not here
# comes from the system's cache: 15 µs more for thirty rows anywhere in 93 MB.
CACHE_BYTES = 8 * MIB
# The newest migrations of released programs that can work on the tables of this one: replicas of two versions live
# together while they are replaced one by one. A migration that takes or renames a column which those use empties it.
COMPATIBLE: tuple[str, ...] = ()
DRIVERS = {  # as people write them → the dialect
    **dict.fromkeys(("postgresql", "postgresql+psycopg", "postgres"), "postgresql"),
    **dict.fromkeys(("mysql", "mysql+pymysql", "mariadb", "mariadb+pymysql"), "mysql"),
}
log = logging.getLogger(__name__)
_ALEMBIC = threading.Lock()
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: json.dumps makes one a call
_decode = json.JSONDecoder().decode


def _loads(stored: str | bytes) -> Any:
    """Most tags, headings and metadata are empty, and a search reads three of them per chunk. What is damaged reads as
    empty, which its row's checksum tells from what was written."""
    if stored in ("[]", b"[]"):
        return []
    if stored in ("{}", b"{}"):
        return {}
    try:
        return _decode(stored if isinstance(stored, str) else stored.decode())
    except ValueError:
        log.error("a stored value is not the JSON that was written: run qianxun verify")
        return {}


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def open_database(url: str, connecting: ConnectionOptions = DEFAULT_CONNECTION) -> Engine:
    """An engine for the URL, migrated to the newest schema. A file of this user is closed to all others."""
    engine = connect(url, connecting)
    if engine.dialect.name == SQLITE and engine.url.database:
        _make_private(Path(engine.url.database))
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    watch_statements(engine)
    return engine


def _make_private(database: Path) -> None:
    """Creates the file for its owner alone, or closes it to others. SQLite gives its other files the same mode.

    One that exists is not opened: to close it again would give up the locks of whoever has it open in this process.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        for path in (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))):
            if path.exists() and path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o077:
                path.chmod(0o600)
    except OSError as error:  # SQLite will say, in words of its own, what keeps it from opening the file
        log.info("could not close %s to other users: %s", database, error)


def connect(url: str, connecting: ConnectionOptions = DEFAULT_CONNECTION) -> Engine:
    """An engine for the URL; no connection is made yet. Raises BadSettings or MissingExtra."""
    parsed = parse(url)
    server = server_of(parsed.get_backend_name())
    # To a file of SQLite the connection that was used last: its pages are in memory. By turns each reads them anew.
    last_used = {"pool_use_lifo": True} if parsed.database not in (None, "", ":memory:") else {}
    options = server.arguments(parsed, connecting) if server is not None else last_used
    address = server.address(parsed) if server is not None else parsed
    try:
        # Parameters are user data: an error that quotes them would carry it into logs.
        engine = create_engine(
            address, json_serializer=_dumps, json_deserializer=_loads, hide_parameters=True, **options
        )
    except ImportError as error:
        if server is None:
            raise
        raise MissingExtra(server.PACKAGE, server.EXTRA) from error
    if server is not None:
        return server.prepare(engine, connecting)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def parse(url: str) -> URL:
    """The URL of a supported database. Errors never quote it: it may contain a password."""
    hint = (
        "写成 postgresql://用户:密码@主机:5432/数据库 或 mysql://用户:密码@主机:3306/数据库；"
        "密码里的 @ : / 等字符写成 %40 %3A %2F"
    )
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise BadSettings("records.url 不是数据库的地址", hint=hint) from error
    if parsed.drivername in DRIVERS:
        return parsed.set(drivername=DRIVERS[parsed.drivername])
    if parsed.drivername != SQLITE:
        raise BadSettings(f"records.url 不支持 {parsed.drivername[:40]}", hint=hint)
    return parsed


def for_writing(engine: Engine) -> Engine:
    """The same engine, whose transactions are writers from their first statement."""
    return engine.execution_options(**{WRITING: True})


def for_reading(engine: Engine) -> Engine:
    """The same engine, whose transactions see one state of the database, however many statements they have."""
    server = server_of(engine.dialect.name)
    return engine if server is None else engine.execution_options(**server.READING)  # SQLite's do so by themselves


def for_single_statements(engine: Engine) -> Engine:
    """The same engine for single statements: nothing is begun and nothing has to be ended."""
    server = server_of(engine.dialect.name)
    return engine if server is None else engine.execution_options(**server.SINGLE)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that has read and then writes fails at once, without waiting, when another process (`qianxun keys`
    # next to a service) wrote in between; one that is a writer from the start waits for its turn.
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
        f"cache_size=-{CACHE_BYTES // 1024}",
        "temp_store=MEMORY",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def migrate(engine: Engine, revision: str = "head") -> None:
    """Brings the schema up to date. Two processes at once do it one by one."""
    if revision == "head" and (_is_newest(engine) or _created(engine) or not missing_revisions(engine)):
        return
    with _migrating(engine) as connection:
        run_alembic("upgrade", _alembic(connection), revision)
        if revision == "head":
            connection.execute(delete(SchemaReaderRow))
            for earlier in COMPATIBLE:
                connection.execute(insert(SchemaReaderRow).values(revision=earlier))


def _is_newest(engine: Engine) -> bool:
    with for_reading(engine).begin() as connection:
        versions = table("alembic_version", column("version_num"), schema=schema_of(connection))
        has_versions = connection.dialect.has_table(connection, versions.name, schema=versions.schema)
        return has_versions and connection.scalars(select(versions)).all() == [HEAD]


def _created(engine: Engine) -> bool:
    """Creates the newest tables in a new file. Returns False if the file is not new.

    All migrations in turn give the same result (a test compares them) and take ten times as long.
    """
    server = server_of(engine.dialect.name)
    if server is not None:
        return server.create(engine, HEAD)
    with for_writing(engine).begin() as connection:
        if inspect(connection).get_table_names():
            return False
        with closing(connection.connection.cursor()) as cursor:  # SQLAlchemy would take longer than the driver
            for statement in _table_statements():
                cursor.execute(statement)
        connection.execute(insert(VERSIONS).values(version_num=HEAD))
    return True


@cache
def _table_statements() -> tuple[str, ...]:
    """What makes the newest tables in a file: to write it takes longer than to run it."""
    statements: list[str] = []

    def note(made: Any, *_: Any, **__: Any) -> None:
        statements.append(str(made.compile(dialect=writer.dialect)))

    writer = create_mock_engine("sqlite://", note)
    Base.metadata.create_all(writer, checkfirst=False)
    VERSIONS.create(writer, checkfirst=False)
    return tuple(statements)


def downgrade(engine: Engine, revision: str) -> None:
    with _migrating(engine) as connection:
        run_alembic("downgrade", _alembic(connection), revision)


def run_alembic(name: Literal["upgrade", "downgrade"], config: Config, revision: str) -> None:
    """One at a time: Alembic keeps its connection in one place for the whole process, and of two engines that were
    opened at once, one had its tables made in the other's database."""
    from alembic import command  # .12 s, and next to always there is nothing to migrate

    with _ALEMBIC:
        getattr(command, name)(config, revision)


def missing_revisions(engine: Engine) -> list[str]:
    """The migrations a database still needs, oldest first. Raises BadSettings for one that is newer than this program,
    unless the program that migrated it said that this one may go on."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(_alembic(None))
    with for_reading(engine).begin() as connection:
        options = {"version_table_schema": schema_of(connection)}
        has = MigrationContext.configure(connection, opts=options).get_current_revision()
        has = None if has == CREATING else has  # somebody was, and is not any more
        known = [revision.revision for revision in script.walk_revisions()][::-1]
        is_newer = has is not None and has not in known
        if is_newer and _may_go_on(connection):
            log.warning("the database has a newer schema (%s), which this program can work on: upgrade it, too", has)
            return []
    if is_newer:
        raise BadSettings(
            f"数据库的结构是 {has} 版，比这个程序所知的（{known[-1]}）新", hint="请升级 qianxun，或换一个数据库"
        )
    return known[known.index(has) + 1 :] if has is not None else known


def _may_go_on(connection: Connection) -> bool:
    schema = schema_of(connection)
    if not connection.dialect.has_table(connection, SchemaReaderRow.__tablename__, schema=schema):
        return False
    own = select(SchemaReaderRow.revision).where(SchemaReaderRow.revision == HEAD)
    return connection.execute(own).first() is not None


@contextmanager
def _migrating(engine: Engine) -> Iterator[Connection]:
    server = server_of(engine.dialect.name)
    opened = for_writing(engine).begin() if server is None else server.migrating(engine)
    with opened as connection:
        yield connection


def _alembic(connection: object) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def checkpoint(engine: Engine) -> None:
    """Brings what a write-ahead log of SQLite has into the database file, durably."""
    if engine.dialect.name == SQLITE:
        with engine.connect() as connection:
            connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").close()


def release_pages(engine: Engine) -> None:
    """Has SQLite's connections that wait in the pool give back the pages they keep: forty megabytes in five of them."""
    waiting: list[PoolProxiedConnection] = []
    try:
        with suppress(PoolTimeout):  # others were quicker: none waits
            while engine.pool.checkedin():  # type: ignore[attr-defined]
                waiting.append(engine.pool.connect())
        for connection in waiting:
            connection.cursor().execute("PRAGMA shrink_memory")
    finally:
        for connection in waiting:
            connection.close()


def integrity_problems(tx: Connection) -> list[str]:
    """Problems that SQLite reports of its file; other databases check themselves."""
    if tx.dialect.name != SQLITE:
        return []
    found = [row[0] for row in tx.exec_driver_sql("PRAGMA integrity_check(5)")]
    return [problem for problem in found if problem != "ok"]
