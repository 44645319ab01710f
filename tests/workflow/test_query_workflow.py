"""The query workflow as a LangGraph: its way, its threads, its words as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from qianxun.answer import run as steps
from qianxun.answer.state import AnswerState
from qianxun.core.errors import BadQuery, NotFound
from qianxun.core.types import Document, Eq
from qianxun.doors.frameworks.rag_anything import RAGAnythingAdapter
from qianxun.doors.workflow.query_state import KNOWN, known, restored
from qianxun.doors.workflow.query_workflow import create_query_workflow
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from tests.answer.answers_base import DOCUMENTS
from tests.models.chat_service import Reply, chat_service

SYMPTOMS = "糖尿病的主要症状是什么？"
QUESTION = {"query": SYMPTOMS, "graph_id": "医学"}
PLAIN_WAY = ["analyze_query", "route_query", "retrieve", "grade_documents", "generate_answer"]


@asynccontextmanager
async def library(folder: Path, **told: Any) -> AsyncIterator[Engine]:
    async with Engine.open(settings=load(arguments={"data": str(folder), **told}), background=False) as engine:
        if not await engine.knowledge_bases():
            made = await engine.create_knowledge_base("医学", model="none")
            await engine.add_documents(made.id, DOCUMENTS)
        yield engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workflow")


def told(folder: Path, story: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with library(folder) as engine:
            await story(engine)

    asyncio.run(whole())


def nodes(result: dict[str, Any]) -> list[str]:
    return [step["node"] for step in result["trace"]]


def test_an_answer_with_its_sources_and_the_way_to_it(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        result = await create_query_workflow(engine).ainvoke(QUESTION)
        asked = await engine.ask((await engine.knowledge_base("医学")).id, SYMPTOMS)
        assert result["answer"] == asked.answer
        assert [source["text"] for source in result["sources"]] == [source.text for source in asked.sources]
        assert nodes(result) == PLAIN_WAY
        assert (result["mode"], result["form"], result["is_partial"]) == ("mix", "extractive", False)

    told(folder, story)


def test_the_state_is_plain_json_at_every_step(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=False))
        workflow = create_query_workflow(engine, checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "json"}}
        await workflow.ainvoke(QUESTION, thread)
        states = [state async for state in workflow.aget_state_history(thread)]
        assert len(states) == len(PLAIN_WAY) + 2  # the input, and before it nothing
        for state in states:
            assert json.loads(json.dumps(state.values)) == state.values

    told(folder, story)


def test_a_question_that_nothing_answers_is_said_in_other_words_three_times_at_most(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        question = {"query": "火星基地的驻留人数和氧气储备是多少？", "graph_id": "医学"}
        result = await create_query_workflow(engine).ainvoke(question)
        assert result["form"] == "declined"
        assert len(result["sources"]) == 1  # what comes nearest
        way = nodes(result)
        assert way[:4] == PLAIN_WAY[:4]
        assert 1 <= way.count("refine_query") <= 3
        assert way.count("retrieve") == len(result["asked"]) <= 4
        assert len(set(result["asked"])) == len(result["asked"])

    told(folder, story)


def test_simple_questions_go_straight_to_the_answer(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        workflow = create_query_workflow(engine)
        for question in ({"query": "你好", "graph_id": "医学"}, {**QUESTION, "mode": "bypass"}):
            result = await workflow.ainvoke(question)
            assert nodes(result) == ["analyze_query", "route_query", "generate_answer"]
            assert result["form"] == "direct"

    told(folder, story)


def test_a_thread_remembers_and_another_does_not(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        workflow = create_query_workflow(engine, checkpointer=InMemorySaver())
        one: Any = {"configurable": {"thread_id": "一"}}
        other: Any = {"configurable": {"thread_id": "二"}}
        await workflow.ainvoke({**QUESTION, "mode": "local"}, one)
        second = await workflow.ainvoke({"query": "那高血压呢？", "graph_id": "医学"}, one)
        assert "头晕和头痛" in second["answer"]
        assert second["mode"] == "mix"  # the mode of one question is not that of the next
        assert [turn["role"] for turn in second["history"]] == ["user", "assistant"] * 2
        assert len(nodes(second)) == len(PLAIN_WAY)  # nothing of the first question's way
        strange = await workflow.ainvoke({"query": "那高血压呢？", "graph_id": "医学"}, other)
        assert strange["analysis"]["question"] == "那高血压呢？"

    told(folder, story)


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(folder: Path) -> None:
    saver = InMemorySaver()
    thread: Any = {"configurable": {"thread_id": "resumed"}}

    async def stopped(engine: Engine) -> None:
        workflow = create_query_workflow(engine, checkpointer=saver, interrupt_before=["generate_answer"])
        result = await workflow.ainvoke(QUESTION, thread)
        assert result["answer"] is None
        assert result["found"]

    async def resumed(engine: Engine) -> None:
        workflow = create_query_workflow(engine, checkpointer=saver)
        result = await workflow.ainvoke(None, thread)
        assert "多饮、多尿" in result["answer"]
        assert nodes(result) == PLAIN_WAY  # no step was taken twice

    told(folder, stopped)
    told(folder, resumed)  # by another engine, as in another process


def test_two_at_once_do_not_mix(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        workflow = create_query_workflow(engine, checkpointer=InMemorySaver())
        questions = [SYMPTOMS, "高血压的主要症状是什么？", "胸片的价格是多少", "你好"] * 3
        results = await asyncio.gather(
            *(
                workflow.ainvoke({"query": each, "graph_id": "医学"}, {"configurable": {"thread_id": str(at)}})
                for at, each in enumerate(questions)
            )
        )
        for result, question in zip(results, questions, strict=True):
            assert result["query"] == question
            assert result["analysis"]["question"] == question
        assert [result["answer"] for result in results] == [results[at % 4]["answer"] for at in range(12)]
        assert len({result["answer"] for result in results}) == 4

    told(folder, story)


def test_steps_and_words_are_heard_as_they_come(tmp_path: Path) -> None:
    spoken = Reply("糖尿病的主要症状是多饮、多尿、多食和体重下降[1]。")

    async def whole() -> None:
        with chat_service(lambda request: spoken if request.is_stream else "{}") as service:
            async with library(tmp_path, **service.told) as engine:
                heard = [
                    each
                    async for each in create_query_workflow(engine).astream(QUESTION, stream_mode=["updates", "custom"])
                ]
        updates = [node for mode, change in heard if mode == "updates" for node in change]
        words = [event for mode, event in heard if mode == "custom"]
        assert updates == PLAIN_WAY
        assert [words[0]["type"], words[-1]["type"]] == ["sources", "done"]
        tokens = [event["text"] for event in words if event["type"] == "token"]
        assert len(tokens) > 3
        last = heard[-1][1]["generate_answer"]
        assert "".join(tokens) == last["answer"]
        assert [event["citation"]["numbers"] for event in words if event["type"] == "citation"] == [[1]]
        assert last["trace"][-1]["form"] == "model:qwen"

    asyncio.run(whole())


@pytest.mark.parametrize(("after", "is_partial"), [(0, False), (3, True)])
def test_a_model_that_is_cut_off_leaves_a_partial_answer_or_the_sources(
    tmp_path: Path, after: int, is_partial: bool
) -> None:
    cut = Reply("糖尿病的主要症状是多饮、多尿[1]。", cut_after=after)

    async def whole() -> None:
        with chat_service(lambda request: cut if request.is_stream else "{}") as service:
            async with library(tmp_path, **service.told) as engine:
                result = await create_query_workflow(engine).ainvoke(QUESTION)
        assert result["is_partial"] is is_partial
        assert result["form"] == ("model" if is_partial else "extractive")
        assert "model" in {each["part"] for each in result["degraded"]}

    asyncio.run(whole())


def test_a_filter_holds_on_every_step(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        workflow = create_query_workflow(engine)
        result = await workflow.ainvoke({**QUESTION, "where": Eq("user_id", "李四")})
        assert {each["chunk"]["doc_id"] for each in result["found"]} <= {"hbp", "price"}
        written = {"op": "eq", "field": "user_id", "value": "李四"}
        again = await workflow.ainvoke({**QUESTION, "where": written})
        assert again["found"] == result["found"]

    told(folder, story)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"graph_id": "医学"}, BadQuery),
        ({"query": SYMPTOMS}, BadQuery),
        ({"query": "", "graph_id": "医学"}, BadQuery),
        ({**QUESTION, "graph_id": "没有"}, NotFound),
        ({**QUESTION, "graph_id": "99"}, NotFound),
        ({**QUESTION, "mode": "best"}, BadQuery),
        ({**QUESTION, "top_k": 0}, BadQuery),
        ({**QUESTION, "where": {"op": "drop"}}, BadQuery),
    ],
)
def test_what_cannot_be_asked_is_refused(folder: Path, wrong: dict[str, Any], error: type[Exception]) -> None:
    async def story(engine: Engine) -> None:
        with pytest.raises(error):
            await create_query_workflow(engine).ainvoke(wrong)

    told(folder, story)


def test_a_base_is_called_by_its_name_or_its_id(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        made = await engine.knowledge_base("医学")
        workflow = create_query_workflow(engine)
        answers = [await workflow.ainvoke({**QUESTION, "graph_id": each}) for each in ("医学", made.id, str(made.id))]
        assert len({answer["answer"] for answer in answers}) == 1

    told(folder, story)


def test_callbacks_and_tags_of_the_config_reach_the_run(folder: Path) -> None:
    from langchain_core.callbacks import AsyncCallbackHandler

    class Heard(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.names: list[str] = []

        async def on_chain_start(self, *given: Any, **named: Any) -> None:
            if "标记" in (named.get("tags") or []):
                self.names.append(str(named.get("name")))

    async def story(engine: Engine) -> None:
        heard = Heard()
        await create_query_workflow(engine).ainvoke(QUESTION, {"callbacks": [heard], "tags": ["标记"]})
        assert "query_workflow" in heard.names
        assert set(PLAIN_WAY) <= set(heard.names)

    told(folder, story)


def test_without_an_engine_workflows_share_the_folder_and_let_go_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made() -> None:
        async with library(folder):
            pass

    async def asked() -> list[str]:
        workflows = create_query_workflow(), create_query_workflow()
        results = await asyncio.gather(*(each.ainvoke(QUESTION) for each in workflows))
        return [result["answer"] for result in results]

    asyncio.run(made())
    monkeypatch.setenv("QIANXUN_DATA", str(folder))
    answers = asyncio.run(asked()) + asyncio.run(asked())  # in two loops, one after the other
    assert len(set(answers)) == 1
    asyncio.run(made())  # nobody owns the folder any more


def test_without_an_engine_a_workflow_shares_the_folder_with_adapters(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made() -> None:
        async with library(folder):
            pass

    async def asked() -> None:
        workflow = create_query_workflow()
        async with RAGAnythingAdapter({"working_dir": folder, "graph_id": "医学"}) as adapter:
            by_workflow = await workflow.ainvoke(QUESTION)
            assert (await adapter.query(QUESTION["query"])).answer == by_workflow["answer"]
        assert (await workflow.ainvoke(QUESTION))["answer"] == by_workflow["answer"]  # it keeps the folder

    asyncio.run(made())
    monkeypatch.setenv("QIANXUN_DATA", str(folder))
    asyncio.run(asked())
    asyncio.run(made())


@pytest.mark.parametrize(
    "query", [SYMPTOMS, "胸片的价格是多少", "总结一下这些资料", "火星基地的驻留人数是多少？", "《红楼梦》的作者是谁"]
)
def test_what_was_written_down_is_read_back_the_same(folder: Path, query: str) -> None:
    async def story(engine: Engine) -> None:
        answering = await engine.answering((await engine.knowledge_base("医学")).id)
        history = [{"role": "user", "content": "你好"}]
        state = steps.begun(query, "mix", history)
        for step in (steps.analyze_query, steps.retrieve, steps.grade_documents, steps.refine_query):
            state = await step(answering, state)
            kept = {"query": query, "history": history, "request": {"mode": "mix"}, **known(state)}
            assert restored(json.loads(json.dumps(kept))) == state
        assert (state.tie is not None) == ("谁" in query)

    told(folder, story)


def test_a_stranger_finds_no_base_of_that_name(folder: Path) -> None:
    async def story(engine: Engine) -> None:
        with pytest.raises(NotFound):
            await create_query_workflow(engine.of("外人")).ainvoke(QUESTION)

    told(folder, story)


@pytest.mark.parametrize("query", [SYMPTOMS, "胸片的价格是多少", "总结一下这些资料"])
def test_what_was_deleted_during_an_interruption_is_not_told(tmp_path: Path, query: str) -> None:
    async def whole() -> None:
        async with library(tmp_path) as engine:
            base = (await engine.knowledge_base("医学")).id
            thread: Any = {"configurable": {"thread_id": "deleted"}}
            workflow = create_query_workflow(engine, checkpointer=InMemorySaver(), interrupt_before=["generate_answer"])
            await workflow.ainvoke({**QUESTION, "query": query}, thread)
            for doc_id in ("dm", "price"):
                await engine.delete_document(base, doc_id)
            result = await workflow.ainvoke(None, thread)
            assert not {"dm", "price"} & {source["doc_id"] for source in result["sources"]}
            assert "胰岛素" not in json.dumps(result["context"], ensure_ascii=False)
            assert nodes(result).count("retrieve") == 2

    asyncio.run(whole())


def test_a_thread_whose_base_is_gone_cannot_go_on(tmp_path: Path) -> None:
    async def whole() -> None:
        async with library(tmp_path) as engine:
            thread: Any = {"configurable": {"thread_id": "gone"}}
            workflow = create_query_workflow(engine, checkpointer=InMemorySaver(), interrupt_before=["retrieve"])
            await workflow.ainvoke(QUESTION, thread)
            await engine.delete_knowledge_base((await engine.knowledge_base("医学")).id)
            with pytest.raises(NotFound):
                await workflow.ainvoke(None, thread)

    asyncio.run(whole())


def test_a_step_knows_all_that_the_steps_before_found_out() -> None:
    assert {each.name for each in fields(AnswerState)} == {"query", "mode", "history", "answer", *KNOWN}


def test_why_a_tables_cells_give_no_answer_is_told_as_the_engine_tells_it(tmp_path: Path) -> None:
    sheet = "# 库存\n\n| 商品 | 单价 | 数量 |\n| --- | --- | --- |\n| 打印机 | 1299 | 15 |\n| 显示器 | 1150 | #N/A |\n"

    async def story() -> None:
        async with library(tmp_path) as engine:
            base = await engine.create_knowledge_base("库存", model="none")
            await engine.add_documents(base.id, [Document("stock", sheet, name="库存.md", format="markdown")])
            result = await create_query_workflow(engine).ainvoke({"query": "显示器的数量", "graph_id": "库存"})
            told = await engine.ask(base.id, "显示器的数量")
            assert "#N/A" in told.reason
            assert (result["answer"], result["reason"]) == (told.answer, told.reason)

    asyncio.run(story())
