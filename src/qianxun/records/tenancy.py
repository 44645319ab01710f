"""Access to what is in a base (documents, chunks, questions, the outbox) for its tenant alone; and, on behalf of a
principal, to what that one may see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from qianxun.core.errors import Forbidden, NotFound
from qianxun.core.governance.access import Principal
from qianxun.records import Records, bases
from qianxun.records.database.restrict import restricting
from qianxun.records.governance import access

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BaseRecords:
    """The records of one base, for one tenant.

    Every transaction begins with the check that the base exists and is the tenant's, and raises NotFound otherwise:
    nothing of a foreign base is read, and nothing is written into one that was removed a moment ago. With a
    ``principal`` there are, for every statement, only the documents that it may see at that moment.
    """

    records: Records
    knowledge_base: int
    tenant: str
    principal: Principal | None = None  # None: whoever sees everything

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.records.reading() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            with self._restricting(tx):
                yield tx

    @contextmanager
    def single_statement(self) -> Iterator[Connection]:
        """For a single statement of a search, without the check: it was made when the search began, base numbers are
        never reused, and a base that was removed since has no rows."""
        with self.records.single_statement() as tx, self._restricting(tx):
            yield tx

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self._require_writer()
        with self.records.writing() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            yield tx

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        def reading(tx: Connection) -> Result:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            with self._restricting(tx):
                return work(tx)

        return await self.records.read(reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        self._require_writer()
        return await self.records.write(lambda tx: self._checked(tx, work))

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """`write` in this thread."""
        self._require_writer()
        return self.records.run(lambda tx: self._checked(tx, work))

    async def is_there(self) -> bool:
        try:
            await self.read(lambda _: None)
        except NotFound:
            return False
        return True

    def permitted_sets(self, tx: Connection) -> tuple[int, ...] | None:
        """The sets of labels that the principal may see, as of now; None: all, or nobody ever gave a label here."""
        if self.principal is None:
            return None
        version = access.version(tx, self.knowledge_base)
        if version is None:
            return None
        known = (self.knowledge_base, version, self.principal.labels)
        found = self.records.permitted.get(known)
        if found is None:
            found = access.permitted_sets(tx, self.knowledge_base, self.principal.labels)
            self.records.permitted.put(known, found)
        return found

    def _restricting(self, tx: Connection) -> AbstractContextManager[Connection]:
        labels = self.principal.labels if self.principal is not None else frozenset[str]()
        return restricting(tx, self.permitted_sets(tx), labels)

    def _require_writer(self) -> None:
        if self.principal is not None:
            raise read_only(self.principal)

    def _checked(self, tx: Connection, work: Callable[[Connection], Result]) -> Result:
        bases.require(tx, self.knowledge_base, tenant=self.tenant)
        return work(tx)

    @property
    def is_here(self) -> bool:
        return self.records.is_here


def read_only(principal: Principal) -> Forbidden:
    return Forbidden(
        f"以主体“{principal.shown}”的身份只能检索与查看", hint="改动请用不代表任何主体的写密钥，或在本机运行 qianxun"
    )
