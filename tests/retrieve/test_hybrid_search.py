"""`HybridSearchEngine`: one user's one project, meaning and words fused by rank."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import qianxun
from qianxun.core.errors import BadQuery, RecallFailed
from qianxun.core.log_types import LogFilter
from qianxun.core.types import LOCAL_TENANT
from qianxun.engine.engine import Engine
from qianxun.records import logs
from qianxun.retrieve.hybrid_search import HybridSearchEngine
from tests.indexing.opened import doc, opened

OWN: dict[str, Any] = {"user_id": "张三", "project_id": "长篇"}
LIBRARY = [
    doc("第一章", "林黛玉进贾府，初见外祖母。", content_type="chapter", metadata={"卷": 1}, **OWN),
    doc("第二章", "贾府设宴，林黛玉与众姐妹相见。", content_type="chapter", **OWN),
    doc("人物", "林黛玉：体弱，善诗，寄居贾府。", content_type="character", **OWN),
    doc("他人", "林黛玉进贾府，初见外祖母。", content_type="chapter", user_id="李四", project_id="长篇"),
    doc("别的项目", "林黛玉进贾府，初见外祖母。", user_id="张三", project_id="短篇"),
    doc("无主", "林黛玉进贾府，初见外祖母。"),
]

Story = Callable[[Engine, int], Awaitable[None]]


def over_the_library(folder: Path, story: Story, model: str = "fake-64") -> None:
    async def told() -> None:
        async with opened(folder, model=model) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            await story(engine, kb)

    asyncio.run(told())


@pytest.mark.parametrize("enable_hybrid", [True, False])
def test_only_one_users_one_project_is_searched(tmp_path: Path, enable_hybrid: bool) -> None:
    async def story(engine: Engine, kb: int) -> None:
        own = HybridSearchEngine(await engine.base(kb))

        async def found(user: str, project: str, *types: str) -> set[str]:
            results = await own.search("林黛玉 贾府", user, project, 10, types or None, enable_hybrid)
            assert all((one.metadata["user_id"], one.metadata["project_id"]) == (user, project) for one in results)
            return {one.document_id for one in results}

        assert await found("张三", "长篇") == {"第一章", "第二章", "人物"}
        assert await found("张三", "长篇", "chapter") == {"第一章", "第二章"}
        assert await found("李四", "长篇") == {"他人"}
        assert await found("李四", "短篇") == set()
        assert await found("", "") == {"无主"}

    over_the_library(tmp_path, story)


def test_a_result_says_what_the_seed_says_of_it(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        own = await engine.hybrid_search(kb)
        (first,) = await own.search("初见外祖母", **OWN, top_k=1)
        assert first.id == first.chunk_id == f"c_{kb}_第一章_0"
        assert (first.document_id, first.chunk_text) == ("第一章", LIBRARY[0].content)
        assert 0.0 < first.score <= 1.0
        assert any("外祖母" in each for each in first.highlights)
        assert first.metadata == {
            "卷": 1,
            **OWN,
            "content_type": "chapter",
            "document_name": "第一章",
            "chunk_index": 0,
        }

    over_the_library(tmp_path, story)


def test_ranks_are_fused_with_the_weights_of_the_seed(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        results = await HybridSearchEngine(base).search("林黛玉善诗", **OWN)
        by_words, by_meaning = [
            [one.document_id for one in await HybridSearchEngine(base, None, *weights).search("林黛玉善诗", **OWN)]
            for weights in ((0.0, 1.0), (1.0, 0.0))
        ]
        for one in results:
            word, meaning = (by.index(one.document_id) + 1 for by in (by_words, by_meaning))
            assert one.score == pytest.approx(0.7 * 61 / (60 + meaning) + 0.3 * 61 / (60 + word))
        assert [one.score for one in results] == sorted((one.score for one in results), reverse=True)

    over_the_library(tmp_path, story)


def test_words_find_what_vectors_missed(tmp_path: Path) -> None:
    """The seed scored words over vector hits alone; here a keyword hit needs no vector hit."""

    async def story(engine: Engine, kb: int) -> None:
        results = await HybridSearchEngine(await engine.base(kb)).search("善诗", **OWN)
        assert (results[0].document_id, results[0].source) == ("人物", "keyword")

    over_the_library(tmp_path, story, model="none")


def test_meaning_alone_without_a_model_is_an_error_and_not_nothing(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        own = HybridSearchEngine(await engine.base(kb))
        with pytest.raises(RecallFailed):
            await own.search("善诗", **OWN, enable_hybrid=False)

    over_the_library(tmp_path, story, model="none")


def test_what_could_widen_or_empty_a_search_is_refused(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        base = await engine.base(kb)
        own = HybridSearchEngine(base)
        refused: list[dict[str, Any]] = [
            {"user_id": None, "project_id": "长篇"},
            {"user_id": "张三", "project_id": None},
            {**OWN, "content_types": "chapter"},
            {**OWN, "top_k": 0},
            {**OWN, "query": "  "},
        ]
        for wrong in refused:
            with pytest.raises(BadQuery):
                await own.search(**{"query": "林黛玉", **wrong})
        for weights in ((0.0, 0.0), (-1.0, 2.0), (float("nan"), 0.3), (float("inf"), 0.3)):
            with pytest.raises(BadQuery):
                HybridSearchEngine(base, None, *weights)
        with pytest.raises(BadQuery):
            HybridSearchEngine(base, fusion="sum")  # type: ignore[arg-type]

    over_the_library(tmp_path, story)


def test_the_engines_own_are_logged_and_cached_apart_by_owner(tmp_path: Path) -> None:
    async def story(engine: Engine, kb: int) -> None:
        own = await engine.hybrid_search(kb)
        mine = await own.search("林黛玉进贾府", **OWN)
        assert await own.search("林黛玉进贾府", **OWN) == mine
        theirs = await own.search("林黛玉进贾府", "李四", "长篇")
        assert {one.document_id for one in theirs} == {"他人"}
        await engine.journal.flush()
        with engine.records.reading() as tx:
            logged = logs.listed(tx, LogFilter(knowledge_base=kb), tenant=LOCAL_TENANT)
        assert [row.from_cache for row in sorted(logged, key=lambda row: row.id)] == [False, True, False]

    over_the_library(tmp_path, story)


def test_the_names_of_the_seed_are_exported() -> None:
    for name in qianxun.__all__:
        assert name.isupper() or getattr(qianxun, name).__name__ in (name, "ResultRanker")
    assert qianxun.HybridSearchEngine is HybridSearchEngine
