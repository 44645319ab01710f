"""The source of truth, in SQL: knowledge bases, documents, chunks, tables, questions, the outbox, logs, keys.

Read `Records` below first: it opens transactions, which the functions of the other modules take. Then `documents`: the
life of a document from `accept` to `remove`; `document_heads` has its state before a write, `document_retries` what
failed and is tried again. The rest:

    schema, migrations/    the tables; rows: values to rows and back
    bases, tenancy         knowledge bases and who may use them
    chunks, pairs, tables, terms, graph    what belongs to a document or a base
    checksums              whether rows are what was written
    governance/            what people decide: when documents are in force, and which ones they replace
    leases                 what one process at a time does, where several work on one database
    outbox, listing, logs  what is pending, states of documents, the retrieval log
    evaluations            labelled questions about a base, and runs over them
    secrets/               API keys, registered models, and how secrets are encrypted at rest
    database/              connections, migrations, bulk statements, counters, errors of disk and server, and a count of
                           what was acknowledged

Imports `core` and `text`. Everything here is blocking; `Records.read` and `Records.write` run work in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from qianxun.core.errors import Overloaded, RecordsUnavailable
from qianxun.core.system.cache import LRUCache
from qianxun.records.database.acknowledged import Acknowledged, Loss, count_commit, open_acknowledged
from qianxun.records.database.open import (
    checkpoint,
    for_reading,
    for_single_statements,
    for_writing,
    open_database,
    release_pages,
)
from qianxun.records.database.ownership import Claim
from qianxun.records.database.rewriting import rewrite
from qianxun.records.database.server import DEFAULT_CONNECTION, SQLITE, ConnectionOptions, Deadlocked

Result = TypeVar("Result")

DEADLOCKS = 3  # after which a transaction is tried once more, and then given up
PERMITTED_CACHED = 2_000  # principals of whom it is remembered what they may see
IDLE = 2  # connections to a file that stay open for the next single statement


@dataclass(frozen=True)
class Records:
    """The database of record: many readers, one writer at a time."""

    engine: Engine
    claim: Claim | None = field(default=None, repr=False)  # of an engine on a database server
    acknowledged: Acknowledged | None = field(default=None, repr=False)  # where commits are counted, too
    loss: Loss | None = None  # acknowledged writes that were missing when it was opened
    # (base, count of changes, labels) → the sets of labels that one with these may see
    permitted: LRUCache[tuple[int, int, frozenset[str]], tuple[int, ...]] = field(
        default_factory=lambda: LRUCache(PERMITTED_CACHED), repr=False, compare=False
    )
    _writer: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _idle: deque[Connection] = field(default_factory=deque, repr=False)  # for the next single statement
    _closed: threading.Event = field(default_factory=threading.Event, repr=False)

    @staticmethod
    def open(
        url: str,
        connecting: ConnectionOptions = DEFAULT_CONNECTION,
        *,
        alone: bool = False,
        together: bool = False,
        acknowledged: Path | None = None,
    ) -> Records:
        """``alone``: as the only engine on the database server; ``together``: as one of several, none of them alone.
        A file has the lock of its folder for that.

        ``acknowledged`` is the file in which this process counts what it commits (`acknowledged`).
        """
        engine = open_database(url, connecting)
        is_server = engine.dialect.name != SQLITE
        claim = Claim(engine, is_alone=alone) if is_server and (alone or together) else None
        try:
            if claim is not None:
                claim.take()
            if acknowledged is None:
                return Records(engine, claim)
            with for_writing(engine).begin() as tx:
                mark, loss = open_acknowledged(tx, acknowledged)
            if mark.is_new:
                checkpoint(engine)  # what tells this database from others must not be lost with its log
            return Records(engine, claim, mark, loss)
        except BaseException:
            if claim is not None:
                claim.release()
            engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view that sees every transaction committed before it began."""
        with _begun(self._reader) as connection:
            yield connection

    @contextmanager
    def single_statement(self) -> Iterator[Connection]:
        """For a single statement, which is consistent by itself: no transaction is begun for a compiled one."""
        if not self.is_here:
            with _connected(self._autocommit) as connection:
                yield connection
            return
        # The way through the pool takes as long as the statement.
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _connect(self._autocommit)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if connection.in_transaction() or len(self._idle) >= IDLE:  # one that has begun sees no later state
            connection.close()
            return
        self._idle.append(connection)
        if self._closed.is_set():  # meanwhile
            self._close_idle()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: durable when the block ends, undone when it raises. Raises RecordsUnavailable once closed: a
        thread that comes late would write to a folder that may have another owner by then."""
        with self._writer:
            if self._closed.is_set():
                raise RecordsUnavailable("记录已经关闭，没有写入", hint="重新打开数据目录后再试")
            if self.claim is not None:
                self.claim.check()
            with _begun(self._transactions) as connection:
                yield connection
                count = count_commit(connection)
            if self.acknowledged is not None:
                self.acknowledged.note(count)

    def rewrite(self, tables: Sequence[str]) -> str:
        """Has the database write itself anew without what was deleted, as far as it can be asked to. Returns what is
        then not known, for people; "" where all of the file was written anew. Writers wait for it."""
        with self._writer:
            self._close_idle()
            return rewrite(self.engine, tables)

    def release_memory(self) -> None:
        """Gives back what connections that nobody uses keep of a file; the system has it, too."""
        if self.is_here:
            self._close_idle()
            release_pages(self.engine)

    @contextmanager
    def leasing(self) -> Iterator[Connection]:
        """A transaction on leases alone, which waits for no writer; not counted among what was acknowledged."""
        with _begun(self.engine) as connection:
            yield connection

    @cached_property
    def _reader(self) -> Engine:
        return for_reading(self.engine)

    @cached_property
    def _autocommit(self) -> Engine:
        return for_single_statements(self.engine)

    @cached_property
    def _transactions(self) -> Engine:
        return for_writing(self.engine)

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """``work`` in a reading transaction, in a thread."""

        def reading() -> Result:
            with self.reading() as tx:
                return work(tx)

        return await asyncio.to_thread(reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """``work`` in a writing transaction, in a thread; again, where the server undid it in favour of another."""
        return await asyncio.to_thread(self.run, work)

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """`write` in this thread."""
        for _ in range(DEADLOCKS):
            with suppress(Deadlocked), self.writing() as tx:
                return work(tx)
        with self.writing() as tx:
            return work(tx)

    @property
    def identity(self) -> str:
        """Of the database on a server that an engine works on; "" of a file."""
        return self.claim.identity if self.claim is not None else ""

    @property
    def process(self) -> int:
        """The number of this process among those that work on the database together; 0 of one that is alone."""
        return self.claim.number if self.claim is not None and not self.claim.is_alone else 0

    @property
    def is_here(self) -> bool:
        """In a local file: a thread takes longer to start than a short read."""
        return self.engine.dialect.name == SQLITE

    def close(self) -> None:
        """Waits for a running write, so that nothing is written once the folder has another owner."""
        with self._writer:
            if self.claim is not None:
                self.claim.release()
            self._closed.set()
            self._close_idle()
            if self.acknowledged is not None:
                self.acknowledged.close()
            self.engine.dispose()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # none left; another thread may be taking them, too
            while True:
                self._idle.pop().close()


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except PoolTimeout as error:
        raise Overloaded("到数据库的连接都在使用中", hint="稍后重试；常常如此时调大 records.pool_size") from error


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    with _connect(engine) as connection:
        yield connection


@contextmanager
def _begun(engine: Engine) -> Iterator[Connection]:
    with _connected(engine) as connection, connection.begin():
        yield connection
