"""The node reads and writes what it should, in any form of state, in graphs of both kinds, and nothing stops it."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, HumanMessageChunk, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from sqlalchemy import text

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.types import Vector
from qianxun.doors.workflow.nodes import retrieval_node as module
from qianxun.doors.workflow.nodes.retrieval_node import RetrievalNode, make_retrieval_node, retrieval_node
from qianxun.engine.engine import Engine
from qianxun.engine.example_library import close_default_library
from qianxun.engine.settings import Settings, load
from qianxun.examples.library import ExampleLibrary, SearchSettings
from qianxun.examples.store import ExampleStore
from qianxun.testing.scripted import HashEmbedding
from tests.examples.libraries import EXAMPLES, MODEL, broken_model, fill, library_url, opened
from tests.servers.postgres import Server, create_database

LOW = SearchSettings(similarity_threshold=0.2, min_results=0)
WINE = "高血压能喝酒吗 最好不喝，酒会影响降压药。"


@pytest.fixture(params=["sqlite", "postgres"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExampleLibrary]:
    with opened(library_url(request.param, tmp_path, request), settings=LOW) as library:
        fill(library.store)
        yield library


@pytest.fixture
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExampleLibrary]:
    """On SQLite, for what does not depend on the database."""
    with opened(library_url("sqlite", tmp_path, request), settings=LOW) as library:
        fill(library.store)
        yield library


def asking(query_text: Any = WINE, **more: Any) -> dict[str, Any]:
    return {"prompt_vars": {"query_text": query_text, **more}}


def contents(state: dict[str, Any]) -> list[str]:
    return [each["content"] for each in state["prompt_vars"]["retrieved_examples"]]


# ── what it reads and writes ─────────────────────────────────────────────────────────────────────


def test_examples_are_written_beside_what_node_one_wrote(library: ExampleLibrary) -> None:
    state = {**asking(keywords=["喝酒"], intent="qa"), "history_messages": [HumanMessage("嗯")], "user": 7}
    before = deepcopy(state)
    result = make_retrieval_node(library)(state)
    assert state == before  # the caller's own is not touched
    assert {key: result[key] for key in ("history_messages", "user")} == {
        key: before[key] for key in ("history_messages", "user")
    }
    examples = result["prompt_vars"].pop("retrieved_examples")
    assert result["prompt_vars"] == before["prompt_vars"]
    assert examples[0]["content"] == "用户：高血压能喝酒吗\n助手：最好不喝，酒会影响降压药。"
    for each in examples:
        assert set(each) == {"content", "similarity", "source", "metadata"}
        assert 0.2 <= each["similarity"] <= 1.0


@pytest.mark.parametrize(
    "last",
    [
        HumanMessage(WINE),
        HumanMessage([{"type": "text", "text": WINE}, {"type": "image_url", "image_url": "x"}]),
        HumanMessageChunk(WINE),
        {"role": "user", "content": WINE},
        {"role": "human", "content": WINE},
        {"type": "human", "content": WINE},
        {"type": "human", "data": {"content": WINE}},
        ("user", WINE),
        ("human", WINE),
        ["human", WINE],
        WINE,
    ],
)
@pytest.mark.parametrize("query_text", ["", None, "  ", 5])
def test_without_a_query_the_last_human_message_is_the_question(
    here: ExampleLibrary, last: Any, query_text: Any
) -> None:
    state = {**asking(query_text), "history_messages": [HumanMessage("你好"), AIMessage("您好"), last]}
    result = make_retrieval_node(here)(state)
    assert contents(result)[0].startswith("用户：高血压能喝酒吗")
    assert result["prompt_vars"]["query_text"] == query_text


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"prompt_vars": {}},
        {"prompt_vars": None},
        {"prompt_vars": []},
        {"prompt_vars": {"query_text": "", "keywords": []}, "history_messages": []},
        {"prompt_vars": {"query_text": "", "keywords": [None, " "]}},
        {"history_messages": None},
        {"history_messages": [AIMessage(WINE)]},
        {"history_messages": [HumanMessage(WINE), SystemMessage("规则")]},
        {"history_messages": [HumanMessage("")]},
        {"history_messages": [("ai", WINE)]},
        {"history_messages": [()]},
        {"history_messages": [None]},
        {"history_messages": [{"content": WINE}]},
        {"history_messages": [{"role": "user", "content": None}]},
        {"history_messages": 5},
        None,
        5,
    ],
)
def test_with_nothing_to_search_for_there_are_no_examples_and_the_log_says_so(
    here: ExampleLibrary, state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = make_retrieval_node(here)(state)
    assert result["prompt_vars"]["retrieved_examples"] == []
    assert "没有可检索的文字" in caplog.text


@pytest.mark.parametrize("keywords", [["高血压", "喝酒"], ("高血压", "喝酒"), ["高血压", None, " ", "喝酒"]])
def test_keywords_stand_behind_the_question(here: ExampleLibrary, keywords: Any) -> None:
    node = make_retrieval_node(here)
    merged = contents(node(asking("饮食 高血压 喝酒")))
    assert contents(node(asking("饮食", keywords=keywords))) == merged
    assert contents(node(asking("", keywords=["饮食 高血压 喝酒"]))) == merged
    assert contents(node(asking("饮食", keywords="高血压 喝酒"))) == merged
    assert contents(node({"history_messages": "饮食", "prompt_vars": {"keywords": keywords}})) == merged


def test_a_state_of_any_kind_is_read() -> None:
    """What node one wrote may stand in a model or a dataclass; the change comes back as a mapping."""

    @dataclass
    class Held:
        prompt_vars: dict[str, Any] = field(default_factory=lambda: {"query_text": WINE})

    class Model(BaseModel):
        prompt_vars: dict[str, Any] = {"query_text": WINE}

    for state in (Held(), Model()):
        result = module._updated(state, False, lambda text, keywords: [{"content": text}])  # type: ignore[typeddict-item]
        assert result == {"prompt_vars": {"query_text": WINE, "retrieved_examples": [{"content": WINE}]}}
        assert state.prompt_vars == {"query_text": WINE}


# ── graphs ───────────────────────────────────────────────────────────────────────────────────────


class State(TypedDict, total=False):
    prompt_vars: dict[str, Any]
    history_messages: Annotated[list[Any], operator.add]
    user: int


def graph_of(node: RetrievalNode, *, schema: Any = State, checkpointer: Any = None) -> Any:
    graph = StateGraph(schema)
    graph.add_node("retrieval_node", node)
    graph.add_node("ending", lambda state: {"prompt_vars": {**state["prompt_vars"], "ended": True}})
    graph.add_edge(START, "retrieval_node")
    graph.add_edge("retrieval_node", "ending")
    graph.add_edge("ending", END)
    return graph.compile(checkpointer=checkpointer)


def test_graphs_of_both_kinds_get_examples_and_keep_the_rest_as_it_is(library: ExampleLibrary) -> None:
    """A history that grows by addition would double, had the node given the whole state back."""
    graph = graph_of(make_retrieval_node(library))
    state = {**asking(keywords=["喝酒"]), "history_messages": [HumanMessage("嗯")], "user": 7}
    once = graph.invoke(state)
    assert contents(once)[0].startswith("用户：高血压能喝酒吗")
    assert [message.content for message in once["history_messages"]] == ["嗯"]
    assert (once["user"], once["prompt_vars"]["ended"]) == (7, True)
    assert asyncio.run(graph.ainvoke(state)) == once


def test_a_node_may_be_added_without_a_name_and_kept_in_checkpoints(here: ExampleLibrary) -> None:
    graph = StateGraph(State)
    graph.add_node(make_retrieval_node(here))
    graph.add_edge(START, "retrieval_node")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    compiled.invoke(asking(), config)
    kept = compiled.get_state(config).values
    assert contents(kept)[0].startswith("用户：高血压能喝酒吗")


def test_a_graph_whose_state_is_a_model_gets_examples_too(here: ExampleLibrary) -> None:
    class Model(BaseModel):
        prompt_vars: dict[str, Any] = {}
        history_messages: list[Any] = []

    graph = StateGraph(Model)
    graph.add_node(make_retrieval_node(here))
    graph.add_edge(START, "retrieval_node")
    result = graph.compile().invoke({"history_messages": [("user", WINE)]})
    assert contents(result)[0].startswith("用户：高血压能喝酒吗")


def test_an_async_graph_goes_on_while_the_node_searches(tmp_path: Path) -> None:
    begun, arrived = threading.Event(), threading.Event()

    class Waiting(HashEmbedding):
        def embed_query(self, text: str) -> Vector:
            begun.set()
            assert arrived.wait(60)
            return super().embed_query(text)

    async def both(graph: Any) -> Any:
        searching = asyncio.create_task(graph.ainvoke(asking()))
        assert await asyncio.to_thread(begun.wait, 60)
        arrived.set()  # on the event loop: had the node blocked it, nobody would come here
        return await searching

    with opened(f"sqlite:///{tmp_path / 'examples.db'}", Waiting(64), LOW) as library:
        fill(library.store)
        assert contents(asyncio.run(both(graph_of(make_retrieval_node(library)))))


def test_sixteen_threads_may_run_one_graph(library: ExampleLibrary) -> None:
    graph = graph_of(make_retrieval_node(library))
    questions = [each.text for each in EXAMPLES]
    expected = {question: contents(graph.invoke(asking(question))) for question in questions}
    assert all(expected.values())
    starting = threading.Barrier(16)

    def ask(number: int) -> bool:
        starting.wait(30)
        asked = [questions[(number + n) % len(questions)] for n in range(4)]
        return all(contents(graph.invoke(asking(question))) == expected[question] for question in asked)

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(16)))


# ── whose library ────────────────────────────────────────────────────────────────────────────────


def test_an_engines_own_library_can_be_asked(tmp_path: Path) -> None:
    settings = load(
        environment={},
        arguments={
            "data": str(tmp_path),
            "vectorization.model": MODEL.name,
            "examples.similarity_threshold": 0.2,
            "examples.global_top_k": 2,
        },
        folder=tmp_path,
    )

    async def asked() -> Any:
        async with Engine.open(settings=settings, models={MODEL.name: MODEL}, background=False) as engine:
            await asyncio.to_thread(fill, engine.examples)
            return await graph_of(make_retrieval_node(engine)).ainvoke(asking())

    found = contents(asyncio.run(asked()))
    assert found[0].startswith("用户：高血压能喝酒吗")
    assert len(found) == 2  # as the settings say


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The settings that a process in this folder would have."""
    path = tmp_path / "qianxun.yaml"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QIANXUN_DATA", raising=False)
    close_default_library()
    module._default_search.cache_clear()
    yield path
    close_default_library()
    module._default_search.cache_clear()


def test_without_a_model_the_node_of_the_settings_has_no_examples_and_says_why(
    settings_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings_file.write_text("data: ./here\nvectorization: {model: none}\n", "utf-8")
    assert retrieval_node(asking())["prompt_vars"] == {"query_text": WINE, "retrieved_examples": []}
    assert "没有向量模型" in caplog.text


def test_the_node_of_the_settings_finds_what_is_in_their_library(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file.write_text("data: ./here\nexamples: {similarity_threshold: 0.2}\n", "utf-8")
    brought = {Settings().vectorization.model: HashEmbedding(64, Settings().vectorization.model)}
    opening = module.default_library.__globals__["open_library"]
    monkeypatch.setitem(module.default_library.__globals__, "open_library", lambda told: opening(told, brought))
    library = module.default_library()
    fill(library.store)
    assert contents(retrieval_node(asking()))[0].startswith("用户：高血压能喝酒吗")
    assert module.default_library() is library


# ── when something breaks ────────────────────────────────────────────────────────────────────────


def broken(node: RetrievalNode, caplog: pytest.LogCaptureFixture, *said: str) -> None:
    """The node, and a graph with it, go on without examples, and the log says why, with the traceback."""
    caplog.clear()
    result = node({**asking(intent="qa"), "user": 7})
    assert result == {"prompt_vars": {"query_text": WINE, "intent": "qa", "retrieved_examples": []}, "user": 7}
    (told,) = (record for record in caplog.records if record.name == module.__name__)
    assert told.levelno == logging.ERROR
    assert told.exc_info is not None
    assert all(words in caplog.text for words in said), caplog.text
    for ended in (graph_of(node).invoke(asking()), asyncio.run(graph_of(node).ainvoke(asking()))):
        assert ended["prompt_vars"] == {"query_text": WINE, "retrieved_examples": [], "ended": True}


def test_a_dropped_table_leaves_no_examples(library: ExampleLibrary, caplog: pytest.LogCaptureFixture) -> None:
    node = make_retrieval_node(library)
    assert contents(node(asking()))
    with library.store.writing() as connection:
        connection.execute(text("DROP TABLE gd2502_query_examples"))
    broken(node, caplog, "gd2502_query_examples")
    for _ in range(12):  # whichever connections it was that failed
        assert library.search_in_table("qa_examples", MODEL.embed_query(WINE), 5, 0.2)


def test_a_broken_model_leaves_no_examples(library: ExampleLibrary, caplog: pytest.LogCaptureFixture) -> None:
    unable = ExampleLibrary(ExampleStore(library.store.engine, model=broken_model(64)))
    broken(make_retrieval_node(unable), caplog, "权重文件损坏")
    unable.close()


def test_a_model_that_is_not_the_librarys_leaves_no_examples(
    library: ExampleLibrary, caplog: pytest.LogCaptureFixture
) -> None:
    other = ExampleLibrary(ExampleStore(library.store.engine, model=HashEmbedding(32)))
    broken(make_retrieval_node(other), caplog, "fake-64", "fake-32")
    other.close()


@pytest.mark.parametrize("vector", [[0.0] * 64, [float("nan")] * 64, [1.0] * 63])
def test_a_model_that_talks_rubbish_leaves_no_examples(
    here: ExampleLibrary, vector: Sequence[float], caplog: pytest.LogCaptureFixture
) -> None:
    class Rubbish(HashEmbedding):
        def embed_query(self, text: str) -> Any:
            return vector

    unable = ExampleLibrary(ExampleStore(here.store.engine, model=Rubbish(64)))
    broken(make_retrieval_node(unable), caplog, "查询向量")
    unable.close()


def test_a_model_that_hangs_does_not_hold_the_flow(here: ExampleLibrary, caplog: pytest.LogCaptureFixture) -> None:
    released = threading.Event()

    class Hanging(HashEmbedding):
        def embed_query(self, text: str) -> Vector:
            released.wait(60)
            return super().embed_query(text)

    hanging = ExampleLibrary(ExampleStore(here.store.engine, model=Hanging(64)), LOW)
    node = make_retrieval_node(hanging, seconds=0.05)
    started = time.monotonic()
    broken(node, caplog, "0.05 秒内没有答复")
    assert time.monotonic() - started < 30  # not the minute that the model takes
    released.set()
    assert contents(make_retrieval_node(hanging)(asking()))
    hanging.close()


def test_a_database_that_hangs_does_not_hold_the_flow(
    tmp_path: Path, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(library_url("postgres", tmp_path, request), settings=LOW) as library:
        fill(library.store)
        before = contents(make_retrieval_node(library)(asking()))
        with library.store.engine.begin() as connection:
            connection.execute(text("LOCK TABLE gd2502_query_examples IN ACCESS EXCLUSIVE MODE"))
            broken(make_retrieval_node(library, seconds=0.2), caplog, "0.2 秒内没有答复")
        assert contents(make_retrieval_node(library)(asking())) == before


def test_a_search_that_takes_the_server_too_long_is_given_up(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    settings = SearchSettings(statement_seconds=0.2)
    with opened(library_url("postgres", tmp_path, request), settings=settings) as library:
        fill(library.store)
        with library.store.engine.begin() as connection:
            connection.execute(text("LOCK TABLE gd2502_query_examples IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(RetrieverUnavailable, match="statement timeout"):
                library.vector_db_search(WINE)
        until = time.monotonic() + 60
        while True:  # now that nobody keeps it waiting; a fifth of a second may pass a busy server by
            try:
                assert library.vector_db_search(WINE)
                break
            except RetrieverUnavailable:
                assert time.monotonic() < until


def test_threads_go_on_while_the_database_restarts(postgres_server: Server) -> None:
    with opened(create_database(postgres_server), settings=LOW) as library:
        fill(library.store)
        node = make_retrieval_node(library)
        before = contents(node(asking()))
        is_over = threading.Event()

        def ask(_: int) -> set[tuple[str, ...]]:
            seen = set()
            while not is_over.is_set():
                seen.add(tuple(contents(node(asking()))))
            return seen

        with ThreadPoolExecutor(8) as threads:
            asking_on = [threads.submit(ask, number) for number in range(8)]
            postgres_server.stop("fast")
            postgres_server.start()
            is_over.set()
            assert all(future.result(60) <= {tuple(before), ()} for future in asking_on)  # all or nothing, never raised
        assert contents(node(asking())) == before


def test_a_state_that_cannot_be_read_leaves_no_examples(here: ExampleLibrary, caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        @property
        def prompt_vars(self) -> Any:
            raise ValueError("读不出来")

    assert make_retrieval_node(here)(Odd()) == {"prompt_vars": {"retrieved_examples": []}}
    assert "读不出来" in caplog.text


def test_a_database_that_stops_leaves_no_examples_and_comes_back(
    postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(create_database(postgres_server), settings=LOW) as library:
        fill(library.store)
        node = make_retrieval_node(library)
        before = contents(node(asking()))
        assert before
        postgres_server.stop("fast")  # a crash would lose what this server, which never flushes, has just been told
        broken(node, caplog, "数据库", "Traceback")
        postgres_server.start()
        assert contents(node(asking())) == before  # without a call that only finds out that connections are dead


def test_the_log_does_not_tell_what_was_asked_of_the_database(
    library: ExampleLibrary, caplog: pytest.LogCaptureFixture
) -> None:
    with library.store.writing() as connection:
        connection.execute(text("DROP TABLE gd2502_qa_examples"))
    make_retrieval_node(library)(asking("我叫王小明，高血压"))
    assert "gd2502_qa_examples" in caplog.text
    assert "王小明" not in caplog.text
