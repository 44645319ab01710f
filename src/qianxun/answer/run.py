"""From a question to an answer with its sources: analyze → route → retrieve → grade → refine → generate.

A step is a plain function: what it may use (`Answering`) and what is known so far (`AnswerState`) in, the same value
with what it found out. Its trace names the form in which it ran, by rules or by a model; a model that fails is in
``degraded``, and the rules take over. `doors.workflow.query_workflow` wires the same functions into a LangGraph.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from qianxun.answer.analyze import analysed
from qianxun.answer.generate import declined
from qianxun.answer.grade import graded
from qianxun.answer.multimodal import add_attachments
from qianxun.answer.refine import refined
from qianxun.answer.retrieve import retrieved
from qianxun.answer.several_steps import answer_in_steps
from qianxun.answer.state import Answering, AnswerState, Step, check_mode
from qianxun.answer.write import Writing, writing_of
from qianxun.bases.base import read
from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, TraceStep
from qianxun.core.conversation import turns_of
from qianxun.core.graph_types import NO_CONTEXT
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import AskOptions
from qianxun.core.types import Degraded
from qianxun.core.unicode import sendable
from qianxun.retrieve.as_of import outdated_documents, without_day
from qianxun.retrieve.query_plan import check_text
from qianxun.text.document_names import document_title

MOST_REFINEMENTS: Final = 3
REWRITES: Final = 2  # of an answer whose sources were deleted meanwhile
DELETED: Final = Degraded("sources", "作答期间引用的资料被删除，已用剩下的资料重新作答")

Content: TypeAlias = Sequence[Mapping[str, Any]]
ANY_MODE: Final = AskOptions(mode=None)  # as fits the question


async def answer_question(
    answering: Answering,
    query: str,
    options: AskOptions = ANY_MODE,
    *,
    trace_id: str = "",
) -> Answer:
    """Returns the answer, every sentence with its sources; or that these do not answer. ``mode`` None: the analysis
    chooses. Raises BadQuery."""
    started = time.perf_counter()
    state = begun(query, options.mode, options.history, trace_id)
    state = await prepared(answering, state, options.multimodal_content)
    state = await generate_answer(answering, state)
    return noted(answering, state, time.perf_counter() - started)


async def answer_stream(
    answering: Answering,
    query: str,
    options: AskOptions = ANY_MODE,
    *,
    trace_id: str = "",
) -> AsyncGenerator[AnswerEvent, None]:
    """The same, as it comes: sources, words, a citation after each sentence, then `Done` or `Failed`, always last."""
    started = time.perf_counter()
    state = begun(query, options.mode, options.history, trace_id)
    state = await prepared(answering, state, options.multimodal_content)
    async with aclosing(generate_stream(answering, state)) as events:
        async for event, state in events:
            if isinstance(event, Done | Failed):
                event = replace(event, answer=noted(answering, state, time.perf_counter() - started))
            yield event


def begun(query: str, mode: str | None, history: Sequence[Any] = (), trace_id: str = "") -> AnswerState:
    """The state of a question before the first step. Raises BadQuery."""
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
    """Makes the question complete; finds its kind, its entities, how it is best looked up; reads its attachments."""
    started = time.perf_counter()
    analysis, step = await analysed(answering, state)
    if answering.as_of is not None and answering.as_of.origin == "question":
        # The year chose the documents; none of them need name it.
        analysis = replace(analysis, question=without_day(analysis.question))
    state = replace(state, analysis=analysis, wording=analysis.question)
    state = await add_attachments(answering, state, content)
    return _traced(state, "analyze_query", step, started)


def route_query(state: AnswerState) -> AnswerState:
    """Decides whether anything is looked up at all, and in which mode."""
    details = {"to": after_route(state), "mode": state.used_mode, "chosen_by": "caller" if state.mode else "analysis"}
    return _traced(state, "route_query", Step(details=details), time.perf_counter())


def after_route(state: AnswerState) -> Literal["retrieve", "generate_answer"]:
    """What needs no sources, or has its answer in its attachments, is answered at once."""
    is_simple = state.is_direct or state.used_mode == "bypass" or state.has_exact_answer
    return "generate_answer" if is_simple else "retrieve"


async def retrieve(answering: Answering, state: AnswerState) -> AnswerState:
    """Finds what the base has for this wording, beside what earlier ones found; and its tables' exact answer."""
    started = time.perf_counter()
    state, step = await retrieved(answering, state)
    return _traced(state, "retrieve", step, started)


async def grade_documents(answering: Answering, state: AnswerState) -> AnswerState:
    """Decides whether what was found can answer the question."""
    started = time.perf_counter()
    state, step = await graded(answering, state)
    return _traced(state, "grade_documents", step, started)


def after_grade(state: AnswerState) -> Literal["refine_query", "generate_answer"]:
    is_enough = state.grade is not None and state.grade.is_enough
    return "generate_answer" if is_enough or state.refinements >= MOST_REFINEMENTS else "refine_query"


async def refine_query(answering: Answering, state: AnswerState) -> AnswerState:
    """Finds another wording to search for next; none where there is none left."""
    started = time.perf_counter()
    wording, step = await refined(answering, state)
    return _traced(replace(state, wording=wording), "refine_query", step, started)


def after_refining(state: AnswerState) -> Literal["retrieve", "generate_answer"]:
    return "retrieve" if state.wording else "generate_answer"


async def generate_answer(answering: Answering, state: AnswerState) -> AnswerState:
    """Writes the answer from what was found, and from nothing that has been deleted by then."""
    state = await plan_steps(answering, await search_again_if_deleted(answering, state))
    return await _settled(answering, await _once_written(answering, state))


async def plan_steps(answering: Answering, state: AnswerState) -> AnswerState:
    """Looks up in several steps what could not be answered as it was asked."""
    started = time.perf_counter()
    state, step = await answer_in_steps(answering, state)
    return state if step is None else _traced(state, "plan_steps", step, started)


async def generate_stream(
    answering: Answering, state: AnswerState
) -> AsyncGenerator[tuple[AnswerEvent, AnswerState], None]:
    """`generate_answer` as it comes: every event, and the state after it."""
    state = await plan_steps(answering, await search_again_if_deleted(answering, state))
    started = time.perf_counter()
    writing = await writing_of(answering, state)
    async with aclosing(writing.events()) as events:
        async for event in events:
            if isinstance(event, Done | Failed):
                state = await _settled(answering, _written(state, event.answer, writing, started))
                event = replace(event, answer=state.answer or event.answer)
            yield event, state


async def search_again_if_deleted(answering: Answering, state: AnswerState) -> AnswerState:
    """Looks the question up again if something that was found has been deleted since."""
    if not state.asked or not await _are_deleted(answering, state.rests_on):
        return state
    anew = replace(
        state,
        found=(),
        beside=(),
        graph=NO_CONTEXT,
        tie=None,
        table=None,
        part_tables=(),
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

    A model takes its time. Where that happens again and again, the answer is declined.
    """
    for _ in range(REWRITES):
        if not await _are_deleted(answering, state.quoted):
            return await _without_deleted_context(answering, state)
        state = replace(state, degraded=tuple(dict.fromkeys((*state.degraded, DELETED))))
        state = await _once_written(answering, await search_again_if_deleted(answering, state))
    if await _are_deleted(answering, state.quoted):
        state = replace(state, answer=declined(state.question), found=(), graph=NO_CONTEXT)
    return await _without_deleted_context(answering, state)


async def _without_deleted_context(answering: Answering, state: AnswerState) -> AnswerState:
    return replace(state, graph=NO_CONTEXT) if await _are_deleted(answering, state.shown) else state


async def _are_deleted(answering: Answering, keys: frozenset[int]) -> bool:
    """Returns True if any of these chunks has been deleted."""
    base = answering.base
    return bool(keys) and len(await read(base, base.chunks.existing, sorted(keys))) < len(keys)


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def _written(state: AnswerState, answer: Answer, writing: Writing, started: float) -> AnswerState:
    details = {"form": answer.form, "sources": len(answer.sources), "flags": len(answer.flags)}
    step = Step(writing.form(answer), details, answer.degraded)
    return _traced(replace(state, answer=answer), "generate_answer", step, started)


def noted(answering: Answering, state: AnswerState, seconds: float) -> Answer:
    """The finished answer; its question is logged."""
    answer = finished(state, seconds)
    answer = replace(answer, as_of=answering.as_of, notes=day_notes(answering, answer))
    answering.note(state, answer)
    return answer


def day_notes(answering: Answering, answer: Answer) -> tuple[str, ...]:
    """As of when the answer holds, where its question chose a day; and which of its sources are outdated today."""
    day, cited = answering.as_of, {source.doc_id: source.doc_name for source in answer.sources}
    outdated = outdated_documents(answering.base)
    stale = [f"《{document_title(name)}》{outdated[doc_id]}" for doc_id, name in cited.items() if doc_id in outdated]
    chosen = [f"按 {day.day} 有效的资料回答"] if day is not None and day.origin != "today" else []
    return (*chosen, *stale)


def finished(state: AnswerState, seconds: float) -> Answer:
    """The answer with its trace, degradations and timings."""
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


def _traced(state: AnswerState, node: str, step: Step, started: float) -> AnswerState:
    seconds = time.perf_counter() - started
    return state.traced(TraceStep(node, step.form, step.details, seconds, started), step.degraded)
