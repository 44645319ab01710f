"""The background indexer: works through the outbox and the retries of all bases of all tenants.

One base of a tenant at a time, and the tenants side by side: a slow model or a large base of one delays no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from qianxun.core.errors import NotFound, QianxunError
from qianxun.indexing.outbox_indexer import Drained
from qianxun.records import Records, bases, document_retries, outbox

log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0  # to sleep when nothing wakes it and no retry is due; to leave a base alone that has failed
CLAIMED_SECONDS = 1.0  # to leave a base alone whose pending documents are all being prepared by those who added them
SHORTEST_SLEEP = 0.1
SHARED_SECONDS = 0.5  # between two looks whether another process has left something to do

Work: TypeAlias = Callable[[str, int], Awaitable[Drained]]
"""Does what is due for one base: (tenant, base)."""


@dataclass(frozen=True, slots=True)
class DueWork:
    """What the records say is to be done."""

    bases: Mapping[int, str]  # that have work now → tenant
    seconds: float  # until the next retry
    sequence: int = -1  # the last of the outbox by then


async def run_indexer(records: Records, woken: asyncio.Event, work: Work) -> None:
    """Goes on until it is cancelled, whatever one base's work raises."""
    at_work: dict[str, asyncio.Task[None]] = {}  # by tenant
    resting: dict[int, float] = {}  # base → until when, after a failure

    async def attend(tenant: str, base: int) -> None:
        try:
            await _work_safely(work, tenant, base, resting)
        finally:
            del at_work[tenant]
            woken.set()

    try:
        while True:
            woken.clear()
            due = await _due_safely(records)
            now = time.monotonic()
            for base in [base for base, until in resting.items() if until <= now]:
                del resting[base]
            ready = [(base, tenant) for base, tenant in due.bases.items() if base not in resting]
            for base, tenant in ready:
                if tenant not in at_work:
                    at_work[tenant] = asyncio.create_task(attend(tenant, base))
            pause = min([due.seconds, *(until - now for until in resting.values())])
            await _sleep(records, woken, max(pause, SHORTEST_SLEEP), due.sequence)
    finally:
        left = list(at_work.values())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


async def _sleep(records: Records, woken: asyncio.Event, seconds: float, seen: int) -> None:
    """Until it is woken, or the time is up; or another process has appended to the outbox."""
    until = time.monotonic() + seconds
    while not woken.is_set() and (left := until - time.monotonic()) > 0:
        # Not `wait_for`: on Python 3.11 it forgets a cancellation that comes together with the waking.
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, SHARED_SECONDS) if records.process else left):
                await woken.wait()
        if records.process and not woken.is_set() and await _last_sequence(records) != seen:
            return


async def _last_sequence(records: Records) -> int:
    try:
        return await records.read(outbox.last_sequence)
    except QianxunError:  # which the next look reports
        return -1


async def _due_safely(records: Records) -> DueWork:
    try:
        return await asyncio.to_thread(_due, records)
    except QianxunError as error:
        log.warning("the indexer cannot read what is due; it looks again in %s seconds: %s", IDLE_SECONDS, error)
        return DueWork({}, IDLE_SECONDS)
    except Exception:  # the task must outlive an outage of the database
        log.exception("the indexer cannot read what is due; it looks again in %s seconds", IDLE_SECONDS)
        return DueWork({}, IDLE_SECONDS)


def _due(records: Records) -> DueWork:
    now = datetime.now(UTC)
    with records.reading() as tx:
        sequence = outbox.last_sequence(tx)
        retries = document_retries.next_attempts(tx, now)
        waiting = outbox.busy(tx) | {base for base, moment in retries.items() if moment <= now}
        owners = bases.tenants(tx, waiting)
    later = [(moment - now).total_seconds() for moment in retries.values() if moment > now]
    return DueWork(owners, min([IDLE_SECONDS, *later]), sequence)


async def _work_safely(work: Work, tenant: str, base: int, resting: dict[int, float]) -> None:
    try:
        done = await work(tenant, base)
        if not done.applied and not done.failed:
            resting[base] = time.monotonic() + CLAIMED_SECONDS
        return
    except NotFound:  # removed meanwhile
        log.info("base %s was deleted while it was indexed", base)
    except QianxunError as error:
        log.error("the indexer goes on after base %s failed: %s", base, error)
    except Exception:  # the task must outlive any one failure, and serve the other bases
        log.exception("the indexer goes on after an unexpected failure of base %s", base)
    resting[base] = time.monotonic() + IDLE_SECONDS
