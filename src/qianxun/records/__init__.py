"""The truth: knowledge bases, documents, chunks, tables, question–answer pairs and the outbox, in SQL.

The functions of this package take an open transaction; `Records` opens them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, Engine

from qianxun.records.database import for_writing, open_database

Result = TypeVar("Result")


@dataclass(frozen=True)
class Records:
    """The database of record: many readers, one writer at a time."""

    engine: Engine
    _writer: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @staticmethod
    def open(url: str) -> Records:
        return Records(open_database(url))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view that sees every transaction committed before it began."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def glancing(self) -> Iterator[Connection]:
        """For a single statement, which is consistent by itself: no transaction is begun for one of `compiled`."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: durable when the block ends, undone when it raises."""
        with self._writer, for_writing(self.engine).begin() as connection:
            yield connection

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """``work`` in a reading transaction, in a thread."""

        def reading() -> Result:
            with self.reading() as tx:
                return work(tx)

        return await asyncio.to_thread(reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """``work`` in a writing transaction, in a thread."""

        def writing() -> Result:
            with self.writing() as tx:
                return work(tx)

        return await asyncio.to_thread(writing)

    @property
    def is_here(self) -> bool:
        """In a file of this machine: to hand a short read to a thread takes longer than the read."""
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Waits for a write that is under way, so that nothing is written once the folder has another owner."""
        with self._writer:
            self.engine.dispose()
