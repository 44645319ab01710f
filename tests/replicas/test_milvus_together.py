"""Replicas over an index in Milvus: every one searches and writes, and one that was overtaken changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun import Document, Engine
from tests.replicas.engines import found, replicas
from tests.servers.milvus import LightServer


def test_writers_on_all_replicas_at_once_lose_nothing(tmp_path: Path, postgres_url: str, milvus: LightServer) -> None:
    chosen = {"index.backend": "milvus", "milvus.host": milvus.host, "milvus.port": milvus.port}

    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 3, background=True, **chosen) as engines:
            base = (await engines[0].create_knowledge_base("并写")).id

            async def write(engine: Engine, writer: int) -> None:
                for at in range(3):
                    await engine.add_documents(base, [Document(f"{writer}-{at}", f"第 {writer} 位写的第 {at} 篇。")])
                    other = engines[(writer + 1) % 3]
                    assert f"{writer}-{at}" in await found(other, base, f"第 {writer} 位写的第 {at} 篇")

            await asyncio.gather(*(write(engine, at) for at, engine in enumerate(engines)))
            await engines[1].delete_document(base, "0-0")
            for engine in engines:
                assert "0-0" not in await found(engine, base, "第 0 位写的第 0 篇", top_k=20)
            assert (await engines[1].statistics(base))["indexed"] == 8
            assert (await engines[2].admin.verify(base)).is_clean
            await engines[0].admin.rebuild(base)
            assert "1-1" in await found(engines[2], base, "第 1 位写的第 1 篇")
            assert (await engines[1].admin.verify(base)).is_clean

    asyncio.run(story())
