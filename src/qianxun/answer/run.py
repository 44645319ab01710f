"""From a question to an answer with its sources: analyze → route → retrieve → grade → refine → generate.

Each step is a plain function: what may be drawn on (`Answering`) and what is known so far (`AnswerState`) in, the same
value with what it found out. Every step says in the trace in which form it ran, by rules or by a model; a model that
fails is told of in ``degraded``, and the rules take over. `workflow.query_workflow` wires the same functions into a
LangGraph.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from qianxun.answer.analyze import analysed
from qianxun.answer.attachments import with_attached
from qianxun.answer.context import Answering, merged
from qianxun.answer.generate import declined
from qianxun.answer.grade import graded
from qianxun.answer.refine import refined
from qianxun.answer.state import AnswerState, Step, TableLack, TableReply, check_mode
from qianxun.answer.table_replies import table_reply
from qianxun.answer.write import Writing, writing_of
from qianxun.bases.base import read
from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, QueryMode, TraceStep
from qianxun.core.conversation import turns_of
from qianxun.core.errors import RecallFailed
from qianxun.core.graph_types import NO_CONTEXT
from qianxun.core.limits import QUERY_LIMIT
from qianxun.core.log_types import new_trace_id
from qianxun.core.types import Degraded
from qianxun.core.unicode import sendable
from qianxun.graph.modes import ModeRecall
from qianxun.records import chunks
from qianxun.retrieve.query_plan import check_text

MOST_REFINEMENTS: Final = 3
ANEW: Final = 2  # answers that are written again because their sources went meanwhile
DELETED: Final = Degraded("sources", "作答期间引用的资料被删除，已用剩下的资料重新作答")

Content: TypeAlias = Sequence[Mapping[str, Any]]


async def answer_question(
    answering: Answering,
    query: str,
    *,
    mode: QueryMode | None = None,
    history: Sequence[Any] = (),
    multimodal_content: Content = (),
    trace_id: str = "",
) -> Answer:
    """The answer, every sentence with its sources; or that these do not say. ``mode`` None: as fits the question."""
    started = time.perf_counter()
    state = begun(query, mode, history, trace_id)
    state = await prepared(answering, state, multimodal_content)
    state = await generate_answer(answering, state)
    return noted(answering, state, time.perf_counter() - started)


async def answer_stream(
    answering: Answering,
    query: str,
    *,
    mode: QueryMode | None = None,
    history: Sequence[Any] = (),
    multimodal_content: Content = (),
    trace_id: str = "",
) -> AsyncGenerator[AnswerEvent, None]:
    """The same, as it comes: sources, words, a citation after each sentence, then `Done` or `Failed`, always last."""
    started = time.perf_counter()
    state = begun(query, mode, history, trace_id)
    state = await prepared(answering, state, multimodal_content)
    async with aclosing(generate_stream(answering, state)) as events:
        async for event, state in events:
            if isinstance(event, Done | Failed):
                event = replace(event, answer=noted(answering, state, time.perf_counter() - started))
            yield event


def begun(query: str, mode: str | None, history: Sequence[Any] = (), trace_id: str = "") -> AnswerState:
    """A question before anything is known of it. Raises BadQuery."""
    query = sendable(query)
    check_text(query)
    return AnswerState(query, check_mode(mode), turns_of(history), trace_id=trace_id or new_trace_id())


async def prepared(answering: Answering, state: AnswerState, content: Content) -> AnswerState:
    """Everything before the answer is written."""
    state = route_query(await analyze_query(answering, state, content))
    if after_route(state) == "generate_answer":
        return state
    while state.wording:
        state = await retrieve(answering, state)
        state = await grade_documents(answering, state)
        if after_grade(state) == "generate_answer":
            break
        state = await refine_query(answering, state)
    return state


# ── the steps ────────────────────────────────────────────────────────────────────────────────────


async def analyze_query(answering: Answering, state: AnswerState, content: Content = ()) -> AnswerState:
    """What the question is: how it stands by itself, its kind, the entities it names, how it is best looked up; and
    what the pictures and tables that came with it say."""
    started = time.perf_counter()
    analysis, step = await analysed(answering, state)
    state = replace(state, analysis=analysis, wording=analysis.question)
    state = await with_attached(answering, state, content)
    return _told(state, "analyze_query", step, started)


def route_query(state: AnswerState) -> AnswerState:
    """Whether anything is to be looked up at all, and in which mode."""
    said = {"to": after_route(state), "mode": state.used_mode, "chosen_by": "caller" if state.mode else "analysis"}
    return _told(state, "route_query", Step(said=said), time.perf_counter())


def after_route(state: AnswerState) -> Literal["retrieve", "generate_answer"]:
    """What needs no sources, or has its answer in what came along, is answered at once."""
    is_simple = state.is_direct or state.used_mode == "bypass" or state.table is not None
    return "generate_answer" if is_simple else "retrieve"


async def retrieve(answering: Answering, state: AnswerState) -> AnswerState:
    """What the base has to this wording, beside what earlier ones found; and what its tables say exactly."""
    started = time.perf_counter()
    recall = await _searched(answering, state)
    told, failed = (None, ()) if state.asked else await table_reply(answering, state, state.wording)
    found = merged(state.found, recall.found, answering.options.top_k)
    said = {"query": state.wording, "mode": state.used_mode, "found": len(recall.found), "kept": len(found)}
    state = replace(
        state,
        found=found,
        has_new={each.chunk.key for each in found} != {each.chunk.key for each in state.found},
        graph=recall.context if not state.asked else state.graph,
        tie=recall.tie if not state.asked else state.tie,
        table=told if isinstance(told, TableReply) else state.table,
        lack=told if isinstance(told, TableLack) else state.lack,
        asked=(*state.asked, state.wording),
        generation=state.generation or recall.generation,
        steps=(*state.steps, *recall.steps),
    )
    return _told(state, "retrieve", Step(said=said, degraded=(*recall.degraded, *failed)), started)


async def _searched(answering: Answering, state: AnswerState) -> ModeRecall:
    query = f"{state.wording} {state.given_words}".strip()[:QUERY_LIMIT]
    try:
        return await answering.search(query, state.used_mode)
    except RecallFailed as error:
        if not state.asked:
            raise
        return ModeRecall(query, state.used_mode, degraded=(Degraded("recall", str(error)),))  # others found something


async def grade_documents(answering: Answering, state: AnswerState) -> AnswerState:
    """Whether what was found can answer the question."""
    started = time.perf_counter()
    state, step = await graded(answering, state)
    return _told(state, "grade_documents", step, started)


def after_grade(state: AnswerState) -> Literal["refine_query", "generate_answer"]:
    is_enough = state.grade is not None and state.grade.is_enough
    return "generate_answer" if is_enough or state.refinements >= MOST_REFINEMENTS else "refine_query"


async def refine_query(answering: Answering, state: AnswerState) -> AnswerState:
    """The question in other words, to be searched for next; none where nobody knows of any."""
    started = time.perf_counter()
    wording, step = await refined(answering, state)
    return _told(replace(state, wording=wording), "refine_query", step, started)


def after_refining(state: AnswerState) -> Literal["retrieve", "generate_answer"]:
    return "retrieve" if state.wording else "generate_answer"


async def generate_answer(answering: Answering, state: AnswerState) -> AnswerState:
    """The answer, from what was found alone, and nothing that was deleted before it is told."""
    return await _settled(answering, await _once_written(answering, await still_there(answering, state)))


async def generate_stream(
    answering: Answering, state: AnswerState
) -> AsyncGenerator[tuple[AnswerEvent, AnswerState], None]:
    """`generate_answer` as it comes: every event, and what is known after it."""
    state = await still_there(answering, state)
    started = time.perf_counter()
    writing = await writing_of(answering, state)
    async with aclosing(writing.events()) as events:
        async for event in events:
            if isinstance(event, Done | Failed):
                state = await _settled(answering, _written(state, event.answer, writing, started))
                event = replace(event, answer=state.answer or event.answer)
            yield event, state


async def still_there(answering: Answering, state: AnswerState) -> AnswerState:
    """What was found a while ago may be gone by now: then the question is looked up anew."""
    if not state.asked or not await _are_gone(answering, state.rests_on):
        return state
    anew = replace(
        state,
        found=(),
        graph=NO_CONTEXT,
        tie=None,
        table=None,
        lack=None,
        grade=None,
        draft=None,
        answer=None,
        asked=(),
        wording=state.asked[0],
        generation="",
    )
    return await grade_documents(answering, await retrieve(answering, anew))


async def _once_written(answering: Answering, state: AnswerState) -> AnswerState:
    started = time.perf_counter()
    writing = await writing_of(answering, state)
    return _written(state, await writing.whole(), writing, started)


async def _settled(answering: Answering, state: AnswerState) -> AnswerState:
    """The answer, unless something that it quotes was deleted while it was written: then another, from what is left.

    A model takes its time. Where that happens again and again, nothing is said at all.
    """
    for _ in range(ANEW):
        if not await _are_gone(answering, state.quoted):
            return await _without_gone_context(answering, state)
        state = replace(state, degraded=tuple(dict.fromkeys((*state.degraded, DELETED))))
        state = await _once_written(answering, await still_there(answering, state))
    if await _are_gone(answering, state.quoted):
        state = replace(state, answer=declined(state.question), found=(), graph=NO_CONTEXT)
    return await _without_gone_context(answering, state)


async def _without_gone_context(answering: Answering, state: AnswerState) -> AnswerState:
    return replace(state, graph=NO_CONTEXT) if await _are_gone(answering, state.shown) else state


async def _are_gone(answering: Answering, keys: frozenset[int]) -> bool:
    """Whether any of these chunks is of record no more."""
    return bool(keys) and len(await read(answering.base, chunks.existing_keys, sorted(keys))) < len(keys)


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def _written(state: AnswerState, answer: Answer, writing: Writing, started: float) -> AnswerState:
    said = {"form": answer.form, "sources": len(answer.sources), "flags": len(answer.flags)}
    step = Step(writing.form(answer), said, answer.degraded)
    return _told(replace(state, answer=answer), "generate_answer", step, started)


def noted(answering: Answering, state: AnswerState, seconds: float) -> Answer:
    """The answer, whose question is in the log of recalls from now on."""
    answer = finished(state, seconds)
    answering.note(state, answer)
    return answer


def finished(state: AnswerState, seconds: float) -> Answer:
    """The answer with everything that is known of how it came about."""
    assert state.answer is not None
    return replace(
        state.answer,
        mode=state.used_mode,
        trace=state.trace,
        degraded=state.degraded,
        steps=state.steps,
        context=state.graph,
        trace_id=state.trace_id,
        seconds=seconds,
    )


def _told(state: AnswerState, node: str, step: Step, started: float) -> AnswerState:
    seconds = time.perf_counter() - started
    return state.told(TraceStep(node, step.form, step.said, seconds, started), step.degraded)
