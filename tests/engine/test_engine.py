"""The engine with a real model endpoint on loopback: settings to vectors, and what happens when it cannot answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import BadSettings, MissingExtra, QianxunError
from qianxun.core.types import Eq
from qianxun.engine.settings import Settings, load
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
            assert (await engine.admin.verify(base.id)).is_clean

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


HOSTILE = (
    "\ud800",
    "\x00",
    "a\x00b",
    "长" * 5_000,
    "",
    "'; DROP TABLE chunks; --",
    "%",
    "_",
    "../..",
    "9" * 5_000,
    "\u202e",
)
Say = Callable[[Engine, int, str], Awaitable[object]]
TOLD: dict[str, Say] = {
    "create": lambda engine, kb, text: engine.create_knowledge_base(text, model="none"),
    "kind": lambda engine, kb, text: engine.create_knowledge_base("种类", model="none", kind=text),
    "owner": lambda engine, kb, text: engine.create_knowledge_base(f"主{text[:9]!r}", model="none", user_id=text),
    "model": lambda engine, kb, text: engine.create_knowledge_base("模型", model=text or "?"),
    "configure": lambda engine, kb, text: engine.configure(kb, {text: 1}),
    "rewrite_model": lambda engine, kb, text: engine.configure(kb, {"rewrite_model": text}),
    "rename": lambda engine, kb, text: engine.rename(kb, text),
    "by name": lambda engine, kb, text: engine.knowledge_base(text),
    "document": lambda engine, kb, text: engine.document(kb, text),
    "documents": lambda engine, kb, text: engine.documents(kb, after=text),
    "chunks": lambda engine, kb, text: engine.chunks(kb, text),
    "delete": lambda engine, kb, text: engine.delete_document(kb, text),
    "query": lambda engine, kb, text: engine.retrieve(kb, text),
    "mention": lambda engine, kb, text: engine.retrieve(kb, f"@{text} 住院"),
    "doc_ids": lambda engine, kb, text: engine.retrieve(kb, "住院", doc_ids=[text]),
    "trace_id": lambda engine, kb, text: engine.retrieve(kb, "住院", trace_id=text),
    "rerank": lambda engine, kb, text: engine.retrieve(kb, "住院", rerank=text),
    "where": lambda engine, kb, text: engine.retrieve(kb, "住院", where=Eq("user_id", text)),
    "explain": lambda engine, kb, text: engine.explain(kb, "住院", text),
    "explain a document": lambda engine, kb, text: engine.explain(kb, "住院", f"c_{kb}_{text}_0"),
    "explain a position": lambda engine, kb, text: engine.explain(kb, "住院", f"c_{kb}_a_{text}"),
    "id": lambda engine, kb, text: engine.add_documents(kb, [Document(text, "正文")]),
    "content": lambda engine, kb, text: engine.add_documents(kb, [Document("c", text)]),
    "name": lambda engine, kb, text: engine.add_documents(kb, [Document("c", "正文", name=text)]),
    "metadata": lambda engine, kb, text: engine.add_documents(kb, [Document("c", "正文", metadata={text: text})]),
    "upload": lambda engine, kb, text: engine.add_file(kb, Path(__file__), name=f"{text}.txt", doc_id=text),
    "tenant": lambda engine, kb, text: _bases_of(engine, text),
    "logs": lambda engine, kb, text: engine.logs.list(limit=-1),
}


async def _bases_of(engine: Engine, tenant: str) -> object:
    return await engine.of(tenant).knowledge_bases()


def test_no_text_breaks_anything_on_any_way(tmp_path: Path) -> None:
    """Whatever is said is taken, or refused with an error of ours; and the base is sound afterwards."""

    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            await engine.add_documents(kb, DOCUMENTS)
            for told, say in TOLD.items():
                for text in HOSTILE:
                    try:
                        await say(engine, kb, text)
                    except QianxunError as error:
                        str(error).encode()  # can be told
                    except Exception as error:
                        raise AssertionError(f"{told} fell over {text[:20]!r}") from error
            handler = await engine.events(kb)
            for text in HOSTILE:
                event = {"document_id": text, "content": text, "event_id": text, "generation": 3}
                await handler.handle_document_created(event)
                await handler.handle_document_deleted(event)
            assert (await engine.admin.verify(kb)).is_clean
            assert {each.chunk.doc_id for each in (await engine.retrieve(kb, "住院费用")).found} >= {"a"}

    asyncio.run(story())
