"""Who works on a database on a server: any number of engines together, or one alone.

Engines whose index is on a server, too, work together: of a base's outbox one at a time is the consumer, by a lease
(`records.leases`). An index in a folder belongs to one engine, which has to be the only one: it reads the outbox to
its end, and what it has read is gone. A session of each has an advisory lock, shared or its own, which the server
releases when the session ends, however it ends. When it ended because the server restarted, the engine takes the lock
again; one that was alone, only if no other had it meanwhile.

A data folder has its lock file for that.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, insert
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import FolderInUse, QianxunError
from qianxun.records.database.counters import allocate, last
from qianxun.records.database.open import for_single_statements, for_writing
from qianxun.records.database.server import Server, server_of
from qianxun.records.schema import Counter

ENDING_SECONDS = 1.0  # a server notices a moment later that a process was killed
PURPOSE = "owner"  # of the lock
HINT = (
    "索引在数据目录里（index.backend 是 embedded）的进程独占数据库：等它结束，或用 --url 连接它；"
    "要几个进程同时用一个数据库，各自的 index.backend 都设为 postgres 或 milvus"
)


@dataclass
class Claim:
    """The right to work on the database, and the session with its lock."""

    engine: Engine
    is_alone: bool = True
    identity: str = ""  # of the database: what was made from its records, an index say, belongs to no other
    _session: Connection | None = field(default=None, repr=False)
    number: int = 0  # of this process on the database: each has a higher one than those before it
    _checking: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self) -> None:
        """Raises FolderInUse, naming the owner."""
        self._session = _locked(self.engine, is_alone=self.is_alone)
        with for_writing(self.engine).begin() as tx:
            (self.number,) = allocate(tx, "owner", 1)
            self.identity = identity(tx) or _named(tx)

    def check(self) -> None:
        """Before every write. Raises FolderInUse where another process has worked on the database meanwhile."""
        with self._checking:
            if self._session is not None and _is_open(self._session):
                return
            self._unlock()
            self._session = _locked(self.engine, is_alone=self.is_alone)
            if not self.is_alone:
                return
            with self.engine.begin() as tx:
                newest = last(tx, "owner")
            if newest != self.number:
                self._unlock()
                raise FolderInUse("连接中断期间，另一个进程打开过这个数据库", hint="重新启动这个进程；" + HINT)

    def release(self) -> None:
        with self._checking:
            self._unlock()

    def _unlock(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(SQLAlchemyError, QianxunError), session:  # the server may have stopped already
                _server(session).unlock_session(session, PURPOSE, is_shared=not self.is_alone)


def identity(tx: Connection) -> str:
    """Of a database on a server, once an engine has worked on it; "" before, and of a file, which has its folder."""
    number = last(tx, "identity")
    return f"{number:015x}" if number else ""


def _named(tx: Connection) -> str:
    tx.execute(insert(Counter).values(name="identity", next=secrets.randbelow(1 << 59) + 2))
    return identity(tx)


def _locked(engine: Engine, *, is_alone: bool) -> Connection:
    session = for_single_statements(engine).connect()
    try:
        session.detach()  # for as long as the process runs: not one of the pool's
        server = _server(session)
        give_up = time.monotonic() + ENDING_SECONDS
        while not server.lock_session(session, PURPOSE, is_shared=not is_alone):
            if time.monotonic() > give_up:
                raise FolderInUse(f"数据库正被另一个进程使用：{server.lock_holder(session, PURPOSE)}", hint=HINT)
            time.sleep(0.05)
    except BaseException:
        session.close()
        raise
    return session


def _is_open(session: Connection) -> bool:
    return not session.invalidated and _server(session).is_quiet(session.connection.dbapi_connection)


def _server(session: Connection) -> Server:
    server = server_of(session.dialect.name)
    assert server is not None, "a file has no such lock"
    return server
