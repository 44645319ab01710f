"""The query workflow as a LangGraph: the steps of `qianxun.answer`, wired.

    workflow = create_query_workflow()                       # the folder of the settings, opened on first use
    workflow = create_query_workflow(engine, checkpointer=InMemorySaver())
    result = await workflow.ainvoke({"query": "糖尿病的主要症状是什么？", "graph_id": "医保"})
    result["answer"], result["sources"], result["trace"]

    analyze_query → route_query ─┬─► retrieve → grade_documents ─┬─► generate_answer
                                 │       ▲                       │          ▲
                                 │       └──── refine_query ◄────┘          │
                                 └──────────────────────────────────────────┘

The state is plain JSON. ``graph_id`` is the id or the name of a knowledge base; ``mode``, ``top_k``, ``where`` (a
filter) and ``multimodal_content`` may be given with each question, ``history`` too; under a checkpointer a thread
remembers its own. ``stream_mode="custom"`` gives the answer as it comes: sources, tokens, citations.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from qianxun.core.answer_types import AnswerEvent, Done, Failed, SentenceCited, SourcesFound, Token
from qianxun.core.codec.plain import plain
from qianxun.core.errors import BadInput, BadQuery, MissingExtra, NotFound
from qianxun.core.options import AskOptions
from qianxun.doors.workflow.query_state import (
    CONVERSATION,
    INPUTS,
    KNOWN,
    RESULT,
    answered,
    filter_of,
    known,
    new_question,
    restored,
)
from qianxun.engine.answer_steps import Answering, AnswerState, steps
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, load
from qianxun.engine.shared_engines import shared_engines

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

State: TypeAlias = Mapping[str, Any]
Change: TypeAlias = dict[str, Any]
NODES = ("analyze_query", "route_query", "retrieve", "grade_documents", "refine_query", "generate_answer")


def create_query_workflow(
    engine: Engine | None = None, *, checkpointer: Any = None, **compiling: Any
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A compiled graph; ``compiling`` is handed to LangGraph's ``compile`` (``interrupt_before``, ``store`` …).

    Without an ``engine`` the folder of the settings is opened on first use, and closed when the event loop ends; all
    who bring none share it. Where it is open already, as in ``async with Engine.open()``, that engine is to be given.
    Raises MissingExtra without LangGraph, and BadInput for what is no engine: the steps run where the folder is open.
    """
    if engine is not None and not isinstance(engine, Engine):
        raise BadInput(
            f"create_query_workflow 要的是打开的 Engine，不是 {type(engine).__name__}",
            hint="经服务提问用 client.ask 或 RAGAnythingAdapter(client)；open_blocking 的改用 Engine.open",
        )
    graph_of, start, end, once = _langgraph()
    keys = {**dict.fromkeys((*CONVERSATION, *KNOWN, *RESULT), Any), **dict.fromkeys(INPUTS, once)}
    graph = graph_of(TypedDict("QueryState", keys, total=False))  # type: ignore[operator]
    nodes = _Nodes(engine)
    for name in NODES:
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(start, "analyze_query")
    graph.add_edge("analyze_query", "route_query")
    graph.add_conditional_edges("route_query", _by(steps.after_route), ["retrieve", "generate_answer"])
    graph.add_edge("retrieve", "grade_documents")
    graph.add_conditional_edges("grade_documents", _by(steps.after_grade), ["refine_query", "generate_answer"])
    graph.add_conditional_edges("refine_query", _by(steps.after_refining), ["retrieve", "generate_answer"])
    graph.add_edge("generate_answer", end)
    compiled: CompiledStateGraph[Any, Any, Any, Any] = graph.compile(
        checkpointer=checkpointer, **{"name": "query_workflow", **compiling}
    )
    return compiled


class _Nodes:
    """The steps over JSON: each reads the state, takes its step, and gives what changed."""

    def __init__(self, engine: Engine | None) -> None:
        self._engine = engine
        self._settings: Settings | None = None  # read on first use

    async def analyze_query(self, state: Any) -> Change:
        begins, request = new_question(state)
        answering = await self._answering({**state, "request": request})
        content = state.get("multimodal_content") or ()
        found_out = await steps.analyze_query(answering, begins, content)
        return {**_forgotten(), **known(found_out), "request": {**request, "started": time.time()}}

    async def route_query(self, state: Any) -> Change:
        before = restored(state)
        return known(steps.route_query(before), before)

    async def retrieve(self, state: Any) -> Change:
        return await self._taken(steps.retrieve, state)

    async def grade_documents(self, state: Any) -> Change:
        return await self._taken(steps.grade_documents, state)

    async def refine_query(self, state: Any) -> Change:
        return await self._taken(steps.refine_query, state)

    async def _taken(self, step: Callable[[Answering, AnswerState], Awaitable[AnswerState]], state: Any) -> Change:
        before = restored(state)
        return known(await step(await self._answering(state), before), before)

    async def generate_answer(self, state: Any) -> Change:
        """The answer; streamed under ``custom`` as it comes."""
        write, answering = _stream_writer(), await self._answering(state)
        before, after, has_begun = restored(state), restored(state), False
        async with aclosing(steps.generate_stream(answering, before)) as events:
            async for event, after in events:
                has_begun = has_begun or isinstance(event, Token)
                if isinstance(event, Failed) and not has_begun and after.answer is not None:
                    after = replace(after, answer=replace(after.answer, is_partial=False))  # whole, if not the model's
                write(_event_data(event))
        answer = steps.noted(answering, after, time.time() - state["request"]["started"])
        return answered(after, before, answer)

    async def _answering(self, state: State) -> Answering:
        engine = self._engine or await self._shared_engine()
        request = state["request"]
        base = await _base(engine, state.get("graph_id"))
        return await engine.answering(base, AskOptions(top_k=request["top_k"], where=filter_of(request)))

    async def _shared_engine(self) -> Engine:
        self._settings = self._settings or load()
        return await shared_engines().keep(self._settings)


async def _base(engine: Engine, graph_id: Any) -> int:
    """The knowledge base of that name, or else of that id."""
    if isinstance(graph_id, bool) or not isinstance(graph_id, str | int) or graph_id == "":
        raise BadQuery("输入里没有 graph_id", hint="给出知识库的名字或编号")
    try:
        return (await engine.knowledge_base(graph_id)).id
    except NotFound:
        if isinstance(graph_id, int) or not graph_id.isdecimal():
            raise
    return (await engine.knowledge_base(int(graph_id))).id


def _by(choose: Callable[[AnswerState], str]) -> Callable[[Any], str]:
    return lambda state: choose(restored(state))


def _forgotten() -> Change:
    """What is left of the thread's last question is no answer to this one."""
    return dict.fromkeys(RESULT)


def _event_data(event: AnswerEvent) -> Change:
    """An event as it is streamed under ``custom``."""
    match event:
        case SourcesFound(sources):
            return {"type": "sources", "sources": plain(sources)}
        case Token(text):
            return {"type": "token", "text": text}
        case SentenceCited():
            return {"type": "citation", **plain(event)}
        case Failed(error, message):
            return {"type": "error", "error": error, "message": message}
        case Done():
            return {"type": "done"}


# ── LangGraph ────────────────────────────────────────────────────────────────────────────────────


def _langgraph() -> tuple[Any, str, str, Any]:
    """Its graph, where one begins and ends, and what marks a key whose value lasts for one step."""
    try:
        from langgraph.channels import EphemeralValue
        from langgraph.graph import END, START, StateGraph
    except ModuleNotFoundError as error:
        raise MissingExtra("langgraph", "langgraph") from error
    return StateGraph, START, END, Annotated[Any, EphemeralValue]


def _stream_writer() -> Callable[[Any], None]:
    from langgraph.config import get_stream_writer

    writer: Callable[[Any], None] = get_stream_writer()
    return writer
