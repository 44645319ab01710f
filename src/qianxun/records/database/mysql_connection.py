"""Connections to MySQL and MariaDB: the variables of their sessions, transactions, and whether they are alive."""

from __future__ import annotations

import math
import select
import socket
from typing import TYPE_CHECKING, Any, Final

from qianxun.records.database.mysql_errors import TOO_LARGE
from qianxun.records.database.server import (
    IDLE_SESSION_SECONDS,
    IDLE_WRITER_SECONDS,
    KEEPALIVE_SECONDS,
    WRITE_SECONDS,
)

if TYPE_CHECKING:
    _Driver = Any
else:
    _Driver = object

FOREVER: Final = 31_536_000  # seconds, where a server takes no zero for none
STATEMENT_OVERHEAD: Final = 1024  # bytes of a packet besides the statement
SQL_MODE: Final = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


def session_variables(version: str, seconds: float) -> dict[str, str]:
    """The variables of every session. Times are in UTC and errors are errors, whatever the server's defaults are."""
    always = {
        "time_zone": "'+00:00'",
        "foreign_key_checks": "1",
        "sql_mode": f"'{SQL_MODE}'",
        "innodb_lock_wait_timeout": str(max(1, math.ceil(seconds)) if seconds else FOREVER),
    }
    if "mariadb" in version.lower():
        idle = {"idle_transaction_timeout": str(IDLE_WRITER_SECONDS)}
        return always | idle | {"tx_isolation": "'REPEATABLE-READ'", "max_statement_time": f"{seconds:g}"}
    theirs = {"transaction_isolation": "'REPEATABLE-READ'", "max_execution_time": str(round(seconds * 1000))}
    if "oceanbase" in version.lower():  # in microseconds; ten seconds for any statement unless one says otherwise
        limit = str(round((seconds or FOREVER) * 1_000_000))
        theirs |= {"ob_query_timeout": limit, "ob_trx_lock_timeout": limit}
        theirs |= {"ob_trx_timeout": str(WRITE_SECONDS * 1_000_000), "ob_trx_idle_timeout": "300000000"}
    return always | theirs


def writer_variables(version: str) -> dict[str, str]:
    """What a writer has instead: it reads what is committed, and has more time."""
    if "mariadb" in version.lower():
        return {"tx_isolation": "'READ-COMMITTED'", "max_statement_time": str(WRITE_SECONDS)}
    theirs = {"transaction_isolation": "'READ-COMMITTED'", "max_execution_time": str(WRITE_SECONDS * 1000)}
    if "oceanbase" in version.lower():
        return theirs | {"ob_query_timeout": str(WRITE_SECONDS * 1_000_000)}
    return theirs | {"wait_timeout": str(IDLE_SESSION_SECONDS)}


class SessionMethods(_Driver):  # type: ignore[misc]
    """A connection that knows whether a transaction was begun, what the server takes at once, and what to put back
    after a writer. The driver's own kind of connection is its other parent (`connection_type`)."""

    driver: Any  # the module
    began = False
    largest = 1 << 62  # bytes of a statement
    _variables: dict[str, str] = {}  # noqa: RUF012  # of the session, replaced when it is set up
    _changed: tuple[str, ...] = ()
    _read_timeout: float | None
    _tls: Any = None

    def __init__(self, *given: Any, **named: Any) -> None:
        self._given_timeout = named.get("read_timeout")
        super().__init__(*given, **named)

    def set_up(self, variables: dict[str, str]) -> None:
        if not self.unix_socket:
            _keep_alive(self._sock)
        with self.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet, @@wait_timeout")
            self.largest, idle = cursor.fetchone()
        self._variables = variables | {"wait_timeout": str(idle)}
        self._set(variables)

    def widen(self, variables: dict[str, str], seconds: float | None) -> None:
        """Other limits, until `restore`."""
        self._changed = tuple(name for name in variables if name in self._variables)
        self._set(variables)
        self._read_timeout = seconds

    def restore(self) -> None:
        if self._changed:
            self._set({name: self._variables[name] for name in self._changed})
            self._changed = ()
        self._read_timeout = self._given_timeout

    def _set(self, variables: dict[str, str]) -> None:
        with self.cursor() as cursor:
            cursor.execute("SET " + ", ".join(f"{name} = {value}" for name, value in variables.items()))

    def begin(self, statement: str = "START TRANSACTION") -> None:
        with self.cursor() as cursor:
            cursor.execute(statement)
        self.began = True

    def commit(self) -> None:
        if self.began:
            super().commit()
        self.began = False

    def rollback(self) -> None:
        began, self.began = self.began, False
        if began:
            super().rollback()

    def query(self, sql: Any, unbuffered: bool = False) -> Any:
        written = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
        if len(written) + STATEMENT_OVERHEAD > self.largest:  # the server would hang up in the middle of it
            raise self.driver.DataError(TOO_LARGE, f"{len(written)} > max_allowed_packet {self.largest}")
        return super().query(written, unbuffered)

    def _create_ssl_ctx(self, given: Any) -> Any:
        """For encryption without a certificate authority one context will do: to make one takes 20 ms."""
        if given:
            return super()._create_ssl_ctx(given)
        if SessionMethods._tls is None:
            SessionMethods._tls = super()._create_ssl_ctx({})
        return SessionMethods._tls


def connection_type(driver: Any) -> Any:
    """The driver's kind of connection with `SessionMethods`. ``driver`` is the module pymysql, as SQLAlchemy has
    imported it."""
    return type("OwnConnection", (SessionMethods, driver.connections.Connection), {"driver": driver})


def _keep_alive(connected: socket.socket) -> None:
    """A server that is cut off is abandoned after a minute, not after the hours that TCP takes."""
    wanted = {"TCP_KEEPIDLE": KEEPALIVE_SECONDS, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
    for name, value in wanted.items():
        if (option := getattr(socket, name, None)) is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def is_quiet(connection: Any) -> bool:
    """Whether an idle connection is alive, as far as this end knows: one that the server has closed (after its
    ``wait_timeout``, say) has something to be read. A round trip would take as long as the statement it is for."""
    if not connection.open:
        return False
    waiting = select.poll()
    waiting.register(connection._sock.fileno(), select.POLLIN)
    return not waiting.poll(0)
