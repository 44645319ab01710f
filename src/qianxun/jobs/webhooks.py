"""Tells the addresses that tenants registered of events: one process at a time, from the queue in the records.

A request of a user never waits for it. What could not be delivered is tried again with growing pauses; the address is
checked against the outbound policy at every connect.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Final

from qianxun.bases.lease import LeaseKeeper
from qianxun.core.errors import QianxunError
from qianxun.core.governance.webhooks import SIGNATURE, signature
from qianxun.models.remote.url_policy import UrlPolicy
from qianxun.records import Records
from qianxun.records.governance import webhooks
from qianxun.records.governance.webhooks import Due
from qianxun.records.sealing import Sealing

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
    """Tries everything that is due, once. Returns how many arrived."""
    arrived = 0
    while batch := await records.read(lambda tx: webhooks.due(tx, AT_ONCE)):
        reasons = await asyncio.gather(*(asyncio.to_thread(deliver, one, sealing, policy) for one in batch))
        failed = [(one, reason) for one, reason in zip(batch, reasons, strict=True) if reason]
        done = [one.id for one, reason in zip(batch, reasons, strict=True) if not reason]

        def settle(done: list[int] = done, failed: list[tuple[Due, str]] = failed) -> None:
            with records.writing() as tx:
                webhooks.arrived(tx, done)
                for one, reason in failed:
                    webhooks.missed(tx, one.id, one.attempts + 1, reason, jitter())

        await asyncio.to_thread(settle)
        arrived += len(done)
        for one, reason in failed:
            log.warning("webhook %s was not told of %s: %s", one.webhook_id, one.event, reason)
    return arrived


def deliver(one: Due, sealing: Sealing, policy: UrlPolicy) -> str:
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
