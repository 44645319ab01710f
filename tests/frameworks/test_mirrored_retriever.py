"""A retriever whose graph also lives on a Bolt server: the same answers, whether that server is there or not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from qianxun import HybridRetriever, open_blocking
from qianxun.core.errors import BadInput
from qianxun.core.types import Document, Eq
from qianxun.doors.frameworks.neo4j import Neo4jAdapter
from qianxun.engine.blocking import BlockingEngine
from tests.frameworks.material import filled
from tests.servers.bolt import NoBolt, bolt_server


@pytest.fixture(scope="module")
def rag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    with open_blocking(tmp_path_factory.mktemp("mirrored"), background=False) as engine:
        engine.run(filled(engine.engine))
        yield engine


@pytest.fixture(scope="module")
def adapter() -> Iterator[Neo4jAdapter]:
    try:
        with bolt_server() as server, Neo4jAdapter(server.uri, server.auth) as adapter:
            yield adapter
    except NoBolt as reason:
        pytest.skip(str(reason))


def test_what_the_server_holds_is_what_is_told(rag: BlockingEngine, adapter: Neo4jAdapter) -> None:
    mirrored, own = HybridRetriever(rag, adapter), HybridRetriever(rag)
    assert mirrored.mirror("graph-123").entities > 0
    assert mirrored.mirror("graph-123").is_unchanged
    for node in ("糖尿病", "胰岛素"):
        there = mirrored.assemble_graph_context("graph-123", [node])
        here = own.assemble_graph_context("graph-123", [node])
        assert there["entities"][0] == here["entities"][0]
        told, expected = ({tuple(each.values()) for each in side["relationships"]} for side in (there, here))
        assert told == expected
    results = mirrored.retrieve("糖尿病症状", "graph-123", mode="local", top_k=10)
    assert 0 < len(results) <= 10
    assert all(each.score > 0 for each in results)


def test_names_that_people_made_one_are_asked_for_as_the_server_has_them_and_not_shown_under_a_filter(
    rag: BlockingEngine, adapter: Neo4jAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    async def merged() -> None:
        engine = rag.engine
        kb = (await engine.create_knowledge_base("计划", model="none")).id
        open_, secret = "青松科技有限公司位于杭州市。", "玄武计划由李明负责。玄武计划位于成都市。"
        await engine.add_documents(kb, [Document("公开", open_), Document("机密", secret)])
        await engine.admin.merge_entities(kb, "玄武计划", "青松科技有限公司")

    rag.run(merged())
    mirrored = HybridRetriever(rag, adapter)
    with caplog.at_level(logging.WARNING):
        seen = mirrored.assemble_graph_context("计划", ["青松科技有限公司"], where=Eq("doc_id", "公开"))
    assert {"青松科技有限公司", "杭州市"} <= {each["name"] for each in seen["entities"]}
    assert not {"玄武计划", "李明", "成都市"} & {each["name"] for each in seen["entities"]}
    assert "made from the records" not in caplog.text
    whole = mirrored.assemble_graph_context("计划", ["青松科技有限公司"])
    assert {"玄武计划", "杭州市", "成都市"} <= {each["name"] for each in whole["entities"]}


def test_a_server_that_is_away_costs_nothing_but_a_warning(
    rag: BlockingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    with Neo4jAdapter("bolt://127.0.0.1:9", ("neo4j", "none")) as away:
        mirrored, own = HybridRetriever(rag, away), HybridRetriever(rag)
        with caplog.at_level(logging.WARNING):
            told = mirrored.assemble_graph_context("graph-123", ["糖尿病"])
        assert told == own.assemble_graph_context("graph-123", ["糖尿病"])
        assert "made from the records" in caplog.text
        found = mirrored.retrieve("糖尿病症状", "graph-123", mode="local")
        assert [each.chunk.key for each in found] == [
            each.chunk.key for each in own.retrieve("糖尿病症状", "graph-123", mode="local")
        ]


def test_without_a_server_there_is_nothing_to_mirror_to(rag: BlockingEngine) -> None:
    with pytest.raises(BadInput, match="Neo4jAdapter"):
        HybridRetriever(rag).mirror()
