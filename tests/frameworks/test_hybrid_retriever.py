"""The seed's retriever: six modes, blocking and awaited, and what a graph says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun import HybridRetriever, open_blocking
from qianxun.core.answer_types import Done, SourcesFound, Token
from qianxun.core.errors import BadInput, BadQuery, NotFound
from qianxun.core.options import QUERY_MODES
from qianxun.core.types import Eq
from qianxun.engine.blocking import BlockingEngine
from qianxun.engine.engine import Engine
from tests.frameworks.material import filled


@pytest.fixture(scope="module")
def rag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    with open_blocking(tmp_path_factory.mktemp("retriever"), background=False) as engine:
        engine.run(filled(engine.engine))
        yield engine


@pytest.mark.parametrize("mode", [mode for mode in QUERY_MODES if mode != "bypass"])
def test_as_many_results_as_were_asked_for_all_with_a_score(rag: BlockingEngine, mode: str) -> None:
    retriever = HybridRetriever(rag, None)
    results = retriever.retrieve(query="糖尿病症状", graph_id="graph-123", mode=mode, top_k=10)
    count = 10 if mode != "local" else len(results)  # which is precise: it leaves out what is unrelated
    assert 0 < len(results) == count
    assert all(0 < each.score <= 1 for each in results)
    assert [each.score for each in results] == sorted((each.score for each in results), reverse=True)
    assert len({each.chunk.key for each in results}) == count


def test_bypass_finds_nothing_and_a_mode_that_there_is_not_is_refused(rag: BlockingEngine) -> None:
    retriever = HybridRetriever(rag, graph_id="graph-123")
    assert retriever.retrieve("糖尿病症状", mode="bypass") == []
    with pytest.raises(BadQuery, match="mix"):
        retriever.retrieve("糖尿病症状", mode="fast")


def test_a_graph_is_called_by_the_name_or_the_id_of_its_base_or_is_the_only_one(rag: BlockingEngine) -> None:
    retriever = HybridRetriever(rag)
    own = rag.knowledge_base("graph-123").id
    told = [
        [each.chunk.key for each in retriever.retrieve("血糖", which)] for which in ("graph-123", own, str(own), None)
    ]
    assert all(each == told[0] for each in told)
    with pytest.raises(NotFound):
        retriever.retrieve("血糖", "没有的图谱")


def test_a_filter_holds(rag: BlockingEngine) -> None:
    results = HybridRetriever(rag).retrieve("糖尿病的治疗", where=Eq("doc_id", "胰岛素"))
    assert {each.chunk.doc_id for each in results} == {"胰岛素"}
    results = HybridRetriever(rag).retrieve("糖尿病的治疗", doc_ids=["饮食", "运动"], mode="local")
    assert {each.chunk.doc_id for each in results} == {"饮食", "运动"}


def test_the_context_of_a_graph_has_entities_and_directed_relations(rag: BlockingEngine) -> None:
    told = HybridRetriever(rag).assemble_graph_context("graph-123", ["糖尿病"])
    assert told["entities"][0]["name"] == "糖尿病"
    assert set(told["entities"][0]) == {"id", "name", "type"}
    ids = {each["id"] for each in told["entities"]}
    assert told["relationships"]
    assert all(set(each) == {"source", "target", "type"} for each in told["relationships"])
    assert all({each["source"], each["target"]} <= ids for each in told["relationships"])
    by_id = HybridRetriever(rag).assemble_graph_context("graph-123", [told["entities"][0]["id"]])
    assert by_id == told
    assert (
        HybridRetriever(rag).assemble_graph_context("graph-123", query="糖尿病是什么")["entities"][0]["name"]
        == "糖尿病"
    )
    assert HybridRetriever(rag).assemble_graph_context("graph-123", ["不存在的实体"]) == {
        "entities": [],
        "relationships": [],
    }


def test_the_context_of_a_filtered_graph_knows_nothing_else(rag: BlockingEngine) -> None:
    where = Eq("doc_id", "高血压")
    assert HybridRetriever(rag).assemble_graph_context("graph-123", ["糖尿病"], where=where)["entities"] == []


def test_a_question_may_bring_a_table(rag: BlockingEngine) -> None:
    table = {
        "type": "table",
        "table_data": "| 药品 | 价格 |\n| --- | --- |\n| 二甲双胍 | 31.5元 |\n",
        "table_caption": "药价",
    }
    told = HybridRetriever(rag).query_with_multimodal("二甲双胍的价格是多少", [table], mode="hybrid")
    assert "31.5" in told.answer
    assert told.sources


def test_an_answer_as_it_comes_without_await(rag: BlockingEngine) -> None:
    own = rag.knowledge_base("graph-123").id
    events = list(rag.ask_stream(own, "糖尿病的主要症状是什么？"))
    assert isinstance(events[0], SourcesFound)
    assert isinstance(events[-1], Done)
    assert "".join(each.text for each in events if isinstance(each, Token)).strip() == events[-1].answer.answer
    assert events[-1].answer.answer == rag.ask(own, "糖尿病的主要症状是什么？").answer


def test_awaited_on_the_engines_own_loop_and_blocking_is_refused_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            await filled(engine)
            retriever = HybridRetriever(engine)
            found = await retriever.aretrieve("糖尿病症状", "graph-123", "hybrid", 10)
            assert len(found) == 10
            assert (await retriever.aassemble_graph_context("graph-123", ["胰岛素"]))["entities"]
            for blocking, instead in (
                (lambda: retriever.retrieve("糖尿病"), "aretrieve"),
                (lambda: retriever.query_with_multimodal("糖尿病"), "aquery_with_multimodal"),
                (lambda: retriever.assemble_graph_context(), "aassemble_graph_context"),
            ):
                with pytest.raises(BadInput, match=instead):
                    blocking()
            in_a_thread = await asyncio.to_thread(retriever.retrieve, "糖尿病症状", "graph-123", "hybrid", 10)
            assert [each.chunk.key for each in in_a_thread] == [each.chunk.key for each in found]

    asyncio.run(main())


def test_awaited_on_another_loop(rag: BlockingEngine) -> None:
    found = asyncio.run(HybridRetriever(rag).aretrieve("糖尿病症状", "graph-123"))
    assert len(found) == 10


def test_of_an_engine_whose_loop_is_unknown_only_the_awaited_form_works(rag: BlockingEngine) -> None:
    retriever = HybridRetriever(rag.engine)  # made outside any loop
    with pytest.raises(BadInput, match="open_blocking"):
        retriever.retrieve("糖尿病")
    assert len(rag.run(retriever.aretrieve("糖尿病", top_k=3))) == 3


def test_of_several_bases_one_must_be_named(tmp_path: Path) -> None:
    with open_blocking(tmp_path, background=False) as engine:
        with pytest.raises(NotFound, match="kb create"):
            HybridRetriever(engine).retrieve("糖尿病")
        engine.create_knowledge_base("甲")
        engine.create_knowledge_base("乙")
        with pytest.raises(BadInput, match="graph_id"):
            HybridRetriever(engine).retrieve("糖尿病")
        assert HybridRetriever(engine, graph_id="乙").retrieve("糖尿病") == []
