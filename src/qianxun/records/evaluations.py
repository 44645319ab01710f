"""Evaluation sets, their cases, and runs over them with a result for every case.

A set belongs to a base, and the base to a tenant: a set, case or run of another tenant is as unknown as one that never
existed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from qianxun.core.codec.plain import plain, read
from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.core.evaluation_types import (
    ACTIVE,
    Case,
    CaseResult,
    EvaluationRun,
    EvaluationSet,
    Relevant,
)
from qianxun.core.limits import (
    CASES_LIMIT,
    DOC_ID_LIMIT,
    EXPECTED_LIMIT,
    NAME_LIMIT,
    PASSAGE_LIMIT,
    QUERY_LIMIT,
    RELEVANT_LIMIT,
    RUNS_LIMIT,
)
from qianxun.core.unicode import storable
from qianxun.records.bases import is_key, remove_evaluation_sets, require
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import insert_rows, select_in
from qianxun.records.schema import (
    EvaluationCaseRow,
    EvaluationResultRow,
    EvaluationRunRow,
    EvaluationSetRow,
    KnowledgeBaseRow,
)

SILENT = timedelta(seconds=120)  # a run that has not reported for so long was interrupted
SEE_SETS = "用 qianxun evalset list 或 GET /v1/knowledge-bases/{id}/evaluation-sets 查看"

# ── sets ─────────────────────────────────────────────────────────────────────────────────────────


def create_set(tx: Connection, knowledge_base: int, name: str, *, tenant: str) -> EvaluationSet:
    """An empty set. Raises AlreadyThere for a name that the base has, BadInput for what cannot be one."""
    require(tx, knowledge_base, tenant=tenant)
    name = checked_name(name)
    if _named(tx, knowledge_base, name) is not None:
        raise AlreadyThere(f"评测集“{name}”已存在", hint="换一个名称，或直接使用它")
    (number,) = allocate(tx, "evaluation_set", 1)
    values = {"id": number, "knowledge_base_id": knowledge_base, "name": name, "created_at": datetime.now(UTC)}
    tx.execute(insert(EvaluationSetRow).values(**values))
    return get_set(tx, number, tenant=tenant)


def checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise BadInput(f"评测集名称须为 1–{NAME_LIMIT} 个可见字符", hint="换一个名称再试")
    return name


def set_named(tx: Connection, knowledge_base: int, name: str, *, tenant: str) -> EvaluationSet:
    """The base's set of this name, created where there is none."""
    require(tx, knowledge_base, tenant=tenant)
    found = _named(tx, knowledge_base, checked_name(name))
    return get_set(tx, found, tenant=tenant) if found else create_set(tx, knowledge_base, name, tenant=tenant)


def _named(tx: Connection, knowledge_base: int, name: str) -> int | None:
    own = select(EvaluationSetRow.id).filter_by(knowledge_base_id=knowledge_base, name=name)
    found: int | None = tx.execute(own).scalar()
    return found


def get_set(tx: Connection, set_id: int, *, tenant: str) -> EvaluationSet:
    row = tx.execute(_sets(tenant).where(EvaluationSetRow.id == set_id)).first() if is_key(set_id) else None
    if row is None:
        raise NotFound(f"没有编号为 {set_id} 的评测集", hint=SEE_SETS)
    return _set(row)


def sets(tx: Connection, *, tenant: str, knowledge_base: int | None = None) -> list[EvaluationSet]:
    """Of one base, or of all of the tenant's, by id."""
    query = _sets(tenant)
    if knowledge_base is not None:
        require(tx, knowledge_base, tenant=tenant)
        query = query.where(EvaluationSetRow.knowledge_base_id == knowledge_base)
    return [_set(row) for row in tx.execute(query.order_by(EvaluationSetRow.id))]


def remove_set(tx: Connection, set_id: int, *, tenant: str) -> None:
    """With its cases and runs."""
    get_set(tx, set_id, tenant=tenant)
    remove_evaluation_sets(tx, EvaluationSetRow.id == set_id)


def _sets(tenant: str) -> Any:
    count = select(func.count()).where(EvaluationCaseRow.set_id == EvaluationSetRow.id).scalar_subquery()
    joined = EvaluationSetRow.__table__.join(
        KnowledgeBaseRow.__table__, KnowledgeBaseRow.id == EvaluationSetRow.knowledge_base_id
    )
    columns = (EvaluationSetRow.id, EvaluationSetRow.knowledge_base_id, EvaluationSetRow.name)
    query = select(*columns, EvaluationSetRow.created_at, count.label("cases")).select_from(joined)
    return query.where(KnowledgeBaseRow.tenant == tenant)


def _set(row: Row[Any]) -> EvaluationSet:
    return EvaluationSet(row.id, row.knowledge_base_id, row.name, row.cases, row.created_at)


# ── cases ────────────────────────────────────────────────────────────────────────────────────────


def save_cases(tx: Connection, set_id: int, new: Sequence[Case], *, tenant: str) -> list[Case]:
    """Stores cases; one whose question the set has already takes the other's place under its id.

    Raises BadInput, and stores nothing, for one that cannot be stored or where the set would have too many.
    """
    found = get_set(tx, set_id, tenant=tenant)
    checked = list({question_digest(one.question): one for one in map(check_case, new)}.items())
    known = select(EvaluationCaseRow.id, EvaluationCaseRow.question_digest).where(EvaluationCaseRow.set_id == set_id)
    column = EvaluationCaseRow.question_digest
    there = {row.question_digest: row.id for row in select_in(tx, known, column, [digest for digest, _ in checked])}
    added = [(digest, case) for digest, case in checked if digest not in there]
    if found.cases + len(added) > CASES_LIMIT:
        raise BadInput(f"一个评测集至多 {CASES_LIMIT} 个问题", hint="分成几个评测集")
    now = datetime.now(UTC)
    numbers = {digest: number for (digest, _), number in zip(added, _allocated(tx, len(added)), strict=True)}
    names = ("id", "set_id", "question", "question_digest", "relevant", "expected", "origin", "log_id", "created_at")
    rows = [
        (numbers[digest], set_id, case.question, digest, plain(case.relevant), case.expected, case.origin, case.log_id)
        for digest, case in added
    ]
    insert_rows(tx, EvaluationCaseRow, (*names, "updated_at"), [(*row, now, now) for row in rows])
    for digest, case in checked:
        if digest in there:
            _replace_case(tx, there[digest], case, now)
    return [_with_id(case, there.get(digest) or numbers[digest]) for digest, case in checked]


def _allocated(tx: Connection, count: int) -> Sequence[int]:
    return allocate(tx, "evaluation_case", count) if count else ()


def _replace_case(tx: Connection, case_id: int, case: Case, now: datetime) -> None:
    changed = {"relevant": plain(case.relevant), "expected": case.expected, "origin": case.origin}
    own = update(EvaluationCaseRow).where(EvaluationCaseRow.id == case_id)
    tx.execute(own.values(**changed, question=case.question, log_id=case.log_id, updated_at=now))


def check_case(case: Case) -> Case:
    """The case as it is stored. Raises BadInput for what cannot be one."""
    question = storable(case.question).strip()
    if not question or len(question) > QUERY_LIMIT:
        raise BadInput(f"评测的问题须为 1–{QUERY_LIMIT} 个字符", hint="写上问题，或缩短它")
    if not any(label.grade > 0 for label in case.relevant):
        raise BadInput(f"问题“{question[:40]}”没有标注应当找到什么", hint="至少选一段正确的内容，或一个文档")
    if len(case.relevant) > RELEVANT_LIMIT:
        raise BadInput(f"一个问题至多标注 {RELEVANT_LIMIT} 处", hint="只留最要紧的")
    if len(case.expected) > EXPECTED_LIMIT:
        raise BadInput(f"期望的回答不得超过 {EXPECTED_LIMIT} 个字符", hint="缩短后再试")
    return Case(
        question=question,
        relevant=tuple(dict.fromkeys(map(_checked_relevant, case.relevant))),
        expected=storable(case.expected),
        origin=case.origin,
        log_id=case.log_id,
        id=case.id,
    )


def _checked_relevant(one: Relevant) -> Relevant:
    doc_id = storable(one.doc_id)
    if not doc_id or len(doc_id) > DOC_ID_LIMIT:
        raise BadInput(f"标注的文档编号须为 1–{DOC_ID_LIMIT} 个字符", hint="写上检索结果里的 doc_id")
    if not -100 <= one.grade <= 100:
        raise BadInput(f"标注的分值为 {one.grade}", hint="写 -100 到 100 之间的整数，大于 0 为相关")
    return Relevant(doc_id, storable(one.text)[:PASSAGE_LIMIT], one.grade)


def question_digest(question: str) -> str:
    return blake2b(question.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def case_digest(case: Case) -> str:
    """Of what a run measures: question and labels."""
    return blake2b(repr((case.question, case.relevant)).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def cases(tx: Connection, set_id: int, *, tenant: str, limit: int | None = None, after: int = 0) -> list[Case]:
    """By id; ``after`` is the id at which the last page ended."""
    get_set(tx, set_id, tenant=tenant)
    own = select(EvaluationCaseRow.__table__).where(EvaluationCaseRow.set_id == set_id)
    own = own.where(EvaluationCaseRow.id > after).order_by(EvaluationCaseRow.id)
    return [_case(row) for row in tx.execute(own.limit(limit))]


def get_case(tx: Connection, set_id: int, case_id: int, *, tenant: str) -> Case:
    get_set(tx, set_id, tenant=tenant)
    own = select(EvaluationCaseRow.__table__).filter_by(set_id=set_id, id=case_id)
    row = tx.execute(own).first() if is_key(case_id) else None
    if row is None:
        raise NotFound(f"评测集里没有编号为 {case_id} 的问题", hint="用 qianxun evalset show 查看")
    return _case(row)


def remove_case(tx: Connection, set_id: int, case_id: int, *, tenant: str) -> None:
    get_case(tx, set_id, case_id, tenant=tenant)
    tx.execute(delete(EvaluationCaseRow).where(EvaluationCaseRow.id == case_id))


def _case(row: Row[Any]) -> Case:
    relevant = tuple(read(Relevant, label) for label in row.relevant)
    return Case(row.question, relevant, row.expected, row.origin, row.log_id, row.id)


def _with_id(case: Case, number: int) -> Case:
    return Case(case.question, case.relevant, case.expected, case.origin, case.log_id, number)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


def start_run(
    tx: Connection,
    set_id: int,
    *,
    tenant: str,
    name: str,
    mode: str,
    choices: Mapping[str, Any],
    total: int,
    setup: Mapping[str, str],
) -> EvaluationRun:
    get_set(tx, set_id, tenant=tenant)
    count = tx.execute(select(func.count()).where(EvaluationRunRow.set_id == set_id)).scalar_one()
    if count >= RUNS_LIMIT:
        raise BadInput(f"一个评测集至多保存 {RUNS_LIMIT} 次运行", hint="先删去旧的")
    (number,) = allocate(tx, "evaluation_run", 1)
    now = datetime.now(UTC)
    values = {
        "id": number,
        "set_id": set_id,
        "name": storable(name)[:NAME_LIMIT],
        "mode": mode,
        "choices": dict(choices),
        "status": "running",
        "done": 0,
        "total": total,
        "metrics": {},
        "p50_ms": 0.0,
        "p95_ms": 0.0,
        "setup": dict(setup),
        "notes": [],
        "reason": "",
        "created_at": now,
        "updated_at": now,
    }
    tx.execute(insert(EvaluationRunRow).values(**values))
    return get_run(tx, number, tenant=tenant)


def report_progress(tx: Connection, run_id: int, results: Sequence[CaseResult], **changes: Any) -> bool:
    """Stores results and what else is known by now. Returns False where the run is to end: it was cancelled or
    removed."""
    own = EvaluationRunRow.id == run_id
    status = tx.execute(select(EvaluationRunRow.status).where(own)).scalar()
    if status is None:
        return False
    names = ("run_id", "case_id", "question", "digest", "metrics", "milliseconds", "first_rank", "chunk_ids")
    rows = [
        (
            run_id,
            result.case_id,
            result.question,
            result.digest,
            dict(result.metrics),
            result.milliseconds,
            result.first_rank,
        )
        for result in results
    ]
    found = [list(map(storable, result.chunk_ids)) for result in results]
    insert_rows(tx, EvaluationResultRow, names, [(*row, ids) for row, ids in zip(rows, found, strict=True)])
    tx.execute(update(EvaluationRunRow).where(own).values(**changes, updated_at=datetime.now(UTC)))
    return bool(status == "running")


def cancel_run(tx: Connection, run_id: int, *, tenant: str) -> EvaluationRun:
    """The run ends with its next report, wherever it is. One that has ended stays as it is."""
    get_run(tx, run_id, tenant=tenant)
    own = (EvaluationRunRow.id == run_id) & EvaluationRunRow.status.in_(ACTIVE)
    tx.execute(update(EvaluationRunRow).where(own).values(status="cancelling"))
    return get_run(tx, run_id, tenant=tenant)


def remove_run(tx: Connection, run_id: int, *, tenant: str) -> None:
    """One that is running ends with its next report."""
    get_run(tx, run_id, tenant=tenant)
    tx.execute(delete(EvaluationResultRow).where(EvaluationResultRow.run_id == run_id))
    tx.execute(delete(EvaluationRunRow).where(EvaluationRunRow.id == run_id))


def get_run(tx: Connection, run_id: int, *, tenant: str) -> EvaluationRun:
    row = tx.execute(_runs(tenant).where(EvaluationRunRow.id == run_id)).first() if is_key(run_id) else None
    if row is None:
        raise NotFound(f"没有编号为 {run_id} 的评测运行", hint="用 qianxun evalset runs 查看")
    return _run(row)


def runs(tx: Connection, set_id: int, *, tenant: str, limit: int = RUNS_LIMIT) -> list[EvaluationRun]:
    """The newest first."""
    get_set(tx, set_id, tenant=tenant)
    own = _runs(tenant).where(EvaluationRunRow.set_id == set_id)
    return [_run(row) for row in tx.execute(own.order_by(EvaluationRunRow.id.desc()).limit(limit))]


def results(tx: Connection, run_id: int, *, tenant: str) -> list[CaseResult]:
    """By case."""
    get_run(tx, run_id, tenant=tenant)
    own = select(EvaluationResultRow.__table__).where(EvaluationResultRow.run_id == run_id)
    return [_result(row) for row in tx.execute(own.order_by(EvaluationResultRow.case_id))]


def _runs(tenant: str) -> Any:
    joined = EvaluationRunRow.__table__.join(
        EvaluationSetRow.__table__, EvaluationSetRow.id == EvaluationRunRow.set_id
    ).join(KnowledgeBaseRow.__table__, KnowledgeBaseRow.id == EvaluationSetRow.knowledge_base_id)
    query = select(EvaluationRunRow.__table__, EvaluationSetRow.knowledge_base_id).select_from(joined)
    return query.where(KnowledgeBaseRow.tenant == tenant)


def _run(row: Row[Any], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> EvaluationRun:
    is_silent = row.status in ACTIVE and now() - row.updated_at > SILENT
    return EvaluationRun(
        id=row.id,
        set_id=row.set_id,
        knowledge_base_id=row.knowledge_base_id,
        name=row.name,
        mode=row.mode,
        choices=row.choices,
        status="interrupted" if is_silent else row.status,
        done=row.done,
        total=row.total,
        metrics=row.metrics,
        p50_ms=row.p50_ms,
        p95_ms=row.p95_ms,
        setup=row.setup,
        notes=tuple(row.notes),
        reason=row.reason,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _result(row: Row[Any]) -> CaseResult:
    found = (row.milliseconds, row.first_rank, tuple(row.chunk_ids), row.digest)
    return CaseResult(row.case_id, row.question, row.metrics, *found)
