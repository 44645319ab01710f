"""LangChain's own machinery over the real engine, and over a real service."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document as LangChainDocument
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

from qianxun.core.codec.passage import passage_text
from qianxun.core.errors import BadFilter, BadInput, BadQuery, NotFound
from qianxun.core.options import SearchChoices
from qianxun.core.types import Document, Eq
from qianxun.doors.client import Client
from qianxun.doors.frameworks import callers, engine_caller
from qianxun.doors.frameworks.langchain import QianxunRetriever
from qianxun.doors.frameworks.recall import OPTIONS
from qianxun.engine.engine import Engine
from tests.frameworks.reached import QUESTION, Library, library


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with library(tmp_path_factory.mktemp("langchain")) as held:
        yield held


@pytest.fixture(params=["blocking", "client"])
def retriever(request: pytest.FixtureRequest, held: Library) -> QianxunRetriever:
    rag = held.rag if request.param == "blocking" else Client(held.url)
    return QianxunRetriever(rag=rag, knowledge_base="医保")


def told(documents: list[LangChainDocument]) -> list[tuple[Any, ...]]:
    return [(each.id, each.page_content, each.metadata["score"]) for each in documents]


def expected(held: Library, query: str = QUESTION, **options: Any) -> list[tuple[Any, ...]]:
    found = held.rag.retrieve(held.number, query, **options).found
    return [(each.chunk.chunk_id, passage_text(each.chunk), each.score) for each in found]


# ── from everywhere ──────────────────────────────────────────────────────────────────────────────


def test_what_the_engine_finds_is_found_sync_and_async(held: Library, retriever: QianxunRetriever) -> None:
    assert told(retriever.invoke(QUESTION)) == expected(held)
    assert len(expected(held)) >= 2
    for _ in range(2):  # each on a loop of its own
        assert told(asyncio.run(retriever.ainvoke(QUESTION))) == expected(held)


def test_inside_a_running_loop_both_forms_work(held: Library, retriever: QianxunRetriever) -> None:
    async def story() -> list[Any]:
        made_here = retriever.model_copy()
        return [retriever.invoke(QUESTION), await made_here.ainvoke(QUESTION), await retriever.abatch([QUESTION])]

    sync, awaited, [batched] = asyncio.run(story())
    assert told(sync) == told(awaited) == told(batched) == expected(held)


def test_a_client_of_the_running_loop_is_asked_itself_and_ends_with_it(held: Library) -> None:
    async def story() -> tuple[Any, Any]:
        async with Client(held.url) as client:
            own = QianxunRetriever(rag=client, knowledge_base=held.number)
            return await own.ainvoke(QUESTION), own.invoke(QUESTION)

    awaited, sync = asyncio.run(story())
    assert told(awaited) == told(sync) == expected(held)


def test_an_engine_is_awaited_on_its_loop_and_waited_for_elsewhere(held: Library) -> None:
    async def story(engine: Engine) -> tuple[Any, Any, str]:
        own = QianxunRetriever(rag=engine, knowledge_base="医保")
        elsewhere = await asyncio.to_thread(own.invoke, QUESTION)
        other_loop = await asyncio.to_thread(lambda: asyncio.run(own.ainvoke(QUESTION)))
        assert told(other_loop) == told(elsewhere)
        with pytest.raises(BadInput) as refused:
            own.invoke(QUESTION)
        return await own.ainvoke(QUESTION), elsewhere, str(refused.value)

    awaited, elsewhere, refused = held.rag.run(story(held.rag.engine))
    assert told(awaited) == told(elsewhere) == expected(held)
    assert "ainvoke" in refused


def test_an_engine_of_an_unknown_loop_can_only_be_awaited(held: Library) -> None:
    with pytest.raises(BadInput, match="open_blocking"):
        QianxunRetriever(rag=held.rag.engine, knowledge_base="医保").invoke(QUESTION)


def test_threads_that_wait_for_a_loop_that_waits_for_them_are_told(
    held: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_caller, "ROUND_SECONDS", 0.3)

    async def story(engine: Engine) -> str:
        own = QianxunRetriever(rag=engine, knowledge_base="医保")
        with pytest.raises(BadInput) as refused:
            own.batch([QUESTION, "年休假"])
        return str(refused.value)

    assert "ainvoke" in held.rag.run(story(held.rag.engine))


def test_a_twin_of_a_client_ends_with_its_retriever(held: Library) -> None:
    own = callers.ClientCaller(Client(held.url))
    assert QianxunRetriever(rag=own, knowledge_base="医保").invoke(QUESTION)
    assert own._twin is not None
    thread = own._twin.thread
    del own
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


# ── options ──────────────────────────────────────────────────────────────────────────────────────


def test_the_options_are_those_of_the_engine() -> None:
    assert set(OPTIONS) == {*SearchChoices.__annotations__, "trace_id"}
    assert set(OPTIONS) - {"trace_id"} <= set(QianxunRetriever.model_fields)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"mode": "fulltext"},
        {"threshold": 0.3},
        {"where": Eq("content_type", "notice")},
        {"doc_ids": ["手册"]},
        {"fusion": "rrf", "weights": {"vector": 0.5, "keyword": 0.5}},
        {"rerank": "", "fuzzy": False},
    ],
)
def test_options_hold_for_every_call_or_for_one(
    held: Library, retriever: QianxunRetriever, options: dict[str, Any]
) -> None:
    own = QianxunRetriever(rag=retriever.rag, knowledge_base="医保", **options)
    assert told(own.invoke(QUESTION)) == expected(held, **options)
    assert told(retriever.invoke(QUESTION, **options)) == expected(held, **options)
    assert told(asyncio.run(retriever.bind(**options).ainvoke(QUESTION))) == expected(held, **options)


def test_a_filter_may_be_written_as_in_a_request(held: Library, retriever: QianxunRetriever) -> None:
    where = {"metadata.年份": {"ge": 2024}, "content_type": ["chapter"]}
    own = QianxunRetriever(rag=retriever.rag, knowledge_base=held.number, where=where)
    assert {each.metadata["doc_id"] for each in own.invoke(QUESTION)} == {"手册"}
    with pytest.raises(BadFilter, match="没有可过滤的字段"):
        QianxunRetriever(rag=retriever.rag, knowledge_base="医保", where={"年份": 2024})


@pytest.mark.parametrize("where", ["", "x", [], ["x"], 0, Eq])
def test_what_is_no_filter_is_refused_and_never_left_out(retriever: QianxunRetriever, where: Any) -> None:
    with pytest.raises(BadFilter, match="应为对象"):
        QianxunRetriever(rag=retriever.rag, knowledge_base="医保", where=where)
    with pytest.raises(BadFilter, match="应为对象"):
        retriever.invoke(QUESTION, where=where)


def test_one_document_is_not_named_by_its_characters(retriever: QianxunRetriever) -> None:
    with pytest.raises(BadInput, match=r"doc_ids=\['手册'\]"):
        retriever.invoke(QUESTION, doc_ids="手册")
    with pytest.raises(ValidationError, match="doc_ids"):
        QianxunRetriever(rag=retriever.rag, knowledge_base="医保", doc_ids="手册")


def test_options_that_there_are_not_are_refused(held: Library, retriever: QianxunRetriever) -> None:
    with pytest.raises(ValidationError, match="topk"):
        QianxunRetriever(rag=held.rag, knowledge_base="医保", topk=5)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="top_k"):
        retriever.invoke(QUESTION, k=5)
    with pytest.raises(BadInput, match="open_blocking"):
        QianxunRetriever(rag="./qianxun-data", knowledge_base="医保")  # type: ignore[arg-type]
    with pytest.raises(BadQuery, match="top_k"):
        retriever.invoke(QUESTION, top_k=0)


def test_what_cannot_be_asked_is_an_error_and_not_an_empty_list(retriever: QianxunRetriever) -> None:
    with pytest.raises(BadQuery):
        retriever.invoke("  ")
    for unknown in ("没有的库", 987654):
        with pytest.raises(NotFound):
            QianxunRetriever(rag=retriever.rag, knowledge_base=unknown).invoke(QUESTION)


def test_a_deleted_document_is_not_returned_any_more(held: Library, retriever: QianxunRetriever) -> None:
    base = held.rag.create_knowledge_base(f"食堂{uuid4()}").id
    held.rag.add_documents(
        base, [Document("午餐", "食堂午餐供应到下午一点半。"), Document("晚餐", "食堂晚餐供应到八点。")]
    )
    own = QianxunRetriever(rag=retriever.rag, knowledge_base=base)
    assert own.invoke("食堂午餐")[0].metadata["doc_id"] == "午餐"
    held.rag.delete_document(base, "午餐")
    assert [each.metadata["doc_id"] for each in own.invoke("食堂午餐")] == ["晚餐"]


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


def test_metadata_loses_nothing_and_is_json(held: Library, retriever: QianxunRetriever) -> None:
    document = next(each for each in retriever.invoke(QUESTION) if "85%" in each.page_content)
    assert json.loads(json.dumps(document.metadata)) == document.metadata
    (found,) = (each for each in held.rag.retrieve(held.number, QUESTION).found if each.chunk.chunk_id == document.id)
    assert {**document.metadata, "trace_id": ""} == {
        "doc_id": "手册",
        "doc_name": "手册.md",
        "chunk_id": document.id,
        "score": found.score,
        "source": found.source,
        "tier": found.tier,
        "page": None,
        "headings": list(found.chunk.headings),
        "trace_id": "",
        "degraded": [],
        "年份": 2024,
        "地区": ["北京", "上海"],
        "公开": True,
        "metadata.score": 5,
        "metadata.source": "官网",
        "metadata.metadata.score": "甲",
    }


class Heard(BaseCallbackHandler):
    def __init__(self) -> None:
        self.events: list[tuple[str, Any, UUID]] = []
        self.runs: list[tuple[str, tuple[str, ...]]] = []
        self.errors: list[BaseException] = []

    def on_retriever_start(self, serialized: Any, query: str, *, tags: list[str] | None = None, **more: Any) -> None:
        self.runs.append((more["name"], tuple(tags or ())))

    def on_retriever_error(self, error: BaseException, **_: Any) -> None:
        self.errors.append(error)

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        self.events.append((name, data, run_id))


@pytest.mark.parametrize("invoked", [
    lambda retriever, query, **told: retriever.invoke(query, **told),
    lambda retriever, query, **told: asyncio.run(retriever.ainvoke(query, **told)),
])  # fmt: skip
def test_a_recall_without_a_part_of_it_says_so_everywhere(
    retriever: QianxunRetriever, invoked: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    heard, run = Heard(), uuid4()
    with caplog.at_level(logging.WARNING, "qianxun.doors.frameworks"):
        documents = invoked(retriever, "坏天气里住院报销比例", config={"callbacks": [heard]}, run_id=run)
    (degraded,) = documents[0].metadata["degraded"]
    assert degraded["part"] == "vector"
    assert heard.events == [("qianxun_degraded", {"trace_id": run.hex, "degraded": [degraded]}, run)]
    assert [each.getMessage() for each in caplog.records if run.hex in each.getMessage()]


def test_runs_have_names_tags_and_errors_and_are_found_in_the_log(held: Library, retriever: QianxunRetriever) -> None:
    heard, run = Heard(), uuid4()
    tagged = retriever.model_copy(update={"tags": ["医保"]})
    documents = tagged.invoke(QUESTION, {"callbacks": [heard], "run_name": "查手册", "tags": ["生产"]}, run_id=run)
    assert heard.runs[0][0] == "查手册"
    assert set(heard.runs[0][1]) == {"医保", "生产"}
    assert heard.events == []
    assert documents[0].metadata["trace_id"] == run.hex
    held.rag.run(held.rag.engine.journal.flush())
    (logged,) = held.rag.logs.list(trace_id=run.hex)
    assert logged.query == QUESTION
    with pytest.raises(BadQuery):
        retriever.invoke("", {"callbacks": [heard]})
    assert isinstance(heard.errors[0], BadQuery)


# ── in chains ────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_is_composed_of_it(retriever: QianxunRetriever) -> None:
    def joined(documents: list[LangChainDocument]) -> str:
        return "\n".join(each.page_content for each in documents)

    asked: list[str] = []
    prompt = ChatPromptTemplate.from_template("资料：{context}\n问题：{question}")
    heard = RunnableLambda(lambda value: asked.append(value.to_string()) or value)
    model = FakeListChatModel(responses=["85%"])
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()} | prompt | heard | model | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "85%"
    assert asyncio.run(chain.ainvoke(QUESTION)) == "85%"
    assert all("住院报销比例为 85%" in each and QUESTION in each for each in asked)
    assert chain.get_graph().draw_mermaid()


def test_many_are_asked_at_once(held: Library, retriever: QianxunRetriever) -> None:
    queries = [QUESTION, "年休假几天", "门诊报销比例"]
    wanted = [expected(held, query) for query in queries]
    assert [told(each) for each in retriever.batch(queries)] == wanted
    assert [told(each) for each in asyncio.run(retriever.abatch(queries))] == wanted
    first, second = retriever.batch(["", QUESTION], return_exceptions=True)
    assert isinstance(first, BadQuery)
    assert told(second) == wanted[0]


def test_it_is_a_tool_for_agents(retriever: QianxunRetriever) -> None:
    prompt = PromptTemplate.from_template("《{doc_name}》{page_content}")
    tool = create_retriever_tool(
        retriever, "medical", "查医保手册", document_prompt=prompt, response_format="content_and_artifact"
    )
    call = {"type": "tool_call", "id": "1", "name": "medical", "args": {"query": QUESTION}}
    for message in (tool.invoke(call), asyncio.run(tool.ainvoke(call))):
        assert "《手册.md》" in message.content
        assert isinstance(message.artifact[0], LangChainDocument)


def test_fields_can_be_configured_for_a_call_without_another_connection(retriever: QianxunRetriever) -> None:
    configurable = retriever.configurable_fields(top_k=ConfigurableField(id="top_k"))
    assert len(configurable.invoke(QUESTION, {"configurable": {"top_k": 1}})) == 1
    assert len(configurable.invoke(QUESTION)) > 1
    if isinstance(retriever.rag, callers.ClientCaller):
        twin = retriever.rag._twin
        configurable.invoke(QUESTION, {"configurable": {"top_k": 2}})
        assert retriever.rag._twin is twin


def test_nothing_of_the_engine_is_shown(retriever: QianxunRetriever) -> None:
    assert "rag" not in repr(retriever)
    assert "rag" not in retriever.model_dump()
    assert dumpd(retriever)["type"] == "not_implemented"
