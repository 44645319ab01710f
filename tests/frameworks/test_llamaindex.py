"""LlamaIndex's own machinery over the real engine, and over a real service."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms.mock import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import RetrieverTool
from pydantic import Field

from qianxun.core.codec.passage import passage_text
from qianxun.core.errors import BadFilter, BadInput, BadQuery, NotFound
from qianxun.core.types import Document, Eq
from qianxun.doors.client import Client
from qianxun.doors.frameworks import callers, engine_caller
from qianxun.doors.frameworks.llamaindex import NOT_FOR_MODELS, QianxunRetriever, RecallDegraded
from qianxun.engine.engine import Engine
from tests.frameworks.reached import QUESTION, Library, library


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with library(tmp_path_factory.mktemp("llamaindex")) as held:
        yield held


@pytest.fixture(params=["blocking", "client"])
def rag(request: pytest.FixtureRequest, held: Library) -> callers.Rag:
    return held.rag if request.param == "blocking" else Client(held.url)


def told(nodes: list[NodeWithScore]) -> list[tuple[Any, ...]]:
    return [(each.node.node_id, each.text, each.score) for each in nodes]


def expected(held: Library, query: str = QUESTION, **options: Any) -> list[tuple[Any, ...]]:
    found = held.rag.retrieve(held.number, query, **options).found
    return [(each.chunk.chunk_id, passage_text(each.chunk), each.score) for each in found]


# ── from everywhere ──────────────────────────────────────────────────────────────────────────────


def test_what_the_engine_finds_is_found_sync_and_async_and_in_a_loop(held: Library, rag: callers.Rag) -> None:
    retriever = QianxunRetriever(rag, "医保")

    async def inside() -> list[list[NodeWithScore]]:
        return [retriever.retrieve(QUESTION), await retriever.aretrieve(QueryBundle(QUESTION))]

    wanted = expected(held)
    assert len(wanted) >= 2
    assert told(retriever.retrieve(QueryBundle(QUESTION, embedding=[1.0]))) == wanted
    for _ in range(2):  # each on a loop of its own
        assert told(asyncio.run(retriever.aretrieve(QUESTION))) == wanted
    assert [told(each) for each in asyncio.run(inside())] == [wanted, wanted]


def test_an_engine_is_awaited_on_its_loop_and_waited_for_elsewhere(held: Library) -> None:
    async def story(engine: Engine) -> tuple[Any, Any, str]:
        own = QianxunRetriever(engine, held.number)
        elsewhere = await asyncio.to_thread(own.retrieve, QUESTION)
        with pytest.raises(BadInput) as refused:
            own.retrieve(QUESTION)
        return await own.aretrieve(QUESTION), elsewhere, str(refused.value)

    awaited, elsewhere, refused = held.rag.run(story(held.rag.engine))
    assert told(awaited) == told(elsewhere) == expected(held)
    assert "aretrieve" in refused
    with pytest.raises(BadInput, match="open_blocking"):
        QianxunRetriever(held.rag.engine, "医保").retrieve(QUESTION)


def test_a_fusion_that_blocks_the_engines_loop_is_told_of_it(held: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_caller, "ROUND_SECONDS", 0.3)

    async def story(engine: Engine) -> str:
        own = QianxunRetriever(engine, "医保")
        with pytest.raises(BadInput) as refused:
            QueryFusionRetriever([own], llm=MockLLM(), num_queries=1, use_async=True).retrieve(QUESTION)
        return str(refused.value)

    assert "open_blocking" in held.rag.run(story(held.rag.engine))


# ── options ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1, "mode": "fulltext"},
        {"threshold": 0.3, "where": Eq("content_type", "chapter")},
        {"doc_ids": ["手册"], "fusion": "rrf", "fuzzy": False},
    ],
)
def test_the_options_are_those_of_the_engine(held: Library, rag: callers.Rag, options: dict[str, Any]) -> None:
    assert told(QianxunRetriever(rag, "医保", **options).retrieve(QUESTION)) == expected(held, **options)


def test_a_filter_may_be_written_as_in_a_request(held: Library, rag: callers.Rag) -> None:
    found = QianxunRetriever(rag, "医保", where={"content_type": ["notice"]}).retrieve(QUESTION)
    assert [each.metadata["doc_id"] for each in found] == ["通知"]


def test_what_cannot_be_asked_is_an_error_and_not_an_empty_list(rag: callers.Rag) -> None:
    with pytest.raises(BadInput, match="similarity_top_k"):
        QianxunRetriever(rag, "医保", similarity_top_k=3)  # type: ignore[call-arg]
    with pytest.raises(BadFilter, match="没有可过滤的字段"):
        QianxunRetriever(rag, "医保", where={"年份": 2024})
    with pytest.raises(BadFilter, match="应为对象"):
        QianxunRetriever(rag, "医保", where=["年份"])  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="写成列表"):
        QianxunRetriever(rag, "医保", doc_ids="手册")
    with pytest.raises(BadQuery):
        QianxunRetriever(rag, "医保").retrieve(" ")
    for unknown in ("没有的库", 987654):
        with pytest.raises(NotFound):
            QianxunRetriever(rag, unknown).retrieve(QUESTION)


def test_a_deleted_document_is_not_returned_any_more(held: Library) -> None:
    base = held.rag.create_knowledge_base("食堂").id
    held.rag.add_documents(
        base, [Document("午餐", "食堂午餐供应到下午一点半。"), Document("晚餐", "食堂晚餐供应到八点。")]
    )
    retriever = QianxunRetriever(held.rag, base)
    assert retriever.retrieve("食堂午餐")[0].metadata["doc_id"] == "午餐"
    held.rag.delete_document(base, "午餐")
    assert [each.metadata["doc_id"] for each in retriever.retrieve("食堂午餐")] == ["晚餐"]


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


def test_a_node_tells_programs_everything_and_models_what_they_can_use(held: Library, rag: callers.Rag) -> None:
    found = next(each for each in QianxunRetriever(rag, "医保").retrieve(QUESTION) if "85%" in each.text)
    node = found.node
    assert isinstance(node, TextNode)
    assert json.loads(json.dumps(node.metadata)) == node.metadata
    assert node.metadata["score"] == found.score
    assert node.metadata["metadata.score"] == 5
    assert node.metadata["地区"] == ["北京", "上海"]
    assert node.ref_doc_id == node.metadata["doc_id"] == "手册"
    (chunk,) = (one for one in held.rag.chunks(held.number, "手册") if one.chunk_id == node.node_id)
    assert (node.start_char_idx, node.end_char_idx, node.text) == (chunk.start, chunk.end, passage_text(chunk))
    shown = node.get_content(MetadataMode.LLM)
    assert "手册.md" in shown
    assert "2024" in shown
    for name in (*NOT_FOR_MODELS, "page"):
        assert not any(line.startswith(f"{name}:") for line in shown.splitlines()), name
    assert node.metadata["trace_id"] not in shown
    again = TextNode.from_dict(node.to_dict())
    assert (again.node_id, again.text, again.metadata) == (node.node_id, node.text, node.metadata)


class Heard(BaseEventHandler):
    events: list[BaseEvent] = Field(default_factory=list)

    def handle(self, event: BaseEvent, **_: Any) -> None:
        self.events.append(event)


def test_a_recall_without_a_part_of_it_says_so_everywhere(rag: callers.Rag, caplog: pytest.LogCaptureFixture) -> None:
    heard, dispatcher = Heard(), get_dispatcher()
    dispatcher.add_event_handler(heard)
    try:
        with caplog.at_level(logging.WARNING, "qianxun.doors.frameworks"):
            found = QianxunRetriever(rag, "医保").retrieve("坏天气里住院报销比例")
    finally:
        dispatcher.event_handlers.remove(heard)
    (degraded,) = found[0].metadata["degraded"]
    assert degraded["part"] == "vector"
    (told_of,) = (each for each in heard.events if isinstance(each, RecallDegraded))
    assert (told_of.trace_id, told_of.degraded) == (found[0].metadata["trace_id"], [degraded])
    assert told_of.model_dump()["class_name"] == "RecallDegraded"
    assert [each for each in caplog.records if told_of.trace_id in each.getMessage()]


def test_callbacks_hear_of_it(held: Library) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    QianxunRetriever(held.rag, "医保", callback_manager=CallbackManager([debug])).retrieve(QUESTION)
    assert debug.get_event_pairs(CBEventType.RETRIEVE)


# ── in query engines ─────────────────────────────────────────────────────────────────────────────


def test_a_query_engine_answers_from_it_through_postprocessors(held: Library, rag: callers.Rag) -> None:
    lowest = expected(held)[0][2]
    engine = RetrieverQueryEngine.from_args(
        QianxunRetriever(rag, "医保"),
        llm=MockLLM(),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=lowest)],
        response_mode=ResponseMode.COMPACT,
    )
    for answer in (engine.query(QUESTION), asyncio.run(engine.aquery(QUESTION))):
        assert [each.node_id for each in answer.source_nodes] == [expected(held)[0][0]]
        assert expected(held)[0][1] in str(answer)  # it says what it was told


@pytest.mark.parametrize("use_async", [True, False])
def test_a_fusion_rewards_what_several_found_however_each_scored_it(rag: callers.Rag, use_async: bool) -> None:
    both = [QianxunRetriever(rag, "医保"), QianxunRetriever(rag, "医保", mode="fulltext")]
    fused = QueryFusionRetriever(
        [*both],
        llm=MockLLM(),
        num_queries=1,
        mode=FUSION_MODES.RECIPROCAL_RANK,
        use_async=use_async,
        similarity_top_k=10,
    )
    wanted: dict[str, float] = {}
    for each in both:
        for rank, found in enumerate(each.retrieve(QUESTION)):
            wanted[found.node_id] = wanted.get(found.node_id, 0.0) + 1 / (60 + rank)
    assert max(wanted.values()) > 1 / 60  # both found it
    assert {each.node_id: each.score for each in fused.retrieve(QUESTION)} == pytest.approx(wanted)


def test_it_is_a_tool_for_agents(rag: callers.Rag) -> None:
    tool = RetrieverTool.from_defaults(QianxunRetriever(rag, "医保"), name="medical", description="查医保手册")
    assert "住院报销比例为 85%" in tool.call(QUESTION).content
    assert "住院报销比例为 85%" in asyncio.run(tool.acall(QUESTION)).content
