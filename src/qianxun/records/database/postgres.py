"""Records on PostgreSQL: how its connections are opened, and its errors as ours.

Writers take one lock for their whole transaction, as SQLite's do: what was read before a write is still true when it
commits, however many processes there are (`qianxun keys` next to a service, say).
"""

from __future__ import annotations

import hashlib
import math
import re
import select
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from qianxun.core.errors import BadInput, BadSettings, RecordsUnavailable
from qianxun.records.database.server import (
    GRACE_SECONDS,
    IDLE_WRITER_SECONDS,
    KEEPALIVE_SECONDS,
    WRITE_SECONDS,
    WRITING,
    ConnectionOptions,
    Deadlocked,
    first_line,
    own_name,
)

BACKEND: Final = "postgresql"
DRIVER = "postgresql+psycopg"
PACKAGE, EXTRA = "psycopg", "postgres"
SCHEMA = "qianxun_schema"  # the execution option that names it
READING: Mapping[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
SINGLE: Mapping[str, Any] = {"isolation_level": "AUTOCOMMIT"}
# A server that is cut off is abandoned after a minute, not after the quarter of an hour that TCP takes.
CUT_OFF = {"keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def address(url: URL) -> URL:
    """The URL as the driver takes it."""
    return url.set(drivername=DRIVER)


def arguments(url: URL, connecting: ConnectionOptions) -> dict[str, Any]:
    """The arguments of SQLAlchemy's `create_engine` besides the URL."""
    options = {
        "connect_timeout": max(2, math.ceil(connecting.connect_seconds)),  # libpq takes whole seconds, and 1 for 2
        "application_name": own_name(),
        "keepalives_idle": KEEPALIVE_SECONDS,
        "client_encoding": "utf8",
        **CUT_OFF,
    }
    return {
        "pool_size": connecting.pool_size,
        "max_overflow": 0,
        "pool_timeout": connecting.connect_seconds,
        "connect_args": {name: value for name, value in options.items() if name not in url.query},
    }


def prepare(engine: Engine, connecting: ConnectionOptions) -> Engine:
    """Sets every new connection up, and translates errors."""
    if connecting.schema and not _SCHEMA.fullmatch(connecting.schema):
        raise BadSettings(
            f"records.schema 不能是 {connecting.schema[:80]!r}", hint="用小写字母、数字和下划线，字母开头"
        )
    settings = {
        "statement_timeout": round(connecting.statement_seconds * 1000),
        "idle_in_transaction_session_timeout": IDLE_WRITER_SECONDS * 1000,
        "tcp_keepalives_idle": KEEPALIVE_SECONDS,
        "timezone": "'UTC'",
    }
    if connecting.schema:
        settings["search_path"] = f'"{connecting.schema}", public'
    script = "; ".join(f"SET {name} = {value}" for name, value in settings.items())

    def set_up(connection: DBAPIConnection, _record: Any) -> None:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(script)
        cursor.close()
        connection.autocommit = False

    def check_alive(connection: DBAPIConnection, _record: Any, _proxy: Any) -> None:
        connection.reply_seconds = kind.reply_seconds  # a writer that had it before waited longer
        if not is_quiet(connection):
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError from error

    kind = connection_type(engine.dialect.loaded_dbapi, connecting.statement_seconds)
    event.listen(engine, "do_connect", lambda _dialect, _record, given, named: kind.connect(*given, **named))
    event.listen(engine, "connect", set_up)
    event.listen(engine, "checkout", check_alive)
    event.listen(engine, "handle_error", _translate_error)
    event.listen(engine, "begin", begin)
    return engine.execution_options(**{SCHEMA: connecting.schema})


def wait_at_most(connection: Connection, seconds: float | None) -> None:
    """How long the rest of this transaction waits for the reply to a statement; None: without limit."""
    connection.connection.dbapi_connection.reply_seconds = seconds  # type: ignore[union-attr]


def connection_type(driver: Any, statement_seconds: float) -> Any:
    """The driver's kind of connection, which waits for a reply only as long as the server itself may take for it.

    Nothing comes from a server that hangs (a paused machine, a stalled disk, a proxy without a server), not even that
    the time is up. ``driver`` is the module psycopg, as its user has imported it.
    """

    class TimedConnection(driver.Connection):  # type: ignore[misc]
        # Seconds; None: without limit. For the server, too, zero means that there is none.
        reply_seconds: float | None = statement_seconds + GRACE_SECONDS if statement_seconds else None

        def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
            timed = gen if self.reply_seconds is None else self._within(gen, self.reply_seconds)
            return super().wait(timed, *given, **named)

        def _within(self, gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
            deadline = time.monotonic() + seconds
            ready = None
            while True:
                try:
                    events = gen.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield events
                if not ready and time.monotonic() > deadline:
                    self.close()  # a late reply would be taken for that to another statement
                    raise driver.OperationalError(f"数据库 {seconds:.0f} 秒没有任何答复")

    return TimedConnection


def is_quiet(connection: Any) -> bool:
    """Whether an idle connection is alive, as far as this end knows: one that the server has closed (because it
    restarts, say) has something to be read. A round trip would take as long as the statement it is for."""
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


def check(connection: Connection) -> None:
    """Raises BadSettings for a database that cannot store every text."""
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise BadSettings(
            f"数据库的编码是 {encoding}，存不下所有文字", hint="用 CREATE DATABASE … ENCODING 'UTF8' 另建一个数据库"
        )


def schema_of(connection: Connection) -> str | None:
    """Where the tables are, if anywhere in particular. What is looked up without it may be found in ``public``, where
    extensions are, and there be another's."""
    schema: str = connection.get_execution_options().get(SCHEMA, "")
    return schema or None


def create_schema(connection: Connection) -> None:
    if schema := schema_of(connection):
        connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')


def begin(connection: Connection) -> None:
    if connection.get_execution_options().get(WRITING, False):
        lock_writers(connection)


def create(_engine: Engine, _head: str) -> bool:
    """The migrations do it."""
    return False


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    with engine.begin() as connection:
        lock_migrations(connection)
        check(connection)
        create_schema(connection)
        yield connection


def lock_writers(connection: Connection) -> None:
    """Waits for the other writers of this database; they wait for us until the transaction ends."""
    number = lock_number("writing", connection)
    connection.exec_driver_sql(
        f"SELECT pg_advisory_xact_lock({number}); SET LOCAL statement_timeout = {WRITE_SECONDS * 1000}"
    )
    wait_at_most(connection, WRITE_SECONDS + GRACE_SECONDS)


def lock_migrations(connection: Connection) -> None:
    """Two processes that find the schema old bring it up to date one after the other."""
    wait_at_most(connection, None)
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock_number('writing', connection)})")


def lock_number(purpose: str, connection: Connection) -> int:
    """The number of a lock of ours. Locks belong to a database; the name distinguishes the schemas in it."""
    schema = schema_of(connection) or ""
    named = hashlib.sha256(f"qianxun {purpose} {schema}".encode()).digest()
    return int.from_bytes(named[:8], "big", signed=True)


# ── a lock for as long as a session lasts ───────────────────────────────────────────────────────


def lock_session(session: Connection, purpose: str, *, is_shared: bool) -> bool:
    """Takes the lock if it is free, or shared by all who have it."""
    number = lock_number(purpose, session)
    return bool(session.exec_driver_sql(f"SELECT pg_try_advisory_lock{'_shared' * is_shared}({number})").scalar())


def unlock_session(session: Connection, purpose: str, *, is_shared: bool) -> None:
    session.exec_driver_sql(f"SELECT pg_advisory_unlock{'_shared' * is_shared}({lock_number(purpose, session)})")


def lock_holder(session: Connection, purpose: str) -> str:
    """Who has the lock, for people to read."""
    number = lock_number(purpose, session)
    found = session.exec_driver_sql(
        f"""SELECT a.application_name, a.client_addr, a.backend_start
            FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
              AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND l.classid::bigint = {number >> 32 & 0xFFFFFFFF} AND l.objid::bigint = {number & 0xFFFFFFFF}
            ORDER BY a.backend_start"""
    ).first()
    if found is None:
        return "（它刚刚结束，请重试）"
    address = f"，来自 {found.client_addr}" if found.client_addr else ""
    return f"{found.application_name or '（没有名字）'}{address}，始于 {found.backend_start:%Y-%m-%d %H:%M:%S%z}"


def database_bytes(tx: Connection) -> int:
    return int(tx.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


# ── errors ───────────────────────────────────────────────────────────────────────────────────────

_REASONS = (
    (re.compile(r"password authentication failed|no password supplied|认证失败"), "数据库不接受这个用户名或密码",
     "核对 records.url 里的用户名和密码"),
    (re.compile(r"database \"[^\"]*\" does not exist|数据库 *\"[^\"]*\" *不存在"), "数据库服务器上没有这个数据库",
     "先创建它：CREATE DATABASE 名称 ENCODING 'UTF8'，或改正 records.url"),
    (re.compile(r"role \"[^\"]*\" does not exist|角色 *\"[^\"]*\" *不存在"), "数据库服务器上没有这个用户",
     "核对 records.url 里的用户名"),
    (re.compile(r"pg_hba\.conf"), "数据库服务器不许从这里连接",
     "请管理员在 pg_hba.conf 中放行，或改用加密连接（sslmode=require）"),
    (re.compile(r"too many clients|remaining connection slots|too many connections"), "数据库服务器的连接已用完",
     "调小 records.pool_size，或调大服务器的 max_connections"),
    (re.compile(r"starting up|shutting down|recovery"), "数据库服务器正在启动或停止", "稍后重试"),
)  # fmt: skip
_BAD_DATA = ("22001", "22003", "22021", "22P05")  # too long, out of range, not a character of the encoding
_DEADLOCKS = ("40P01", "40001")
_CANCELED, _LOCK_TIMEOUT, _NO_SCHEMA, _NOT_ALLOWED = "57014", "55P03", "3F000", "42501"


def translate(error: BaseException, *, is_disconnect: bool, is_connected: bool) -> Exception | None:
    """An error of the driver as one of ours; None where it is not about reaching the database."""
    state = getattr(error, "sqlstate", None)
    if state in (_CANCELED, _LOCK_TIMEOUT):
        return RecordsUnavailable(
            "数据库没有在限定的时间内答复", hint="稍后重试；常常如此时调大 records.statement_seconds"
        )
    if state in _DEADLOCKS:
        return Deadlocked("数据库撤销了这次写入，因为它与另一次相互等待", hint="稍后重试")
    if state == _NO_SCHEMA:
        return BadSettings("数据库里没有可以建表的 schema", hint="用 records.schema 指明一个，缺少时会自动创建")
    if state == _NOT_ALLOWED:
        return BadSettings(
            f"数据库用户没有权限：{first_line(error)}", hint="请管理员授予在这个 schema 中建表和读写的权限"
        )
    if is_disconnect or not is_connected:
        return _unreachable(error)
    if (state or "").startswith(_BAD_DATA) or _has_nul(error):
        return BadInput("有一项内容是数据库存不下的：太长、太大，或含有空字符（NUL）", hint="缩短或改正后再提交")
    return None


def _has_nul(error: BaseException) -> bool:
    """The driver refuses it by itself, and has no number for that."""
    return type(error).__name__ == "DataError" and "NUL" in str(error)


def _unreachable(error: BaseException) -> RecordsUnavailable:
    words = str(error)
    for pattern, message, hint in _REASONS:
        if pattern.search(words):
            return RecordsUnavailable(message, hint=hint)
    return RecordsUnavailable(
        f"连不上数据库：{first_line(error)}",
        hint="检查 records.url 的主机与端口，以及数据库服务器是否在运行；恢复后会自动重连",
    )


def _translate_error(context: ExceptionContext) -> None:
    driver, error = context.dialect.loaded_dbapi, context.original_exception
    if context.is_pre_ping or not isinstance(error, driver.Error):
        return
    ours = translate(error, is_disconnect=context.is_disconnect, is_connected=context.connection is not None)
    if ours is not None:
        raise ours from error
    if without_detail(error):
        raise DBAPIError.instance(context.statement, None, error, driver.Error, hide_parameters=True) from error


def without_detail(error: Any) -> bool:
    """Removes the quoted row from an error: user data does not belong in logs."""
    if error.diag.message_detail is None or error.diag.message_primary is None:
        return False
    error.args = (error.diag.message_primary,)
    return True
