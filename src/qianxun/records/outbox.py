"""The outbox: changes that are not in the index yet, in commit order; and which events have been handled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from qianxun.records.database.counters import allocate, last
from qianxun.records.database.statements import delete_in, insert_rows
from qianxun.records.schema import DocumentRow, EventRow, KnowledgeBaseRow, OutboxRow

ROW = ("sequence", "knowledge_base_id", "document_key", "generation", "kind", "created_at")


class Work(NamedTuple):
    """An outbox row with the present state of its document."""

    sequence: int
    document_key: int
    generation: int
    kind: str
    head: int  # the document's latest accepted generation
    served: int
    status: str

    @property
    def is_ready(self) -> bool:
        """Its chunks are stored, but not in the index yet."""
        return self.kind != "deleted" and self.served == self.generation

    @property
    def is_unprepared(self) -> bool:
        return self.kind != "deleted" and self.head == self.generation and self.status == "pending"


def append(tx: Connection, knowledge_base: int, changes: Sequence[tuple[int, int, str]]) -> None:
    """One row per change (document, generation, kind)."""
    if not changes:
        return
    now = datetime.now(UTC)
    sequences = allocate(tx, "outbox", len(changes))
    found = [(sequence, knowledge_base, *change, now) for sequence, change in zip(sequences, changes, strict=True)]
    insert_rows(tx, OutboxRow, ROW, found)


def pending(tx: Connection, knowledge_base: int, after: int, limit: int) -> list[Work]:
    query = (
        select(
            OutboxRow.sequence,
            OutboxRow.document_key,
            OutboxRow.generation,
            OutboxRow.kind,
            DocumentRow.generation,
            DocumentRow.served,
            DocumentRow.status,
        )
        .join(DocumentRow, DocumentRow.key == OutboxRow.document_key)
        .where(OutboxRow.knowledge_base_id == knowledge_base, OutboxRow.sequence > after)
        .order_by(OutboxRow.sequence)
        .limit(limit)
    )
    return [Work(*row) for row in tx.execute(query)]


def depth(tx: Connection, knowledge_base: int) -> int:
    """How many changes are not in the index yet."""
    return tx.execute(
        select(func.count()).select_from(OutboxRow).where(OutboxRow.knowledge_base_id == knowledge_base)
    ).scalar_one()


def depth_of_all(tx: Connection) -> int:
    """How many changes of all bases, of all tenants, are not in their indexes yet."""
    return tx.execute(select(func.count()).select_from(OutboxRow)).scalar_one()


def busy(tx: Connection) -> set[int]:
    """The bases of all tenants with pending work."""
    return set(tx.execute(select(OutboxRow.knowledge_base_id).distinct()).scalars())


def last_sequence(tx: Connection) -> int:
    """The last sequence given out to any base: no index of these records can know more."""
    return last(tx, "outbox")


def acknowledge(tx: Connection, knowledge_base: int, sequences: Sequence[int]) -> None:
    """Deletes these rows, which are durably in the index. Earlier ones may be left: they are still being prepared."""
    last = max(sequences)
    tx.execute(
        update(KnowledgeBaseRow)
        .where(KnowledgeBaseRow.id == knowledge_base, KnowledgeBaseRow.indexed_sequence < last)
        .values(indexed_sequence=last)
    )
    upto = (OutboxRow.knowledge_base_id == knowledge_base) & (OutboxRow.sequence <= last)
    if set(tx.execute(select(OutboxRow.sequence).where(upto)).scalars()) <= set(sequences):
        tx.execute(delete(OutboxRow).where(upto))
    else:
        delete_in(tx, OutboxRow, OutboxRow.sequence, sequences)


def first_time(tx: Connection, knowledge_base: int, event_id: str) -> bool:
    """Notes an event as handled; False when it was noted before."""
    at = {"knowledge_base_id": knowledge_base, "event_id": event_id}
    if tx.execute(select(EventRow.event_id).filter_by(**at)).first():
        return False
    tx.execute(insert(EventRow).values(**at, handled_at=datetime.now(UTC)))
    return True
