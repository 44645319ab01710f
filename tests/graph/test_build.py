"""A base's graph is what its served chunks say, whatever was there before; what a filter hides has never been there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qianxun.bases.graph_cache import GraphCache
from qianxun.core.errors import NotFound
from qianxun.core.graph_types import ChunkFacts, ExtractionProgress
from qianxun.core.types import Document, Eq, Not
from qianxun.engine.engine import Engine
from qianxun.graph import build as graphing
from qianxun.graph.extract.chunk import extract_facts
from qianxun.graph.network.columns import FactColumns
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, derive_graph, graph_from_facts
from qianxun.records import graph as facts
from qianxun.text.chinese import Analyser
from tests.hypothesis_settings import examples
from tests.indexing.opened import doc, opened

ANALYSER = Analyser()
PEOPLE = ("鲁迅", "老舍", "巴金", "张爱玲")
TOWNS = ("绍兴", "北京", "成都", "上海")
WORKS = ("《呐喊》", "《茶馆》", "《家》", "《金锁记》")
COMPANIES = ("蓝天科技有限公司", "真实制造有限公司")

sentences = st.one_of(
    st.builds("{}出生于{}。".format, st.sampled_from(PEOPLE), st.sampled_from(TOWNS)),
    st.builds("{}的作者是{}。".format, st.sampled_from(WORKS), st.sampled_from(PEOPLE)),
    st.builds("{}由{}创立，总部位于{}。".format, *map(st.sampled_from, (COMPANIES, PEOPLE, TOWNS))),
    st.builds("{} 的 代表作品 是 {}".format, st.sampled_from(PEOPLE), st.sampled_from(WORKS)),
    st.builds("{}（简称{}）与{}合作。".format, *map(st.sampled_from, (COMPANIES, ("蓝天", "真实"), PEOPLE))),
    st.builds("{}和{}在{}见面，谈到{}。".format, *map(st.sampled_from, (PEOPLE, PEOPLE, TOWNS, WORKS))),
)
texts = st.lists(sentences, min_size=1, max_size=5).map("\n".join)
libraries = st.dictionaries(st.sampled_from("甲乙丙丁戊"), texts, min_size=1, max_size=4)


def shown(graph: KnowledgeGraph, doc_of: dict[int, str]) -> dict[str, Any]:
    """Everything that a graph shows, in words that do not depend on the numbers of chunks."""

    def told(evidence: Sequence[Any]) -> list[tuple[str, int, int]]:
        return sorted((doc_of[each.chunk], each.start, each.end) for each in evidence)

    entities = graph.entities
    relations = graph.relations_of([each.id for each in entities])
    ids = [each.id for each in entities]
    groups = graph.communities.groups()
    return {
        "entities": entities,
        "relations": [(e.source, e.target, e.type, e.weight, told(e.evidence)) for e in relations],
        "communities": sorted(sorted(ids[row] for row in group.tolist()) for group in groups),
        "importance": graph.importance.tolist(),
        "chunks": sorted(doc_of[key] for key in graph.chunks.tolist()),
    }


async def seen(engine: Engine, kb: int, **where: Any) -> dict[str, Any]:
    graph = await engine.graph(kb, **where)
    held = [each.doc_id for each in await engine.documents(kb)]
    doc_of = {chunk.key: f"{doc_id}.{chunk.index}" for doc_id in held for chunk in await engine.chunks(kb, doc_id)}
    return shown(graph, doc_of)


async def built(engine: Engine, library: dict[str, str]) -> dict[str, Any]:
    """The graph of a base that never held anything else."""
    base = await engine.create_knowledge_base("只有这些", model="none")
    await engine.add_documents(base.id, [doc(name, text) for name, text in library.items()])
    graph = await seen(engine, base.id)
    await engine.delete_knowledge_base(base.id)
    return graph


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Engine]]:
    """One engine for all examples, each of which has bases of its own."""
    with asyncio.Runner() as runner:
        opening = Engine.open(tmp_path_factory.mktemp("graphs"), background=False)
        yield runner, runner.run(opening.__aenter__())
        runner.run(opening.__aexit__(None, None, None))


# ── delete ≡ built without ───────────────────────────────────────────────────────────────────────


@settings(max_examples=7, deadline=None)
@given(libraries, libraries, st.data())
def test_a_graph_is_what_would_have_been_built_without_what_is_gone(
    running: tuple[asyncio.Runner, Engine], first: dict[str, str], second: dict[str, str], data: st.DataObject
) -> None:
    runner, engine = running
    gone = data.draw(st.sets(st.sampled_from(sorted(first | second)), max_size=3))
    asks_between = data.draw(st.booleans())
    left = {name: text for name, text in (first | second).items() if name not in gone}

    async def story() -> None:
        kb = (await engine.create_knowledge_base("所有", model="none")).id
        await engine.add_documents(kb, [doc(name, text) for name, text in first.items()])
        if asks_between:
            await engine.graph(kb)
        await engine.add_documents(kb, [doc(name, text) for name, text in second.items()])  # some of them anew
        if asks_between:
            await engine.graph(kb)
        for name in sorted(gone):
            await engine.delete_document(kb, name)
        assert await seen(engine, kb) == await built(engine, left)
        assert (await engine.admin.verify(kb)).is_clean
        await engine.delete_knowledge_base(kb)

    runner.run(story())


@settings(max_examples=4, deadline=None)
@given(libraries, st.sets(st.sampled_from("甲乙丙丁戊"), min_size=1))
def test_under_a_filter_a_graph_is_what_the_allowed_documents_alone_give(
    running: tuple[asyncio.Runner, Engine], library: dict[str, str], own: set[str]
) -> None:
    runner, engine = running

    async def story() -> None:
        kb = (await engine.create_knowledge_base("所有", model="none")).id
        whose = {name: "我" if name in own else "他" for name in library}
        await engine.add_documents(kb, [doc(name, text, user_id=whose[name]) for name, text in library.items()])
        await engine.graph(kb)
        seen_by_me = await seen(engine, kb, where=Eq("user_id", "我"))
        assert seen_by_me == await built(engine, {name: text for name, text in library.items() if name in own})
        others = await seen(engine, kb, where=Not(Eq("user_id", "我")))
        assert others == await built(engine, {name: text for name, text in library.items() if name not in own})
        await engine.delete_knowledge_base(kb)

    runner.run(story())


@examples(40)
@given(st.lists(texts, min_size=1, max_size=8), st.data())
def test_columns_that_chunks_came_to_and_went_from_give_the_graph_of_those_that_are_there(
    chunks: list[str], data: st.DataObject
) -> None:
    read = [ChunkFacts(at, at, extract_facts(text, analyser=ANALYSER), "statistical") for at, text in enumerate(chunks)]
    order = data.draw(st.permutations(read))
    gone = data.draw(st.sets(st.sampled_from(range(len(read)))))
    columns = FactColumns()
    columns.add(order)
    before = derive_graph(columns)
    assert before.communities is not None
    columns.remove(gone)
    left = [each for each in read if each.chunk not in gone]
    names = {at: str(at) for at in range(len(read))}
    assert shown(derive_graph(columns, (), before), names) == shown(graph_from_facts(left), names)


def test_the_comparison_sees_facts_that_outlive_their_document(
    running: tuple[asyncio.Runner, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the bug is planted, and what compares graphs does not miss it."""
    runner, engine = running

    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        kb = (await engine.create_knowledge_base("植入", model="none")).id
        await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。"), doc("乙", "老舍出生于北京。")])
        await engine.graph(kb)
        await engine.delete_document(kb, "乙")
        left = shown(await engine.graph(kb), AllChunks())
        await engine.delete_knowledge_base(kb)
        return left, await built(engine, {"甲": "鲁迅出生于绍兴。"})

    found, expected = runner.run(story())
    assert found["entities"] == expected["entities"]
    changed = GraphCache.changed
    monkeypatch.setattr(GraphCache, "changed", lambda held, now: (changed(held, now)[0], []))
    found, expected = runner.run(story())
    assert found["entities"] != expected["entities"]


class AllChunks(dict[int, str]):
    def __missing__(self, key: int) -> str:
        return str(key)


# ── in step ──────────────────────────────────────────────────────────────────────────────────────


def test_a_graph_that_is_being_made_shows_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts are changed in a thread, under whose hands nobody may read them."""
    shown_meanwhile: list[int] = []

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。")])
            held, take = (await engine.base(kb)).graph, FactColumns.add

            def watched(columns: FactColumns, facts: Any) -> None:
                take(columns, facts)
                shown_meanwhile.append(len(held.latest))

            monkeypatch.setattr(FactColumns, "add", watched)
            assert len(await engine.graph(kb)) > 0

    asyncio.run(story())
    assert shown_meanwhile == [0]


def test_a_graph_always_sees_what_a_search_would(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            assert len(await engine.graph(kb)) == 0
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。")])
            assert {each.name for each in (await engine.graph(kb)).entities} >= {"鲁迅", "绍兴"}
            await engine.add_documents(kb, [doc("甲", "老舍出生于北京。")])
            assert {each.name for each in (await engine.graph(kb)).entities} >= {"老舍", "北京"}
            assert "鲁迅" not in {each.name for each in (await engine.graph(kb)).entities}
        async with opened(tmp_path, model="none") as (engine, kb):
            assert "老舍" in {each.name for each in (await engine.graph(kb)).entities}

    asyncio.run(story())


def test_the_same_graph_is_not_derived_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。", user_id="我")])
            assert await engine.graph(kb) is await engine.graph(kb)
            mine = Eq("user_id", "我")
            assert await engine.graph(kb, where=mine) is await engine.graph(kb, where=mine)

    asyncio.run(story())


def test_filters_that_look_alike_to_python_are_kept_apart(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。", metadata={"公开": 1})])
            assert len(await engine.graph(kb, where=Eq("metadata.公开", 1))) > 0
            assert len(await engine.graph(kb, where=Eq("metadata.公开", True))) == 0  # 1 == True

    asyncio.run(story())


def test_a_document_that_changes_hands_shows_to_its_new_owner_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            his, mine = Eq("user_id", "他"), Eq("user_id", "我")
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。", user_id="他")])
            assert len(await engine.graph(kb, where=his)) > 0
            await engine.add_documents(kb, [doc("甲", "老舍出生于北京。", user_id="我")])
            assert len(await engine.graph(kb, where=his)) == 0
            assert "老舍" in {each.name for each in (await engine.graph(kb, where=mine)).entities}

    asyncio.run(story())


def test_a_base_without_a_graph_of_its_own_is_read_when_somebody_asks(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "甲.txt"
        path.write_text("鲁迅出生于绍兴。", encoding="utf-8")
        async with opened(tmp_path / "data", model="none") as (engine, kb):
            await engine.configure(kb, {"graph": False})
            await engine.add(kb, [path])
            await engine.admin.run_background_work(kb)
            base = await engine.base(kb)
            assert await base.records.read(lambda tx: facts.origins(tx, kb)) == {}
            assert (await engine.admin.verify(kb)).is_clean
            assert len(await engine.graph(kb)) > 0
            await engine.configure(kb, {"graph": None})
            path.write_text("老舍出生于北京。", encoding="utf-8")
            await engine.add(kb, [path])
            await engine.admin.run_background_work(kb)
            assert sum((await base.records.read(lambda tx: facts.origins(tx, kb))).values()) == 1

    asyncio.run(story())


def test_another_dictionary_reads_the_chunks_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "他说千寻引擎很好用。")])
            assert "千寻引擎" not in {each.name for each in (await engine.graph(kb)).entities}
            await engine.configure(kb, {"dictionary": ["千寻引擎"]})
            assert "千寻引擎" in {each.name for each in (await engine.graph(kb)).entities}
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_what_is_written_behind_is_read_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphing, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(graphing, "POLL_SECONDS", 0.02)

    async def story() -> None:
        async with opened(tmp_path, model="none", background=True) as (engine, kb):
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。")], wait=False)
            base = await engine.base(kb)
            for _ in range(1500):
                if await base.records.read(lambda tx: facts.origins(tx, kb)):
                    return
                await asyncio.sleep(0.04)
            pytest.fail("nobody has read it")

    asyncio.run(story())


def test_a_graph_that_is_in_use_is_made_anew_before_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphing, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(graphing, "POLL_SECONDS", 0.02)

    async def story() -> None:
        async with opened(tmp_path, model="none", background=True) as (engine, kb):
            held = (await engine.base(kb)).graph
            await engine.add_documents(kb, [doc("甲", "鲁迅出生于绍兴。")])
            await asyncio.sleep(0.5)
            assert not len(held.latest)  # nobody uses it
            assert len((await engine.graph(kb)).communities) == 1
            await engine.add_documents(kb, [doc("乙", "老舍出生于北京。")])
            for _ in range(1500):
                if "老舍" in {each.name for each in held.latest.entities} and "communities" in vars(held.latest):
                    return
                await asyncio.sleep(0.04)
            pytest.fail("it was not made ready")

    asyncio.run(story())


def test_building_tells_how_far_it_is_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphing, "PAGE", 2)

    class Stopped(Exception):
        pass

    def stop(reading: ExtractionProgress) -> None:
        if reading.done >= 4:
            raise Stopped

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(
                kb, [doc(f"d{at}", f"{PEOPLE[at % 4]}出生于{TOWNS[at % 4]}。") for at in range(9)]
            )
            with pytest.raises(Stopped):
                await engine.admin.build_graph(kb, watch=stop)
            seen: list[ExtractionProgress] = []
            told = await engine.admin.build_graph(kb, watch=seen.append)
            assert (told.chunks, told.read) == (9, 5)
            assert [(each.done, each.total) for each in seen] == [(2, 5), (4, 5), (5, 5)]
            assert told.entities == len(await engine.graph(kb))
            assert (await engine.admin.build_graph(kb)).read == 0

    asyncio.run(story())


def test_a_caller_that_leaves_harms_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            batch = [doc(f"d{at}", f"{PEOPLE[at % 4]}出生于{TOWNS[at % 4]}。") for at in range(40)]
            await engine.add_documents(kb, batch)
            for delay in (0.0, 0.001, 0.005, 0.02):
                asking = asyncio.create_task(engine.graph(kb))
                await asyncio.sleep(delay)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            library = {each.id: each.content for each in batch}
            assert await seen(engine, kb) == await built(engine, library)

    asyncio.run(story())


def test_another_tenant_has_no_graph_here(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, [Document("甲", "鲁迅出生于绍兴。")])
            await engine.graph(kb)
            for call in (engine.of("别人").graph, engine.of("别人").admin.build_graph):
                with pytest.raises(NotFound):
                    await call(kb)

    asyncio.run(story())


def test_a_filter_tells_the_tables_of_a_document_from_its_prose(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            told = "鲁迅出生于绍兴。\n\n| 主体 | 关系 | 客体 |\n|---|---|---|\n| 老舍 | 出生地 | 北京 |\n"
            await engine.add_documents(kb, [doc("甲", told, format="markdown")])
            for kind, expected in (("text", {"鲁迅", "绍兴"}), ("table", {"老舍", "北京"})):
                graph = await engine.graph(kb, where=Eq("kind", kind))
                assert {each.name for each in graph.entities} == expected

    asyncio.run(story())
