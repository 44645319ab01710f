"""Knowledge bases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Row, bindparam, delete, func, insert, select, update

from qianxun.errors import AlreadyThere, BadInput, NotFound
from qianxun.records import pairs
from qianxun.records.compiled import Compiled, compiled
from qianxun.records.counters import allocate
from qianxun.records.schema import (
    ChunkRow,
    Counter,
    DocumentRow,
    EventRow,
    KnowledgeBaseRow,
    OutboxRow,
    PairRow,
    RetrievalLogRow,
    TableRow,
    VectorRow,
    VersionRow,
)
from qianxun.types import KnowledgeBase

LOCAL_TENANT = "local"
NAME_LIMIT = 200


def create(
    tx: Connection,
    name: str,
    *,
    kind: str = "documents",
    embedding_model: str = "",
    dimension: int = 0,
    config: Mapping[str, Any] | None = None,
    tenant: str = LOCAL_TENANT,
) -> KnowledgeBase:
    """A new, empty knowledge base."""
    name = name.strip()
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise BadInput(f"知识库名称须为 1–{NAME_LIMIT} 个可见字符", hint="换一个名称再试")
    if tx.execute(select(KnowledgeBaseRow.id).filter_by(tenant=tenant, name=name)).first():
        raise AlreadyThere(f"知识库“{name}”已存在", hint="换一个名称，或直接使用它")
    (number,) = allocate(tx, "knowledge_base", 1)
    now = datetime.now(UTC)
    tx.execute(
        insert(KnowledgeBaseRow).values(
            id=number,
            tenant=tenant,
            name=name,
            kind=kind,
            embedding_model=embedding_model,
            dimension=dimension,
            config=dict(config or {}),
            indexed_sequence=0,
            created_at=now,
            updated_at=now,
        )
    )
    return get(tx, number, tenant=tenant)


def get(tx: Connection, knowledge_base: int, *, tenant: str = LOCAL_TENANT) -> KnowledgeBase:
    row = tx.execute(_select().filter_by(id=knowledge_base, tenant=tenant)).first()
    if row is None:
        raise NotFound(f"没有编号为 {knowledge_base} 的知识库", hint="用 qianxun kb list 查看已有的知识库")
    return _base(row)


def by_name(tx: Connection, name: str, *, tenant: str = LOCAL_TENANT) -> KnowledgeBase:
    row = tx.execute(_select().filter_by(name=name.strip(), tenant=tenant)).first()
    if row is None:
        raise NotFound(f"没有名为“{name}”的知识库", hint=f"先创建：qianxun kb create {name}")
    return _base(row)


def every(tx: Connection, *, tenant: str = LOCAL_TENANT) -> tuple[KnowledgeBase, ...]:
    rows = tx.execute(_select().filter_by(tenant=tenant).order_by(KnowledgeBaseRow.id))
    return tuple(_base(row) for row in rows)


def change_model(tx: Connection, knowledge_base: int, model: str, dimension: int) -> None:
    tx.execute(
        update(KnowledgeBaseRow)
        .where(KnowledgeBaseRow.id == knowledge_base)
        .values(embedding_model=model, dimension=dimension, updated_at=datetime.now(UTC))
    )
    revise(tx, knowledge_base)


def change_config(tx: Connection, knowledge_base: int, config: Mapping[str, Any]) -> None:
    tx.execute(
        update(KnowledgeBaseRow)
        .where(KnowledgeBaseRow.id == knowledge_base)
        .values(config=dict(config), updated_at=datetime.now(UTC))
    )
    revise(tx, knowledge_base)


def revise(tx: Connection, knowledge_base: int) -> None:
    """Notes a change of the base's answers that no document made: a rebuilt index, another model, another setting."""
    name = _revision(knowledge_base)
    if tx.execute(update(Counter).where(Counter.name == name).values(next=Counter.next + 1)).rowcount == 0:
        tx.execute(insert(Counter).values(name=name, next=1))


def generation(tx: Connection, knowledge_base: int) -> int:
    """The state of the base: every write that can change an answer has raised it by the time it is acknowledged.

    The last outbox sequence, still waiting or already applied, plus the number of revisions. Both only grow, so
    that their sum changes whenever one of them does. 0 for a base that is not there.
    """
    asked = {"base": knowledge_base, "revision": _revision(knowledge_base)}
    ((waiting, applied, revisions),) = _generation_query(tx.dialect).rows(tx, asked)
    return max(waiting or 0, applied or 0) + (revisions or 0)


def _revision(knowledge_base: int) -> str:
    return f"revision.{knowledge_base}"


@lru_cache
def _generation_query(dialect: Dialect) -> Compiled:
    base = bindparam("base", type_=KnowledgeBaseRow.id.type)
    waiting = select(func.max(OutboxRow.sequence)).where(OutboxRow.knowledge_base_id == base)
    applied = select(KnowledgeBaseRow.indexed_sequence).where(KnowledgeBaseRow.id == base)
    revisions = select(Counter.next).where(Counter.name == bindparam("revision"))
    return compiled(select(*(each.scalar_subquery() for each in (waiting, applied, revisions))), dialect)


def indexed_sequence(tx: Connection, knowledge_base: int) -> int:
    """The outbox up to here is gone: it was applied to the index."""
    found = tx.execute(select(KnowledgeBaseRow.indexed_sequence).filter_by(id=knowledge_base)).scalar()
    return int(found or 0)


def remove(tx: Connection, knowledge_base: int) -> None:
    """The knowledge base and everything in it."""
    chunk_keys = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base)
    tx.execute(delete(VectorRow).where(VectorRow.chunk_key.in_(chunk_keys)))
    pairs.remove(tx, PairRow.knowledge_base_id == knowledge_base)
    for table in (ChunkRow, TableRow, VersionRow, OutboxRow, EventRow, DocumentRow, RetrievalLogRow):
        tx.execute(delete(table).where(table.knowledge_base_id == knowledge_base))
    tx.execute(delete(Counter).where(Counter.name == _revision(knowledge_base)))
    tx.execute(delete(KnowledgeBaseRow).where(KnowledgeBaseRow.id == knowledge_base))


def _select() -> Any:
    return select(KnowledgeBaseRow.__table__)


def _base(row: Row[Any]) -> KnowledgeBase:
    return KnowledgeBase(
        id=row.id,
        name=row.name,
        kind=row.kind,
        embedding_model=row.embedding_model,
        dimension=row.dimension,
        config=row.config,
        created_at=row.created_at.isoformat(timespec="seconds"),
        tenant=row.tenant,
    )
