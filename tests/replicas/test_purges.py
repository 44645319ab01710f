"""What one replica purges leaves the memory of the others, and the receipt says from which state on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from qianxun import Document
from qianxun.jobs import follow_writes
from qianxun.records import bases
from tests.replicas.engines import found, replicas


def test_what_one_purges_the_memory_of_the_others_forgets(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_writes, "LOOK_SECONDS", 0.05)

    async def story() -> None:
        async with replicas(tmp_path, postgres_url) as (one, two):
            base = (await one.create_knowledge_base("病历")).id
            await one.add_documents(base, [Document("甲", "王小明的病历号为九零七七。"), Document("乙", "挂号须知。")])
            deleted = await one.governance.receipts.delete(base, ["乙"])
            assert await found(two, base, "挂号须知的病历号") == {"甲"}
            opened = await two.base(base)
            assert len(opened.chunks._memory.chunks) > 0
            assert len(two.cache) > 0  # type: ignore[arg-type]
            purged = await one.governance.receipts.delete(base, ["甲"], purge=True)
            async with asyncio.timeout(20):
                while len(opened.chunks._memory.chunks) or len(two.cache):  # type: ignore[arg-type]  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert await found(two, base, "病历号") == set()
            now = await two.records.read(lambda tx: bases.generation(tx, base))
            for receipt, fate in ((deleted, "失效"), (purged, "清空")):
                (line,) = [place for place in receipt.removed if place.store == f"replicas.{base}"]
                state = re.search(r"状态 (\d+) 起", line.note)
                assert (line.left, receipt.is_complete, fate in line.note) == (-1, True, True)
                assert state is not None
                assert 0 < int(state[1]) <= now

    asyncio.run(story())
