"""Audit, receipts, quotas and webhooks do the same on every database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.errors import QuotaExceeded
from qianxun.core.governance.quotas import Quota
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.governance.quotas import SearchQuota
from qianxun.engine.settings import load
from qianxun.records.governance import webhooks

SECRET = "王小明住在梧桐路八十八号三单元，病历号为九零七七一二。"


async def _story(folder: Path, url: str) -> None:
    settings = load(environment={}, arguments={"data": str(folder), "records.url": url}, folder=folder)
    async with Engine.open(settings=settings, background=False) as engine:
        kb = (await engine.create_knowledge_base("病历", model="none")).id
        hooks, receipts = engine.governance.webhooks, engine.governance.receipts
        hook, _ = await hooks.add("https://example.com/hook", ["document.indexed", "document.deleted"])
        own = Document("自己", "提到用户的一份文档", metadata={"经手": "u_1"})
        await engine.add_documents(kb, [Document("病历", SECRET), Document("须知", "门诊报销。"), own])
        assert (await hooks.get(hook.id)).pending == 3

        await engine.retrieve(kb, "王小明")
        receipt = await receipts.delete(kb, ["病历"], purge=True)
        assert receipt.is_complete
        assert {one.store: one.removed for one in receipt.removed}["records.chunks"] == 1
        assert any(name in note for note in receipt.notes for name in ("WAL", "二进制日志")) is not (
            engine.records.is_here
        )
        assert await receipts.list() == [receipt]
        assert (await receipts.purge_subject("u_1")).is_complete
        assert [state.doc_id for state in await engine.documents(kb)] == ["须知"]

        await engine.governance.quotas.set(Quota(documents=1, bytes=1000, searches_per_minute=2))
        with pytest.raises(QuotaExceeded):
            await engine.add_documents(kb, [Document("二", "第二份")])
        use = (await engine.governance.quotas.get()).used
        assert (use.documents, use.chunks, use.bytes) == (1, 1, len("门诊报销。".encode()))
        processes = [SearchQuota(engine.records, folder, clock=lambda: 600.9) for _ in range(8)]
        tries = await asyncio.gather(*(one.count("local") for one in processes), return_exceptions=True)
        assert [type(one) for one in tries if one is not None] == [QuotaExceeded] * 6  # all at once: two and no more
        later = SearchQuota(engine.records, folder, clock=lambda: 660.0)
        with pytest.raises(QuotaExceeded) as refused:
            await later.count("local")
        assert refused.value.retry_seconds == 1
        later.clock = lambda: 661.0
        await later.count("local")

        due = await engine.records.read(lambda tx: webhooks.due(tx, 100))
        assert [one.event for one in due].count("document.deleted") == 2
        await engine.records.write(lambda tx: webhooks.missed(tx, due[0].id, 1, "坏了", 0.5))
        assert len(await engine.records.read(lambda tx: webhooks.due(tx, 100))) == len(due) - 1
        await engine.records.write(lambda tx: webhooks.arrived(tx, [one.id for one in due]))
        assert (await hooks.get(hook.id)).pending == 0

        log = await engine.governance.audit.list(limit=500)
        assert not any("王小明" in str(entry) or "u_1" in str(entry) for entry in log)
        verdict = await engine.governance.audit.verify()
        assert verdict.is_intact, verdict.problems
        assert verdict.erased >= 3
        await receipts.delete_knowledge_base(kb, purge=True)
        assert (await engine.governance.audit.verify()).is_intact


def test_they_do_the_same_on_every_database(tmp_path: Path, records_url: str) -> None:
    asyncio.run(_story(tmp_path, records_url))
