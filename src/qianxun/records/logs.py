"""The log of retrievals: query, results, and how long each step took."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, String, case, cast, delete, func, literal, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.governance.access import Principal
from qianxun.core.limits import CHUNK_ID_LIMIT, FEEDBACK_CHUNKS_LIMIT, FEEDBACK_COMMENT_LIMIT, QUERY_LIMIT
from qianxun.core.log_types import RATINGS, Feedback, LogCount, LogEntry, LogFilter, zero_flag
from qianxun.core.types import Degraded, StepTime
from qianxun.core.unicode import is_storable, storable
from qianxun.records.bases import is_key, require, tenants
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import insert_rows
from qianxun.records.governance import webhooks
from qianxun.records.schema import Counter, RetrievalLogRow

SHORT_LIMITS = {"trace_id": 64, "mode": 16, "tier": 16}
PRINCIPAL_LENGTH = 128
ESCAPED = "escaped"
EVERY_SEARCH = LogFilter()
_DEGRADED = cast(RetrievalLogRow.degraded, String) != "[]"  # as every database writes an empty list
COLUMNS = (
    "id", "tenant", "knowledge_base_id", "trace_id", "query", "retrieval_params", "mode", "tier", "chunk_count", "zero",
    "time_cost_ms", "from_cache", "generation", "digest", "steps", "degraded", "results", "created_at", "updated_at",
    "principal",
)  # fmt: skip


def append(tx: Connection, entries: Sequence[LogEntry]) -> int:
    """Writes entries in order. Returns how many; those whose base has been removed are dropped."""
    owners = tenants(tx, {entry.knowledge_base_id for entry in entries})
    stored = [entry for entry in entries if owners.get(entry.knowledge_base_id) == entry.tenant]
    if not stored:
        return 0
    now = datetime.now(UTC)
    numbers = allocate(tx, "log", len(stored))
    insert_rows(
        tx, RetrievalLogRow, COLUMNS, [_row(number, entry, now) for number, entry in zip(numbers, stored, strict=True)]
    )
    _notify_zero_results(tx, list(zip(numbers, stored, strict=True)))
    return len(stored)


def restore(tx: Connection, entries: Sequence[LogEntry]) -> None:
    """Writes entries of another base's log with their feedback; nobody is notified of what happened long ago."""
    now = datetime.now(UTC)
    numbers = list(allocate(tx, "log", len(entries)))
    insert_rows(
        tx, RetrievalLogRow, COLUMNS, [_row(number, entry, now) for number, entry in zip(numbers, entries, strict=True)]
    )
    for number, entry in zip(numbers, entries, strict=True):
        if (feedback := entry.feedback) is not None:
            rated = {"rating": feedback.rating, "rated_chunks": _storable(list(feedback.chunk_ids))}
            values = {**rated, "comment": _shown(feedback.comment), "rated_at": entry.created_at}
            tx.execute(update(RetrievalLogRow).where(RetrievalLogRow.id == number).values(**values))


def _notify_zero_results(tx: Connection, numbered: Sequence[tuple[int, LogEntry]]) -> None:
    found: dict[int, list[dict[str, Any]]] = {}
    for number, entry in numbered:
        if entry.zero:
            data = {"log_id": number, "trace_id": entry.trace_id, "query": entry.query, "mode": entry.mode}
            found.setdefault(entry.knowledge_base_id, []).append(data)
    for knowledge_base, happened in found.items():
        webhooks.enqueue(tx, knowledge_base, "search.zero_results", happened)


def get(tx: Connection, log_id: int, *, tenant: str, principal: Principal | None = None) -> LogEntry:
    own = select(RetrievalLogRow.__table__).filter_by(id=log_id, tenant=tenant).where(*_own(tx, principal))
    row = tx.execute(own).first() if is_key(log_id) else None
    if row is None:
        raise NotFound(f"没有编号为 {log_id} 的检索记录", hint="用 qianxun logs 查看；太旧的记录已被清理")
    return _entry(row)


def listed(
    tx: Connection,
    chosen: LogFilter = EVERY_SEARCH,
    *,
    tenant: str,
    limit: int = 50,
    before: int | None = None,
    principal: Principal | None = None,
) -> list[LogEntry]:
    """The newest first. ``before`` is the id at which the last page ended. NotFound for a base that is not theirs."""
    query = select(RetrievalLogRow.__table__).where(*_conditions(tx, chosen, tenant), *_own(tx, principal))
    if before is not None and is_key(before):
        query = query.where(RetrievalLogRow.id < before)
    return [_entry(row) for row in tx.execute(query.order_by(RetrievalLogRow.id.desc()).limit(max(limit, 0)))]


def counts(
    tx: Connection,
    chosen: LogFilter,
    starts: Sequence[datetime],
    slow_ms: float,
    *,
    tenant: str,
    principal: Principal | None = None,
) -> list[LogCount]:
    """What was searched from each of these moments to the next; the last stretch ends with ``chosen.until``.

    The stretches are told apart by CASE: every database has its own functions of time, and they know no odd stretch.
    """
    within = replace(chosen, since=starts[0])
    later = [(RetrievalLogRow.created_at < start, number) for number, start in enumerate(starts[1:])]
    number = case(*later, else_=len(starts) - 1) if later else literal(0)
    flags = {
        "zero": RetrievalLogRow.zero.is_(True),
        "slow": RetrievalLogRow.time_cost_ms > slow_ms,
        "degraded": _DEGRADED,
    }
    columns = [case((flag, 1), else_=0).label(name) for name, flag in flags.items()]
    own = select(number.label("number"), RetrievalLogRow.time_cost_ms.label("ms"), *columns)
    rows = own.where(*_conditions(tx, within, tenant), *_own(tx, principal)).subquery()
    sums = [func.sum(rows.c[name]).label(name) for name in flags]
    spent = (func.avg(rows.c.ms).label("mean"), func.max(rows.c.ms).label("worst"))
    grouped = select(rows.c.number, func.count().label("searches"), *sums, *spent).group_by(rows.c.number)
    found = {row.number: row for row in tx.execute(grouped)}
    return [_count(start, found.get(number)) for number, start in enumerate(starts)]


def _count(start: datetime, row: Row[Any] | None) -> LogCount:
    if row is None:
        return LogCount(start)
    flags = (int(row.zero), int(row.slow), int(row.degraded))
    return LogCount(start, int(row.searches), *flags, float(row.mean), float(row.worst))


def _conditions(tx: Connection, chosen: LogFilter, tenant: str) -> list[Any]:
    """Raises NotFound for a base that is not theirs."""
    row, found = RetrievalLogRow, [RetrievalLogRow.tenant == tenant]
    if chosen.knowledge_base is not None:
        require(tx, chosen.knowledge_base, tenant=tenant)
        found.append(row.knowledge_base_id == chosen.knowledge_base)
    if chosen.zero:
        found.append(row.zero.is_(True))
    if chosen.slow_ms is not None:
        found.append(row.time_cost_ms > chosen.slow_ms)
    if chosen.degraded:
        found.append(_DEGRADED)
    if chosen.rating is not None:
        found.append(row.rating.is_not(None) if chosen.rating == "any" else row.rating == chosen.rating)
    if chosen.trace_id is not None:
        found.append(row.trace_id == _shown(chosen.trace_id, SHORT_LIMITS["trace_id"]))
    if chosen.since is not None:
        found.append(row.created_at >= chosen.since)
    if chosen.until is not None:
        found.append(row.created_at < chosen.until)
    return found


def _own(tx: Connection, principal: Principal | None) -> list[Any]:
    """What a principal asked itself, in bases whose documents not everybody sees; in others, all."""
    if principal is None:
        return []
    labelled = tx.execute(select(Counter.name).where(Counter.name.like("access.%"))).scalars()
    bases = [int(name.partition(".")[2]) for name in labelled]
    mine = RetrievalLogRow.principal == _shown(principal.name, PRINCIPAL_LENGTH)
    return [mine | RetrievalLogRow.knowledge_base_id.not_in(bases)] if bases else []


def rate(
    tx: Connection, log_id: int, feedback: Feedback, *, tenant: str, principal: Principal | None = None
) -> LogEntry:
    """Keeps what a person thinks of an answer; it replaces an earlier rating."""
    check_feedback(feedback)
    get(tx, log_id, tenant=tenant, principal=principal)
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "rating": feedback.rating,
        "rated_chunks": _storable(list(feedback.chunk_ids)),
        "comment": _shown(feedback.comment),
        "rated_at": now,
        "updated_at": now,
    }
    own = (RetrievalLogRow.id == log_id) & (RetrievalLogRow.tenant == tenant)
    tx.execute(update(RetrievalLogRow).where(own).values(**values))
    rated = get(tx, log_id, tenant=tenant)
    data = {"log_id": log_id, "query": rated.query, "rating": feedback.rating, "comment": _shown(feedback.comment)}
    webhooks.enqueue(tx, rated.knowledge_base_id, "search.feedback", [{**data, "chunk_ids": list(feedback.chunk_ids)}])
    return rated


def check_feedback(feedback: Feedback) -> None:
    """Raises BadInput for what cannot be stored."""
    if feedback.rating not in RATINGS:
        raise BadInput(f"评价 {str(feedback.rating)[:40]!r} 不对", hint=f"应为 {' 或 '.join(RATINGS)}")
    if len(feedback.comment) > FEEDBACK_COMMENT_LIMIT:
        raise BadInput(f"评语不得超过 {FEEDBACK_COMMENT_LIMIT} 个字符", hint="缩短后再提交")
    if len(feedback.chunk_ids) > FEEDBACK_CHUNKS_LIMIT or any(len(one) > CHUNK_ID_LIMIT for one in feedback.chunk_ids):
        raise BadInput(f"评价最多涉及 {FEEDBACK_CHUNKS_LIMIT} 个片段", hint="chunk_ids 中写检索结果里的 chunk_id")


def prune(tx: Connection, keep_days: float, keep_rows: int, *, now: datetime | None = None) -> int:
    """Removes what is older, and beyond so many of the newest. Returns how many."""
    oldest = (now or datetime.now(UTC)) - timedelta(days=keep_days)
    removed = tx.execute(delete(RetrievalLogRow).where(RetrievalLogRow.created_at < oldest)).rowcount
    first, last = tx.execute(select(func.min(RetrievalLogRow.id), func.max(RetrievalLogRow.id))).one()
    if first is None or last - first < keep_rows:  # numbers are never reused: there cannot be more rows than that
        return removed
    total = tx.execute(select(func.count()).select_from(RetrievalLogRow)).scalar_one()
    if total > keep_rows:
        edge = tx.execute(
            select(RetrievalLogRow.id).order_by(RetrievalLogRow.id).offset(total - keep_rows - 1).limit(1)
        ).scalar_one()
        removed += tx.execute(delete(RetrievalLogRow).where(RetrievalLogRow.id <= edge)).rowcount
    return removed


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _row(number: int, entry: LogEntry, now: datetime) -> tuple[Any, ...]:
    shown = _shown(entry.query, QUERY_LIMIT)
    params = dict(entry.params) if shown == entry.query else {**entry.params, "query": entry.query}
    short = {name: _shown(getattr(entry, name), limit) for name, limit in SHORT_LIMITS.items()}
    return (
        number, entry.tenant, entry.knowledge_base_id, short["trace_id"], shown, _storable(params), short["mode"],
        short["tier"], len(entry.results), entry.zero, entry.time_cost_ms, entry.from_cache,
        _shown(entry.generation), entry.digest,
        _storable([{"name": step.name, "seconds": step.seconds, "count": step.count} for step in entry.steps]),
        _storable([{"part": missing.part, "reason": missing.reason} for missing in entry.degraded]),
        _storable([list(result) for result in entry.results]), entry.created_at, now,
        None if entry.principal is None else _shown(entry.principal, PRINCIPAL_LENGTH),
    )  # fmt: skip


def _entry(row: Row[Any]) -> LogEntry:
    params = dict(_restored(row.retrieval_params))
    results = tuple((chunk_id, score) for chunk_id, score in _restored(row.results))
    return LogEntry(
        id=row.id,
        tenant=row.tenant,
        knowledge_base_id=row.knowledge_base_id,
        trace_id=row.trace_id,
        query=params.pop("query", row.query),
        params=params,
        mode=row.mode,
        tier=row.tier,
        time_cost_ms=row.time_cost_ms,
        from_cache=row.from_cache,
        generation=row.generation,
        digest=row.digest,
        steps=tuple(StepTime(step["name"], step["seconds"], step["count"]) for step in _restored(row.steps)),
        degraded=tuple(Degraded(one["part"], one["reason"]) for one in _restored(row.degraded)),
        results=results,
        created_at=row.created_at,
        feedback=_feedback(row) if row.rating is not None else None,
        is_zero=zero_flag(row.zero, results),
        principal=row.principal,
    )


def _feedback(row: Row[Any]) -> Feedback:
    return Feedback(row.rating, tuple(_restored(row.rated_chunks or [])), row.comment or "")


def _shown(text: str, limit: int | None = None) -> str:
    """As every database can store it."""
    return storable(text)[:limit]


def _storable(value: Any) -> Any:
    """The value, or (where some database would refuse the text in it) the same escaped: one bad query must not keep
    the whole batch out of the log."""
    if _is_plain(value) and not _is_escaped(value):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return {ESCAPED: text.encode("unicode_escape").decode("ascii")}


def _is_plain(value: Any) -> bool:
    """Whether every text in it is storable and every number one that JSON has a word for."""
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_plain(name) and _is_plain(item) for name, item in value.items())
    return all(map(_is_plain, value)) if isinstance(value, (list, tuple)) else True


def _restored(value: Any) -> Any:
    return json.loads(value[ESCAPED].encode("ascii").decode("unicode_escape")) if _is_escaped(value) else value


def _is_escaped(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {ESCAPED}
