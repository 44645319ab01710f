"""Records on MySQL and MariaDB: how their connections are opened, their tables created, and their errors as ours.

Writers take the lock of one row for their whole transaction, as PostgreSQL's take an advisory lock: what was read
before a write is still true when it commits. Behind that lock they read what is committed (READ COMMITTED), so that no
gap between rows is ever locked; readers see one state (REPEATABLE READ, READ ONLY). Where no transaction was begun
every statement commits by itself: a single one is one exchange with the server.

Texts compare by their bytes, and no two that differ are the same, not even by a space at the end: the collation is
``utf8mb4_0900_bin`` on MySQL and ``utf8mb4_nopad_bin`` on MariaDB. JSON is stored as text: MySQL's own type sorts keys
and rounds numbers, and a checksum covers what was written.
"""

from __future__ import annotations

import hashlib
import logging
import math
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, Table, event, insert, inspect, text, update
from sqlalchemy.dialects.mysql.base import MySQLDDLCompiler, MySQLTypeCompiler
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError

from qianxun.core.errors import BadSettings
from qianxun.records.database.mysql_connection import FOREVER, connection_type, session_variables, writer_variables
from qianxun.records.database.mysql_connection import is_quiet as is_quiet
from qianxun.records.database.mysql_errors import code_of, translate_error
from qianxun.records.database.mysql_errors import translate as translate
from qianxun.records.database.mysql_errors import without_detail as without_detail
from qianxun.records.database.server import (
    CREATING,
    GRACE_SECONDS,
    WRITE_SECONDS,
    WRITING,
    ConnectionOptions,
    own_name,
)
from qianxun.records.schema import VERSIONS, Base

log = logging.getLogger(__name__)

DRIVER = "mysql+pymysql"
PACKAGE, EXTRA = "pymysql", "mysql"
READ_ONLY, AUTOMATIC = "qianxun_read_only", "qianxun_automatic"  # execution options
READING: Mapping[str, Any] = {READ_ONLY: True}
SINGLE: Mapping[str, Any] = {AUTOMATIC: True}
LOCK: Final = "qianxun_writers"  # the table whose only row writers lock
SSL_MODES: Final = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
OPTIONS: Final = ("ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "unix_socket", "charset")

# The log of searches as it is documented (docs/seeds.md), for whoever reads it with a program of their own.
LOG: Final = "knowledge_retrieval_log"
LOG_COMMENT: Final = "召回日志表"
LOG_COLUMNS: Final = {
    "id": "bigint unsigned NOT NULL AUTO_INCREMENT",
    "knowledge_base_id": "bigint unsigned NOT NULL COMMENT '知识库ID'",
    "query": "varchar(2048) NOT NULL DEFAULT '' COMMENT '用户原始查询'",
    "retrieval_params": "json DEFAULT NULL COMMENT '检索参数快照(阈值/权重等)'",
    "chunk_count": "int NOT NULL DEFAULT '0' COMMENT '召回chunk数'",
    "time_cost_ms": "int NOT NULL DEFAULT '0' COMMENT '查询耗时(ms)'",
    "created_at": "datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)",
    "updated_at": "datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
}


def address(url: URL) -> URL:
    """As the driver takes it. Options of ours and of TLS are arguments."""
    plain = url.difference_update_query([name for name in OPTIONS if name != "unix_socket"])
    return plain.set(drivername=DRIVER)


def arguments(url: URL, connecting: ConnectionOptions) -> dict[str, Any]:
    """The arguments of SQLAlchemy's `create_engine` besides the URL. Raises BadSettings."""
    if unknown := sorted(set(url.query) - set(OPTIONS)):
        raise BadSettings(f"records.url 里有不认得的选项 {unknown[0][:40]}", hint=f"MySQL 可用：{'、'.join(OPTIONS)}")
    if not url.database:
        raise BadSettings("records.url 没有写数据库的名字", hint="写成 mysql://用户:密码@主机:3306/数据库")
    options: dict[str, Any] = {
        "connect_timeout": max(1, math.ceil(connecting.connect_seconds)),
        "read_timeout": connecting.statement_seconds + GRACE_SECONDS if connecting.statement_seconds else None,
        "write_timeout": WRITE_SECONDS,
        "charset": "utf8mb4",
        "autocommit": True,
        "program_name": own_name(),
    }
    return {
        "pool_size": connecting.pool_size,
        "max_overflow": 0,
        "pool_timeout": connecting.connect_seconds,
        "connect_args": options | _tls(url),
    }


def _tls(url: URL) -> dict[str, Any]:
    """Encrypted where the server can, unless the URL says otherwise; a certificate authority is there to be asked."""
    given = {name: str(value) for name, value in url.query.items()}
    mode = given.get("ssl_mode", "verify_identity" if "ssl_ca" in given else "preferred").lower().replace("-", "_")
    if mode not in SSL_MODES:
        raise BadSettings(f"records.url 的 ssl_mode 不能是 {mode[:40]}", hint=f"可用：{'、'.join(SSL_MODES)}")
    if mode == "disabled" or ("unix_socket" in given and mode == "preferred"):
        return {"ssl_disabled": True}
    if mode == "preferred":
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which the certificates that MySQL makes by itself do not meet
        context.check_hostname = mode == "verify_identity"
        context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"records.url 的证书用不了：{error}", hint="检查 ssl_ca、ssl_cert、ssl_key 的路径与内容"
        ) from error
    return {"ssl": context}


def prepare(engine: Engine, connecting: ConnectionOptions) -> Engine:
    """Sets every new connection up, and translates errors."""
    if connecting.schema:
        raise BadSettings("records.schema 是 PostgreSQL 的；MySQL 没有", hint="去掉它，在 records.url 里写数据库的名字")
    dialect: Any = engine.dialect
    dialect.ddl_compiler = _Tables
    dialect.type_compiler_instance = _Types(dialect)
    kind = connection_type(dialect.loaded_dbapi)

    def set_up(connection: Any, _record: Any) -> None:
        connection.set_up(session_variables(str(connection.server_version), connecting.statement_seconds))

    def check_alive(connection: DBAPIConnection, _record: Any, _proxy: Any) -> None:
        if not is_quiet(connection):
            raise InvalidatePoolError
        connection.restore()

    event.listen(engine, "do_connect", lambda _dialect, _record, given, named: kind(*given, **named))
    event.listen(engine, "connect", set_up, insert=True)  # before SQLAlchemy asks what it needs to know
    event.listen(engine, "checkout", check_alive)
    event.listen(engine, "handle_error", translate_error)
    event.listen(engine, "begin", begin)
    return engine


def wait_at_most(connection: Connection, seconds: float | None) -> None:
    """How long the rest of this transaction waits for the reply to a statement; None: without limit."""
    _driver(connection)._read_timeout = seconds


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get(WRITING, False):
        _begin_writing(connection)
    elif options.get(READ_ONLY, False):
        _driver(connection).begin("START TRANSACTION READ ONLY")
    elif not options.get(AUTOMATIC, False):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        _driver(connection).begin()


def _begin_writing(connection: Connection) -> None:
    opened = _driver(connection)
    opened.widen(writer_variables(str(opened.server_version)), WRITE_SECONDS + GRACE_SECONDS)
    opened.begin()
    lock_writers(connection)


def lock_writers(connection: Connection) -> None:
    """Waits for the other writers of this database; they wait for us until the transaction ends."""
    connection.exec_driver_sql(f"SELECT id FROM {LOCK} WHERE id = 1 FOR UPDATE")


def database_bytes(tx: Connection) -> int:
    query = "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
    return int(tx.execute(text(query)).scalar_one() or 0)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def collation_of(dialect: Any) -> str:
    """Compares texts by their bytes, spaces at the end included, where the server has one that does."""
    version: tuple[int, ...] = dialect.server_version_info or ()
    if dialect.is_mariadb:
        return "utf8mb4_nopad_bin"
    return "utf8mb4_0900_bin" if version >= (8, 0, 17) else "utf8mb4_bin"


class _Tables(MySQLDDLCompiler):
    """Every table is ours to the letter, whatever the defaults of the server or the database are."""

    def get_column_specification(self, column: Column[Any], **kw: Any) -> str:
        if column.table is not None and column.table.name == LOG and column.name in LOG_COLUMNS:
            return f"{self.preparer.format_column(column)} {LOG_COLUMNS[column.name]}"
        return super().get_column_specification(column, **kw)

    def post_create_table(self, table: Table) -> str:
        comment = f" COMMENT='{LOG_COMMENT}'" if table.name == LOG else ""
        return f" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={collation_of(self.dialect)}{comment}"


class _Types(MySQLTypeCompiler):
    """MySQL's plain types hold 64 kB and whole seconds."""

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "DATETIME(6)"

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        return "LONGTEXT"

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "LONGBLOB"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        return "LONGTEXT"


def create(engine: Engine, head: str) -> bool:
    """Creates the newest tables in a new database, or finishes what was begun: nothing is undone here when a process
    dies among its statements."""
    with _alone(engine) as connection:
        check(connection)
        VERSIONS.create(connection, checkfirst=True)
        state = connection.execute(VERSIONS.select()).scalars().all()
        if state not in ([], [CREATING]):
            return False
        if not state:
            _expect_room(connection)
            connection.execute(insert(VERSIONS).values(version_num=CREATING))
        _create_tables(connection)
        connection.execute(update(VERSIONS).values(version_num=head))
    return True


def _expect_room(connection: Connection) -> None:
    """Raises BadSettings where another program has tables of the same names."""
    if taken := sorted(set(Base.metadata.tables) & set(inspect(connection).get_table_names())):
        raise BadSettings(
            f"数据库里已有别的程序的表 {taken[0]}，没有改动任何东西", hint="在 records.url 里换一个空的数据库"
        )


def _create_tables(connection: Connection) -> None:
    """What an unfinished creation left has no rows in it: nobody was handed the database yet."""
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection, checkfirst=False)
    create_lock(connection)


def create_lock(connection: Connection) -> None:
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {LOCK} (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB")
    connection.exec_driver_sql(f"INSERT IGNORE INTO {LOCK} (id) VALUES (1)")


def check(connection: Connection) -> None:
    """Warns where ids that differ by a space at the end alone are the same to the server."""
    if collation_of(connection.dialect) == "utf8mb4_bin":
        log.warning("这台数据库服务器没有区分结尾空格的排序规则：只差结尾空格的编号和名称会被当成同一个而拒绝")


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """Alone, and with writers waiting. Statements that define tables commit by themselves here, so that the lock has a
    connection of its own; what a process that died had already done is passed over (`migrations/env.py`)."""
    with _alone(engine) as connection:
        create_lock(connection)
        with engine.begin() as guard:
            wait_at_most(guard, None)
            lock_writers(guard)
            yield connection


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A connection on which every statement commits by itself, and the only one that creates or migrates."""
    with engine.execution_options(**SINGLE).connect() as connection:
        # Without those checks an index that a foreign key needs can go before its table does.
        limits = {"innodb_lock_wait_timeout": str(FOREVER), "foreign_key_checks": "0", **_unhurried(connection)}
        _driver(connection).widen(limits, None)
        name = lock_name("migrating", connection)
        _ask(connection, f"get_lock(:name, {FOREVER})", name)
        try:
            yield connection
            connection.commit()
        finally:
            if not connection.invalidated:
                connection.rollback()
                _ask(connection, "release_lock(:name)", name)


def _unhurried(connection: Connection) -> dict[str, str]:
    return {"max_statement_time" if connection.dialect.is_mariadb else "max_execution_time": "0"}  # type: ignore[attr-defined]


ALREADY: Final = {
    1050: "table exists",
    1051: "unknown table",
    1060: "column exists",
    1061: "index exists",
    1091: "cannot drop: not there",
    1826: "foreign key exists",
}


def is_already_done(error: BaseException) -> bool:
    """Whether a statement of a migration was refused because an earlier attempt had come as far."""
    return code_of(getattr(error, "orig", error)) in ALREADY


# ── a lock for as long as a session lasts ───────────────────────────────────────────────────────

# The server's locks have one owner each. A shared one is one of so many places, and one's own is a place that is given
# while all others are free; whoever looks for a place does so alone.
PLACES: Final = 256


def lock_name(purpose: str, connection: Connection) -> str:
    """Of a lock of ours. The server has one list of them for all its databases, and names of 64 characters."""
    database = str(connection.engine.url.database)
    return f"qianxun {purpose} {hashlib.sha256(database.encode()).hexdigest()[:24]}"


def lock_session(session: Connection, purpose: str, *, is_shared: bool) -> bool:
    """Takes the lock if it is free, or shared by all who have it."""
    name = lock_name(purpose, session)
    if not _ask(session, "get_lock(:name, 5)", f"{name} gate"):
        return False
    try:
        taken = _taken(session, name)
        if taken and not (is_shared and 0 not in taken):
            return False
        place = next((number for number in range(1, PLACES) if number not in taken), None) if is_shared else 0
        return place is not None and _ask(session, "get_lock(:name, 0)", f"{name} {place}")
    finally:
        _ask(session, "release_lock(:name)", f"{name} gate")


def unlock_session(session: Connection, purpose: str, *, is_shared: bool) -> None:
    """Of all places the session has one; to let go of what is another's does nothing."""
    name = lock_name(purpose, session)
    own = session.exec_driver_sql("SELECT connection_id()").scalar_one()
    for place, holder in _taken(session, name).items():
        if holder == own:
            _ask(session, "release_lock(:name)", f"{name} {place}")


def lock_holder(session: Connection, purpose: str) -> str:
    """Who has the lock, for people to read."""
    holders = list(_taken(session, lock_name(purpose, session)).values())
    if not holders:
        return "（它刚刚结束，请重试）"
    query = text("SELECT user, host FROM information_schema.processlist WHERE id = :id")
    found = session.execute(query, {"id": holders[0]}).first()
    return f"数据库连接 {holders[0]}" + (f"，用户 {found.user}，来自 {found.host}" if found is not None else "")


def _taken(session: Connection, name: str) -> dict[int, int]:
    """The places that are taken, and the sessions that have them."""
    places = ", ".join(f"is_used_lock('{name} {place}')" for place in range(PLACES))
    holders = session.exec_driver_sql(f"SELECT {places}").one()
    return {place: int(holder) for place, holder in enumerate(holders) if holder is not None}


def _ask(session: Connection, function: str, name: str) -> bool:
    return session.execute(text(f"SELECT {function}"), {"name": name}).scalar() == 1
