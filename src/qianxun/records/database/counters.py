"""Numbers that are never given out twice (see `schema` for why they are ours)."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, insert, select, update

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
]
FIRST = {"knowledge_base": 1001}


def allocate(tx: Connection, name: CounterName, count: int) -> range:
    """The next ``count`` numbers. The counter stays locked until the transaction ends."""
    bump = update(Counter).where(Counter.name == name).values(next=Counter.next + count)
    if tx.execute(bump).rowcount == 0:
        first = FIRST.get(name, 1)
        tx.execute(insert(Counter).values(name=name, next=first + count))
        return range(first, first + count)
    after = tx.execute(select(Counter.next).where(Counter.name == name)).scalar_one()
    return range(after - count, after)


def last(tx: Connection, name: CounterName) -> int:
    """The last number that was given out; 0 before the first."""
    following = tx.execute(select(Counter.next).where(Counter.name == name)).scalar()
    return 0 if following is None else int(following) - 1


def count_up(tx: Connection, name: str) -> int:
    """One more of what a base counts for itself; the count with it."""
    bump = update(Counter).where(Counter.name == name).values(next=Counter.next + 1)
    if tx.execute(bump).rowcount == 0:
        tx.execute(insert(Counter).values(name=name, next=1))
        return 1
    return int(tx.execute(select(Counter.next).where(Counter.name == name)).scalar_one())
