"""What a client of the real service gives is what the engine behind it gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.errors import BadFilter, BadInput, BadQuery, NotFound
from qianxun.core.explanation import Explained
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.log_types import Feedback
from qianxun.core.types import And, Document, Eq, In, KnowledgeBase, Not, Or, QAPair, Range, Recall, Spelled
from qianxun.doors.client import Client
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding, ScriptedReranker
from tests.http.served import MODEL, serving
from tests.sampling import share

LIBRARY = (
    Document(
        "制度/差旅",
        "# 差旅\n\n出差住宿每晚不超过 380 元，凭發票报销。\n\n## 交通\n\n高铁二等座。",
        name="差旅.md",
        format="markdown",
    ),
    Document(
        "价目",
        "<h1>价目</h1><table><tr><th>编号</th><th>品名</th><th>单价</th></tr><tr><td>QH-2087</td><td>升降书桌</td>"
        "<td>2199</td></tr><tr><td>QH-1001</td><td>复印纸</td><td>22.5</td></tr></table>",
        name="价目.html",
        format="html",
        content_type="table",
        tags=("采购", "2026"),
    ),
    Document(
        "假期",
        "年休假为 7 天，工龄满十年为 10 天。" * 30,
        name="假期",
        user_id="u1",
        metadata={"年份": 2024, "公开": True},
    ),
    Document(
        "医保..%2F?#",
        "住院费用在职职工报销 85%，退休职工报销 90%。门诊费用报销 60%。",
        name="医保 手册.txt",
        project_id="p1",
        metadata={"年份": 2026, "比例": 0.85, "地区": ("北京", "上海"), "级别": "三级"},
        pairs=(QAPair("住院能报多少", "85%"),),
        source="https://example.com/医保",
    ),
)
QUERIES = (
    "住院能报多少",
    "QH-2087",
    "发票",
    "@假期 天数",
    "年休假几天 升降书桌多少钱",
    "Ｑh－2087 书卓",
    "量子纠缠",
    "住院 门诊 高铁 复印纸 年休假",
)
FILTERS = (
    Eq("user_id", "u1"),
    In("tags", ("采购", "没有")),
    Range("metadata.年份", ge=2025, lt=2027.5),
    Or((Spelled("metadata.部门", contains="保"), Not(Spelled("doc_id", starts="a", ends="z")))),
    And((Not(Eq("content_type", "table")), Or((Eq("metadata.公开", True), Eq("metadata.地区", "上海"))))),
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 1},
    {"threshold": 0.3},
    {"fuzzy": False},
    {"fusion": "rrf"},
    {"fusion": "min_max", "weights": {"vector": 0.2, "keyword": 0.8}},
    {"weights": {"keyword": 1.0}},
    {"rerank": "long-first"},
    {"rerank": "", "top_k": 2},
    {"rerank": "long-first", "fusion": "rrf", "threshold": 0.05, "fuzzy": True},
    {"doc_ids": ("价目", "没有这个")},
    *({"where": where} for where in FILTERS),
)


def half(*each: Sequence[Any], one_in: int = 2) -> list[tuple[Any, ...]]:
    """Every other combination: each value meets half of the others."""
    places = product(*(range(len(values)) for values in each))
    return [tuple(map(getitem, each, chosen)) for chosen in places if sum(chosen) % one_in == 0]


@dataclass(frozen=True)
class Both:
    engine: Engine
    client: Client
    base: KnowledgeBase

    async def chunk_ids(self) -> list[str]:
        held = [await self.engine.chunks(self.base.id, one.id) for one in LIBRARY]
        return [chunk.chunk_id for chunks in held for chunk in chunks]


@asynccontextmanager
async def both(folder: Path, **config: Any) -> AsyncIterator[Both]:
    models: Any = (
        HashEmbedding(),
        ScriptedReranker(lambda _, passage: min(len(passage) / 1000, 1.0), name="long-first"),
    )
    async with serving(folder, {"search.cache_entries": 0}, *models) as served, Client(served.url) as client:
        base = await client.create_knowledge_base("手册", model=MODEL, config=config)
        taken = await client.add_documents(base.id, LIBRARY)
        assert [(one.doc_id, one.outcome) for one in taken] == [(one.id, "created") for one in LIBRARY]
        assert all(one.chunk_keys for one in taken)
        yield Both(served.engine, client, base)


def told(recall: Recall) -> Recall:
    """Without what differs between two runs of one search, and without the keys of rows."""
    return replace(
        recall,
        seconds=0.0,
        trace_id="",
        steps=tuple(replace(step, seconds=0.0) for step in recall.steps),
        results=tuple(replace(found, chunk=replace(found.chunk, key=0)) for found in recall.found),
    )


def said(explained: Explained) -> Explained:
    why = explained.chunk
    if why is not None and why.chunk is not None:
        why = replace(why, chunk=replace(why.chunk, key=0))
    return replace(explained, answer=told(explained.answer), chunk=why)


def test_a_search_is_the_same_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        modes: tuple[Any, ...] = ("hybrid", "vector", "fulltext")
        async with both(tmp_path) as here:
            found, asked = dict.fromkeys(modes, 0), half(QUERIES, OPTIONS, modes, one_in=share(2, 6))
            for query, options, mode in asked:
                by_client = await here.client.retrieve(here.base.id, query, mode=mode, **options)
                by_engine = await here.engine.retrieve(here.base.id, query, mode=mode, **options)
                assert told(by_client) == told(by_engine), (query, options, mode)
                found[mode] += len(by_client.found)
            assert all(count > len(asked) // len(modes) for count in found.values())

    asyncio.run(work())


def test_a_base_s_own_choices_hold_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        config = {"search": {"rerank": "long-first", "top_k": 2, "weights": {"vector": 0.9, "keyword": 0.1}}}
        async with both(tmp_path, **config) as here:
            options: tuple[dict[str, Any], ...] = (
                {},
                {"rerank": ""},
                {"mode": "fulltext"},
                {"top_k": 3, "fusion": "rrf"},
            )
            answers = []
            for query, chosen in half(QUERIES, options, one_in=share(1, 2)):
                by_client = await here.client.retrieve(here.base.id, query, **chosen)
                assert told(by_client) == told(await here.engine.retrieve(here.base.id, query, **chosen)), (
                    query,
                    chosen,
                )
                answers.append(by_client)
            assert any(found.rerank is not None for answer in answers for found in answer.found)
            assert any(len(answer.found) == 2 for answer in answers)

    asyncio.run(work())


def climbed(recall: LayeredRecall) -> LayeredRecall:
    return replace(
        recall,
        seconds=0.0,
        trace_id="",
        layers=tuple(replace(run, seconds=0.0) for run in recall.layers),
        results=tuple(replace(each, doc=replace(each.doc, key=0)) for each in recall.results),
    )


def test_a_layered_recall_is_the_same_through_the_service(tmp_path: Path) -> None:
    loose = {"table_engine": {"keyword_threshold": 0.1}, "text_engine": {"keyword_threshold": 0.1}}

    async def work() -> None:
        async with both(tmp_path, **loose) as here:
            asked: tuple[dict[str, Any], ...] = ({}, {"top_k": 1}, {"where": FILTERS[3]}, {"where": FILTERS[1]})
            answers: list[LayeredRecall] = []
            for query, options in half((*QUERIES, "升降书桌的单价", "有几种品名"), asked):
                prose = await here.client.search_texts(here.base.id, query, **options)
                assert climbed(prose) == climbed(await here.engine.search_texts(here.base.id, query, **options))
                tables = await here.client.search_tables(here.base.id, query, **options)
                assert climbed(tables) == climbed(await here.engine.search_tables(here.base.id, query, **options))
                unanswered = await here.client.search_tables(here.base.id, query, answer=False, **options)
                assert unanswered.answer is None
                answers += [prose, tables]
            assert {result.layer for answer in answers for result in answer.results} >= {1, 2}
            assert any(answer.answer is not None and answer.answer.sure for answer in answers)
            assert any(result.table is not None for answer in answers for result in answer.results)
            with pytest.raises(NotFound):
                await here.client.search_texts(here.base.id + 1, "问")
            with pytest.raises(BadQuery):
                await here.client.search_tables(here.base.id, " ")

    asyncio.run(work())


def test_an_explanation_is_the_same_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            steps = set()
            chunk_ids = ["", *await here.chunk_ids()]
            asked = (
                {},
                {"top_k": 1, "rerank": "long-first"},
                {"threshold": 0.99},
                {"where": FILTERS[3], "fuzzy": False},
            )
            for query, chunk_id, options in half(QUERIES[::3], chunk_ids[::2], asked):
                by_client = await here.client.explain(here.base.id, query, chunk_id, **options)
                by_engine = await here.engine.explain(here.base.id, query, chunk_id, **options)
                assert said(by_client) == said(by_engine), (query, chunk_id, options)
                steps.add(by_client.chunk.step if by_client.chunk else None)
            assert {None, "returned", "threshold", "filter", "top_k"} <= steps

    asyncio.run(work())


def test_what_a_client_is_told_to_change_returns_the_chunk(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            changed = 0
            for chunk_id in await here.chunk_ids():
                options: dict[str, Any] = {"top_k": 1, "where": FILTERS[0]}
                why = (await here.client.explain(here.base.id, "住院 发票 书桌", chunk_id, **options)).chunk
                assert why is not None
                if not why.changes:
                    continue
                answer = await here.client.retrieve(here.base.id, "住院 发票 书桌", **{**options, **why.changes})
                assert chunk_id in [found.chunk.chunk_id for found in answer.found]
                changed += 1
            assert changed >= 3

    asyncio.run(work())


def test_bases_and_documents_are_the_same_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            engine, client, base = here.engine, here.client, here.base
            for name in ("乙", "丙"):
                await client.create_knowledge_base(name, model="none", user_id="u1")
            assert await client.knowledge_bases() == await engine.knowledge_bases()
            assert await client.knowledge_bases(limit=1, after=base.id) == (await engine.knowledge_bases())[1:2]
            assert await client.knowledge_base("乙") == await engine.knowledge_base("乙")
            assert await client.knowledge_base(base.id) == base == await engine.knowledge_base(base.id)
            assert await client.statistics(base.id) == await engine.statistics(base.id)
            assert await client.documents(base.id) == await engine.documents(base.id)
            assert await client.documents(base.id, limit=2, after="价目") == await engine.documents(
                base.id, limit=2, after="价目"
            )
            for one in LIBRARY:
                assert await client.document(base.id, one.id) == await engine.document(base.id, one.id)
                held = [replace(chunk, key=0) for chunk in await engine.chunks(base.id, one.id)]
                assert await client.chunks(base.id, one.id) == held != []
            assert (
                (await client.rename(base.id, "新手册")).name == (await engine.knowledge_base(base.id)).name == "新手册"
            )
            changed = await client.configure(base.id, {"search.fusion": "rrf", "chunk_size": 300})
            assert changed == await engine.knowledge_base(base.id)
            assert changed.config["search"] == {"fusion": "rrf"}
            await client.delete_knowledge_base(base.id)
            assert [each.name for each in await engine.knowledge_bases()] == ["乙", "丙"]

    asyncio.run(work())


def test_documents_come_and_go(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            client, base = here.client, here.base.id
            again = await client.add_documents(base, LIBRARY)
            assert [one.outcome for one in again] == ["unchanged"] * len(LIBRARY)
            (changed,) = await client.add_documents(base, [replace(LIBRARY[2], content="年休假改为 8 天。")])
            assert (changed.outcome, changed.generation, len(changed.chunk_keys)) == ("updated", 2, 1)
            assert "8 天" in (await client.retrieve(base, "年休假", top_k=1)).found[0].chunk.text
            assert await client.delete_document(base, "假期") is True
            assert await client.delete_document(base, "假期") is False
            assert await client.delete_document(base, "") is False
            assert await client.delete_document(base, "..") is False
            assert "假期" not in [found.chunk.doc_id for found in (await client.retrieve(base, "年休假")).found]
            (later,) = await client.add_documents(base, [Document("晚", "晚来的文档")], wait=False)
            assert later.outcome == "created"
            twice = [Document("重", "先来的"), Document("他", "别的"), Document("重", "后到的")]
            assert [one.generation for one in await client.add_documents(base, twice)] == [1, 1, 2]
            assert "后到" in (await client.chunks(base, "重"))[0].text
            assert await client.add_documents(base, []) == []
            with pytest.raises(BadInput):
                await client.add_documents(base, [Document("", "没有编号")])

    asyncio.run(work())


EVENTS: tuple[dict[str, Any], ...] = (
    {"document_id": "e1", "content": "事件来的文档。", "event_id": "1", "generation": 3, "metadata": {"年份": 2026}},
    {"document_id": "e1", "content": "事件来的文档。", "event_id": "1", "generation": 3},
    {"document_id": "e1", "content": "迟到的旧版本。", "event_id": "2", "generation": 2},
    {"document_id": "e1", "content": " ", "event_id": "3"},
    {"document_id": "e2", "content": "没有编号的事件", "tags": ["甲"]},
    {"document_id": "", "content": "没有文档"},
)


def test_events_have_the_same_effect_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            other = await here.engine.create_knowledge_base("本地", model=MODEL)
            by_client = await here.client.events(here.base.id)
            by_engine = await here.engine.events(other.id)
            results = []
            for event in EVENTS:
                told = await by_client.handle_document_created(event)
                expected = await by_engine.handle_document_created(event)
                assert replace(told, reason="") == replace(expected, reason=""), event
                assert bool(told.reason) == bool(expected.reason)
                results.append(told.result)
            assert results == ["accepted", "duplicate", "stale", "rejected", "accepted", "rejected"]
            gone = await by_client.handle_document_deleted({"document_id": "e1", "generation": 4})
            assert (gone.result, gone.generation) == ("accepted", 4)
            with pytest.raises(NotFound):
                await here.client.events(9999)

    asyncio.run(work())


def test_what_is_no_filter_is_refused_and_never_left_out(tmp_path: Path) -> None:
    unread: Any = {"user_id": "别人"}  # as a request writes it

    async def work() -> None:
        async with both(tmp_path) as here:
            asked = [
                here.client.retrieve(here.base.id, "住院", where=unread),
                here.client.retrieve(here.base.id, "住院", where=Not(unread)),
                here.client.search_texts(here.base.id, "住院", where=unread),
                here.engine.retrieve(here.base.id, "住院", where=unread),
                here.engine.search_texts(here.base.id, "住院", where=unread),
            ]
            for told in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(told, BadFilter)
                assert "不是过滤条件" in str(told)

    asyncio.run(work())


def test_the_log_is_the_same_through_the_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with both(tmp_path) as here:
            engine, client, base = here.engine, here.client, here.base.id
            trace = "0af7651916cd43dd8448eb211c80319c"
            assert (await client.retrieve(base, "住院", trace_id=trace)).trace_id == trace
            await client.retrieve(base, "量子纠缠", threshold=1.0, where=FILTERS[3])
            for number in range(3):
                await client.retrieve(base, f"门诊 {number}")
            entries = await client.logs.list()
            assert entries == await engine.logs.list()
            assert [entry.query for entry in entries] == ["门诊 2", "门诊 1", "门诊 0", "量子纠缠", "住院"]
            assert entries[-1].trace_id == trace
            assert await client.logs.list(zero=True, knowledge_base=base) == [entries[3]]
            assert await client.logs.list(limit=2, before=entries[0].id) == entries[1:3]
            assert await client.logs.list(slow_ms=1e9) == []
            rated = await client.logs.rate(entries[3].id, Feedback("bad", ("c_1_x_0",), "应有结果"))
            assert rated == await client.logs.get(entries[3].id) == await engine.logs.get(entries[3].id)
            assert rated.feedback == Feedback("bad", ("c_1_x_0",), "应有结果")

    asyncio.run(work())
