"""Layered recall while documents come and go: what is gone hides nothing, what was replaced is looked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from qianxun.bases.base import OpenBase
from qianxun.bases.table_cache import TableCache
from qianxun.core.errors import BadQuery, RetrieverUnavailable
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import Document, Found, Query, Ranking, Scores
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Search
from qianxun.retrieve import candidate_pool as joining
from qianxun.retrieve.arms import STANDARD
from qianxun.retrieve.fuse import DEPTH
from qianxun.retrieve.layered import table_fit
from qianxun.retrieve.layered.ladder import Admitted, LadderResult, Layer
from qianxun.retrieve.layered.search import LayeredSearch
from tests.answer.asked import HungEmbedding, Opened
from tests.indexing.opened import opened
from tests.layered.base import documents
from tests.layered.base import opened as layered
from tests.layered.recalls import chunk

TABLE = "# 报销比例\n\n| 等级 | 报销比例 |\n| --- | --- |\n| 三级 | {} |"


def test_documents_that_are_gone_do_not_hide_those_that_are_there(tmp_path: Path) -> None:
    """More dead hits than one round of candidates, and more than the layers look at."""

    async def story() -> LayeredRecall:
        async with opened(tmp_path, model="none") as (engine, kb):
            dead = [Document(f"旧{number}", "报销比例 报销比例") for number in range(300)]
            await engine.add_documents(kb, [*dead, Document("新", "报销比例，以及许多别的规定和说明。")])
            with engine.records.writing() as tx:  # as 300 deletes would, without waiting for them
                tx.exec_driver_sql(
                    "DELETE FROM chunks WHERE document_key <> (SELECT key FROM documents WHERE doc_id = '新')"
                )
            return await engine.search_texts(kb, "报销比例", 3)

    assert [result.doc_id for result in asyncio.run(story()).results] == ["新"]


@pytest.mark.parametrize(
    ("part", "name", "old", "new", "search"),
    [
        (joining, "chunks_by_keys", Document("d", "旧版的报销比例"), "新版的报销比例", Engine.search_texts),
        (
            table_fit,
            "read",
            Document("d", TABLE.format("80%"), format="markdown"),
            TABLE.format("85%"),
            Engine.search_tables,
        ),
    ],
    ids=["texts", "tables"],
)
def test_what_was_replaced_between_the_index_and_the_records_is_looked_for_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: Any,
    name: str,
    old: Document,
    new: str,
    search: Callable[..., Awaitable[LayeredRecall]],
) -> None:
    """The search is held up after the index has answered with the old version, until that one is gone."""
    honest, entered, gate = getattr(part, name), asyncio.Event(), asyncio.Event()

    async def held_up(base: OpenBase, *work: Any) -> Any:
        if not entered.is_set():
            entered.set()
            await gate.wait()
        return await honest(base, *work)

    async def story() -> LayeredRecall:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [old])
            monkeypatch.setattr(part, name, held_up)
            searching = asyncio.ensure_future(search(engine, kb, "三级的报销比例"))
            await asyncio.wait_for(entered.wait(), 60)
            await engine.add_documents(kb, [replace(old, content=new)])
            gate.set()
            return await searching

    (result,) = asyncio.run(story()).results
    assert new[-5:].strip(" |") in result.content
    assert result.doc.generation > 1


def test_of_two_versions_of_a_document_the_newest_is_a_result() -> None:
    """An index just made anew may hold both, and both may be of record."""
    version = chunk("旧版")
    chunks = [version, replace(version, key=1, text="新版", generation=2), replace(version, key=2, doc_id="别的")]
    held = {at + 10: Admitted(Layer(1, "vector", 1.0, 0.7), 0.9 - at / 10, {}) for at in range(3)}
    searching = LayeredSearch(*cast(tuple[Any, Any, Any, Any], (None,) * 4), "text", TableCache())
    climbed = searching.newest(LadderResult(held, (), ()), lambda key: Found(chunks[key - 10], 0.5, "hybrid", {}))
    assert [key for key, _ in climbed.best(9)] == [11, 12]
    assert not searching.is_settled


@pytest.mark.parametrize("search", [Engine.search_texts, Engine.search_tables])
@pytest.mark.parametrize("top_k", [0, 101, "3", 2.5, True])
def test_a_number_that_is_none_is_refused_in_words(
    tmp_path: Path, search: Callable[..., Awaitable[LayeredRecall]], top_k: Any
) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            with pytest.raises(BadQuery, match="top_k"):
                await search(engine, kb, "报销比例", top_k)

    asyncio.run(story())


@pytest.mark.parametrize("fusion", ["rrf", "min_max"])
def test_however_a_base_fuses_a_threshold_means_the_same(tmp_path: Path, fusion: str) -> None:
    """By rank alone the best of what has nothing to do with the question would score 1."""
    with (
        layered(tmp_path / "plain") as plain,
        layered(tmp_path / "other", config={"search": {"fusion": fusion}}) as held,
    ):
        for query in ("三级医院住院的报销比例", "量子力学的基本假设"):
            for search in (Engine.search_texts, Engine.search_tables):
                expected = plain.run(search(plain.engine, plain.kb, query))
                recall = held.run(search(held.engine, held.kb, query))
                assert [(each.doc_id, each.layer, each.score) for each in recall.results] == [
                    (each.doc_id, each.layer, each.score) for each in expected.results
                ]


def test_what_was_found_is_kept_where_the_arms_cannot_go_deeper(tmp_path: Path) -> None:
    """As over a far database that answers in time for 200 candidates, and not for 12,800."""
    with layered(tmp_path, [flood(6000)]) as held:
        base = held.run(held.engine.base(held.kb))
        base.arms = list(map(Shallow, STANDARD))
        recall = held.run(held.engine.search_tables(held.kb, "三级医院住院的报销比例"))
    assert "大表" in {result.doc_id for result in recall.results}
    assert [each.part for each in recall.degraded] == ["depth"]
    assert not any(run.failed for run in recall.layers)


class Shallow(RetrieverArm):
    """An arm that fails below the first candidates."""

    def __init__(self, arm: RetrieverArm) -> None:
        self._arm = arm
        self.name, self.label = arm.name, arm.label
        self.needs_vector, self.signal = arm.needs_vector, arm.signal

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        if limit > DEPTH:
            raise RetrieverUnavailable("太深")
        return await self._arm.search(query, limit, context)

    def calibrate(self, found: Ranking) -> Scores:
        return self._arm.calibrate(found)


def flood(rows: int) -> Document:
    """A table whose row groups alone fill many places."""
    lines = "\n".join(f"| 三级医院住院报销比例第{at}条 | {at % 100}% |" for at in range(rows))
    return Document("大表", f"| 住院报销比例条目 | 报销比例 |\n| --- | --- |\n{lines}", format="markdown")


def test_an_arm_that_was_late_is_not_waited_for_again(tmp_path: Path) -> None:
    """Neither to a greater depth, for the sake of other tables than the large one, nor in other words."""
    model = HungEmbedding()
    held = Opened(tmp_path, [*documents(), flood(6000)], model)
    told = held.engine.settings

    def found(search: Callable[..., Awaitable[LayeredRecall]], seconds: float) -> LayeredRecall:
        model.calls = 0
        held.engine.settings = replace(told, search=Search(arm_seconds=seconds))
        return held.run(cast(Any, search(held.engine, held.kb, "三级医院的住院费用怎么报销")))

    try:
        for search in (Engine.search_texts, Engine.search_tables):
            recall = found(search, 0.5)
            for seconds in (5.0, 50.0):  # should a busy machine be late with the words, too
                recall = recall if recall.results else found(search, seconds)
            assert recall.results
            assert model.calls == 1
            assert "vector" in {each.part for each in recall.degraded}
    finally:
        model.released.set()
        held.close()
