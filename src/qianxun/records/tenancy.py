"""The door to what is in a base: documents, chunks, questions, the outbox. It opens for the base's tenant alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from qianxun.records import Records, bases


@dataclass(frozen=True, slots=True)
class BaseRecords:
    """The records as one tenant sees one base.

    Each transaction begins with the check that the base is there and the tenant's, and raises NotFound where it is
    not: nothing of a foreign base is read, and nothing is written into one that was removed a moment ago.
    """

    records: Records
    knowledge_base: int
    tenant: str

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.records.reading() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            yield tx

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.records.writing() as tx:
            bases.require(tx, self.knowledge_base, tenant=self.tenant)
            yield tx

    @property
    def is_here(self) -> bool:
        return self.records.is_here
