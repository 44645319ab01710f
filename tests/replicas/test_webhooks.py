"""Several replicas, one queue of events: each is delivered by one of them, and again if that one dies in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from qianxun import Engine
from qianxun.core.types import Document
from qianxun.jobs.webhooks import run_webhooks
from qianxun.records.governance import webhooks
from tests.engine.test_webhooks import Receiver, receiving
from tests.replicas.engines import MODEL, replicas


class Killed(BaseException):
    """As if the process ended here."""


def delivering(engine: Engine) -> asyncio.Task[None]:
    return asyncio.create_task(run_webhooks(engine.records, engine.registered.sealing, engine.registered.policy))


async def until_told(receiver: Receiver, engine: Engine, hook: int) -> Counter[str]:
    """How often each event was delivered, once none is pending."""
    async with asyncio.timeout(60):
        while (await engine.governance.webhooks.get(hook)).pending:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return Counter(headers["X-Qianxun-Delivery"] for headers, _ in receiver.requests)


def test_each_event_is_delivered_by_one_replica(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(receiver: Receiver) -> None:
        allowed = {"outbound.allow": [receiver.url.split("/")[2]]}
        async with replicas(tmp_path, postgres_url, **allowed) as (one, other):
            base = (await one.create_knowledge_base("医保", model=MODEL)).id
            hook, _ = await one.governance.webhooks.add(receiver.url, ["document.indexed"])
            await one.add_documents(base, [Document(f"甲{number}", "住院报销。") for number in range(12)])
            work = [delivering(one), delivering(other)]
            told = await until_told(receiver, one, hook.id)
            assert (len(told), set(told.values())) == (12, {1})
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

            # One is killed between sending and noting that it arrived: the other sends it again, under the same id.
            noted = webhooks.arrived

            def killed(*_: Any) -> None:
                monkeypatch.setattr(webhooks, "arrived", noted)
                raise Killed

            monkeypatch.setattr(webhooks, "arrived", killed)
            await other.add_documents(base, [Document("乙", "门诊报销。")])
            with suppress(Killed):
                await delivering(one)
            again = delivering(other)
            last = await until_told(receiver, other, hook.id) - told
            assert list(last.values()) == [2]
            again.cancel()

    with receiving() as receiver:
        asyncio.run(story(receiver))
