"""Tells the addresses that tenants registered of events: one process at a time, from the queue in the records.

A request of a user never waits for it. What could not be delivered is tried again with growing pauses; the address is
checked against the outbound policy at every connect.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from qianxun.bases.lease import LeaseKeeper
from qianxun.core.errors import QianxunError
from qianxun.core.governance.webhooks import SIGNATURE, signature
from qianxun.models.remote.url_policy import UrlPolicy
from qianxun.models.threads import Lane
from qianxun.records import Records
from qianxun.records.governance import webhooks
from qianxun.records.governance.webhooks import DueDelivery
from qianxun.records.secrets.sealing import Sealing

log = logging.getLogger(__name__)

LEASE: Final = "webhooks"
LEASE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 1.0
REST_SECONDS: Final = 10.0  # after the records could not be read
AT_ONCE: Final = 8
TIMEOUT_SECONDS: Final = 10.0


def webhook_row(tenant: str, number: int) -> tuple[str, ...]:
    """What the secret of a hook is sealed for."""
    return ("webhook", tenant, str(number))


async def run_webhooks(records: Records, sealing: Sealing, policy: UrlPolicy) -> None:
    """Delivers until it is cancelled."""
    keeper = LeaseKeeper(records, LEASE, LEASE_SECONDS)
    while True:
        pause = POLL_SECONDS
        try:
            if await records.read(lambda tx: webhooks.due(tx, 1)):
                async with keeper.turn() as turn:
                    if turn is not None:
                        await deliver_due(records, sealing, policy)
        except QianxunError as error:
            log.warning("webhooks wait: %s", error)
            pause = REST_SECONDS
        await asyncio.sleep(pause)


async def deliver_due(
    records: Records, sealing: Sealing, policy: UrlPolicy, jitter: Callable[[], float] = random.random
) -> int:
    """Tries everything that is due, once. Returns how many arrived.

    In threads of its own, since an address that never answers takes one for ten seconds; and whenever one is free, for
    the tenant, and of that for the hook, that has the fewest: it keeps nobody else's events waiting for longer.
    """
    threads, at_work, arrived = Lane("webhook", AT_ONCE), dict[asyncio.Future[str], DueDelivery](), 0
    loop = asyncio.get_running_loop()
    try:
        while True:
            due = await records.read(lambda tx: webhooks.due(tx, 2 * AT_ONCE))
            for one in _chosen(due, at_work.values()):
                at_work[loop.run_in_executor(threads, deliver, one, sealing, policy)] = one
            if not at_work:
                return arrived
            done, _ = await asyncio.wait(at_work, return_when=asyncio.FIRST_COMPLETED)
            tried = {at_work[attempt]: attempt.result() for attempt in done}
            await asyncio.to_thread(_settle, records, tried, jitter)
            arrived += sum(not reason for reason in tried.values())
            for attempt in done:
                del at_work[attempt]
    finally:
        for attempt in at_work:
            attempt.cancel()
        threads.shutdown()


def _chosen(due: Sequence[DueDelivery], at_work: Iterable[DueDelivery]) -> list[DueDelivery]:
    """What to try now, of what is due, the longest overdue first, beside what is being tried."""
    running = list(at_work)
    waiting = {one.id: one for one in due}
    for one in running:
        waiting.pop(one.id, None)
    tenants, hooks = Counter(one.tenant for one in running), Counter(one.webhook_id for one in running)
    chosen: list[DueDelivery] = []
    while waiting and len(running) + len(chosen) < AT_ONCE:
        fewest = min(waiting.values(), key=lambda one: (tenants[one.tenant], hooks[one.webhook_id]))
        tenants[fewest.tenant] += 1
        hooks[fewest.webhook_id] += 1
        chosen.append(waiting.pop(fewest.id))
    return chosen


def _settle(records: Records, tried: Mapping[DueDelivery, str], jitter: Callable[[], float]) -> None:
    """Notes which have arrived, and of the others why they have not."""
    with records.writing() as tx:
        webhooks.arrived(tx, [one.id for one, reason in tried.items() if not reason])
        for one, reason in tried.items():
            if reason:
                webhooks.missed(tx, one.id, one.attempts + 1, reason, jitter())
    for one, reason in tried.items():
        if reason:
            log.warning("webhook %s was not told of %s: %s", one.webhook_id, one.event, reason)


def deliver(one: DueDelivery, sealing: Sealing, policy: UrlPolicy) -> str:
    """One attempt. Returns why it failed; "" if it arrived."""
    from qianxun.models.remote.http import post_signed  # a client of HTTP, for those who have webhooks

    body = one.payload.encode()
    try:
        secret = sealing.open(one.sealed_secret, webhook_row(one.tenant, one.webhook_id))
        headers = {
            SIGNATURE: signature(secret, body, int(time.time())),
            "X-Qianxun-Event": one.event,
            "X-Qianxun-Delivery": str(one.id),
        }
        status = post_signed(one.url, policy, headers, body, TIMEOUT_SECONDS)
    except QianxunError as error:
        return error.message
    return "" if 200 <= status < 300 else f"HTTP {status}"
