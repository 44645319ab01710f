"""Leases: what one process at a time may do, for as long as it shows that it is alive.

A lease has a fence, a number that grows whenever it is taken: the time, or the last one and one more where that is
higher, so that it grows also over a database that was restored from a copy. What its holder writes carries the fence,
and whatever is written to refuses a lower one than it has seen: a holder that was paused for longer than its lease, or
cut off, cannot write after another has taken over, although it does not know yet. Time is the database's
(`database.clock`), and a lock of one row, taken by its reader, is all that is asked of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from qianxun.core.errors import LeaseLost
from qianxun.records.database.clock import database_time
from qianxun.records.schema import LeaseRow

FREE: Final = 0
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of ``holder``, the number of a process, to do what ``name`` says."""

    name: str
    holder: int
    fence: int
    # The holder before did not give it back: it may be about to write.
    was_abandoned: bool = False


def outbox_lease(knowledge_base: int) -> str:
    """Of the one who applies a base's outbox to its index."""
    return f"outbox.{knowledge_base}"


def graph_lease(knowledge_base: int) -> str:
    """Of the one who has a model read a base for its graph."""
    return f"graph.{knowledge_base}"


def take(tx: Connection, name: str, holder: int, seconds: float) -> Lease | None:
    """The lease, for so many seconds; None while another process has it. One's own is taken anew."""
    query = select(LeaseRow.holder, LeaseRow.fence, LeaseRow.expires_at, database_time().label("now"))
    row = tx.execute(query.where(LeaseRow.name == name).with_for_update()).first()
    if row is None:
        return _first(tx, name, holder, seconds)
    if row.holder not in (FREE, holder) and row.expires_at > row.now:
        return None
    fence = max(row.fence + 1, _microseconds(row.now))
    tx.execute(
        update(LeaseRow)
        .where(LeaseRow.name == name)
        .values(holder=holder, fence=fence, expires_at=row.now + timedelta(seconds=seconds))
    )
    return Lease(name, holder, fence, was_abandoned=row.holder != FREE)


def _first(tx: Connection, name: str, holder: int, seconds: float) -> Lease | None:
    now = tx.execute(select(database_time())).scalar_one()
    fence, until = _microseconds(now), now + timedelta(seconds=seconds)
    try:
        with tx.begin_nested():
            tx.execute(insert(LeaseRow).values(name=name, holder=holder, fence=fence, expires_at=until))
    except IntegrityError:  # another process was first
        return None
    return Lease(name, holder, fence)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def renew(tx: Connection, lease: Lease, seconds: float) -> bool:
    """So many seconds more; False where another process has taken it."""
    query = select(LeaseRow.fence, database_time().label("now")).where(LeaseRow.name == lease.name).with_for_update()
    row = tx.execute(query).first()
    if row is None or row.fence != lease.fence:
        return False
    until = row.now + timedelta(seconds=seconds)
    tx.execute(update(LeaseRow).where(LeaseRow.name == lease.name).values(expires_at=until))
    return True


def give_back(tx: Connection, lease: Lease) -> None:
    """Ends the lease, unless another process has taken it."""
    own = (LeaseRow.name == lease.name) & (LeaseRow.fence == lease.fence)
    tx.execute(update(LeaseRow).where(own).values(holder=FREE))


def require(tx: Connection, lease: Lease | None) -> None:
    """In the transaction of every write that needs the lease: nobody can take it until that ends. Raises LeaseLost.

    Without a lease there is no other process that could write.
    """
    if lease is None:
        return
    fence = tx.execute(select(LeaseRow.fence).where(LeaseRow.name == lease.name).with_for_update()).scalar()
    if fence != lease.fence:
        raise LeaseLost(f"另一个进程已接手 {lease.name}", hint="它会做完；不必重试")


def remove(tx: Connection, *names: str) -> None:
    """Of what is deleted. Numbers of bases are never reused, and so no fence is given out twice."""
    tx.execute(LeaseRow.__table__.delete().where(LeaseRow.name.in_(names)))
