"""What one replica corrects the others serve at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun import Engine
from qianxun.core.types import Document
from tests.replicas.engines import MODEL, replicas

TEXT = "门诊费用按百分之六十报销，每年封顶三千元。\n\n住院费用按百分之八十五报销，出院之后三个月之内提交发票。"


async def texts(engine: Engine, base: int, query: str) -> list[str]:
    return [found.chunk.text for found in (await engine.retrieve(base, query, top_k=20)).results]


def test_a_correction_is_served_by_every_replica_and_undone_by_another(postgres_url: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url) as (one, other):
            config = {"chunk_size": 40, "chunk_overlap": 0}
            base = (await one.create_knowledge_base("医保", model=MODEL, config=config)).id
            await one.add_documents(base, [Document("办法", TEXT, name="办法")])
            chunk = next(chunk.chunk_id for chunk in await other.chunks(base, "办法") if "住院" in chunk.text)
            assert any("百分之八十五" in text for text in await texts(other, base, "住院费用报销"))
            made = await one.governance.corrections.add(base, "edit", chunk_id=chunk, text="住院费用报销九成。")
            for engine in (other, one):
                found = await texts(engine, base, "住院费用报销")
                assert "住院费用报销九成。" in found
                assert not any("百分之八十五" in text for text in found)
            rule = await other.governance.corrections.add(base, "pin", chunk_id=chunk, question="门诊封顶")
            assert (await one.retrieve(base, "门诊封顶")).results[0].pinned == rule.id
            await other.governance.corrections.undo(base, made.id)
            assert any("百分之八十五" in text for text in await texts(one, base, "住院费用报销"))

    asyncio.run(story())


def test_corrections_by_two_replicas_at_once_are_both_kept(postgres_url: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url) as engines:
            config = {"chunk_size": 40, "chunk_overlap": 0}
            base = (await engines[0].create_knowledge_base("医保", model=MODEL, config=config)).id
            await engines[0].add_documents(base, [Document("办法", TEXT, name="办法")])
            chunks = [chunk.chunk_id for chunk in await engines[0].chunks(base, "办法")]
            work = [
                engine.governance.corrections.add(base, "keywords", chunk_id=chunk, keywords=(f"词{at}{number}",))
                for at, engine in enumerate(engines)
                for number, chunk in enumerate(chunks)
            ]
            await asyncio.gather(*work)
            given = [chunk.corrected.keywords for chunk in await engines[1].chunks(base, "办法") if chunk.corrected]
            assert sorted(word for words in given for word in words) == sorted(
                f"词{at}{number}" for at in range(2) for number in range(len(chunks))
            )

    asyncio.run(story())
