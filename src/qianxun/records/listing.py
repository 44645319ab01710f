"""Documents as people list them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, func, select

from qianxun.errors import NotFound
from qianxun.records.schema import ChunkRow, DocumentRow, TableRow, VersionRow
from qianxun.types import DocumentState


def _states() -> Any:
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.generation)
    chunks = (
        select(func.count())
        .select_from(ChunkRow)
        .where(ChunkRow.document_key == DocumentRow.key, ChunkRow.generation == DocumentRow.served)
        .scalar_subquery()
        .label("chunks")
    )
    shown = (VersionRow.name, VersionRow.content_type, VersionRow.user_id, VersionRow.project_id)
    return select(DocumentRow.__table__, *shown, chunks).join(VersionRow, version)


def state(tx: Connection, knowledge_base: int, doc_id: str) -> DocumentState:
    row = tx.execute(_states().where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.doc_id == doc_id))
    found = row.first()
    if found is None:
        raise NotFound(f"知识库 {knowledge_base} 中没有文档“{doc_id}”", hint="用 qianxun kb show 查看已有的文档")
    return _state(found)


def states(tx: Connection, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
    """Documents in the order of their ids, a page at a time; deleted ones are not among them."""
    query = _states().where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.doc_id > after)
    return [_state(row) for row in tx.execute(query.order_by(DocumentRow.doc_id).limit(limit))]


def tally(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """How many documents stand in which state, and how many tables and chunks there are."""
    by_status = (
        select(DocumentRow.status, func.count().label("number"))
        .where(DocumentRow.knowledge_base_id == knowledge_base)
        .group_by(DocumentRow.status)
    )
    counts = {row.status: row.number for row in tx.execute(by_status)}
    for name, table in (("chunks", ChunkRow), ("tables", TableRow)):
        query = select(func.count()).select_from(table).where(table.knowledge_base_id == knowledge_base)
        counts[name] = tx.execute(query).scalar_one()
    return counts


def named(tx: Connection, knowledge_base: int, name: str) -> set[str]:
    """The ids of the documents of this name, with or without its ending; or of the one with this id."""
    version = (VersionRow.document_key == DocumentRow.key) & (VersionRow.generation == DocumentRow.served)
    called = (
        (VersionRow.name == name)
        | VersionRow.name.startswith(name + ".", autoescape=True)
        | (DocumentRow.doc_id == name)
    )
    query = select(DocumentRow.doc_id, VersionRow.name).join(VersionRow, version)
    found = tx.execute(
        query.where(DocumentRow.knowledge_base_id == knowledge_base, DocumentRow.status != "deleted", called)
    )
    return {row.doc_id for row in found if name in (row.doc_id, row.name, row.name.rpartition(".")[0])}


def _state(row: Row[Any]) -> DocumentState:
    return DocumentState(
        doc_id=row.doc_id,
        name=row.name,
        status=row.status,
        generation=row.generation,
        served=row.served,
        attempts=row.attempts + row.outages,
        reason=row.reason or "",
        content_type=row.content_type,
        user_id=row.user_id,
        project_id=row.project_id,
        chunks=row.chunks,
        updated_at=row.updated_at.isoformat(timespec="seconds"),
    )
