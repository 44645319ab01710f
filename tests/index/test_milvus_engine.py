"""The whole engine over an index in Milvus: in, found, out, lost, verified, rebuilt; and when the server is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun import Engine
from qianxun.core.errors import RecallFailed, RetrieverUnavailable
from qianxun.core.types import Eq
from qianxun.engine.admin.doctor import BaseHealth, examine
from qianxun.engine.settings import Settings, load
from qianxun.engine.storage import schema_for
from qianxun.index.milvus import states
from qianxun.index.milvus.conditions import among
from qianxun.index.milvus.server import Address, Milvus
from tests.engine.purging import correct_and_purge
from tests.index.test_postgres_engine import DOCUMENTS, found
from tests.models.embedding_service import DIMENSION, serving, well
from tests.servers.milvus import LightServer


def settings(folder: Path, server: LightServer, endpoint: str) -> Settings:
    chosen = {"index.backend": "milvus", "milvus.host": "127.0.0.1", "milvus.port": server.port}
    model = {"vectorization.model": "text-embedding", "vectorization.dimension": DIMENSION}
    return load(
        environment={},
        arguments={"data": str(folder), "vectorization.base_url": endpoint, **chosen, **model},
        folder=folder,
    )


def test_an_engine_over_milvus_keeps_its_promises(tmp_path: Path, milvus: LightServer) -> None:
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
        assert [health.index for health in await asyncio.to_thread(_health, chosen)] == ["ready", "ready"]
        async with Engine.open(settings=chosen, background=False) as engine:
            assert await found(engine, base, "红楼梦甄士隐", top_k=1) == {"b"}
            _lose(milvus, chosen, base)
            assert [health.index for health in await asyncio.to_thread(_health, chosen)] == ["unusable", "ready"]
            assert not (await engine.admin.verify(base)).is_clean
            assert await engine.admin.rebuild(base) == 2
            assert (await engine.admin.verify(base)).is_clean
            assert await found(engine, base, "红楼梦甄士隐", top_k=1) == {"b"}
            before = {name: _build(milvus, chosen, name) for name in (base, other)}
            await correct_and_purge(engine, base)
            # The collection that had it is gone, and only that.
            assert {name: _build(milvus, chosen, name) == built for name, built in before.items()} == {
                base: False,
                other: True,
            }
            assert (before[base] in _names(milvus), before[other] in _names(milvus)) == (False, True)
            await engine.delete_knowledge_base(base)
            await engine.delete_knowledge_base(other)

    with serving(well) as service:
        asyncio.run(story(settings(tmp_path, milvus, service.url)))
    assert not (tmp_path / "index").exists()


def _health(chosen: Settings) -> tuple[BaseHealth, ...]:
    return examine(chosen).bases


def _build(server: LightServer, chosen: Settings, base: int) -> str:
    """The collection that a base is searched in."""
    milvus = Milvus(Address(server.uri))
    name, _ = states.load(milvus, states.alias_of(schema_for(chosen), base)) or ("", None)
    milvus.close()
    return name


def _names(server: LightServer) -> list[str]:
    milvus = Milvus(Address(server.uri))
    names = milvus.names()
    milvus.close()
    return names


def _lose(server: LightServer, chosen: Settings, base: int) -> None:
    """As a server does that acknowledged what it never stored."""
    milvus = Milvus(Address(server.uri))
    name, _ = states.load(milvus, states.alias_of(schema_for(chosen), base)) or ("", None)
    milvus.delete(name, among("kind", (states.CONTENT,)))
    milvus.close()


def test_a_search_says_that_the_server_is_away_and_what_was_accepted_comes_in_later(
    tmp_path: Path, milvus_server: LightServer
) -> None:
    async def story(chosen: Settings) -> None:
        async with Engine.open(settings=chosen, background=False) as engine:
            base = (await engine.create_knowledge_base("医保")).id
            await engine.add_documents(base, DOCUMENTS[:1])
            milvus_server.stop()
            assert [health.index for health in await asyncio.to_thread(_health, chosen)] == ["away"]
            with pytest.raises((RecallFailed, RetrieverUnavailable), match="Milvus"):
                await engine.retrieve(base, "住院费用报销比例")
            with pytest.raises(RetrieverUnavailable):
                await engine.add_documents(base, DOCUMENTS[1:])
            milvus_server.start()
            await engine.drain(base)
            assert "b" in await found(engine, base, "红楼梦甄士隐")
            assert (await engine.admin.verify(base)).is_clean

    with serving(well) as service:
        asyncio.run(story(settings(tmp_path, milvus_server, service.url)))
