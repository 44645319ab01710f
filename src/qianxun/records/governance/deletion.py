"""What the records have of documents and of users: counted before a deletion and read after it, and taken out.

Tables are found by their columns and not by a list: one that is added later is counted without being named here.
`footprint` is the function to read first; `purge_names` removes what a plain deletion leaves on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, select, update

from qianxun.records import bases, document_heads
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import delete_in, in_slices, select_in
from qianxun.records.governance import audit, webhooks
from qianxun.records.schema import (
    Base,
    ChunkRow,
    DocumentRow,
    EvaluationCaseRow,
    EvaluationResultRow,
    EvaluationRunRow,
    EvaluationSetRow,
    GraphAliasRow,
    GraphSummaryRow,
    KnowledgeBaseRow,
    OutboxRow,
    PairRow,
    RetrievalLogRow,
    TermRow,
    UserModelRow,
    VersionRow,
)

BY_MODEL: Final = "model:"  # how the origin of what a model wrote begins
BATCH: Final = 500  # log rows that are looked at together


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the records have of some documents: table → rows, and the keys that an index knows them by."""

    rows: Mapping[str, int]
    document_keys: tuple[int, ...]
    chunk_keys: tuple[int, ...]
    pair_keys: tuple[int, ...]


def footprint(tx: Connection, knowledge_base: int, doc_ids: Collection[str]) -> Footprint:
    """Of documents, deleted ones included: these leave a row that says so, which is not counted."""
    known = document_heads.heads(tx, knowledge_base, doc_ids)
    keys = sorted(head.key for head in known.values())
    chunk_keys = _keys(tx, ChunkRow, keys)
    pair_keys = _keys(tx, PairRow, keys)
    rows = count_rows(tx, knowledge_base, keys, chunk_keys, pair_keys, [*known])
    return Footprint(rows, tuple(keys), tuple(chunk_keys), tuple(pair_keys))


def count_rows(
    tx: Connection,
    knowledge_base: int,
    document_keys: Sequence[int],
    chunk_keys: Sequence[int],
    pair_keys: Sequence[int],
    doc_ids: Sequence[str],
) -> dict[str, int]:
    """The rows of every table that belong to these documents, chunks or questions."""
    counts: dict[str, int] = {}
    for table in Base.metadata.sorted_tables:
        for column, values in _owners(table, document_keys, chunk_keys, pair_keys, doc_ids):
            own = (table.c.knowledge_base_id == knowledge_base) if column == "doc_id" else None
            counts[table.name] = sum(_count(tx, table, table.c[column].in_(part), own) for part in in_slices(values))
    return counts


def _owners(
    table: Table,
    document_keys: Sequence[int],
    chunk_keys: Sequence[int],
    pair_keys: Sequence[int],
    doc_ids: Sequence[str],
) -> list[tuple[str, Sequence[Any]]]:
    """The column by which a table's rows belong to documents, and its values; none for one whose rows do not."""
    if table in (DocumentRow.__table__, OutboxRow.__table__):
        return []  # what is left of a deleted document, and work that is under way
    candidates: tuple[tuple[str, Sequence[Any]], ...] = (
        ("document_key", document_keys),
        ("chunk_key", chunk_keys),
        ("pair_key", pair_keys),
        ("doc_id", doc_ids),
    )
    return [(name, values) for name, values in candidates if name in table.c][:1]


def _count(tx: Connection, table: Table, chosen: Any, own: Any) -> int:
    query = select(func.count()).select_from(table).where(chosen)
    return int(tx.execute(query if own is None else query.where(own)).scalar_one())


def _keys(tx: Connection, model: Any, document_keys: Sequence[int]) -> list[int]:
    return sorted(row.key for row in select_in(tx, select(model.key), model.document_key, document_keys))


def texts(tx: Connection, document_keys: Sequence[int]) -> list[str]:
    """Every text that the versions of these documents have."""
    return [row.content for row in select_in(tx, select(VersionRow.content), VersionRow.document_key, document_keys)]


def has_passage(tx: Connection, passage: str) -> bool:
    """Whether a document of any base has these words, or somebody searched for them."""
    found = (
        select(VersionRow.document_key).where(VersionRow.content.contains(passage, autoescape=True)),
        select(RetrievalLogRow.id).where(RetrievalLogRow.query.contains(passage, autoescape=True)),
    )
    return any(tx.execute(query.limit(1)).first() is not None for query in found)


# ── what a deletion leaves, unless it is a purge ─────────────────────────────────────────────────


def note_purge(tx: Connection) -> None:
    """Other processes empty their memories when they see that there was one more (`jobs.follow_writes`)."""
    allocate(tx, "purge", 1)


def purge_names(tx: Connection, knowledge_base: int, tenant: str, doc_ids: Collection[str]) -> dict[str, int]:
    """Takes deleted documents out of what quotes, labels or names them, and out of what was learnt from all of a base.

    What is left of a document is a row under a digest of its id: a late event still finds its generation. Returns how
    many rows were changed or removed, by table.
    """
    gone = frozenset(doc_ids)
    changed = {
        "knowledge_retrieval_log": _forget_in_log(tx, knowledge_base, gone),
        "evaluation_cases": _forget_in_cases(tx, knowledge_base, gone),
        "evaluation_results": _forget_in_results(tx, knowledge_base, gone),
    }
    own_terms = TermRow.knowledge_base_id == knowledge_base  # learnt anew in the background
    changed["terms"] = tx.execute(delete(TermRow).where(own_terms)).rowcount
    own_summaries = GraphSummaryRow.knowledge_base_id == knowledge_base
    changed["graph_summaries"] = tx.execute(delete(GraphSummaryRow).where(own_summaries)).rowcount
    by_model = (GraphAliasRow.knowledge_base_id == knowledge_base) & GraphAliasRow.origin.startswith(BY_MODEL)
    changed["graph_aliases"] = tx.execute(delete(GraphAliasRow).where(by_model)).rowcount
    for table in _tables_by_id():
        own = table.c.knowledge_base_id == knowledge_base
        changed[table.name] = sum(
            tx.execute(delete(table).where(own, table.c.doc_id.in_(part))).rowcount for part in in_slices(sorted(gone))
        )
    changed["webhook_deliveries"] = webhooks.forget_failed(tx, tenant)
    changed["documents"] = document_heads.forget_ids(tx, knowledge_base, gone)
    changed["audit_log"] = audit.erase(tx, audit.naming(tx, tenant, gone, knowledge_base=knowledge_base))
    bases.note_learnt(tx, knowledge_base)
    bases.revise(tx, knowledge_base)
    return {name: count for name, count in changed.items() if count}


def tables_by_id() -> list[str]:
    """The tables that name documents by their ids: what is in them may outlive the document."""
    return [table.name for table in _tables_by_id()]


def _tables_by_id() -> list[Table]:
    return [
        table
        for table in Base.metadata.sorted_tables
        if {"doc_id", "knowledge_base_id"} <= set(table.c.keys()) and table is not DocumentRow.__table__
    ]


def _forget_in_log(tx: Connection, knowledge_base: int, gone: frozenset[str]) -> int:
    """Searches stay in the log without these documents among their results."""
    changed = 0
    columns = (RetrievalLogRow.id, RetrievalLogRow.results, RetrievalLogRow.rated_chunks)
    own = select(*columns).where(RetrievalLogRow.knowledge_base_id == knowledge_base)
    for row in tx.execute(own.order_by(RetrievalLogRow.id)).all():
        results, rated = _without(row.results, gone), _without(row.rated_chunks, gone)
        if results != row.results or rated != row.rated_chunks:
            at = RetrievalLogRow.id == row.id
            tx.execute(update(RetrievalLogRow).where(at).values(results=results, rated_chunks=rated))
            changed += 1
    return changed


def _without(stored: Any, gone: frozenset[str]) -> Any:
    """Chunk ids, alone or with a score, without those of these documents. What is escaped goes whole: it cannot be
    told apart."""
    if isinstance(stored, dict):
        return []
    if not isinstance(stored, list):
        return stored
    return [one for one in stored if _document_of(one[0] if isinstance(one, list) else one) not in gone]


def _document_of(chunk_id: str) -> str:
    """Of ``c_<base>_<document>_<position>``."""
    return chunk_id.split("_", 2)[-1].rpartition("_")[0]


def _sets(knowledge_base: int) -> Any:
    return select(EvaluationSetRow.id).where(EvaluationSetRow.knowledge_base_id == knowledge_base)


def _forget_in_cases(tx: Connection, knowledge_base: int, gone: frozenset[str]) -> int:
    """Labels quote the passage that should be found. A case without any label left goes."""
    changed = 0
    own = select(EvaluationCaseRow.id, EvaluationCaseRow.relevant)
    for row in tx.execute(own.where(EvaluationCaseRow.set_id.in_(_sets(knowledge_base)))).all():
        left = [label for label in row.relevant if label.get("doc_id") not in gone]
        if len(left) == len(row.relevant):
            continue
        at = EvaluationCaseRow.id == row.id
        # What was expected as an answer may quote it as well.
        shortened = update(EvaluationCaseRow).where(at).values(relevant=left, expected="")
        tx.execute(shortened if left else delete(EvaluationCaseRow).where(at))
        changed += 1
    return changed


def _forget_in_results(tx: Connection, knowledge_base: int, gone: frozenset[str]) -> int:
    runs = select(EvaluationRunRow.id).where(EvaluationRunRow.set_id.in_(_sets(knowledge_base)))
    own = select(EvaluationResultRow.run_id, EvaluationResultRow.case_id, EvaluationResultRow.chunk_ids)
    changed = 0
    for row in tx.execute(own.where(EvaluationResultRow.run_id.in_(runs))).all():
        if (left := _without(row.chunk_ids, gone)) != row.chunk_ids:
            at = (EvaluationResultRow.run_id == row.run_id) & (EvaluationResultRow.case_id == row.case_id)
            tx.execute(update(EvaluationResultRow).where(at).values(chunk_ids=left))
            changed += 1
    return changed


# ── everything of a user ─────────────────────────────────────────────────────────────────────────


def documents_of_user(tx: Connection, tenant: str, user_id: str) -> dict[int, list[str]]:
    """Base → the ids of its documents that name the user: as their user, or anywhere in their metadata or tags."""
    version = (VersionRow.document_key == DocumentRow.key) & (DocumentRow.status != "deleted")
    columns = (DocumentRow.knowledge_base_id, DocumentRow.doc_id, VersionRow.user_id, VersionRow.tags)
    query = select(*columns, VersionRow.extra.label("extra")).join(VersionRow, version)
    own = query.join(KnowledgeBaseRow, KnowledgeBaseRow.id == DocumentRow.knowledge_base_id)
    found: dict[int, dict[str, None]] = {}
    for row in tx.execute(own.where(KnowledgeBaseRow.tenant == tenant).order_by(DocumentRow.key)):
        if user_id == row.user_id or names(row.extra, user_id) or user_id in row.tags:
            found.setdefault(row.knowledge_base_id, {})[row.doc_id] = None
    return {base: list(ids) for base, ids in found.items()}


def names(stored: Any, name: str) -> bool:
    """Whether a value of some JSON is this name."""
    if isinstance(stored, dict):
        return any(names(value, name) for value in stored.values())
    if isinstance(stored, list):
        return any(names(value, name) for value in stored)
    return isinstance(stored, str) and stored == name


def forget_user(tx: Connection, tenant: str, user_id: str) -> dict[str, int]:
    """Removes what a tenant has of a user beside documents: searches made for them with their feedback, the evaluation
    cases and results made of these, models they registered; bases forget whose they are. Returns rows by table."""
    changed: dict[str, int] = {}
    note_purge(tx)
    doomed, questions = _searches_for(tx, tenant, user_id)
    own_sets = select(EvaluationSetRow.id).join(
        KnowledgeBaseRow, KnowledgeBaseRow.id == EvaluationSetRow.knowledge_base_id
    )
    sets = own_sets.where(KnowledgeBaseRow.tenant == tenant)
    cases = select(EvaluationCaseRow.id).where(EvaluationCaseRow.set_id.in_(sets))
    case_ids = [row.id for row in select_in(tx, cases, EvaluationCaseRow.log_id, doomed)]
    runs = select(EvaluationRunRow.id).where(EvaluationRunRow.set_id.in_(sets))
    results = EvaluationResultRow.run_id.in_(runs) & EvaluationResultRow.case_id.in_(case_ids)
    changed["evaluation_results"] = tx.execute(delete(EvaluationResultRow).where(results)).rowcount if case_ids else 0
    delete_in(tx, EvaluationCaseRow, EvaluationCaseRow.id, case_ids)
    delete_in(tx, RetrievalLogRow, RetrievalLogRow.id, doomed)
    changed |= {"evaluation_cases": len(case_ids), "knowledge_retrieval_log": len(doomed)}
    models = (UserModelRow.tenant == tenant) & (UserModelRow.user_id == user_id)
    changed["user_models"] = tx.execute(delete(UserModelRow).where(models)).rowcount
    changed["knowledge_bases"] = _disown(tx, tenant, user_id)
    changed["webhook_deliveries"] = webhooks.forget_failed(tx, tenant)
    changed["audit_log"] = audit.erase(tx, audit.naming(tx, tenant, [user_id, *questions]))
    return {name: count for name, count in changed.items() if count}


def remaining_of_user(tx: Connection, tenant: str, user_id: str) -> dict[str, int]:
    """What there still is of a user, by table; read after `forget_user`."""
    of_models = (UserModelRow.tenant == tenant) & (UserModelRow.user_id == user_id)
    models = int(tx.execute(select(func.count()).select_from(UserModelRow).where(of_models)).scalar_one())
    return {
        "documents": sum(map(len, documents_of_user(tx, tenant, user_id).values())),
        "knowledge_retrieval_log": len(_searches_for(tx, tenant, user_id)[0]),
        "user_models": models,
        "knowledge_bases": len(_owned(tx, tenant, user_id)),
        "audit_log": len(audit.naming(tx, tenant, [user_id])),
    }


def _searches_for(tx: Connection, tenant: str, user_id: str) -> tuple[list[int], set[str]]:
    """The searches whose parameters name the user, as a filter or a principal; and what was asked."""
    columns = (RetrievalLogRow.id, RetrievalLogRow.query, RetrievalLogRow.retrieval_params, RetrievalLogRow.principal)
    query = select(*columns).where(RetrievalLogRow.tenant == tenant).order_by(RetrievalLogRow.id)
    of_user = (user_id, f"user:{user_id}")
    found = [row for row in tx.execute(query) if names(row.retrieval_params, user_id) or row.principal in of_user]
    return [row.id for row in found], {row.query for row in found}


def _owned(tx: Connection, tenant: str, user_id: str) -> list[Any]:
    return [base for base in bases.every(tx, tenant=tenant) if base.config.get("user_id") == user_id]


def _disown(tx: Connection, tenant: str, user_id: str) -> int:
    owned = _owned(tx, tenant, user_id)
    for base in owned:
        left = {name: value for name, value in base.config.items() if name != "user_id"}
        bases.change_config(tx, base.id, left, tenant=tenant)
    return len(owned)


__all__ = [
    "Footprint",
    "count_rows",
    "documents_of_user",
    "footprint",
    "forget_user",
    "has_passage",
    "purge_names",
    "remaining_of_user",
    "tables_by_id",
    "texts",
]  # fmt: skip
