"""A PostgreSQL server as the index sees it: a pool of threads and connections; its errors as ours.

The connections live while they are in use (`Server.hold`), come back after a restart of the server, and never wait for
ever. User input is never part of a statement: everything but the names of our own tables is bound.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadSettings, IndexUnusable, MissingExtra, QianxunError, RetrieverUnavailable
from qianxun.core.types import Vector
from qianxun.index.shared import unusable
from qianxun.records.database.postgres import connection_type

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Row = tuple[Any, ...]

CONNECTIONS: Final = 8  # as many searches at once; PostgreSQL itself allows a hundred by default
OLD_SECONDS: Final = 3600.0  # a connection's memory grows with every table that it has seen
READ_SECONDS: Final = 30  # the longest that one statement of a search may take
IDLE_SECONDS: Final = 60  # a process that hangs inside a transaction keeps others from a base no longer than this
# A server that is cut off is abandoned after a minute, not after the two hours that TCP would wait.
CONNECTION_OPTIONS: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "qianxun index",
}
# Of a search we know what it needs: the index of the terms, of the keys, of the vectors. Tables that were filled a
# moment ago, which the planner knows nothing of, would mislead it.
READING: Final[Mapping[str, str]] = {
    "statement_timeout": f"{READ_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "jit": "off",  # to compile takes longer than any of our statements
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "hnsw.iterative_scan": "strict_order",
}
WRITING: Final[Mapping[str, str]] = {
    "statement_timeout": "0",  # an index over many rows takes its time
    "enable_seqscan": "on",
    "enable_bitmapscan": "on",
}
COPY_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TAIL: Final = struct.pack(">h", -1)
EXTENSION_HINT: Final = "在服务器上安装 pgvector（0.8 或更新），并以有权限的用户执行 CREATE EXTENSION vector"
UPDATE_HINT: Final = "请管理员在服务器上升级 pgvector，再在这个数据库里执行 ALTER EXTENSION vector UPDATE"


@dataclass(frozen=True, slots=True)
class Packed:
    """A parameter in PostgreSQL's own binary form; its type is that of the cast around it."""

    data: bytes


def bigints(values: NDArray[Any] | Iterable[int]) -> Packed:
    """For ``%s::bigint[]``: a hundred thousand numbers in a millisecond."""
    numbers = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.int64)
    if len(numbers) == 0:
        return Packed(struct.pack(">iii", 0, 0, 20))
    elements = np.empty(len(numbers), dtype=[("size", ">i4"), ("value", ">i8")])
    elements["size"], elements["value"] = 8, numbers
    return Packed(struct.pack(">iiiii", 1, 0, 20, len(numbers), 1) + elements.tobytes())


def packed_vector(vector: Vector) -> Packed:
    """For ``%s::vector``, pgvector's type."""
    return Packed(struct.pack(">hh", len(vector), 0) + vector.astype(">f4").tobytes())


class Tx:
    """One transaction. ``opened`` is what its opening statement found, where it has one."""

    def __init__(self, connection: Any, opened: Sequence[Row] = ()) -> None:
        self._connection = connection
        self.opened = opened

    def rows(self, statement: str, **values: Any) -> list[Row]:
        with self._connection.cursor(binary=True) as cursor:
            found: list[Row] = cursor.execute(statement.encode(), values).fetchall()
            return found

    def one(self, statement: str, **values: Any) -> Row | None:
        found = self.rows(statement, **values)
        return found[0] if found else None

    def run(self, statement: str, **values: Any) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.encode(), values or None)

    def set(self, chosen: Mapping[str, str]) -> None:
        """For the rest of the transaction. The values are our own."""
        self.run("SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in chosen.items()))

    def ints(self, selected: str, **values: Any) -> NDArray[np.int64]:
        """The integers that ``selected`` gives as its only column, called ``value``, in one message."""
        statement = f"WITH found AS ({selected}) SELECT string_agg(int8send(value), ''::bytea) FROM found"
        found = self.rows(statement, **values)[0][0]
        return np.frombuffer(found or b"", dtype=">i8").astype(np.int64)

    def copy_in(self, table: str, columns: str, records: bytes) -> None:
        """``records`` are rows in the form of a binary COPY, without its head and tail."""
        if not records:
            return
        statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT binary)"
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(COPY_HEAD)
            copy.write(records)
            copy.write(COPY_TAIL)

    def copy_lines(self, table: str, columns: str, lines: str) -> None:
        """``lines`` are rows in the form of a plain COPY."""
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            copy.write(lines)


Transaction = Callable[[Any], AbstractContextManager[Tx]]


class Pool:
    """Threads, and connections for as many of them as work at once: the one that was used last is used next, since
    its server process has everything cached. None is waited for: a server that is away is noticed at once."""

    def __init__(self, url: str, connections: int) -> None:
        self.threads = ThreadPoolExecutor(connections, "qianxun-postgres")
        self._url = url
        self._idle: list[tuple[Any, float]] = []  # a connection, and when it has grown old

    def close(self) -> None:
        """Waits for what is running."""
        self.threads.shutdown(wait=True)
        self._close_idle()

    def attempt(self, work: Callable[[Tx], Result], transaction: Transaction) -> Result:
        """Once more where the connection turns out to be dead: the server may have been restarted since it was used."""
        with _our_errors():
            import psycopg

            with self._connection() as connection:
                try:
                    with transaction(connection) as tx:
                        return work(tx)
                except psycopg.OperationalError as error:
                    if not connection.closed:
                        raise
                    log.info("the connection to PostgreSQL is lost, trying another one: %s", error)
            self._close_idle()  # they are as dead
            with self._connection() as connection, transaction(connection) as tx:
                return work(tx)

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connection, until = self._taken() or (connect(self._url), time.monotonic() + OLD_SECONDS)
        try:
            yield connection
        finally:
            if not connection.closed:
                self._idle.append((connection, until))

    def _taken(self) -> tuple[Any, float] | None:
        """The one that was used last, if it is neither dead nor old. Taking from a list is safe among threads."""
        while True:
            try:
                connection, until = self._idle.pop()
            except IndexError:
                return None
            if not connection.closed and time.monotonic() < until:
                return connection, until
            connection.close()

    def _close_idle(self) -> None:
        while (idle := self._taken()) is not None:
            idle[0].close()


class Server:
    """Where the tables are. Every statement runs in one of its threads."""

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        self._url = url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._connections = connections
        self._users = 0
        self._guard = threading.Lock()
        self._pool: Pool | None = None

    def hold(self) -> None:
        """Its connections stay open until as many have called `release`."""
        with self._guard:
            if self._pool is None:
                self._pool = Pool(self._url, self._connections)
            self._users += 1

    def release(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users or self._pool is None:
                return
            pool, self._pool = self._pool, None
        pool.close()

    async def release_soon(self) -> None:
        """`release`, off the event loop: the last one waits for running statements."""
        await asyncio.to_thread(self.release)

    async def read(self, work: Callable[[Tx], Result], opening: str = "") -> Result:
        """``work`` sees one state of the database.

        ``opening``, a statement without parameters, goes with the transaction's begin: a round trip less.
        """
        return await self._run(work, partial(_reading, opening=opening))

    async def write(self, work: Callable[[Tx], Result]) -> Result:
        """All or nothing, durable when it returns. ``work`` may be run twice."""
        return await self._run(work, _writing)

    async def _run(self, work: Callable[[Tx], Result], transaction: Transaction) -> Result:
        pool = self._pool
        if pool is None:
            raise IndexUnusable("索引已经关闭", hint="请重新打开知识库")
        return await asyncio.get_running_loop().run_in_executor(pool.threads, pool.attempt, work, transaction)


@contextmanager
def _reading(connection: Any, opening: str) -> Iterator[Tx]:
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {opening}".encode())
        found = cursor.fetchall() if opening and cursor.nextset() else ()
    try:
        yield Tx(connection, found)
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise
    connection.commit()


@contextmanager
def _writing(connection: Any) -> Iterator[Tx]:
    """The server has to reply at the beginning; then it may take its time."""
    with connection.transaction():
        tx = Tx(connection)
        tx.set(WRITING)
        bound, connection.reply_seconds = connection.reply_seconds, None
        try:
            yield tx
        finally:
            connection.reply_seconds = bound


def connect(url: str) -> Any:
    """A connection that is ready for `Tx`. Raises BadSettings, or what the driver says."""
    import psycopg

    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise BadSettings("PostgreSQL 的地址写错了", hint="应为 postgresql://用户:密码@主机:端口/数据库") from error
    kind = connection_type(psycopg, READ_SECONDS)
    connection = kind.connect(**{**CONNECTION_OPTIONS, **given}, autocommit=True, prepare_threshold=None)
    connection.adapters.register_dumper(Packed, _dumper())
    connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in READING.items()).encode())
    return connection


def _dumper() -> Any:
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class PackedDumper(Dumper):
        format = Format.BINARY
        oid = 0  # the cast around the parameter says what it is

        def dump(self, obj: Packed) -> bytes:
            return obj.data

    return PackedDumper


# ── errors ─────────────────────────────────────────────────────────────────────────────


@contextmanager
def _our_errors() -> Iterator[None]:
    """The driver's errors as ours."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error
    try:
        yield
    except psycopg.Error as error:
        raise _our_error(error) from error


def _our_error(error: Any) -> QianxunError:
    state = getattr(error, "sqlstate", None) or ""
    words = " ".join(str(error).split())
    if state in ("42P01", "42703", "3F000"):
        return unusable(f"表不见了（{words}）")
    if state[:2] == "XX":
        return unusable(f"PostgreSQL 报告数据损坏（{words}）")
    if state == "55P03":
        return RetrieverUnavailable("PostgreSQL 的表正被占用", hint="稍后再试")
    if (state in ("58P01", "0A000", "42704") and "vector" in words) or "create extension" in words:
        return RetrieverUnavailable(f"PostgreSQL 里没有 pgvector：{words}", hint=EXTENSION_HINT)
    if state == "42501":
        return RetrieverUnavailable(f"PostgreSQL 不允许：{words}", hint="为这个用户授予建表（CREATE）的权限")
    if state == "57014":
        return RetrieverUnavailable("PostgreSQL 答得太慢", hint=f"一条语句最多 {READ_SECONDS} 秒；请查看服务器的负载")
    if state[:2] == "53":
        return RetrieverUnavailable(f"PostgreSQL 资源不足：{words}", hint="检查磁盘空间与连接数")
    if not state or state[:2] in ("08", "57", "28", "3D"):
        return RetrieverUnavailable(
            f"连不上 PostgreSQL：{words}", hint="检查服务器是否在运行，以及 index.url / records.url"
        )
    return RetrieverUnavailable(f"PostgreSQL 出错（{state}）：{words}", hint="请查看服务器日志")
