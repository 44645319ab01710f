"""Knowledge bases. Each belongs to a tenant, and every function needs the tenant.

A base of another tenant and one that never existed raise the same NotFound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, Dialect, Row, bindparam, delete, func, insert, select, update

from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.core.limits import NAME_LIMIT
from qianxun.core.types import KnowledgeBase
from qianxun.core.unicode import is_storable, storable
from qianxun.records import checksums, leases, pairs
from qianxun.records.database.counters import allocate, count_up
from qianxun.records.database.statements import Compiled, compiled, select_in
from qianxun.records.governance import audit
from qianxun.records.schema import (
    AccessRuleRow,
    AccessSetRow,
    ChunkRow,
    CorrectionRow,
    Counter,
    DocumentRow,
    EvaluationCaseRow,
    EvaluationResultRow,
    EvaluationRunRow,
    EvaluationSetRow,
    EventRow,
    GraphAliasRow,
    GraphFactsRow,
    GraphSummaryRow,
    KnowledgeBaseRow,
    OutboxClaimRow,
    OutboxRow,
    PairRow,
    RetrievalLogRow,
    TableRow,
    TermRow,
    ValidityRow,
    VectorRow,
    VersionRow,
)

KINDS = ("documents", "examples")
TENANT_LIMIT = 64
LONGEST_ID = 18  # digits that a database can store
SEE_BASES = "用 qianxun kb list 或 GET /v1/knowledge-bases 查看已有的知识库"


def check_tenant(tenant: str) -> str:
    """The tenant's name, if it can be one. Raises BadInput."""
    if not tenant or len(tenant) > TENANT_LIMIT or not tenant.isprintable() or tenant != tenant.strip():
        raise BadInput(f"租户名须为 1–{TENANT_LIMIT} 个可见字符，首尾没有空格", hint="换一个名称再试")
    return tenant


def create(
    tx: Connection,
    name: str,
    *,
    tenant: str,
    kind: str = "documents",
    embedding_model: str = "",
    dimension: int = 0,
    config: Mapping[str, Any] | None = None,
) -> KnowledgeBase:
    """A new, empty knowledge base. Its name is the only one of its kind within the tenant."""
    if kind not in KINDS:
        raise BadInput(f"没有种类为 {storable(kind)[:80]!r} 的知识库", hint=f"可用：{'、'.join(KINDS)}")
    name = free_name(tx, name, check_tenant(tenant))
    (number,) = allocate(tx, "knowledge_base", 1)
    now = datetime.now(UTC)
    config = dict(config or {})
    tx.execute(
        insert(KnowledgeBaseRow).values(
            id=number,
            tenant=tenant,
            name=name,
            kind=kind,
            embedding_model=embedding_model,
            dimension=dimension,
            config=config,
            indexed_sequence=0,
            created_at=now,
            updated_at=now,
            checksum=checksums.values_checksum(number, tenant, name, kind, embedding_model, dimension, config),
        )
    )
    audit.append(tx, "", "base.create", name, tenant=tenant, knowledge_base=number)
    return get(tx, number, tenant=tenant)


def free_name(tx: Connection, name: str, tenant: str, but: int = 0) -> str:
    """The name as it is stored. Raises AlreadyThere when a base of the tenant ``but`` that one has it."""
    name = name.strip()
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise BadInput(f"知识库名称须为 1–{NAME_LIMIT} 个可见字符", hint="换一个名称再试")
    taken = select(KnowledgeBaseRow.id).filter_by(tenant=tenant, name=name).where(KnowledgeBaseRow.id != but)
    if tx.execute(taken).first():
        raise AlreadyThere(f"知识库“{name}”已存在", hint="换一个名称，或直接使用它")
    return name


def require(tx: Connection, knowledge_base: int, *, tenant: str) -> None:
    """Raises NotFound unless the tenant has such a base. Comes first in every transaction on what is in a base."""
    if not is_key(knowledge_base) or not _required(tx.dialect).rows(tx, {"base": knowledge_base, "tenant": tenant}):
        raise missing(knowledge_base)


@lru_cache
def _required(dialect: Dialect) -> Compiled:
    base = KnowledgeBaseRow.id == bindparam("base", type_=KnowledgeBaseRow.id.type)
    tenant = KnowledgeBaseRow.tenant == bindparam("tenant", type_=KnowledgeBaseRow.tenant.type)
    return compiled(select(KnowledgeBaseRow.id).where(base, tenant), dialect)


def is_key(number: int) -> bool:
    """Whether a database can store it; some drivers fail on what it cannot."""
    return 0 <= number < 2**63


def missing(knowledge_base: int) -> NotFound:
    return NotFound(f"没有编号为 {knowledge_base} 的知识库", hint=SEE_BASES)


def get(tx: Connection, knowledge_base: int, *, tenant: str) -> KnowledgeBase:
    require(tx, knowledge_base, tenant=tenant)
    return _base(tx.execute(_select().filter_by(id=knowledge_base, tenant=tenant)).one())


def identity(tx: Connection, knowledge_base: int) -> str:
    """Unique among all bases of all folders and tenants: for servers with copies of many."""
    return _identity(tx.execute(_select().where(KnowledgeBaseRow.id == knowledge_base)).one())


def find(tx: Connection, name_or_id: str, *, tenant: str) -> KnowledgeBase:
    """By its id as a text, or else by its name: of a name that is also the id of a base the id counts."""
    name = name_or_id.strip()
    is_id = name.isascii() and name.isdigit() and len(name) <= LONGEST_ID
    own = _select().filter_by(tenant=tenant)
    row = tx.execute(own.filter_by(id=int(name))).first() if is_id else None
    if row is None and is_storable(name):
        row = tx.execute(own.filter_by(name=name)).first()
    if row is None:
        raise NotFound(f"没有名称或编号为“{storable(name)[:NAME_LIMIT]}”的知识库", hint=SEE_BASES)
    return _base(row)


def every(tx: Connection, *, tenant: str, limit: int | None = None, after: int = 0) -> tuple[KnowledgeBase, ...]:
    """The tenant's bases in the order of their ids, a page at a time."""
    if not is_key(after):
        return ()
    own = _select().filter_by(tenant=tenant).where(KnowledgeBaseRow.id > after)
    rows = tx.execute(own.order_by(KnowledgeBaseRow.id).limit(limit if limit is None else max(limit, 0)))
    return tuple(_base(row) for row in rows)


def across_tenants(tx: Connection) -> tuple[KnowledgeBase, ...]:
    """For the operator and for background work; never for a request."""
    return tuple(_base(row) for row in tx.execute(_select().order_by(KnowledgeBaseRow.id)))


def tenants(tx: Connection, knowledge_bases: Iterable[int]) -> dict[int, str]:
    """Base → its tenant, for those that exist."""
    query = select(KnowledgeBaseRow.id, KnowledgeBaseRow.tenant)
    return {row.id: row.tenant for row in select_in(tx, query, KnowledgeBaseRow.id, sorted(knowledge_bases))}


def rename(tx: Connection, knowledge_base: int, name: str, *, tenant: str) -> KnowledgeBase:
    """Gives a base another name; nothing else changes."""
    before = get(tx, knowledge_base, tenant=tenant).name
    _change(tx, knowledge_base, tenant, name=free_name(tx, name, tenant, knowledge_base))
    audit.append(tx, "", "base.rename", name, tenant=tenant, knowledge_base=knowledge_base, details={"before": before})
    return get(tx, knowledge_base, tenant=tenant)


def move(tx: Connection, knowledge_base: int, to: str, *, tenant: str) -> KnowledgeBase:
    """Hands a base over to another tenant with everything in it; the log of searches stays with those who searched.

    An index of it is of no use any more: it was made for the tenant that had the base (`KnowledgeBase.identity`).
    """
    base = get(tx, knowledge_base, tenant=tenant)
    if check_tenant(to) == tenant:
        raise BadInput(f"知识库“{base.name}”已经属于租户“{to}”", hint="写另一个租户")
    free_name(tx, base.name, to)
    _change(tx, knowledge_base, tenant, tenant=to)
    for whose in (tenant, to):  # both have it in their log
        audit.append(tx, "", "base.move", to, tenant=whose, knowledge_base=knowledge_base, details={"from": tenant})
    return get(tx, knowledge_base, tenant=to)


def change_model(tx: Connection, knowledge_base: int, model: str, dimension: int, *, tenant: str) -> None:
    _change(tx, knowledge_base, tenant, embedding_model=model, dimension=dimension)
    revise(tx, knowledge_base)
    audit.append(tx, "", "base.model", model, tenant=tenant, knowledge_base=knowledge_base)


def change_config(tx: Connection, knowledge_base: int, config: Mapping[str, Any], *, tenant: str) -> None:
    before = get(tx, knowledge_base, tenant=tenant)
    _change(tx, knowledge_base, tenant, config=dict(config))
    revise(tx, knowledge_base)
    changed = sorted(key for key in {*before.config, *config} if before.config.get(key) != config.get(key))
    about = {"changed": changed}
    audit.append(tx, "", "base.configure", before.name, tenant=tenant, knowledge_base=knowledge_base, details=about)


def _change(tx: Connection, knowledge_base: int, tenant: str, /, **values: Any) -> None:
    own = (KnowledgeBaseRow.id == knowledge_base) & (KnowledgeBaseRow.tenant == tenant)
    changed = tx.execute(update(KnowledgeBaseRow).where(own).values(**values, updated_at=datetime.now(UTC)))
    if not changed.rowcount:
        raise missing(knowledge_base)
    own_row = KnowledgeBaseRow.id == knowledge_base
    checksum = checksums.row_checksum(tx.execute(_select().where(own_row)).one(), checksums.BASE)
    tx.execute(update(KnowledgeBaseRow).where(own_row).values(checksum=checksum))


def revise(tx: Connection, knowledge_base: int) -> None:
    """Counts a change of the base's answers that no document made: a rebuilt index, another model, another setting."""
    count_up(tx, _revision(knowledge_base))


def generation(tx: Connection, knowledge_base: int) -> int:
    """The state of the base: every write that can change an answer has raised it by the time it is acknowledged.

    The last outbox sequence, pending or applied, plus the number of revisions. Both only grow, so that their sum
    changes whenever one of them does. 0 for a base that does not exist.
    """
    values = {"base": knowledge_base, "revision": _revision(knowledge_base)}
    ((pending, applied, revisions),) = _generation_query(tx.dialect).rows(tx, values)
    return max(pending or 0, applied or 0) + (revisions or 0)


def is_indexed(tx: Connection, knowledge_base: int) -> bool:
    """Returns True if the index has all that was written: no chunk in it has been deleted or replaced."""
    values = {"base": knowledge_base, "revision": _revision(knowledge_base)}
    ((pending, *_),) = _generation_query(tx.dialect).rows(tx, values)
    return pending is None


def generation_and_graph(tx: Connection, knowledge_base: int) -> tuple[int, int]:
    """`generation`, and how often facts were read or aliases changed, in one statement."""
    values = {"base": knowledge_base, "revision": _revision(knowledge_base), "graph": graph_revision(knowledge_base)}
    ((pending, applied, revisions, graph),) = _graph_state_query(tx.dialect).rows(tx, values)
    return max(pending or 0, applied or 0) + (revisions or 0), int(graph or 0)


def _revision(knowledge_base: int) -> str:
    return f"revision.{knowledge_base}"


def access_counter(knowledge_base: int) -> str:
    """The counter of changes to who may see a base's documents; there is none where nobody ever gave a label."""
    return f"access.{knowledge_base}"


def graph_revision(knowledge_base: int) -> str:
    """The counter of changes to a base's graph that no document made: facts that were read, aliases."""
    return f"graph.{knowledge_base}"


@lru_cache
def _generation_query(dialect: Dialect) -> Compiled:
    return compiled(select(*_generation_columns()), dialect)


@lru_cache
def _graph_state_query(dialect: Dialect) -> Compiled:
    graph = select(Counter.next).where(Counter.name == bindparam("graph"))
    return compiled(select(*_generation_columns(), graph.scalar_subquery()), dialect)


def _generation_columns() -> list[Any]:
    base = bindparam("base", type_=KnowledgeBaseRow.id.type)
    pending = select(func.max(OutboxRow.sequence)).where(OutboxRow.knowledge_base_id == base)
    applied = select(KnowledgeBaseRow.indexed_sequence).where(KnowledgeBaseRow.id == base)
    revisions = select(Counter.next).where(Counter.name == bindparam("revision"))
    return [query.scalar_subquery() for query in (pending, applied, revisions)]


def settings_state(tx: Connection, knowledge_base: int) -> tuple[Any, ...]:
    """Another value whenever the base's row has changed, or other words were learnt; () of one that is gone."""
    values = {"base": knowledge_base, "learnt": _learnt(knowledge_base)}
    found = _settings_query(tx.dialect).rows(tx, values)
    return tuple(found[0]) if found else ()


@lru_cache
def _settings_query(dialect: Dialect) -> Compiled:
    learnt = select(Counter.next).where(Counter.name == bindparam("learnt")).scalar_subquery()
    base = KnowledgeBaseRow.id == bindparam("base", type_=KnowledgeBaseRow.id.type)
    own = (KnowledgeBaseRow.tenant, KnowledgeBaseRow.updated_at, KnowledgeBaseRow.checksum)
    return compiled(select(*own, learnt).where(base), dialect)


def note_learnt(tx: Connection, knowledge_base: int) -> None:
    """Counts that other words were learnt, for the processes that have the earlier ones in memory."""
    count_up(tx, _learnt(knowledge_base))


def _learnt(knowledge_base: int) -> str:
    return f"learnt.{knowledge_base}"


def indexed_sequence(tx: Connection, knowledge_base: int) -> int:
    """The outbox up to here has been applied to the index and deleted."""
    found = tx.execute(select(KnowledgeBaseRow.indexed_sequence).filter_by(id=knowledge_base)).scalar()
    return int(found or 0)


def indexed_sequences(tx: Connection) -> dict[int, tuple[str, int]]:
    """Base → its tenant, and up to where its outbox has been applied: for background work, never for a request."""
    own = (KnowledgeBaseRow.id, KnowledgeBaseRow.tenant, KnowledgeBaseRow.indexed_sequence)
    return {row.id: (row.tenant, row.indexed_sequence) for row in tx.execute(select(*own))}


def remove(tx: Connection, knowledge_base: int, *, tenant: str) -> None:
    """The knowledge base and everything in it."""
    name = get(tx, knowledge_base, tenant=tenant).name
    audit.append(tx, "", "base.delete", name, tenant=tenant, knowledge_base=knowledge_base)
    chunk_keys = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base)
    tx.execute(delete(VectorRow).where(VectorRow.chunk_key.in_(chunk_keys)))
    pairs.remove(tx, PairRow.knowledge_base_id == knowledge_base)
    for graphed in (GraphFactsRow, GraphAliasRow, GraphSummaryRow):
        tx.execute(delete(graphed).where(graphed.knowledge_base_id == knowledge_base))
    for table in (
        ChunkRow,
        TableRow,
        TermRow,
        ValidityRow,
        VersionRow,
        OutboxRow,
        EventRow,
        DocumentRow,
        AccessSetRow,
        AccessRuleRow,
        RetrievalLogRow,
        CorrectionRow,
    ):
        tx.execute(delete(table).where(table.knowledge_base_id == knowledge_base))
    remove_evaluation_sets(tx, EvaluationSetRow.knowledge_base_id == knowledge_base)
    leases.remove(tx, leases.outbox_lease(knowledge_base), leases.graph_lease(knowledge_base))
    tx.execute(delete(OutboxClaimRow).where(OutboxClaimRow.knowledge_base_id == knowledge_base))
    counters = (
        _revision(knowledge_base),
        graph_revision(knowledge_base),
        access_counter(knowledge_base),
        _learnt(knowledge_base),
    )
    tx.execute(delete(Counter).where(Counter.name.in_(counters)))
    tx.execute(delete(KnowledgeBaseRow).where(KnowledgeBaseRow.id == knowledge_base))


def remove_evaluation_sets(tx: Connection, chosen: Any) -> None:
    """Those that meet the condition, with their cases and runs."""
    own = select(EvaluationSetRow.id).where(chosen)
    runs = select(EvaluationRunRow.id).where(EvaluationRunRow.set_id.in_(own))
    tx.execute(delete(EvaluationResultRow).where(EvaluationResultRow.run_id.in_(runs)))
    for table in (EvaluationRunRow, EvaluationCaseRow):
        tx.execute(delete(table).where(table.set_id.in_(own)))
    tx.execute(delete(EvaluationSetRow).where(chosen))


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
        identity=_identity(row),
    )


def _identity(row: Row[Any]) -> str:
    made = repr((row.tenant, row.id, row.created_at.timestamp()))
    return f"kb{row.id}-{blake2b(made.encode(), digest_size=8).hexdigest()}"
