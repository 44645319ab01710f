"""Numbers that are never given out twice (see `schema` for why they are ours)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from sqlalchemy import Connection, Dialect, bindparam, insert, select, update

from qianxun.records.database.statements import Compiled, compiled
from qianxun.records.schema import Counter

CounterName = Literal[
    "knowledge_base",
    "document",
    "chunk",
    "table",
    "pair",
    "outbox",
    "log",
    "key",
    "user_model",
    "evaluation_set",
    "evaluation_case",
    "evaluation_run",
    "audit",
    "webhook",
    "webhook_delivery",
    "correction",
    "correction_revision",
    "access_set",
    "owner",
    "identity",
    "purge",
]
FIRST = {"knowledge_base": 1001}


# Every write runs these several times, and to put them together takes longer than to run them.
_OWN: Final = Counter.name == bindparam("counter", type_=Counter.name.type)
_BUMP: Final = update(Counter).where(_OWN).values(next=Counter.next + bindparam("count", type_=Counter.next.type))


def allocate(tx: Connection, name: CounterName, count: int) -> range:
    """The next ``count`` numbers. The counter stays locked until the transaction ends."""
    after = _raised(tx, name, count, FIRST.get(name, 1))
    return range(after - count, after)


def last(tx: Connection, name: CounterName) -> int:
    """The last number that was given out; 0 before the first."""
    following = _next(tx, name)
    return 0 if following is None else following - 1


def count_up(tx: Connection, name: str) -> int:
    """One more of what a base counts for itself; the count with it."""
    return _raised(tx, name, 1, 0)


def _raised(tx: Connection, name: str, count: int, first: int) -> int:
    """The counter with ``count`` more; it begins with ``first``."""
    if tx.execute(_BUMP, {"counter": name, "count": count}).rowcount == 0:
        tx.execute(insert(Counter).values(name=name, next=first + count))
        return first + count
    after = _next(tx, name)
    assert after is not None  # its row is ours until the transaction ends
    return after


def _next(tx: Connection, name: str) -> int | None:
    found = _next_query(tx.dialect).rows(tx, {"counter": name})
    return int(found[0][0]) if found else None


@lru_cache
def _next_query(dialect: Dialect) -> Compiled:
    return compiled(select(Counter.next).where(_OWN), dialect)
