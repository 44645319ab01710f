"""What a score promises, in every mode: sorted as shown, thresholds cut only, shorter lists are beginnings of longer
ones, ties by key, and the same search on the same state gives the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.codec.digests import digest
from qianxun.core.types import EVERYTHING, Document, Eq, Recall, matches
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Search, Settings, Vectorization
from qianxun.rank.calibrate import Chance, Curves
from qianxun.testing.scripted import HashEmbedding
from tests.answer.asked import FakeRerank, Opened, near_ties
from tests.hypothesis_settings import SLOW_OR_SHARED, examples
from tests.sampling import share
from tests.shared import MODELS, needs_model

UNKEPT = Search(cache_entries=0)
RERANKERS = (FakeRerank("some", 0.3), FakeRerank("all", 1.0))
FITTED = Curves((0.45, 12.0), (0.3, 9.0), (0.6, 10.0))
CHANCES = {name: Chance(-2.3, 16.0, 30.0, 5.0, -4.0) for name in ("vector", "hybrid", "reranked")}
# As fitted for a real model, by what is related and by what is right; so steep that all scores show as 0 or 1, hence as
# ties; none.
CURVES = (FITTED, replace(FITTED, chances=CHANCES), Curves((0.3, 1e5), (0.3, 1e5), (0.3, 1e5)), Curves())

searches = st.fixed_dictionaries(
    {
        "query": st.sampled_from(
            [
                "住院报销比例",
                "门诊的起付标准",
                "规定",
                "异地就医备案材料 百分之七十",
                "住院抱销比例",
                "BX-2025 住院",
                "zz",
                "的",
            ]
        ),
        "mode": st.sampled_from(["hybrid", "vector", "fulltext"]),
        "fusion": st.sampled_from(["weighted", "min_max", "rrf"]),
        "rerank": st.sampled_from(["", "some", "all"]),
        "fuzzy": st.booleans(),
        "weights": st.sampled_from(
            [
                None,
                {"vector": 0.5, "keyword": 0.5},
                {"vector": 1.0, "keyword": 0.0},
                {"keyword": 1e308, "vector": 1e308},
            ]
        ),
        "doc_ids": st.sampled_from([(), ("d00", "d01", "d20", "d60", "没有")]),
        "where": st.sampled_from([EVERYTHING, Eq("user_id", "张三")]),
    }
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("ties"), near_ties(), *RERANKERS, search=UNKEPT) as held:
        yield held


def shown(recall: Recall) -> list[tuple[int, float]]:
    return [(each.chunk.key, each.score) for each in recall.found]


def follows_the_contract(shelf: Opened, asked: dict[str, Any], few: int, threshold: float) -> None:
    longest = shelf.ask(**asked, top_k=100)
    assert {note.part for note in longest.degraded} <= ({"document"} if asked["doc_ids"] else set())  # one is unknown
    every = shown(longest)
    assert [(-score, key) for key, score in every] == sorted((-score, key) for key, score in every)
    assert all(0.0 <= score <= 1.0 for _, score in every)
    assert len({key for key, _ in every}) == len(every)
    for top_k in (few, 3, 8, 60):
        assert shown(shelf.ask(**asked, top_k=top_k)) == every[:top_k]
    above = shown(shelf.ask(**asked, top_k=100, threshold=threshold))
    if asked["doc_ids"]:
        assert above == every  # thresholds do not hold for documents that were named
    else:
        assert above == [each for each in every if each[1] >= threshold]
    for each in longest.found:
        assert matches(asked["where"], each.chunk.attributes)
        assert not asked["doc_ids"] or each.chunk.doc_id in asked["doc_ids"]
        assert asked["fuzzy"] or each.tier != "fuzzy"
    assert digest(shelf.ask(**asked, top_k=100)) == digest(longest)


@examples(45, suppress_health_check=SLOW_OR_SHARED)
@given(
    asked=searches,
    few=st.integers(1, 60),
    threshold=st.floats(0.0, 1.0) | st.just(1.0),
    curves=st.sampled_from(CURVES),
)
def test_the_score_contract(shelf: Opened, asked: dict[str, Any], few: int, threshold: float, curves: Curves) -> None:
    shelf.run(shelf.engine.base(shelf.kb)).curves = curves
    follows_the_contract(shelf, asked, few, threshold)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "fulltext"])
@pytest.mark.parametrize("rerank", ["", "some", "all"])
def test_equal_texts_score_alike_and_stand_by_key(shelf: Opened, mode: str, rerank: str) -> None:
    shelf.run(shelf.engine.base(shelf.kb)).curves = Curves()
    found = shelf.ask("住院的报销比例", mode=mode, rerank=rerank, top_k=100).found
    by_text: dict[str, list[Any]] = {}
    for each in found[:50]:
        by_text.setdefault(each.chunk.text, []).append(each)
    assert max(map(len, by_text.values())) > 1
    for alike in by_text.values():
        assert len({each.score for each in alike}) == 1
        assert [each.chunk.key for each in alike] == sorted(each.chunk.key for each in alike)


def test_what_was_not_read_again_never_rises_above_what_was(shelf: Opened) -> None:
    shelf.run(shelf.engine.base(shelf.kb)).curves = Curves()
    for model in RERANKERS:
        found = shelf.ask("医疗保障局的规定", rerank=model.name, top_k=100).found
        read = [each.rerank is not None for each in found]
        assert sum(read) == 50 < len(found)
        lowest = min(each.score for each in found if each.rerank is not None)
        assert all(each.score <= lowest for each in found if each.rerank is None)


def test_lagging_behind_deletes_shorter_lists_are_still_beginnings_of_longer_ones(tmp_path: Path) -> None:
    """Most of the candidates are of record no more, though the index still names them."""
    texts = [f"第{number}条 报销比例" + "的规定" * (number % 7) for number in range(520)]
    documents = [Document(f"d{number:03}", text) for number, text in enumerate(texts)]
    with Opened(tmp_path, documents, search=UNKEPT) as shelf:
        with shelf.engine.records.writing() as tx:
            tx.exec_driver_sql("DELETE FROM chunk_vectors WHERE chunk_key % 5 <> 0")
            tx.exec_driver_sql("DELETE FROM chunks WHERE key % 5 <> 0")
        every = shown(shelf.ask("报销比例的规定 第7条", top_k=100))
        assert len(every) == 100
        for top_k in (3, 8, 60):
            assert shown(shelf.ask("报销比例的规定 第7条", top_k=top_k)) == every[:top_k]


def test_the_same_bytes_from_the_cache_after_reopening_and_after_a_rebuild(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [
        {"query": "住院报销比例", "mode": mode, "rerank": rerank, "fusion": fusion}
        for mode in ("hybrid", "vector", "fulltext")
        for rerank, fusion in (("", "weighted"), ("some", "rrf"))
    ]
    with Opened(tmp_path, near_ties(), *RERANKERS) as shelf:
        fresh = [shelf.ask(**each) for each in options]
        kept = [shelf.ask(**each) for each in options]
        assert not any(each.from_cache for each in fresh)
        assert all(each.from_cache for each in kept)
        assert list(map(digest, kept)) == list(map(digest, fresh))
        shelf.run(shelf.engine.admin.rebuild(shelf.kb))
        rebuilt = [shelf.ask(**each) for each in options]
        assert not any(each.from_cache for each in rebuilt)
        assert list(map(digest, rebuilt)) == list(map(digest, fresh))
    with Opened(tmp_path, (), *RERANKERS) as shelf:
        assert [digest(shelf.ask(**each)) for each in options] == list(map(digest, fresh))


@needs_model
def test_the_score_contract_with_a_real_model(tmp_path: Path) -> None:
    told = Settings(
        data=str(tmp_path), search=UNKEPT, vectorization=Vectorization(model_folders=(str(MODELS),), threads=1)
    )
    with Opened(tmp_path, near_ties()[:45], settings=told, model="bge-small-zh-v1.5") as shelf:
        for mode in ("hybrid", "vector", "fulltext"):
            for rerank, fusion in (("", "weighted"), ("maxsim", "weighted"), ("", "rrf")):
                asked = {"query": "看门诊能报多少", "mode": mode, "rerank": rerank, "fusion": fusion}
                follows_the_contract(shelf, asked | {"doc_ids": (), "where": EVERYTHING, "fuzzy": True}, 5, 0.4)


def test_searches_under_writes_and_a_rebuild_see_one_state_each(tmp_path: Path) -> None:
    """Several at once, while documents change version, some go, and the index is made anew."""

    async def story() -> None:
        told = Settings(data=str(tmp_path), search=Search(arm_seconds=120.0))  # busy machines are not what is tried
        async with Engine.open(settings=told, models={"fake-64": HashEmbedding()}) as engine:
            kb = (await engine.create_knowledge_base("医保", model="fake-64")).id
            await engine.add_documents(kb, [_version(number, 0) for number in range(12)])
            gone: set[str] = set()
            stopped = asyncio.Event()

            async def write() -> None:
                for turn in range(1, share(6, 4)):
                    await engine.add_documents(kb, [_version(number, turn) for number in range(turn, 12, 3)])
                    await engine.delete_document(kb, f"d{turn}")
                    gone.add(f"d{turn}")
                stopped.set()

            async def search(number: int) -> None:
                while True:
                    before, is_last = set(gone), stopped.is_set()
                    mode = ("hybrid", "vector", "fulltext")[number % 3]
                    recall = await engine.retrieve(kb, f"第{number}版的报销比例，其他规定照旧", mode=mode, top_k=100)  # type: ignore[arg-type]
                    assert recall.degraded == ()
                    assert recall.found
                    versions: dict[str, set[int]] = {}
                    for each in recall.found:
                        versions.setdefault(each.chunk.doc_id, set()).add(each.chunk.generation)
                    assert not [doc_id for doc_id, held in versions.items() if len(held) > 1], recall.generation
                    assert not before & versions.keys()
                    if is_last:
                        return

            async with asyncio.TaskGroup() as group:
                group.create_task(write())
                group.create_task(engine.admin.rebuild(kb))
                for number in range(share(12, 6)):
                    group.create_task(search(number))

    asyncio.run(story())


def _version(number: int, turn: int) -> Document:
    """Of two chunks, so that a mixture would show."""
    lines = f"第{turn}版的报销比例，文件{number}。" + "其他规定，照旧执行。" * 55
    return Document(f"d{number}", lines, name=f"文件{number}")
