"""What people decided on chunks and their documents, as an explanation of a search shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from qianxun.core.explanation import CorrectionNote, Decisions
from qianxun.core.governance.corrections import OF_DOCUMENTS, Corrected, Correction
from qianxun.records.database.restrict import shown_labels
from qianxun.records.database.statements import select_in
from qianxun.records.governance import corrections, validity
from qianxun.records.schema import AccessSetRow, DocumentRow, ValidityRow


def decisions_on(
    tx: Connection, knowledge_base: int, chunks: Sequence[tuple[str, str, Corrected | None]]
) -> list[Decisions]:
    """Of each (document, chunk, what the chunk says of its corrections; None also for one that is not served)."""
    own = {doc_id for doc_id, _, _ in chunks}
    given = corrections.by_document(tx, knowledge_base, own)
    about = {row.doc_id: row for row in _documents(tx, knowledge_base, own)}
    return [
        _decisions(tx, given.get(doc_id, (0, []))[1], about.get(doc_id), chunk_id, corrected)
        for doc_id, chunk_id, corrected in chunks
    ]


def _documents(tx: Connection, knowledge_base: int, doc_ids: set[str]) -> list[Row[Any]]:
    known = (ValidityRow.document_key == DocumentRow.key) & (ValidityRow.generation == DocumentRow.served)
    query = select(DocumentRow.doc_id, AccessSetRow.labels, *validity.COLUMNS_SHOWN).outerjoin(ValidityRow, known)
    query = query.outerjoin(AccessSetRow, AccessSetRow.id == DocumentRow.access_set)
    query = query.where(DocumentRow.knowledge_base_id == knowledge_base)
    return list(select_in(tx, query, DocumentRow.doc_id, sorted(doc_ids)))


def _decisions(
    tx: Connection,
    given: Sequence[Correction],
    document: Row[Any] | None,
    chunk_id: str,
    corrected: Corrected | None,
) -> Decisions:
    bearing = [one for one in given if _bears_on(one, chunk_id, corrected)]
    notes = tuple(CorrectionNote(one.id, one.kind, one.state, one.author, one.created_at) for one in bearing)
    if document is None:
        return Decisions(notes)
    known = validity.validity_in(document.valid_from, document.valid_until, document.supersedes, document.read_fields)
    return Decisions(notes, shown_labels(tx, document.labels), known)


def _bears_on(one: Correction, chunk_id: str, corrected: Corrected | None) -> bool:
    if one.kind in OF_DOCUMENTS:
        return True
    if corrected is not None:
        return one.id in corrected.ids
    return one.kind == "disable" and one.anchor is not None and one.anchor.chunk_id == chunk_id
