"""Document 004, 1.1 and 7.2: the collections user_private_kb and platform_kb are searched together, each under its own
filter; and the service counts its vectors and what they take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.errors import BadQuery, NotFound
from qianxun.core.types import EVERYTHING, Eq, Filter, all_of
from qianxun.testing.scripted import HashEmbedding
from tests.http.asking import asking

PRIVATE = [
    Document(id="第一章", content="林黛玉初进荣国府，步步留心。", user_id="u1", project_id="p1"),
    Document(id="草稿", content="林黛玉初进荣国府的草稿。", user_id="u1", project_id="p2"),
    Document(id="他人", content="林黛玉初进荣国府，别人写的。", user_id="u2", project_id="p1"),
]
PLATFORM = [
    Document(id="范文", content="林黛玉初进荣国府：范文赏析。", metadata={"visibility": "public"}),
    Document(id="待审", content="林黛玉初进荣国府：待审的范文。", metadata={"visibility": "draft"}),
]
QUERY = "林黛玉初进荣国府"
OWN = all_of(Eq("user_id", "u1"), Eq("project_id", "p1"))
PUBLIC = Eq("metadata.visibility", "public")

Story = Callable[[Engine, int, int], Awaitable[None]]


def over_both(folder: Path, story: Story) -> None:
    async def run() -> None:
        async with Engine.open(folder, models={"fake-64": HashEmbedding()}, background=False) as engine:
            bases = []
            for name, documents in (("user_private_kb", PRIVATE), ("platform_kb", PLATFORM)):
                base = await engine.create_knowledge_base(name, model="fake-64")
                await engine.add_documents(base.id, documents)
                bases.append(base.id)
            await story(engine, *bases)

    asyncio.run(run())


async def doc_ids(engine: Engine, filters: dict[int, Filter], **choices: int) -> dict[str, int]:
    recall = await engine.retrieve_many(filters, QUERY, **choices)  # type: ignore[arg-type]
    assert recall.degraded == ()
    scores = [one.found.score for one in recall.found]
    assert scores == sorted(scores, reverse=True)
    return {one.found.chunk.doc_id: one.knowledge_base for one in recall.found}


def test_one_call_searches_both_under_both_filters(tmp_path: Path) -> None:
    async def story(engine: Engine, private: int, platform: int) -> None:
        own, public = {"第一章": private}, {"范文": platform}
        assert await doc_ids(engine, {private: OWN, platform: PUBLIC}) == own | public
        assert await doc_ids(engine, {private: OWN, platform: EVERYTHING}) == own | public | {"待审": platform}
        assert len(await doc_ids(engine, {private: OWN, platform: PUBLIC}, top_k=1)) == 1
        everything = await engine.retrieve_many([private, platform], QUERY)
        assert len(everything.found) == 5
        narrowed = await engine.retrieve_many([private, platform], QUERY, where=PUBLIC)
        assert [one.found.chunk.doc_id for one in narrowed.found] == ["范文"]

    over_both(tmp_path, story)


def test_what_is_wrong_with_the_call_is_raised(tmp_path: Path) -> None:
    async def story(engine: Engine, private: int, platform: int) -> None:
        with pytest.raises(NotFound):
            await engine.retrieve_many({private: OWN, 9999: EVERYTHING}, QUERY)
        with pytest.raises(NotFound):
            await engine.of("别的租户").retrieve_many([private, platform], QUERY)
        with pytest.raises(BadQuery):
            await engine.retrieve_many([private, platform], "  ")

    over_both(tmp_path, story)


def test_the_writing_platforms_engine_searches_both(tmp_path: Path) -> None:
    async def story(engine: Engine, private: int, platform: int) -> None:
        hybrid = await engine.hybrid_search(private, platform=platform, platform_where=PUBLIC)
        results = await hybrid.search(QUERY, "u1", "p1", top_k=10)
        assert {(one.document_id, one.metadata["knowledge_base"]) for one in results} == {
            ("第一章", private),
            ("范文", platform),
        }
        scores = [one.score for one in results]
        assert scores == sorted(scores, reverse=True)
        assert len(await hybrid.search(QUERY, "u1", "p1", top_k=1)) == 1
        assert await hybrid.search(QUERY, "u1", "p1", content_types=["chapter"]) == []

    over_both(tmp_path, story)


def test_metrics_count_the_vectors_and_the_disk(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            await at.base(*PRIVATE)
            lines = (await at.http.get("/metrics")).text.splitlines()
            values = {
                name: float(value) for name, _, value in (line.partition(" ") for line in lines if line[0] != "#")
            }
            assert values["rag_vectors"] == 3.0
            assert values['rag_disk_bytes{part="records"}'] > 0.0
            assert values['rag_disk_bytes{part="index"}'] > 0.0

    asyncio.run(story())
