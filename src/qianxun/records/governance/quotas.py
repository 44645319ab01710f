"""Quotas of tenants: kept in the records, and enforced in the transaction that would exceed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Dialect,
    LargeBinary,
    Select,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from qianxun.core.errors import BadInput, QuotaExceeded
from qianxun.core.governance.quotas import KINDS, LARGEST, Quota
from qianxun.records.bases import check_tenant
from qianxun.records.database.server import SQLITE
from qianxun.records.database.statements import Compiled, compiled
from qianxun.records.governance import audit
from qianxun.records.schema import ChunkRow, DocumentRow, KnowledgeBaseRow, QuotaRow, SearchCountRow, VersionRow

WINDOW: Final = 61  # seconds that a search counts: so many have a part in a minute that ends now
NAMES: Final = {"documents": "文档", "chunks": "块", "bytes": "正文的字节"}
_LIMITS: Final = tuple(getattr(QuotaRow, kind) for kind in KINDS)


def get(tx: Connection, tenant: str) -> Quota:
    row = tx.execute(select(*_LIMITS).where(QuotaRow.tenant == tenant)).first()
    return Quota() if row is None else Quota(*row)


def every(tx: Connection) -> dict[str, Quota]:
    """Of all tenants that have one: for operators and metrics, never for a request."""
    found = tx.execute(select(QuotaRow.tenant, *_LIMITS).order_by(QuotaRow.tenant))
    return {tenant: Quota(*limits) for tenant, *limits in found}


def put(tx: Connection, tenant: str, quota: Quota) -> None:
    """In the place of the earlier one. Raises BadInput for numbers that cannot be."""
    check_tenant(tenant)
    values = asdict(quota)
    for kind, limit in values.items():
        if limit is not None and not 0 <= limit <= LARGEST:
            raise BadInput(f"{kind} 的上限须为不小于 0 的整数", hint="不设上限则写 none")
    tx.execute(delete(QuotaRow).where(QuotaRow.tenant == tenant))
    tx.execute(insert(QuotaRow).values(tenant=tenant, updated_at=datetime.now(UTC), **values))
    audit.append(tx, "", "quota.set", tenant, tenant=tenant, details=values)


def used(tx: Connection, tenant: str, kinds: tuple[str, ...] = ("documents", "chunks", "bytes")) -> dict[str, int]:
    """What a tenant has: bytes of the newest versions, chunks as they are stored."""
    return {kind: int(tx.execute(_count(tx, kind, tenant)).scalar() or 0) for kind in kinds}


def _count(tx: Connection, kind: str, tenant: str) -> Select[Any]:
    own = select(KnowledgeBaseRow.id).where(KnowledgeBaseRow.tenant == tenant)
    if kind == "chunks":
        return select(func.count()).select_from(ChunkRow).where(ChunkRow.knowledge_base_id.in_(own))
    of_tenant = (DocumentRow.knowledge_base_id.in_(own)) & (DocumentRow.status != "deleted")
    if kind == "documents":
        return select(func.count()).select_from(DocumentRow).where(of_tenant)
    is_file = tx.dialect.name == SQLITE
    size = func.length(cast(VersionRow.content, LargeBinary)) if is_file else func.octet_length(VersionRow.content)
    newest = (DocumentRow.key == VersionRow.document_key) & (DocumentRow.generation == VersionRow.generation)
    return select(func.sum(size)).join(DocumentRow, newest).where(of_tenant)


def require_room(tx: Connection, knowledge_base: int) -> None:
    """Raises QuotaExceeded if the tenant of a base has more than it may, with what this transaction has written.

    One statement where the tenant has no quota. What is written by two at once is counted by the second: the outbox
    has them commit one after the other.
    """
    rows = _of_base(tx.dialect).rows(tx, {"base": knowledge_base})
    if not rows:
        return
    tenant, *numbers = rows[0]
    limits = {kind: limit for kind, limit in zip(KINDS, numbers, strict=True) if limit is not None and kind in NAMES}
    found = used(tx, tenant, tuple(limits))
    for kind, limit in limits.items():
        if found[kind] > limit:
            raise QuotaExceeded(
                f"租户“{tenant}”的{NAMES[kind]}至多 {limit}，放入之后会是 {found[kind]}，没有放入",
                hint="删去一些文档，或请管理员调高：qianxun quotas set",
            )


@lru_cache
def _of_base(dialect: Dialect) -> Compiled:
    """Run with every write."""
    own = KnowledgeBaseRow.id == bindparam("base", type_=KnowledgeBaseRow.id.type)
    query = select(QuotaRow.tenant, *_LIMITS).join(KnowledgeBaseRow, KnowledgeBaseRow.tenant == QuotaRow.tenant)
    return compiled(query.where(own), dialect)


# ── searches of a minute ─────────────────────────────────────────────────────────────────────────


def count_searches(tx: Connection, tenant: str, second: int, limit: int, searches: int) -> int:
    """Counts searches if there is room for them. Returns the seconds until there is; 0: they are counted.

    The row of the quota is locked until the commit, so that of several processes one counts after the other.
    """
    tx.execute(select(QuotaRow.tenant).where(QuotaRow.tenant == tenant).with_for_update())
    counts = search_counts(tx, tenant)
    wait = seconds_to_wait(counts, second, limit, searches)
    if wait:
        return wait
    own = SearchCountRow.tenant == tenant
    bump = update(SearchCountRow).where(own, SearchCountRow.second == second)
    bump = bump.values(searches=SearchCountRow.searches + searches)
    if tx.execute(bump).rowcount == 0:
        try:
            with tx.begin_nested():
                tx.execute(insert(SearchCountRow).values(tenant=tenant, second=second, searches=searches))
        except IntegrityError:  # a quota that is just being set has no row to lock, and another process was first
            tx.execute(bump)
        beyond = (SearchCountRow.second <= second - WINDOW) | (SearchCountRow.second >= second + WINDOW)
        tx.execute(delete(SearchCountRow).where(own, beyond))
    return 0


def search_counts(tx: Connection, tenant: str) -> dict[int, int]:
    """Second → the searches that were counted in it."""
    columns = (SearchCountRow.second, SearchCountRow.searches)
    return {row.second: row.searches for row in tx.execute(select(*columns).where(SearchCountRow.tenant == tenant))}


def recent_searches(counts: Mapping[int, int], second: int) -> int:
    """How many there were in the minute before now."""
    return sum(_recent(counts, second).values())


def seconds_to_wait(counts: Mapping[int, int], second: int, limit: int, searches: int = 1) -> int:
    """Until so many more searches make no more than ``limit`` in any minute; 0: now."""
    recent = _recent(counts, second)
    after, wait = sum(recent.values()) + searches, 0
    for at in sorted(recent):
        if after <= limit:
            break
        after, wait = after - recent[at], at + WINDOW - second
    return wait if after <= limit else WINDOW


def _recent(counts: Mapping[int, int], second: int) -> dict[int, int]:
    """Another process's clock may be a little ahead. What is farther ahead was counted before the clock was set back:
    nobody waits until it has caught up."""
    return {at: number for at, number in counts.items() if abs(at - second) < WINDOW}
