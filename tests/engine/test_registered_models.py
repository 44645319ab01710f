"""Registered models in an engine: bases of several tenants with models that answer, fail, hang and go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadInput, ModelUnavailable, NotFound, RecallFailed
from qianxun.core.model_types import NewModel, UserModel
from qianxun.core.types import Document, KnowledgeBase, Recall
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Outbound, Search, Settings, Vectorization
from qianxun.models.threads import CONCURRENT_REMOTE_CALLS
from qianxun.testing.scripted import HashEmbedding
from tests.models.embedding_service import DIMENSION, Exchange, ranks_well, says, serving, status, well

KEY = "sk-canary-0123456789abcdef"
TEXTS = ("住院费用的报销比例为百分之八十五。", "门诊慢性病须先备案。", "公园里的花开了。")
QUESTION = "住院报销多少"
THREADS = min(32, (os.cpu_count() or 1) + 4)  # of the event loop's own, which everybody shares


@asynccontextmanager
async def opened(folder: Path, **search: Any) -> AsyncIterator[Engine]:
    settings = Settings(
        data=str(folder),
        vectorization=Vectorization(model="near"),
        outbound=Outbound(allow=("127.0.0.1",)),
        search=Search(**search),
    )
    brought = {"near": HashEmbedding(DIMENSION)}
    async with Engine.open(settings=settings, models=brought, background=False) as engine:
        yield engine


async def register(engine: Engine, url: str, model_type: str, user: str = "7", **told: Any) -> UserModel:
    about = {"config_name": "我的", "base_url": url, "model_name": "m", "model_type": model_type, "api_key": KEY}
    dimension = {"model_dim": DIMENSION} if model_type == "embedding" else {}
    return await engine.registry.add(user, NewModel(**(about | dimension | told)))


async def filled(engine: Engine, name: str = "医保", **told: Any) -> KnowledgeBase:
    base = await engine.create_knowledge_base(name, **told)
    await engine.add_documents(base.id, [Document(str(at), text, name=f"{at}.txt") for at, text in enumerate(TEXTS)])
    return base


def degraded(found: Recall) -> dict[str, str]:
    return {each.part: each.reason for each in found.degraded}


def hangs(exchange: Exchange) -> None:
    exchange.service.released.wait(60)


def test_the_owners_default_makes_the_vectors_and_serves_the_searches(tmp_path: Path) -> None:
    async def story() -> None:
        with serving(well) as embedding, serving(ranks_well) as rerank, serving(says('["住院的报销比例"]')) as chat:
            async with opened(tmp_path) as engine:
                one = await register(engine, embedding.url, "embedding", is_default=1)
                await register(engine, rerank.url, "rerank", is_default=1)
                await register(engine, chat.url, "rewrite", is_default=1)
                told = {"search.rerank": "default", "rewrite_model": "default"}
                base = await filled(engine, user_id="7", config=told)
                assert (base.embedding_model, base.dimension) == (one.ref, DIMENSION)
                found = await engine.retrieve(base.id, QUESTION)
                assert (found.degraded, found.found[0].chunk.text) == ((), TEXTS[0])
                assert (found.found[0].rerank, len(chat.asked), len(rerank.asked)) == (1.0 * 4 / 6, 1, 1)

    asyncio.run(story())


def test_models_that_are_disabled_or_gone_are_told_and_the_search_answers(tmp_path: Path) -> None:
    async def story() -> None:
        with serving(well) as embedding, serving(ranks_well) as rerank, serving(says('["甲"]')) as chat:
            async with opened(tmp_path) as engine:
                vectors = await register(engine, embedding.url, "embedding")
                second = await register(engine, rerank.url, "rerank")
                others = await register(engine, chat.url, "rewrite")
                told = {"search.rerank": second.ref, "rewrite_model": others.ref}
                base = await filled(engine, model=vectors.ref, config=told)
                await engine.registry.change("7", vectors.id, {"status": 0})
                await engine.registry.change("7", others.id, {"status": 0})
                await engine.registry.remove("7", second.id)
                asked = [len(each.asked) for each in (embedding, rerank, chat)]
                found = await engine.retrieve(base.id, QUESTION)
                assert found.found[0].chunk.text == TEXTS[0]
                reasons = degraded(found)
                assert "停用" in reasons["vector"]
                assert "停用" in reasons["rewrite"]
                assert "删去" in reasons["rerank"]
                assert asked == [len(each.asked) for each in (embedding, rerank, chat)]
                await engine.registry.change("7", vectors.id, {"status": 1})
                assert "vector" not in degraded(await engine.retrieve(base.id, QUESTION))

    asyncio.run(story())


def test_a_changed_reranker_is_heard_at_once_not_what_the_old_one_said(tmp_path: Path) -> None:
    """Answers and scores are both kept for repeated questions: neither may outlive the model that gave them."""

    async def story() -> None:
        with serving(ranks_well) as rerank, serving(status(500)) as broken:
            async with opened(tmp_path) as engine:
                one = await register(engine, rerank.url, "rerank", api_key="")
                base = await filled(engine, config={"search.rerank": one.ref})
                for _ in range(2):
                    assert (await engine.retrieve(base.id, QUESTION)).degraded == ()
                assert len(rerank.asked) == 1
                await engine.registry.change("7", one.id, {"base_url": broken.url})
                assert "500" in degraded(await engine.retrieve(base.id, QUESTION))["rerank"]
                await engine.registry.change("7", one.id, {"base_url": rerank.url, "model_name": "m2"})
                assert (await engine.retrieve(base.id, QUESTION)).degraded == ()
                assert [each["model"] for each in rerank.asked] == ["m", "m2"]

    asyncio.run(story())


def test_a_reranker_that_a_request_asks_for_has_to_be_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as engine:
            chat = await register(engine, "https://example.com", "chat")
            disabled = await register(engine, "https://example.com", "rerank", status=0)
            foreign = await register(engine.of("乙"), "https://example.com", "rerank")
            base = await filled(engine)
            for ref in ("user-model:99", "user-model:x", foreign.ref):
                with pytest.raises(NotFound):
                    await engine.retrieve(base.id, QUESTION, rerank=ref)
                with pytest.raises(NotFound):
                    await engine.explain(base.id, QUESTION, rerank=ref)
            with pytest.raises(BadInput, match="chat"):
                await engine.retrieve(base.id, QUESTION, rerank=chat.ref)
            assert "停用" in degraded(await engine.retrieve(base.id, QUESTION, rerank=disabled.ref))["rerank"]

    asyncio.run(story())


def test_a_base_cannot_be_given_another_tenants_model(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as engine:
            other = engine.of("乙")
            vectors = await register(engine, "https://example.com", "embedding")
            chat = await register(engine, "https://example.com", "chat")
            second = await register(engine, "https://example.com", "rerank")
            with pytest.raises(NotFound):
                await other.create_knowledge_base("库", model=vectors.ref)
            for told in ({"qa_model": chat.ref}, {"rewrite_model": chat.ref}, {"search.rerank": second.ref}):
                with pytest.raises(NotFound):
                    await other.create_knowledge_base("库", config=told)
            base = await other.create_knowledge_base("库", user_id="7")  # whose default there is nobody's
            assert base.embedding_model == "near"
            for told in ({"qa_model": chat.ref}, {"search.rerank": second.ref}):
                with pytest.raises(NotFound):
                    await other.configure(base.id, told)
            with pytest.raises(NotFound):
                await other.admin.rebuild(base.id, model=vectors.ref)

    asyncio.run(story())


def test_documents_wait_for_a_disabled_model_and_come_in_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        with serving(well) as embedding:
            async with opened(tmp_path) as engine:
                one = await register(engine, embedding.url, "embedding")
                base = await filled(engine, model=one.ref)
                await engine.registry.change("7", one.id, {"status": 0})
                await engine.add_documents(base.id, [Document("新", "住院起付线为八百元。", name="新.txt")])
                waiting = await engine.document(base.id, "新")
                assert (waiting.status, "停用" in (waiting.reason or "")) == ("retrying", True)
                await engine.registry.change("7", one.id, {"status": 1})
                while (await engine.document(base.id, "新")).status != "indexed":
                    await asyncio.sleep(0.1)
                    await engine.drain(base.id)
                found = await engine.retrieve(base.id, "起付线", mode="vector")
                assert "新" in [each.chunk.doc_id for each in found.found]

    asyncio.run(story())


def test_a_base_can_be_told_of_a_model_that_is_disabled_and_of_none_of_another_type(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as engine:
            off = await register(engine, "https://example.com", "rerank", status=0)
            chat = await register(engine, "https://example.com", "chat")
            base = await filled(engine, config={"search.rerank": off.ref, "rewrite_model": "default"})
            assert set(degraded(await engine.retrieve(base.id, QUESTION))) == {"rewrite", "rerank"}
            for told in ({"search.rerank": chat.ref}, {"qa_model": off.ref}):
                with pytest.raises(BadInput, match="模型"):
                    await engine.configure(base.id, told)
            with pytest.raises(BadInput, match="embedding"):
                await engine.create_knowledge_base("库", model=chat.ref)

    asyncio.run(story())


def test_a_new_owner_brings_other_defaults(tmp_path: Path) -> None:
    async def story() -> None:
        with serving(says('["甲"]')) as of_seven, serving(says('["乙"]')) as of_eight:
            async with opened(tmp_path) as engine:
                await register(engine, of_seven.url, "rewrite", is_default=1)
                await register(engine, of_eight.url, "rewrite", user="8", is_default=1)
                base = await filled(engine, user_id="7", config={"rewrite_model": "default"})
                await engine.retrieve(base.id, QUESTION)
                await engine.configure(base.id, {"user_id": "8"})
                await engine.retrieve(base.id, QUESTION)
                assert (len(of_seven.asked), len(of_eight.asked)) == (1, 1)

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["embedding", "rewrite", "rerank"])
def test_a_model_that_hangs_in_searches_takes_nothing_from_another(tmp_path: Path, kind: str) -> None:
    """Searches that were given up leave their calls behind; those of one model count for that model alone."""

    async def story() -> None:
        seconds = {"arm_seconds": 0.2, "rerank_seconds": 0.2, "rewrite_seconds": 0.2}
        sound = {"embedding": well, "rewrite": says('["甲"]'), "rerank": ranks_well}[kind]
        first = [well] if kind == "embedding" else []
        with serving(*first, hangs) as hanging, serving(sound) as healthy:
            async with opened(tmp_path, **seconds) as engine:
                bad, good = [await register(engine, each.url, kind) for each in (hanging, healthy)]
                poor, well_off = [await filled(engine, one.ref, **named(kind, one)) for one in (bad, good)]
                asked = [engine.retrieve(poor.id, f"{QUESTION}{at}") for at in range(12)]
                given_up = await asyncio.gather(*asked, return_exceptions=True)
                # On a busy machine the words may be late, too: then the whole search fails, as it says.
                assert all(isinstance(found, RecallFailed) or found.degraded for found in given_up)
                for at in range(3):
                    await asked_until_well(engine, well_off, f"{QUESTION}{at}")
                hanging.released.set()

    asyncio.run(story())


async def asked_until_well(engine: Engine, base: KnowledgeBase, question: str) -> None:
    """A fifth of a second may pass a busy machine by; that the other model hangs lasts longer than is tried here."""
    async with asyncio.timeout(20):
        while True:
            with suppress(RecallFailed):
                if not (await engine.retrieve(base.id, question)).degraded:
                    return


def named(kind: str, one: UserModel) -> dict[str, Any]:
    if kind == "embedding":
        return {"model": one.ref}
    return {"config": {"rewrite_model" if kind == "rewrite" else "search.rerank": one.ref}}


@pytest.mark.parametrize("kind", ["embedding", "qa"])
def test_a_model_that_hangs_in_many_documents_keeps_nobody_else_waiting(tmp_path: Path, kind: str) -> None:
    async def story() -> None:
        loop, has_begun = asyncio.get_running_loop(), asyncio.Event()

        def hangs_aloud(exchange: Exchange) -> None:
            if len(exchange.service.asked) >= min(THREADS, CONCURRENT_REMOTE_CALLS):
                loop.call_soon_threadsafe(has_begun.set)
            hangs(exchange)

        with serving(hangs_aloud) as hanging:
            async with opened(tmp_path) as engine:
                bad = await register(engine, hanging.url, kind)
                told = {"model": bad.ref} if kind == "embedding" else {"config": {"qa_model": bad.ref}}
                bases = [await engine.create_knowledge_base(f"库{at}", **told) for at in range(THREADS)]
                documents = [Document("1", TEXTS[0], name="1.txt")]
                adding = [asyncio.create_task(engine.add_documents(base.id, documents)) for base in bases]
                await has_begun.wait()
                other = engine.of("乙")
                async with asyncio.timeout(20):
                    base = await filled(other)
                    assert (await other.retrieve(base.id, QUESTION)).found[0].chunk.text == TEXTS[0]
                for task in adding:
                    task.cancel()
                hanging.released.set()
                await asyncio.gather(*adding, return_exceptions=True)

    asyncio.run(story())


def test_a_disabled_default_is_said_where_a_base_would_take_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as engine:
            await register(engine, "https://example.com", "embedding", is_default=1, status=0)
            with pytest.raises(ModelUnavailable, match="停用"):
                await engine.create_knowledge_base("库", user_id="7")
            assert (await engine.create_knowledge_base("库", user_id="8")).embedding_model == "near"

    asyncio.run(story())
