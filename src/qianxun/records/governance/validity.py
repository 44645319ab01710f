"""When documents are in force: written with their versions, read as a whole for the searches of one state of a base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from qianxun.core.governance.validity import Validity
from qianxun.core.types import Document
from qianxun.core.unicode import storable
from qianxun.records.database.statements import insert_rows, select_in
from qianxun.records.governance import corrections
from qianxun.records.rows import metadata_of
from qianxun.records.schema import DocumentRow, ValidityRow, VersionRow
from qianxun.text.validity import validity_of

COLUMNS = (
    "document_key", "generation", "knowledge_base_id", "valid_from", "valid_until", "supersedes", "read_fields",
)  # fmt: skip
COLUMNS_SHOWN = (
    ValidityRow.valid_from,
    ValidityRow.valid_until,
    ValidityRow.supersedes,
    ValidityRow.read,
)


class ServedValidity(NamedTuple):
    """A served document of whose validity something is known."""

    doc_id: str
    name: str
    validity: Validity


def write(tx: Connection, knowledge_base: int, versions: Sequence[tuple[int, int, Document]]) -> None:
    """Notes what is known of these (document, generation)."""
    found = [(key, generation, validity_of(document)) for key, generation, document in versions]
    values = [
        (
            key,
            generation,
            knowledge_base,
            known.valid_from,
            known.valid_until,
            [storable(name) for name in known.supersedes],
            list(known.read),
        )
        for key, generation, known in found
        if known
    ]
    insert_rows(tx, ValidityRow, COLUMNS, values)


def read_unread(tx: Connection, knowledge_base: int, after: int, limit: int) -> tuple[int, int]:
    """Reads what the served versions of documents say of themselves, where nothing is noted: they may have been
    accepted by a program that did not read it. Of the first ``limit`` documents ``after`` a key; returns the last key,
    or 0 when there are no more, and of how many something is known now."""
    at = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    columns = (DocumentRow.key, DocumentRow.doc_id, DocumentRow.served, VersionRow.content, VersionRow.extra)
    own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.key > after)
    query = select(*columns).join(VersionRow, at).where(own).order_by(DocumentRow.key).limit(limit)
    found = tx.execute(query).all()
    noted = select(ValidityRow.document_key, ValidityRow.generation)
    known = {tuple(row) for row in select_in(tx, noted, ValidityRow.document_key, [row[0] for row in found])}
    unread = [
        (key, generation, Document(doc_id, content, metadata=metadata_of(extra)))
        for key, doc_id, generation, content, extra in found
        if (key, generation) not in known
    ]
    fresh = [one for one in unread if validity_of(one[2])]
    write(tx, knowledge_base, fresh)
    return (found[-1][0] if len(found) == limit else 0), len(fresh)


def served(tx: Connection, knowledge_base: int) -> list[ServedValidity]:
    """Of the versions that are served, those of which something is known. A disabled document replaces no other."""
    own = (ValidityRow.document_key == DocumentRow.key) & (ValidityRow.generation == DocumentRow.served)
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    columns = (DocumentRow.doc_id, VersionRow.name, *COLUMNS_SHOWN)
    query = select(*columns).select_from(ValidityRow).join(DocumentRow, own).join(VersionRow, version)
    found = tx.execute(query.where(ValidityRow.knowledge_base_id == knowledge_base).order_by(DocumentRow.doc_id)).all()
    disabled = corrections.disabled_documents(tx, knowledge_base) if found else set()
    return [
        ServedValidity(doc_id, name, validity_in(*known)) for doc_id, name, *known in found if doc_id not in disabled
    ]


def validity_in(valid_from: Any, valid_until: Any, supersedes: Any, read: Any) -> Validity:
    """Of `COLUMNS_SHOWN`; all are None for a version of which nothing is known."""
    return Validity(valid_from or "", valid_until or "", tuple(supersedes or ()), tuple(read or ()))
