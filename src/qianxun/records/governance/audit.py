"""The audit log: who changed what, written in the transaction of the change.

`append` is the one function that others call. An entry's hash covers the hash of the one before, so that none can be
changed, left out or put in between without breaking the chain (Haber & Stornetta 1991); of what the entry says it
covers a salted digest, so that names can be erased and the chain still be checked.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Row, bindparam, select, update

from qianxun.core.governance.actor import current_actor
from qianxun.core.governance.audit import AuditEntry, AuditVerdict
from qianxun.core.unicode import storable
from qianxun.records.database.counters import allocate, last
from qianxun.records.database.statements import Compiled, compiled, insert_rows
from qianxun.records.schema import AuditRow, KnowledgeBaseRow

FIRST: Final = "0" * 64  # what the first entry has for the hash of the one before
WHO_LIMIT: Final = 255
SUBJECT_LIMIT: Final = 1_000  # characters
PROBLEMS: Final = 20  # that a verdict names
ELSEWHERE: Final = "链在别的租户的记录处断了：请管理员在服务所在的机器上运行 qianxun audit verify"
BATCH: Final = 1_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ROW: Final = (
    "sequence", "created_at", "tenant", "knowledge_base_id", "action", "digest", "previous", "hash", "who", "subject",
    "details", "salt",
)  # fmt: skip


def append(
    tx: Connection,
    who: str,
    action: str,
    subject: str,
    *,
    tenant: str | None = None,
    knowledge_base: int = 0,
    details: Mapping[str, Any] | None = None,
) -> int:
    """Notes a change; returns the number of the entry, which is lost if the transaction is undone.

    ``who``: "" for whoever the context says (`core.governance.actor`). Without a ``tenant`` it is that of the base.
    ``details`` are what JSON can say, and never a text of a document. Entries are in the order of commits: the counter
    stays locked until the transaction ends.
    """
    (sequence,) = allocate(tx, "audit", 1)
    now = datetime.now(UTC)
    who, subject = storable(who or current_actor())[:WHO_LIMIT], storable(subject)[:SUBJECT_LIMIT]
    ((previous, owner),) = _before(tx.dialect).rows(tx, {"sequence": sequence - 1, "base": knowledge_base})
    previous, tenant = previous or FIRST, str(owner or "") if tenant is None else tenant
    salt, written = secrets.token_hex(16), storable(_canonical(details or {}))
    digest = _digest(salt, who, subject, written)
    hashed = _hash(previous, sequence, now, tenant, knowledge_base, action, digest)
    row = (sequence, now, tenant, knowledge_base, action, digest, previous, hashed, who, subject, written, salt)
    insert_rows(tx, AuditRow, ROW, [row])
    return sequence


def entries(
    tx: Connection,
    *,
    tenant: str | None = None,
    knowledge_base: int | None = None,
    action: str = "",
    limit: int = 50,
    before: int | None = None,
) -> list[AuditEntry]:
    """The newest first; ``before`` is the number at which the last page ended. ``action`` may be the first part of one:
    "document". Without a tenant those of all: for operators, never for a request."""
    query = select(AuditRow.__table__).order_by(AuditRow.sequence.desc()).limit(max(limit, 0))
    if tenant is not None:
        query = query.where(AuditRow.tenant == tenant)
    if knowledge_base is not None:
        query = query.where(AuditRow.knowledge_base_id == knowledge_base)
    if action:
        query = query.where((AuditRow.action == action) | AuditRow.action.startswith(f"{action}.", autoescape=True))
    if before is not None:
        query = query.where(AuditRow.sequence < before)
    return [_entry(row) for row in tx.execute(query)]


def verify(tx: Connection, noted: str = "", *, tenant: str | None = None) -> AuditVerdict:
    """Reads the whole log of all tenants, which is one chain, and works every hash out again. ``noted`` is a head of an
    earlier day: a log that was made anew, with hashes of its own, does not have it. For one ``tenant`` its own entries
    are counted and named, its head is the last of them, and of others only that the chain is broken there."""
    count = erased = 0
    head, own_head, problems, is_noted = FIRST, "", list[str](), not noted
    expected = 1
    for row in _rows(tx):
        is_own = tenant is None or row.tenant == tenant
        if row.sequence != expected:
            problems.append(f"缺少第 {expected}–{row.sequence - 1} 条")
        wrong = list(_wrong(row, head))
        problems += wrong if is_own else [ELSEWHERE] if wrong and ELSEWHERE not in problems else []
        count, erased = count + is_own, erased + (is_own and row.salt is None)
        expected, head, own_head = row.sequence + 1, row.hash, row.hash if is_own else own_head
        is_noted = is_noted or head == noted
    given_out = last(tx, "audit")
    if given_out >= expected:
        problems.append(f"缺少第 {expected}–{given_out} 条：结尾被截去")
    if not is_noted:
        problems.append("记下的 head 不在链上：记录被截短，或整个重写过")
    return AuditVerdict(count, erased, own_head, tuple(problems[:PROBLEMS]))


def _wrong(row: Row[Any], before: str) -> Iterator[str]:
    """What is wrong with an entry that should follow one with this hash."""
    if row.previous != before:
        yield f"第 {row.sequence} 条与它前一条接不上"
    if row.salt is not None and row.digest != _digest(row.salt, row.who, row.subject, row.details):
        yield f"第 {row.sequence} 条的内容被改过"
    if row.hash != _hash(
        row.previous, row.sequence, row.created_at, row.tenant, row.knowledge_base_id, row.action, row.digest
    ):
        yield f"第 {row.sequence} 条与它的哈希不符"


def erase(tx: Connection, sequences: Collection[int]) -> int:
    """Takes the names out of these entries: what is left is that, when and in which base something was done. The
    digests stay, and without their salt no name can be tried against them. Returns how many entries."""
    gone = {"who": None, "subject": None, "details": None, "salt": None}
    return sum(
        tx.execute(
            update(AuditRow).where(AuditRow.sequence == sequence, AuditRow.salt.is_not(None)).values(**gone)
        ).rowcount
        for sequence in sequences
    )


def naming(tx: Connection, tenant: str, names: Collection[str], *, knowledge_base: int | None = None) -> list[int]:
    """The entries of a tenant that name one of these documents or users, in any of their parts."""
    wanted = frozenset(names)
    query = select(AuditRow.__table__).where(AuditRow.tenant == tenant, AuditRow.salt.is_not(None))
    if knowledge_base is not None:
        query = query.where(AuditRow.knowledge_base_id == knowledge_base)
    return [row.sequence for row in tx.execute(query) if wanted.intersection(_names(row))]


def _names(row: Row[Any]) -> Iterator[str]:
    yield from (row.who, row.subject)
    pending: list[Any] = [json.loads(row.details)]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            pending += value


def _rows(tx: Connection) -> Iterator[Row[Any]]:
    """In order, a batch at a time: a log only grows."""
    after = -1
    while True:
        query = select(AuditRow.__table__).where(AuditRow.sequence > after).order_by(AuditRow.sequence).limit(BATCH)
        batch = tx.execute(query).all()
        yield from batch
        if len(batch) < BATCH:
            return
        after = batch[-1].sequence


@lru_cache
def _before(dialect: Dialect) -> Compiled:
    """The hash of the entry before, and whose the base is: run with every write."""
    sequence = AuditRow.sequence == bindparam("sequence", type_=AuditRow.sequence.type)
    base = KnowledgeBaseRow.id == bindparam("base", type_=KnowledgeBaseRow.id.type)
    columns = (select(AuditRow.hash).where(sequence), select(KnowledgeBaseRow.tenant).where(base))
    return compiled(select(*(column.scalar_subquery() for column in columns)), dialect)


def _entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry(
        sequence=row.sequence,
        created_at=row.created_at,
        tenant=row.tenant,
        action=row.action,
        who=row.who or "",
        subject=row.subject or "",
        knowledge_base_id=row.knowledge_base_id,
        details=json.loads(row.details) if row.details else {},
        hash=row.hash,
        is_erased=row.salt is None,
    )


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _digest(salt: str, who: str, subject: str, details: str) -> str:
    return hashlib.sha256(_canonical([salt, who, subject, details]).encode("utf-8", "surrogatepass")).hexdigest()


def _hash(
    previous: str, sequence: int, moment: datetime, tenant: str, knowledge_base: int, action: str, digest: str
) -> str:
    microseconds = (moment - EPOCH) // timedelta(microseconds=1)
    facts = [previous, sequence, microseconds, tenant, knowledge_base, action, digest]
    return hashlib.sha256(_canonical(facts).encode()).hexdigest()
