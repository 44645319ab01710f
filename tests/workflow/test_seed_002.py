"""The second document's own validations, word for word where they are code, over a library without any model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from qianxun import (
    AnswerGenerator,
    HybridRetriever,
    RAGAnythingAdapter,
    ResultRanker,
    assemble_graph_context,
    create_query_workflow,
    open_blocking,
)
from qianxun.core.graph_types import Entity, Relation
from qianxun.engine.blocking import BlockingEngine
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.models.remote.chat import RemoteChat
from qianxun.models.remote.endpoints import ChatEndpoint
from tests.frameworks.material import filled
from tests.models.chat_service import Request, chat_service
from tests.shared import MODELS, needs_model


async def _fill(folder: Path) -> None:
    async with Engine.open(folder, background=False) as engine:
        await filled(engine, "graph-123")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the base graph-123."""
    folder = tmp_path_factory.mktemp("seed")
    asyncio.run(_fill(folder))
    return folder


@pytest.fixture
def folder(library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, which is that of the settings."""
    monkeypatch.setenv("QIANXUN_DATA", str(library))
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_FOLDERS", str(MODELS))
    return library


@pytest.fixture
def rag_instance(folder: Path) -> Iterator[BlockingEngine]:
    with open_blocking(folder, background=False) as rag:
        yield rag


@pytest.mark.usefixtures("folder")
def test_the_query_workflow() -> None:
    async def main() -> None:
        workflow = create_query_workflow()
        result = await workflow.ainvoke({"query": "糖尿病患者的主要症状是什么？", "graph_id": "graph-123"})
        assert result["answer"] is not None
        assert len(result["sources"]) > 0
        assert "多饮" in result["answer"]

    asyncio.run(main())


def test_the_six_modes(folder: Path) -> None:
    async def main() -> None:
        adapter = RAGAnythingAdapter({"working_dir": str(folder), "graph_id": "graph-123"})
        modes = ["naive", "local", "global", "hybrid", "mix", "bypass"]
        for mode in modes:
            result = await adapter.query("测试查询", mode=mode)
            assert result.answer is not None

    asyncio.run(main())  # the adapter is not closed: the end of the loop lets the folder go
    with open_blocking(folder, background=False) as rag:
        assert rag.knowledge_base("graph-123")


def test_the_hybrid_retriever(rag_instance: BlockingEngine) -> None:
    neo4j_adapter = None
    retriever = HybridRetriever(rag_instance, neo4j_adapter)
    results = retriever.retrieve(query="糖尿病症状", graph_id="graph-123", mode="hybrid", top_k=10)
    assert len(results) == 10
    assert all(r.score > 0 for r in results)


@needs_model
def test_the_result_ranker(rag_instance: BlockingEngine) -> None:
    reranker_model = rag_instance.catalog.rerank("maxsim", rag_instance.embeddings.get("bge-small-zh-v1.5", 512, None))
    initial_results = HybridRetriever(rag_instance).retrieve("糖尿病治疗", "graph-123")
    ranker = ResultRanker(reranker_model)
    reranked = ranker.rerank(query="糖尿病治疗", results=initial_results, top_k=5)
    assert len(reranked) == 5
    assert reranked[0].score >= reranked[1].score


def test_a_question_with_a_picture(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "xray.jpg"
    Image.new("RGB", (64, 64), "gray").save(picture)

    def answers(request: Request) -> str:
        return "化验单：空腹血糖 7.6 毫摩尔每升。" if request.images else "空腹血糖为 7.6 毫摩尔每升[1]。"

    async def main(rag: BlockingEngine) -> None:
        retriever = HybridRetriever(rag)
        result = await retriever.aquery_with_multimodal(
            query="分析这张图像中的异常",
            multimodal_content=[{"type": "image", "img_path": str(picture)}],
            mode="hybrid",
        )
        assert result.answer
        assert "[1]" in result.answer or not result.sources

    with chat_service(answers) as service:
        settings = load(arguments={"data": str(folder), **service.told})
        with open_blocking(settings=settings, background=False) as rag:
            rag.configure(rag.knowledge_base("graph-123").id, {"vision_model": "qwen"})
            asyncio.run(main(rag))
    shown = [image for request in service.requests for image in request.images]
    assert shown[0].startswith("data:image/")
    assert ";base64," in shown[0]


def test_a_question_with_a_table(rag_instance: BlockingEngine) -> None:
    rows = [{"患者": "张三", "空腹血糖": "8.2"}, {"患者": "李四", "空腹血糖": "5.1"}]
    result = HybridRetriever(rag_instance).query_with_multimodal(
        "张三的空腹血糖是多少？", [{"type": "table", "table_data": rows}], mode="mix"
    )
    assert "8.2" in result.answer
    assert result.sources


def test_the_context_of_a_graph() -> None:
    nodes = [Entity("e2", "胰岛素", "MEDICINE", importance=0.4), Entity("e1", "糖尿病", "DISEASE", importance=1.0)]
    assert assemble_graph_context(nodes, [Relation("e2", "e1", "TREATS", 1.0)]) == {
        "entities": [
            {"id": "e1", "name": "糖尿病", "type": "DISEASE"},
            {"id": "e2", "name": "胰岛素", "type": "MEDICINE"},
        ],
        "relationships": [{"source": "e2", "target": "e1", "type": "TREATS"}],
    }


def test_the_answer_generator(rag_instance: BlockingEngine) -> None:
    retrieved_context = HybridRetriever(rag_instance).retrieve("糖尿病的主要症状是什么？", "graph-123")
    with chat_service("糖尿病的主要症状是多饮、多尿、多食和体重下降[1]。") as service:
        for llm in (None, RemoteChat(ChatEndpoint(service.url, "qwen"))):
            generator = AnswerGenerator(llm)
            response = generator.generate(query="糖尿病的主要症状是什么？", context=retrieved_context)
            assert "[1]" in response.answer or len(response.sources) == 0
            assert "多饮" in response.answer
