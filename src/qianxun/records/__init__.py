"""The truth: knowledge bases, documents, chunks, tables, question–answer pairs and the outbox, in SQL.

The functions of this package take an open transaction; `Records` opens them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from qianxun.records.database import for_writing, open_database


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
    def writing(self) -> Iterator[Connection]:
        """A transaction: durable when the block ends, undone when it raises."""
        with self._writer, for_writing(self.engine).begin() as connection:
            yield connection

    @property
    def is_here(self) -> bool:
        """In a file of this machine: to hand a short read to a thread takes longer than the read."""
        return self.engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Waits for a write that is under way, so that nothing is written once the folder has another owner."""
        with self._writer:
            self.engine.dispose()
