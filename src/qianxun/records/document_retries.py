"""Documents that could not be prepared: the attempt is noted, and due ones go back into the outbox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select, update

from qianxun.core.types import DocumentStatus
from qianxun.core.unicode import storable
from qianxun.records.database.statements import in_slices
from qianxun.records.governance import webhooks
from qianxun.records.outbox import append
from qianxun.records.schema import DocumentRow, KnowledgeBaseRow

# Between two attempts at a document. A later time was set by a clock that was ahead, and counts as reached.
LONGEST_WAIT = timedelta(minutes=5)


def fail(
    tx: Connection,
    document_key: int,
    generation: int,
    reason: str,
    retry_at: datetime | None,
    *,
    outage: bool = False,
    final: DocumentStatus = "quarantined",
) -> None:
    """Notes a failed attempt; without a time to try again that was the ``final`` one.

    An ``outage`` is not the document's fault: it does not count towards its quarantine.
    """
    counted = {"outages": DocumentRow.outages + 1} if outage else {"attempts": DocumentRow.attempts + 1}
    tx.execute(
        update(DocumentRow)
        .where(DocumentRow.key == document_key, DocumentRow.generation == generation, DocumentRow.status != "deleted")
        .values(
            status="retrying" if retry_at else final,
            retry_at=retry_at,
            reason=storable(reason),  # an error may quote anything
            updated_at=datetime.now(UTC),
            **counted,
        )
    )
    if retry_at is None:
        _notify_failed(tx, document_key, generation, reason)


def _notify_failed(tx: Connection, document_key: int, generation: int, reason: str) -> None:
    own = select(DocumentRow.knowledge_base_id, DocumentRow.doc_id).where(DocumentRow.key == document_key)
    if (row := tx.execute(own.where(DocumentRow.generation == generation)).first()) is not None:
        failed = {"doc_id": row.doc_id, "generation": generation, "reason": storable(reason)}
        webhooks.enqueue(tx, row.knowledge_base_id, "document.failed", [failed])


def failures(tx: Connection, document_key: int, *, outages: bool = False) -> int:
    """How often the newest version has failed: for a reason of its own, or because its model was unavailable."""
    column = DocumentRow.outages if outages else DocumentRow.attempts
    return int(tx.execute(select(column).where(DocumentRow.key == document_key)).scalar() or 0)


def enqueue_due(tx: Connection, knowledge_base: int, now: datetime) -> int:
    """Puts the documents that are due for a retry back into the outbox. Returns how many."""
    due = tx.execute(
        select(DocumentRow.key, DocumentRow.generation).where(
            DocumentRow.knowledge_base_id == knowledge_base,
            DocumentRow.status == "retrying",
            (DocumentRow.retry_at <= now) | (DocumentRow.retry_at > now + LONGEST_WAIT),
        )
    ).all()
    append(tx, knowledge_base, [(row.key, row.generation, "updated") for row in due])
    for part in in_slices([row.key for row in due]):
        tx.execute(update(DocumentRow).where(DocumentRow.key.in_(part)).values(status="pending", retry_at=None))
    return len(due)


def next_attempts(tx: Connection, now: datetime) -> dict[int, datetime]:
    """Base → when its next document is to be tried again, for the bases of all tenants."""
    soonest = (  # base by base, for the sake of their index: there may be very many documents
        select(func.min(DocumentRow.retry_at))
        .where(DocumentRow.knowledge_base_id == KnowledgeBaseRow.id, DocumentRow.status == "retrying")
        .scalar_subquery()
    )
    found = tx.execute(select(KnowledgeBaseRow.id, soonest))
    return {base: moment if moment <= now + LONGEST_WAIT else now for base, moment in found if moment is not None}
