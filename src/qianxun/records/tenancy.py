"""Access to what is in a base (documents, chunks, questions, the outbox) for its tenant alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from qianxun.core.errors import NotFound
from qianxun.records import Records, bases

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BaseRecords:
    """The records of one base, for one tenant.

    Every transaction begins with the check that the base exists and is the tenant's, and raises NotFound otherwise:
    nothing of a foreign base is read, and nothing is written into one that was removed a moment ago.
    """

    records: Records
    knowledge_base: int
    tenant: str

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.records.reading() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            yield tx

    def single_statement(self) -> AbstractContextManager[Connection]:
        """For a single statement of a search, without the check: it was made when the search began, base numbers are
        never reused, and a base that was removed since has no rows."""
        return self.records.single_statement()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.records.writing() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            yield tx

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        return await self.records.read(lambda tx: self._checked(tx, work))

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        return await self.records.write(lambda tx: self._checked(tx, work))

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """`write` in this thread."""
        return self.records.run(lambda tx: self._checked(tx, work))

    async def is_there(self) -> bool:
        try:
            await self.read(lambda _: None)
        except NotFound:
            return False
        return True

    def _checked(self, tx: Connection, work: Callable[[Connection], Result]) -> Result:
        bases.require(tx, self.knowledge_base, tenant=self.tenant)
        return work(tx)

    @property
    def is_here(self) -> bool:
        return self.records.is_here
