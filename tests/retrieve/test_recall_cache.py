"""An answer is found again under everything it depends on, and under nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.codec.options import params_of
from qianxun.core.options import SearchOptions
from qianxun.core.system.cache import MemoryCache
from qianxun.core.types import Degraded, Generation, Recall
from qianxun.engine.engine import Engine
from qianxun.records import bases
from qianxun.retrieve.recall_cache import cache_key, get_cached, put_cached, replaying
from tests.hypothesis_settings import examples
from tests.indexing.opened import MODEL, doc, opened
from tests.retrieve.recalls import answer, filters

STATE = Generation(7, 7, "m", "1")
WHOLE = answer("住院报销比例", "住院报销八成")
PARAMS: dict[str, Any] = {"mode": "hybrid", "top_k": 5}
KEY = cache_key(1001, WHOLE.query, PARAMS, STATE)

params = st.builds(
    SearchOptions,
    mode=st.sampled_from(["hybrid", "vector"]),
    top_k=st.integers(1, 3),
    threshold=st.sampled_from([0.0, -0.0, 0.5]),
    where=filters,
    weights=st.dictionaries(st.sampled_from(["vector", "keyword"]), st.sampled_from([0.0, 0.5, 1.0])),
).map(params_of)


def test_the_key_says_what_it_is_made_of() -> None:
    head, kind, base, asked, told, state = KEY.split(":")
    assert (head, kind, base, state) == ("rag", "retrieval", "1001", "7.7.m.1")
    assert asked == hashlib.md5("住院报销比例".encode()).hexdigest()
    assert len(told) == 32


@examples(200)
@given(params, params)
def test_two_parameter_sets_share_a_key_only_when_they_are_the_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    same = json.dumps(one, sort_keys=True, ensure_ascii=False) == json.dumps(two, sort_keys=True, ensure_ascii=False)
    assert (cache_key(1, "甲", one, STATE) == cache_key(1, "甲", two, STATE)) == same


@pytest.mark.parametrize(
    "other",
    [
        cache_key(1002, WHOLE.query, PARAMS, STATE),
        cache_key(1001, WHOLE.query + " ", PARAMS, STATE),
        cache_key(1001, WHOLE.query, {**PARAMS, "top_k": 6}, STATE),
        cache_key(1001, WHOLE.query, {**PARAMS, "top_k": 5.0}, STATE),
        cache_key(1001, WHOLE.query, PARAMS, replace(STATE, records=8)),
        cache_key(1001, WHOLE.query, PARAMS, replace(STATE, index=8)),
    ],
)
def test_whatever_changes_the_answer_changes_the_key(other: str) -> None:
    assert other != KEY


def test_the_order_of_parameters_does_not_matter() -> None:
    assert cache_key(1001, WHOLE.query, {"top_k": 5, "mode": "hybrid"}, STATE) == KEY


def test_a_query_that_is_not_unicode_has_a_key() -> None:
    assert cache_key(1, "\ud800", PARAMS, STATE) != cache_key(1, "?", PARAMS, STATE)


def kept(recall: Recall) -> Recall | None:
    async def work() -> Recall | None:
        cache = MemoryCache()
        await put_cached(cache, KEY, recall, 60)
        return await get_cached(cache, KEY, recall.query)

    return asyncio.run(work())


def test_an_answer_is_remembered() -> None:
    assert kept(WHOLE) == WHOLE


def test_a_degraded_answer_is_not_remembered() -> None:
    assert kept(replace(WHOLE, degraded=(Degraded("vector", "模型不在"),))) is None


def test_another_querys_answer_under_the_same_key_counts_as_absent() -> None:
    async def work() -> None:
        cache = MemoryCache()
        await put_cached(cache, KEY, replace(WHOLE, query="md5 相同的另一句"), 60)
        assert await get_cached(cache, KEY, WHOLE.query) is None

    asyncio.run(work())


def test_a_replay_neither_asks_the_cache_nor_fills_it() -> None:
    async def work() -> None:
        cache = MemoryCache()
        with replaying():
            await put_cached(cache, KEY, WHOLE, 60)
        assert len(cache) == 0
        await put_cached(cache, KEY, WHOLE, 60)
        with replaying():
            assert await get_cached(cache, KEY, WHOLE.query) is None
        assert await get_cached(cache, KEY, WHOLE.query) == WHOLE

    asyncio.run(work())


def test_answers_that_a_write_outdated_leave_memory_with_the_next_search(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            cache = engine.cache
            assert isinstance(cache, MemoryCache)
            other = (await engine.create_knowledge_base("别的库", model=MODEL)).id
            for base in (kb, other):
                await engine.add_documents(base, [doc("甲", "住院报销八成"), doc("乙", "门诊报销七成")])
                for query in ("住院报销", "门诊报销", "报销"):
                    await engine.retrieve(base, query)
            assert len(cache) == 6
            await engine.add_documents(kb, [doc("甲", "住院报销九成")])
            for _ in range(2):
                await engine.retrieve(kb, "住院报销")
            assert len(cache) == 1 + 3
            again = [await engine.retrieve(base, "住院报销") for base in (kb, other)]
            assert [answer.from_cache for answer in again] == [True, True]
            assert [answer.results[0].chunk.text for answer in again] == ["住院报销九成", "住院报销八成"]

    asyncio.run(work())


def test_every_acknowledged_write_through_the_engine_raises_the_generation(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as (engine, kb):
            manager = await engine.manager(kb)
            events = await engine.events(kb)
            writes: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
                ("add", lambda: engine.add_documents(kb, [doc("甲", "住院报销八成")])),
                ("update", lambda: engine.add_documents(kb, [doc("甲", "住院报销九成")])),
                ("relabel", lambda: engine.add_documents(kb, [doc("甲", "住院报销九成", tags=("新",))])),
                ("add later", lambda: engine.add_documents(kb, [doc("乙", "门诊")], wait=False)),
                ("index", lambda: manager.index_document(doc("丙", "急诊"))),
                ("delete", lambda: engine.delete_document(kb, "甲")),
                ("add again", lambda: engine.add_documents(kb, [doc("甲", "住院报销九成")])),
                ("event", lambda: events.handle_document_deleted({"document_id": "丙"})),
                ("another model", lambda: engine.admin.rebuild(kb, model="none")),
            ]
            seen = [_generation(engine, kb)]
            for name, write in writes:
                await write()
                seen.append(_generation(engine, kb))
                assert seen[-1] > seen[-2], name

    asyncio.run(work())


def _generation(engine: Engine, kb: int) -> int:
    with engine.records.reading() as tx:
        return bases.generation(tx, kb)
