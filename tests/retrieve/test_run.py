"""What a search may return, and what it says when a part of it cannot answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadFilter, BadQuery, ModelUnavailable, NotFound, RecallFailed
from qianxun.core.options import Mode
from qianxun.core.types import And, Eq, Filter, In, Not, Or, Range, Recall, Vector
from qianxun.engine.engine import Engine
from qianxun.records import bases
from qianxun.retrieve import candidate_pool as joining
from qianxun.retrieve import run as recall
from tests.hypothesis_settings import SLOW_OR_SHARED, examples
from tests.indexing.opened import FailingEmbedding, OpenedLibrary, doc, found, opened

T = TypeVar("T")
MODES: tuple[Mode, ...] = ("hybrid", "vector", "fulltext")

LIBRARY = [
    doc(
        "住院",
        "参保职工住院的报销比例为百分之八十五，起付标准另行规定。",
        user_id="张三",
        metadata={"年份": 2023, "级": "1"},
    ),
    doc("门诊", "门诊慢性病的报销比例为百分之七十。", user_id="张三", content_type="note", tags=("慢病", "门诊")),
    doc("生育", "生育津贴按照上年度职工月平均工资计发。", user_id="李四", metadata={"年份": 2024, "有效": True}),
    doc(
        "发票",
        "医院开具的发票应当妥善保管，作为报销凭证。",
        user_id="李四",
        project_id="p2",
        metadata={"年份": 2023.0, "级": 1},
    ),
    doc(
        "长文", "异地就医需要先备案，再按照参保地的比例结算。" * 60, user_id="王五", metadata={"地区": ("杭州", "宁波")}
    ),
]


class Shelf(OpenedLibrary):
    def found(self, query: str, **options: Any) -> set[str]:
        return {each.chunk.doc_id for each in self.ask(query, top_k=100, **options).found}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    held = Shelf(tmp_path_factory.mktemp("shelf"), LIBRARY)
    yield held
    held.close()


async def library(folder: Path) -> None:
    async with opened(folder) as (engine, kb):
        await engine.add_documents(kb, LIBRARY)


@pytest.mark.parametrize("mode", MODES)
def test_a_deleted_document_is_not_returned_though_the_index_still_holds_it(tmp_path: Path, mode: Mode) -> None:
    async def story() -> None:
        await library(tmp_path)
        async with opened(tmp_path) as (engine, kb):
            assert "住院" in await found(engine, kb, "住院报销比例", mode=mode)
            handler = await engine.events(kb)
            await handler.handle_document_deleted({"document_id": "住院"})
            assert (
                len((await (await engine.base(kb)).index.inventory()).keywords) == len(await all_chunks(engine, kb)) + 1
            )
            assert "住院" not in await found(engine, kb, "住院报销比例", mode=mode)
            await engine.drain(kb)
            assert "住院" not in await found(engine, kb, "住院报销比例", mode=mode)

    asyncio.run(story())


def test_a_search_has_a_name_of_its_own_whatever_seed_the_program_has_set(shelf: Shelf) -> None:
    """And it takes nothing from the numbers that the program draws."""
    names, drawn = [], []
    for _ in range(2):
        random.seed(7)
        names.append(shelf.ask("报销").trace_id)
        drawn.append(random.random())
    random.seed(7)
    assert names[0] != names[1]
    assert drawn == [random.random()] * 2


async def all_chunks(engine: Engine, kb: int) -> list[int]:
    return [chunk.key for state in await engine.documents(kb) for chunk in await engine.chunks(kb, state.doc_id)]


def test_deleted_documents_do_not_crowd_out_living_ones_while_the_index_lags(tmp_path: Path) -> None:
    """More dead hits than one round of candidates: the search goes deeper."""

    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            dead = [doc(f"旧{number}", "报销比例 报销比例") for number in range(300)]
            await engine.add_documents(kb, [*dead, doc("新", "报销比例，以及许多别的规定和说明。")])
            with engine.records.writing() as tx:  # as 300 deletes would, without waiting for them
                tx.exec_driver_sql(
                    "DELETE FROM chunks WHERE document_key <> (SELECT key FROM documents WHERE doc_id = '新')"
                )
            assert (await found(engine, kb, "报销比例")).keys() == {"新"}

    asyncio.run(story())


def test_a_version_replaced_between_the_index_and_the_records_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is held up after the index has answered with the old version, until that one is gone."""
    honest, entered, gate = joining.chunks_by_keys, asyncio.Event(), asyncio.Event()

    async def held_up(base: OpenBase, *work: Any) -> Any:
        if not entered.is_set():
            entered.set()
            await gate.wait()
        return await honest(base, *work)

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("d", "旧版的报销比例")])
            monkeypatch.setattr(joining, "chunks_by_keys", held_up)
            searching = asyncio.create_task(found(engine, kb, "报销比例"))
            await asyncio.wait_for(entered.wait(), 60)
            await engine.add_documents(kb, [doc("d", "新版的报销比例")])
            gate.set()
            assert await searching == {"d": "新版的报销比例"}

    asyncio.run(story())


def test_what_the_index_lets_go_of_while_a_search_wonders_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete is of record at once, and reaches the index in the moment in which a search that found the document
    there asks whether anything still waits for it."""

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("旧", "旧版的报销比例"), doc("新", "新版的报销比例")])
            loop, honest = asyncio.get_running_loop(), recall.unknown_keys

            def drained(*given: Any) -> Any:
                asyncio.run_coroutine_threadsafe(engine.drain(kb), loop).result(60)
                return honest(*given)

            monkeypatch.setattr(recall, "unknown_keys", drained)
            await (await engine.events(kb)).handle_document_deleted({"document_id": "旧"})
            answer = await engine.retrieve(kb, "报销比例")
            assert [each.chunk.doc_id for each in answer.found] == ["新"]
            assert answer.degraded == ()

    asyncio.run(story())


def test_nor_is_what_reaches_the_index_after_a_later_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that is claimed enters the index after later ones: its watermark does not tell."""

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("旧", "旧版的报销比例"), doc("新", "新版的报销比例")])
            index = (await engine.base(kb)).index
            before, loop, honest = await index.watermark(), asyncio.get_running_loop(), recall.unknown_keys

            async def unmoved(_: object) -> int:
                return before

            async def late() -> None:
                await engine.drain(kb)
                await engine.records.write(lambda tx: bases.revise(tx, kb))  # as the indexer does then

            def drained(*given: Any) -> Any:
                asyncio.run_coroutine_threadsafe(late(), loop).result(60)
                return honest(*given)

            await (await engine.events(kb)).handle_document_deleted({"document_id": "旧"})
            monkeypatch.setattr(recall, "unknown_keys", drained)
            monkeypatch.setattr(type(index), "watermark", unmoved)
            answer = await engine.retrieve(kb, "报销比例")
            assert [each.chunk.doc_id for each in answer.found] == ["新"]
            assert answer.degraded == ()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Eq("user_id", "张三"), {"住院", "门诊"}),
        (In("user_id", ("李四", "王五")), {"生育", "发票", "长文"}),
        (Eq("project_id", "p2"), {"发票"}),
        (Eq("content_type", "note"), {"门诊"}),
        (Eq("tags", "慢病"), {"门诊"}),
        (Eq("metadata.年份", 2023), {"住院", "发票"}),  # 2023 is 2023.0
        (Eq("metadata.年份", "2023"), set()),  # and not "2023"
        (Eq("metadata.级", "1"), {"住院"}),
        (Eq("metadata.级", 1), {"发票"}),
        (Eq("metadata.有效", True), {"生育"}),
        (Eq("metadata.有效", 1), set()),  # nor is 1 true
        (Eq("metadata.地区", "宁波"), {"长文"}),
        (Range("metadata.年份", ge=2023, lt=2024), {"住院", "发票"}),
        (Range("metadata.年份", gt="2000"), set()),
        (In("metadata.年份", ()), set()),
        (Not(Eq("user_id", "张三")), {"生育", "发票", "长文"}),
        (And((Eq("user_id", "李四"), Range("metadata.年份", ge=2024))), {"生育"}),
        (Or((Eq("doc_id", "长文"), Eq("tags", "门诊"))), {"长文", "门诊"}),
        (Eq("metadata.从未有过", "x"), set()),
        (Eq("user_id", "张三' OR '1'='1"), set()),
    ],
)
def test_a_filter_lets_through_exactly_what_it_says(shelf: Shelf, where: Filter, expected: set[str]) -> None:
    query = "报销比例、津贴、备案、发票和结算"
    for mode in ("hybrid", "fulltext"):
        assert shelf.found(query, mode=mode, where=where) == expected
    assert shelf.found(query, mode="vector", where=where) <= expected


def test_documents_can_be_named(shelf: Shelf) -> None:
    assert shelf.found("报销", doc_ids=["门诊", "发票", "没有"]) == {"门诊", "发票"}


def test_an_unknown_field_is_refused_by_name(shelf: Shelf) -> None:
    with pytest.raises(BadFilter, match="owner"):
        shelf.ask("报销", where=Eq("owner", "张三"))


@pytest.mark.parametrize(
    ("query", "expected"), [("發票", "发票"), ("異地就醫", "长文"), ("门诊慢性病", "门诊"), ("ＢＩＡＯ 津貼", "生育")]
)
def test_traditional_and_simplified_find_each_other(shelf: Shelf, query: str, expected: str) -> None:
    recall = shelf.ask(query, mode="fulltext")
    assert recall.found[0].chunk.doc_id == expected
    assert recall.found[0].chunk.text in next(each.content for each in LIBRARY if each.id == expected)


@examples(40, suppress_health_check=SLOW_OR_SHARED)
@given(
    query=st.sampled_from(["报销比例", "异地就医备案", "发票", "职工", "比例 结算 津贴"]),
    mode=st.sampled_from(MODES),
    few=st.integers(1, 8),
    more=st.integers(0, 20),
    threshold=st.floats(0, 1),
)
def test_fewer_results_are_a_prefix_and_a_threshold_takes_away_only(
    shelf: Shelf, query: str, mode: Mode, few: int, more: int, threshold: float
) -> None:
    every = [(each.chunk.key, each.score) for each in shelf.ask(query, mode=mode, top_k=few + more).found]
    scores = [score for _, score in every]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 < score <= 1.0 for score in scores)
    assert [(each.chunk.key, each.score) for each in shelf.ask(query, mode=mode, top_k=few).found] == every[:few]
    above = shelf.ask(query, mode=mode, top_k=few + more, threshold=threshold)
    assert [(each.chunk.key, each.score) for each in above.found] == [each for each in every if each[1] >= threshold]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        (" 　\n", {}),
        ("长" * 2049, {}),
        ("报销", {"top_k": 0}),
        ("报销", {"top_k": 101}),
        ("报销", {"threshold": -0.1}),
        ("报销", {"threshold": 1.1}),
        ("报销", {"threshold": float("nan")}),
        ("报销", {"mode": "magic"}),
    ],
)
def test_a_bad_query_is_refused_with_advice(shelf: Shelf, query: str, options: dict[str, object]) -> None:
    with pytest.raises(BadQuery) as refused:
        shelf.ask(query, **options)
    assert refused.value.hint


@pytest.mark.parametrize("query", ["？！……", "的", "\ud800", "a" * 2048, '"报销" AND (比例', "zzzz不存在的词zzzz"])
def test_an_odd_query_is_answered_and_not_an_error(shelf: Shelf, query: str) -> None:
    for mode in MODES:
        assert isinstance(shelf.ask(query, mode=mode), Recall)


def test_an_unknown_base_is_not_found(shelf: Shelf) -> None:
    with pytest.raises(NotFound):
        shelf.run(shelf.engine.retrieve(7, "报销"))


def test_each_result_says_which_arms_found_it(shelf: Shelf) -> None:
    best = shelf.ask("住院的报销比例", weights={"vector": 0.55, "keyword": 0.45}).found[0]
    assert best.source == "hybrid"
    assert set(best.arms) == {"vector", "keyword"}
    assert best.score == pytest.approx(0.55 * best.arms["vector"].score + 0.45 * best.arms["keyword"].score)
    assert shelf.ask("住院的报销比例", mode="fulltext").found[0].source == "keyword"


def test_a_base_without_a_model_searches_by_words_and_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            recall = await engine.retrieve(kb, "住院报销比例")
            assert recall.found[0].chunk.doc_id == "住院"
            assert recall.found[0].source == "keyword"
            assert [part.part for part in recall.degraded] == ["vector"]
            assert "没有向量模型" in recall.degraded[0].reason
            assert (await engine.retrieve(kb, "住院报销比例", mode="fulltext")).degraded == ()
            with pytest.raises(RecallFailed, match="没有向量模型"):
                await engine.retrieve(kb, "住院报销比例", mode="vector")

    asyncio.run(story())


class DeafEmbedding(FailingEmbedding):
    """Embeds passages and fails on queries."""

    def embed_query(self, text: str) -> Vector:
        raise ModelUnavailable("模型服务连不上")


def test_a_model_that_fails_is_missed_aloud(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, DeafEmbedding("", None)) as (engine, kb):
            await engine.add_documents(kb, LIBRARY)
            recall = await engine.retrieve(kb, "住院报销比例")
            assert recall.found[0].chunk.doc_id == "住院"
            assert [(part.part, part.reason) for part in recall.degraded] == [("vector", "模型服务连不上")]
            with pytest.raises(RecallFailed, match="模型服务连不上"):
                await engine.retrieve(kb, "住院报销比例", mode="vector")

    asyncio.run(story())
