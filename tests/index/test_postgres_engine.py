"""The whole engine over an index in PostgreSQL: in, found, out, rebuilt, verified; and when the server is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import RecallFailed, RetrieverUnavailable
from qianxun.core.types import Eq
from qianxun.engine.settings import Settings, load
from tests.engine.purging import correct_and_purge
from tests.models.embedding_service import DIMENSION, serving, well
from tests.servers.postgres import Server

DOCUMENTS = [
    Document("a", "住院费用报销比例为85%。", user_id="张三"),
    Document("b", "红楼梦第一回甄士隐梦幻识通灵。", user_id="李四"),
    Document("c", "门诊费用不报销。", user_id="李四"),
]


def settings(folder: Path, index_url: str, endpoint: str) -> Settings:
    told = {
        "data": str(folder),
        "index.backend": "postgres",
        "index.url": index_url,
        "vectorization.base_url": endpoint,
    }
    model = {"vectorization.model": "text-embedding", "vectorization.dimension": DIMENSION}
    return load(environment={}, arguments={**told, **model}, folder=folder)


async def found(engine: Engine, base: int, query: str, **options: object) -> set[str]:
    answer = await engine.retrieve(base, query, **options)  # type: ignore[arg-type]
    assert answer.degraded == ()
    return {each.chunk.doc_id for each in answer.found}


def test_an_engine_over_postgresql_keeps_its_promises(tmp_path: Path, index_url: str) -> None:
    async def story(chosen: Settings) -> None:
        async with Engine.open(settings=chosen, background=False) as engine:
            base = (await engine.create_knowledge_base("医保")).id
            other = (await engine.create_knowledge_base("别的")).id
            await engine.add_documents(base, DOCUMENTS)
            assert "a" in await found(engine, base, "住院费用报销比例")
            assert await found(engine, base, "费用报销", where=Eq("user_id", "李四")) == {"b", "c"}
            assert await found(engine, other, "住院费用报销比例") == set()
            await engine.delete_document(base, "a")
            assert "a" not in await found(engine, base, "住院费用报销比例")
            assert (await engine.admin.verify(base)).is_clean
        async with Engine.open(settings=chosen, background=False) as engine:
            assert await found(engine, base, "红楼梦甄士隐", top_k=1) == {"b"}
            assert await engine.admin.rebuild(base) == 2
            assert (await engine.admin.verify(base)).is_clean
            await correct_and_purge(engine, base)
            await engine.delete_knowledge_base(base)
            await engine.delete_knowledge_base(other)

    with serving(well) as service:
        asyncio.run(story(settings(tmp_path, index_url, service.url)))
    assert not (tmp_path / "index").exists()


def test_a_search_says_that_the_server_is_away_and_what_was_accepted_comes_in_later(
    tmp_path: Path, postgres_server: Server
) -> None:
    async def story(chosen: Settings) -> None:
        async with Engine.open(settings=chosen, background=False) as engine:
            base = (await engine.create_knowledge_base("医保")).id
            await engine.add_documents(base, DOCUMENTS[:1])
            postgres_server.stop("immediate")
            with pytest.raises((RecallFailed, RetrieverUnavailable), match="连不上 PostgreSQL"):
                await engine.retrieve(base, "住院费用报销比例")
            with pytest.raises(RetrieverUnavailable):
                await engine.add_documents(base, DOCUMENTS[1:])
            postgres_server.start()
            await engine.drain(base)
            assert "b" in await found(engine, base, "红楼梦甄士隐")
            assert (await engine.admin.verify(base)).is_clean

    with serving(well) as service:
        asyncio.run(story(settings(tmp_path, postgres_server.url, service.url)))
