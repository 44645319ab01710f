"""Webhooks of a tenant: registered, listed, tried, removed. `jobs.webhooks` delivers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from qianxun.core.errors import BadInput
from qianxun.core.governance.webhooks import TEST_EVENT, Delivery, Webhook
from qianxun.engine.governance.host import Host
from qianxun.jobs.webhooks import deliver, webhook_row
from qianxun.models.remote.url_policy import check_url
from qianxun.records.governance import webhooks

PREFIX: Final = "whsec_"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Of one tenant. Raises NotFound for a hook that it does not have."""

    host: Host

    async def add(self, url: str, events: Sequence[str], *, knowledge_base: int = 0) -> tuple[Webhook, str]:
        """The hook and, this once, the secret that its requests are signed with. Raises BadInput for an address that
        the outbound policy refuses, and for unknown events."""
        check_url(url, self.host.registered.policy, "url")
        if knowledge_base:
            await self.host.knowledge_base(knowledge_base)
        secret = PREFIX + secrets.token_urlsafe(32)
        number = await self.host.records.write(webhooks.next_id)
        row = webhook_row(self.host.tenant, number)
        sealed = await asyncio.to_thread(self.host.registered.sealing.seal, secret, row)
        own = {"tenant": self.host.tenant}
        made = await self.host.records.write(
            lambda tx: webhooks.add(tx, number, url, events, sealed, knowledge_base=knowledge_base, **own)
        )
        return made, secret

    async def list(self) -> list[Webhook]:
        return await self.host.records.read(lambda tx: webhooks.listed(tx, tenant=self.host.tenant))

    async def get(self, webhook: int) -> Webhook:
        return await self.host.records.read(lambda tx: webhooks.get(tx, webhook, tenant=self.host.tenant))

    async def remove(self, webhook: int) -> None:
        """With what is on its way to it."""
        await self.host.records.write(lambda tx: webhooks.remove(tx, webhook, tenant=self.host.tenant))

    async def deliveries(self, webhook: int, *, limit: int = 50) -> Sequence[Delivery]:
        """What is on its way or was given up, the newest first."""
        return await self.host.records.read(
            lambda tx: webhooks.deliveries(tx, webhook, tenant=self.host.tenant, limit=limit)
        )

    async def retry(self, webhook: int) -> int:
        """Tries what was given up once more. Returns how many."""
        return await self.host.records.write(lambda tx: webhooks.retry(tx, webhook, tenant=self.host.tenant))

    async def test(self, webhook: int) -> str:
        """Sends a test event now. Returns why it did not arrive; "" if it did."""
        tenant, registered = self.host.tenant, self.host.registered
        one = await self.host.records.write(lambda tx: webhooks.trial(tx, webhook, TEST_EVENT, tenant=tenant))
        threads = self.host.model_threads.lane("webhook", tenant=tenant)
        return await asyncio.get_running_loop().run_in_executor(
            threads, deliver, one, registered.sealing, registered.policy
        )


def checked_events(text: str) -> tuple[str, ...]:
    """From a list with commas. Raises BadInput for none."""
    found = tuple(part.strip() for part in text.replace("，", ",").split(",") if part.strip())
    if not found:
        raise BadInput("没有写明事件", hint="例如 document.indexed,document.failed")
    return found
