"""Documents and their states, for listings."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, case, func, or_, select, text

from qianxun.core.errors import NotFound
from qianxun.core.types import Attributes, DocumentState
from qianxun.core.unicode import is_storable, storable
from qianxun.records import rows
from qianxun.records.chunks import chunk_id
from qianxun.records.database.restrict import shown_labels
from qianxun.records.database.server import server_of
from qianxun.records.database.statements import in_slices, select_in
from qianxun.records.governance import corrections, validity
from qianxun.records.schema import (
    AccessSetRow,
    ChunkRow,
    DocumentRow,
    OutboxRow,
    PairVectorRow,
    TableRow,
    ValidityRow,
    VectorRow,
    VersionRow,
)

SHOWN = 80  # characters of an id in a message
LETTERS = 50  # looked for in one statement


def state_query() -> Any:
    """Documents with the version that was accepted last."""
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
    chunks = (
        select(func.count())
        .select_from(ChunkRow)
        .where(ChunkRow.document_key == DocumentRow.key, ChunkRow.generation == DocumentRow.served)
        .scalar_subquery()
        .label("chunks")
    )
    shown = (
        VersionRow.name,
        VersionRow.content_type,
        VersionRow.user_id,
        VersionRow.project_id,
        VersionRow.source,
        VersionRow.tags,
        VersionRow.extra.label("metadata"),
        *validity.COLUMNS_SHOWN,
    )
    known = (ValidityRow.document_key == DocumentRow.key) & (ValidityRow.generation == DocumentRow.generation)
    query = select(DocumentRow.__table__, *shown, AccessSetRow.labels.label("access_labels"), chunks)
    query = query.join(VersionRow, version).outerjoin(ValidityRow, known)
    return query.outerjoin(AccessSetRow, AccessSetRow.id == DocumentRow.access_set)


def state(tx: Connection, knowledge_base: int, doc_id: str) -> DocumentState:
    own = state_query().where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.doc_id == doc_id)
    found = tx.execute(own).first() if is_storable(doc_id) else None
    if found is None:
        named = storable(doc_id)[:SHOWN]
        raise NotFound(f"知识库 {knowledge_base} 中没有文档“{named}”", hint="用 qianxun kb show 查看已有的文档")
    disabled = corrections.disabled_documents(tx, knowledge_base)
    return _state(tx, found, _unseen(tx, knowledge_base, [found.key]), disabled)


def states(tx: Connection, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
    """Documents in the order of their ids, a page at a time; deleted ones are not among them."""
    query = state_query().where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.doc_id > storable(after))
    found = tx.execute(query.order_by(DocumentRow.doc_id).limit(max(limit, 0))).all()
    return states_of(tx, knowledge_base, found)


def states_of(tx: Connection, knowledge_base: int, found: Sequence[Row[Any]]) -> list[DocumentState]:
    """Of rows of `state_query`."""
    unseen = _unseen(tx, knowledge_base, [row.key for row in found])
    disabled = corrections.disabled_documents(tx, knowledge_base)
    return [_state(tx, row, unseen, disabled) for row in found]


def _unseen(tx: Connection, knowledge_base: int, document_keys: Sequence[int]) -> set[int]:
    """Those of the documents whose last change is not in the index yet."""
    pending = select(OutboxRow.document_key).where(OutboxRow.knowledge_base_id == knowledge_base)
    return {row.document_key for row in select_in(tx, pending, OutboxRow.document_key, document_keys)}


def tally(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """The number of documents by status, as `state` gives it, and of tables and chunks."""
    unseen = select(OutboxRow.document_key).where(OutboxRow.knowledge_base_id == knowledge_base)
    is_pending = (DocumentRow.status == "indexed") & DocumentRow.key.in_(unseen)
    status = case((is_pending, "pending"), else_=DocumentRow.status).label("status")
    # Grouped outside: PostgreSQL takes two expressions with parameters for different ones.
    own = select(status).where(DocumentRow.knowledge_base_id == knowledge_base).subquery()
    by_status = select(own.c.status, func.count().label("number")).group_by(own.c.status)
    counts = {row.status: row.number for row in tx.execute(by_status)}
    for name, table in (("chunks", ChunkRow), ("tables", TableRow)):
        query = select(func.count()).select_from(table).where(table.knowledge_base_id == knowledge_base)
        counts[name] = tx.execute(query).scalar_one()
    return counts


def vectors_of_all(tx: Connection) -> int:
    """The stored vectors of chunks and attached questions, in the bases of all tenants."""
    counts = (select(func.count()).select_from(table).scalar_subquery() for table in (VectorRow, PairVectorRow))
    return int(sum(tx.execute(select(*counts)).one()))


def database_bytes(tx: Connection) -> int:
    """What the records take: the pages of the file, or the database of the server."""
    server = server_of(tx.dialect.name)
    if server is not None:
        return server.database_bytes(tx)
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    return int(tx.execute(text(pages)).scalar_one())


def names(tx: Connection, knowledge_base: int, *, limit: int | None = None) -> list[tuple[str, str]]:
    """(id, name) of the served documents, at most ``limit``."""
    own = DocumentRow.knowledge_base_id == knowledge_base
    return [(doc_id, name) for doc_id, name in tx.execute(_named().where(own).limit(limit))]


def names_beginning(tx: Connection, knowledge_base: int, first: Collection[str]) -> list[tuple[str, str]]:
    """(id, name) of the served documents whose id or name begins with one of these characters.

    By two indexes, one after the other: in one query, SQLite would read every version of the base with its text.
    """
    letters = sorted({letter[:1] for letter in first if is_storable(letter)})  # ß is written SS
    found: set[tuple[str, str]] = set()
    for table, column in ((VersionRow, VersionRow.name), (DocumentRow, DocumentRow.doc_id)):
        own = table.knowledge_base_id == knowledge_base
        for part in in_slices(letters, LETTERS):
            beginning = or_(*(own & _begins(tx, column, letter) for letter in part))
            found.update((doc_id, name) for doc_id, name in tx.execute(_named().where(beginning)))
    return sorted(found)


def _named() -> Any:
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    query = select(DocumentRow.doc_id, VersionRow.name).join(VersionRow, version)
    return query.where(DocumentRow.status != "deleted")


def _begins(tx: Connection, column: Any, letter: str) -> Any:
    """In SQLite as a range, which an index answers: it compares texts by their bytes. Servers have orders of their
    own."""
    if tx.dialect.name != "sqlite" or not letter:
        return func.substr(column, 1, 1) == letter
    return (column >= letter) & (column < _after(letter))


def _after(letter: str) -> str:
    """The next character that a text can have."""
    return "\ue000" if letter == "\ud7ff" else chr(min(ord(letter) + 1, sys.maxunicode))


def contents(tx: Connection, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[tuple[str, str, str]]:
    """(id, name, text) of the served documents, a page at a time by id."""
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    query = select(DocumentRow.doc_id, VersionRow.name, VersionRow.content).join(VersionRow, version)
    own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.status != "deleted")
    page = query.where(own, DocumentRow.doc_id > after).order_by(DocumentRow.doc_id).limit(limit)
    return [(row.doc_id, row.name, row.content) for row in tx.execute(page)]


def served_versions(tx: Connection, knowledge_base: int) -> list[tuple[int, int]]:
    """(document, generation) of what a base serves."""
    own = (DocumentRow.knowledge_base_id == knowledge_base) & (DocumentRow.status != "deleted")
    query = select(DocumentRow.key, DocumentRow.served).where(own, DocumentRow.served > 0).order_by(DocumentRow.key)
    return [(row.key, row.served) for row in tx.execute(query)]


def attributes(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Attributes]:
    """What filters see of these documents, as they are served; no entry for one that does not exist."""
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    query = select(DocumentRow.doc_id, *rows.ATTRIBUTES).join(VersionRow, version)
    query = query.where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted")
    storable_ids = [doc_id for doc_id in doc_ids if is_storable(doc_id)]
    found = select_in(tx, query, DocumentRow.doc_id, storable_ids)
    return {row.doc_id: rows.attributes_of(row.doc_id, row) for row in found}


def _state(tx: Connection, row: Row[Any], unseen: Collection[int], disabled: Collection[str]) -> DocumentState:
    """A document with stored chunks counts as indexed only when the index has them, too."""
    is_pending = row.status == "indexed" and row.key in unseen
    return DocumentState(
        doc_id=row.doc_id,
        name=row.name,
        status="pending" if is_pending else row.status,
        generation=row.generation,
        served=row.served,
        attempts=row.attempts + row.outages,
        reason=row.reason or "",
        content_type=row.content_type,
        user_id=row.user_id,
        project_id=row.project_id,
        chunks=row.chunks,
        updated_at=row.updated_at.isoformat(timespec="seconds"),
        source=row.source,
        tags=tuple(row.tags),
        metadata=rows.metadata_of(row.metadata),
        validity=validity.validity_in(row.valid_from, row.valid_until, row.supersedes, row.read_fields),
        access=shown_labels(tx, row.access_labels),
        disabled=row.doc_id in disabled,
    )


def chunk_ids(tx: Connection, knowledge_base: int) -> dict[int, str]:
    """The public ids of all served chunks, by key."""
    serving = (ChunkRow.document_key == DocumentRow.key) & (ChunkRow.generation == DocumentRow.served)
    query = select(ChunkRow.key, DocumentRow.doc_id, ChunkRow.position).join(DocumentRow, serving)
    rows = tx.execute(query.where(ChunkRow.knowledge_base_id == knowledge_base))
    return {key: chunk_id(knowledge_base, doc_id, position) for key, doc_id, position in rows}
