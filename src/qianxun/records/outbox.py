"""The outbox: changes that are not in the index yet, in commit order; and which events have been handled."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from qianxun.records.database.clock import database_time
from qianxun.records.database.counters import allocate, last
from qianxun.records.database.statements import delete_in, insert_rows, select_in
from qianxun.records.governance import webhooks
from qianxun.records.schema import DocumentRow, EventRow, KnowledgeBaseRow, OutboxClaimRow, OutboxRow

ROW = ("sequence", "knowledge_base_id", "document_key", "generation", "kind", "created_at")

# What every write runs, put together once: that takes longer than to run it.
_BASE, _AFTER, _LAST = (bindparam(name, type_=OutboxRow.sequence.type) for name in ("base", "after", "last"))
_OWN: Final = OutboxRow.knowledge_base_id == _BASE
_PENDING: Final = (
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
    .where(_OWN, OutboxRow.sequence > _AFTER)
    .order_by(OutboxRow.sequence)
)
_UPTO: Final = select(OutboxRow.sequence).where(_OWN, OutboxRow.sequence <= _LAST)
_DELETE_UPTO: Final = delete(OutboxRow).where(_OWN, OutboxRow.sequence <= _LAST)
_RAISE_INDEXED: Final = (
    update(KnowledgeBaseRow)
    .where(KnowledgeBaseRow.id == _BASE, KnowledgeBaseRow.indexed_sequence < _LAST)
    .values(indexed_sequence=_LAST)
)


class OutboxEntry(NamedTuple):
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

    def is_among(self, ranges: Sequence[range]) -> bool:
        return any(self.sequence in one for one in ranges)


def append(tx: Connection, knowledge_base: int, changes: Sequence[tuple[int, int, str]]) -> None:
    """One row per change (document, generation, kind)."""
    if not changes:
        return
    now = datetime.now(UTC)
    sequences = allocate(tx, "outbox", len(changes))
    found = [(sequence, knowledge_base, *change, now) for sequence, change in zip(sequences, changes, strict=True)]
    insert_rows(tx, OutboxRow, ROW, found)


def pending(tx: Connection, knowledge_base: int, after: int, limit: int) -> list[OutboxEntry]:
    return [OutboxEntry(*row) for row in tx.execute(_PENDING.limit(limit), {"base": knowledge_base, "after": after})]


def has_any(tx: Connection, knowledge_base: int, upto: int) -> bool:
    own = (OutboxRow.knowledge_base_id == knowledge_base) & (OutboxRow.sequence <= upto)
    return tx.execute(select(OutboxRow.sequence).where(own).limit(1)).first() is not None


def has_version(tx: Connection, knowledge_base: int, versions: Collection[tuple[int, int]]) -> bool:
    """Whether one of these (document, generation) is not in the index yet."""
    query = select(OutboxRow.document_key, OutboxRow.generation).where(OutboxRow.knowledge_base_id == knowledge_base)
    found = select_in(tx, query, OutboxRow.document_key, sorted({key for key, _ in versions}))
    return any((row.document_key, row.generation) in versions for row in found)


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
    webhooks.enqueue(tx, knowledge_base, "document.indexed", _indexed(tx, sequences))
    upto = {"base": knowledge_base, "last": last}
    tx.execute(_RAISE_INDEXED, upto)
    if set(tx.execute(_UPTO, upto).scalars()) <= set(sequences):
        tx.execute(_DELETE_UPTO, upto)
    else:
        delete_in(tx, OutboxRow, OutboxRow.sequence, sequences)


def _indexed(tx: Connection, sequences: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The documents that these rows have made searchable; read if somebody wants to know."""
    served = (DocumentRow.key == OutboxRow.document_key) & (DocumentRow.served == OutboxRow.generation)
    query = select(DocumentRow.doc_id, DocumentRow.served).join(DocumentRow, served)
    changed = query.select_from(OutboxRow).where(OutboxRow.kind != "deleted")
    for row in select_in(tx, changed, OutboxRow.sequence, sequences):
        yield {"doc_id": row.doc_id, "generation": row.served}


# ── what the process that accepted it is preparing, where several work on one database ───────────


def claim(tx: Connection, knowledge_base: int, sequences: range, holder: int, seconds: float) -> None:
    """Has other processes leave these rows to ``holder``, unless it shows no life for so long."""
    now = tx.execute(select(database_time())).scalar_one()
    own = OutboxClaimRow.knowledge_base_id == knowledge_base
    tx.execute(delete(OutboxClaimRow).where(own, OutboxClaimRow.expires_at < now))
    tx.execute(
        insert(OutboxClaimRow).values(
            first_sequence=sequences[0],
            last_sequence=sequences[-1],
            knowledge_base_id=knowledge_base,
            holder=holder,
            expires_at=now + timedelta(seconds=seconds),
        )
    )


def extend_claims(tx: Connection, firsts: Sequence[int], seconds: float) -> None:
    until = tx.execute(select(database_time())).scalar_one() + timedelta(seconds=seconds)
    tx.execute(update(OutboxClaimRow).where(OutboxClaimRow.first_sequence.in_(firsts)).values(expires_at=until))


def release_claims(tx: Connection, firsts: Sequence[int]) -> None:
    tx.execute(delete(OutboxClaimRow).where(OutboxClaimRow.first_sequence.in_(firsts)))


def claimed_elsewhere(tx: Connection, knowledge_base: int, holder: int) -> list[range]:
    """The rows that other processes are preparing."""
    found = tx.execute(
        select(OutboxClaimRow.first_sequence, OutboxClaimRow.last_sequence).where(
            OutboxClaimRow.knowledge_base_id == knowledge_base,
            OutboxClaimRow.holder != holder,
            OutboxClaimRow.expires_at > database_time(),
        )
    )
    return [range(first, last + 1) for first, last in found]


def first_time(tx: Connection, knowledge_base: int, event_id: str) -> bool:
    """Notes an event as handled; False when it was noted before."""
    at = {"knowledge_base_id": knowledge_base, "event_id": event_id}
    if tx.execute(select(EventRow.event_id).filter_by(**at)).first():
        return False
    tx.execute(insert(EventRow).values(**at, handled_at=datetime.now(UTC)))
    return True
