"""The engine with a real model endpoint on loopback: settings to vectors, and what happens when it cannot answer."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.errors import BadSettings, MissingExtra
from qianxun.settings import Settings, load
from tests.models.embedding_service import DIMENSION, serving, status, well

KEY = "sk-canary-7f3a"
DOCUMENTS = [Document("a", "住院费用报销比例为85%。"), Document("b", "红楼梦第一回甄士隐梦幻识通灵。")]


def settings(folder: Path, **vectors: Any) -> Settings:
    told = {f"vectorization.{name}": value for name, value in vectors.items()}
    return load(environment={}, arguments={"data": str(folder), **told}, folder=folder)


def test_an_endpoint_of_the_settings_embeds_and_finds(tmp_path: Path) -> None:
    async def story() -> None:
        chosen = settings(tmp_path, base_url=service.url, model="text-embedding", dimension=DIMENSION, api_key=KEY)
        async with Engine.open(settings=chosen, background=False) as engine:
            base = await engine.create_knowledge_base("医保")
            assert (base.embedding_model, base.dimension) == ("text-embedding", DIMENSION)
            await engine.add_documents(base.id, DOCUMENTS)
            found = await engine.retrieve(base.id, "住院费用报销", mode="vector", top_k=1)
            assert [one.chunk.doc_id for one in found.found] == ["a"]
            assert (await engine.verify(base.id)).is_clean

    with serving(well) as service:
        asyncio.run(story())
        assert service.headers[0]["authorization"] == f"Bearer {KEY}"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_documents_wait_while_the_endpoint_refuses_and_words_still_find_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        chosen = settings(tmp_path, base_url=service.url, model="text-embedding", dimension=DIMENSION)
        async with Engine.open(settings=chosen, background=False) as engine:
            base = await engine.create_knowledge_base("医保")
            await engine.add_documents(base.id, DOCUMENTS[:1])
            service.answers[:] = [status(401)]
            await engine.add_documents(base.id, DOCUMENTS[1:])
            waiting = await engine.document(base.id, "b")
            assert waiting.status == "retrying"
            assert "401" in waiting.reason
            found = await engine.retrieve(base.id, "住院费用报销")
            assert [one.chunk.doc_id for one in found.found] == ["a"]
            assert [each.part for each in found.degraded] == ["vector"]
        service.answers[:] = [well]
        async with Engine.open(settings=chosen, background=False) as engine:  # that has not yet seen it fail
            await engine.add_documents(base.id, DOCUMENTS[1:])
            assert (await engine.document(base.id, "b")).status == "indexed"

    with serving(well) as service:
        asyncio.run(story())


def test_an_endpoint_without_a_dimension_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    async def story() -> None:
        chosen = settings(tmp_path, base_url="http://127.0.0.1:9/v1", model="text-embedding")
        async with Engine.open(settings=chosen, background=False) as engine:
            with pytest.raises(BadSettings, match=r"vectorization\.dimension"):
                await engine.create_knowledge_base("医保")

    asyncio.run(story())


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="the extra is installed")
def test_a_sentence_transformers_model_names_the_extra_it_needs(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            with pytest.raises(MissingExtra, match=r"qianxun\[sentence-transformers\]"):
                await engine.create_knowledge_base("医保", model="sentence-transformers:moka-ai/m3e-base")

    asyncio.run(story())
