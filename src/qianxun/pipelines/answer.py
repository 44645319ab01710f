"""From a question to an answer with its sources: analyze → route → retrieve → grade → refine → generate.

Each step is a plain function: what may be drawn on (`Answering`) and what is known so far (`AnswerState`) in, the same
value with what it found out. Every step says in the trace in which form it ran, by rules or by a model.
`workflow.query_workflow` wires the same functions into a LangGraph.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from qianxun.answer_types import Answer, AnswerEvent, Done, QueryMode, SourcesFound, Token, TraceStep
from qianxun.pipelines.answer_state import Analysis, AnswerState, Grade, Step, check_mode, turns_of
from qianxun.pipelines.answering import Answering, merged, quoted
from qianxun.pipelines.asking import check_text

MOST_REFINEMENTS: Final = 3


async def answer_question(
    answering: Answering,
    query: str,
    *,
    mode: QueryMode | None = None,
    history: Sequence[Any] = (),
    multimodal_content: Sequence[Any] = (),
    trace_id: str = "",
) -> Answer:
    """The answer, every sentence with its sources; or that these do not say. ``mode`` None: as fits it."""
    started = time.perf_counter()
    state = begun(query, mode, history, trace_id)
    state = await generate_answer(answering, await looked_up(answering, state))
    return finished(state, started)


async def answer_stream(
    answering: Answering,
    query: str,
    *,
    mode: QueryMode | None = None,
    history: Sequence[Any] = (),
    multimodal_content: Sequence[Any] = (),
    trace_id: str = "",
) -> AsyncGenerator[AnswerEvent, None]:
    """The same, as it comes: sources, words, a citation after each sentence, then `Done` or `Failed`, always last."""
    started = time.perf_counter()
    state = begun(query, mode, history, trace_id)
    state = await generate_answer(answering, await looked_up(answering, state))
    answer = finished(state, started)
    yield SourcesFound(answer.sources)
    yield Token(answer.answer)
    yield Done(answer)


def begun(query: str, mode: str | None, history: Sequence[Any], trace_id: str = "") -> AnswerState:
    """A question before anything is known of it. Raises BadQuery."""
    check_text(query)
    return AnswerState(query, check_mode(mode), turns_of(history), trace_id=trace_id or uuid.uuid4().hex)


async def looked_up(answering: Answering, state: AnswerState) -> AnswerState:
    """Everything before the answer is written."""
    state = await analyze_query(answering, state)
    if route_query(state) == "generate_answer":
        return state
    while True:
        state = await retrieve(answering, state)
        state = await grade_documents(answering, state)
        if route_grade(state) == "generate_answer":
            return state
        state = await refine_query(answering, state)


# ── the steps ────────────────────────────────────────────────────────────────────────────────────


async def analyze_query(answering: Answering, state: AnswerState) -> AnswerState:
    """What the question is: how it stands by itself, its kind, the entities it names, how it is best looked up."""
    started = time.perf_counter()
    analysis = Analysis(state.query)
    told = Step(said={"kind": analysis.kind, "strategy": analysis.strategy})
    return _told(replace(state, analysis=analysis, asked=(analysis.question,)), "analyze_query", told, started)


def route_query(state: AnswerState) -> Literal["retrieve", "generate_answer"]:
    return "generate_answer" if state.used_mode == "bypass" else "retrieve"


async def retrieve(answering: Answering, state: AnswerState) -> AnswerState:
    """What the base has to the question, beside what earlier wordings of it found."""
    started = time.perf_counter()
    recall = await answering.search(state.asked[-1], state.used_mode)
    found = merged(state.found, recall.found, answering.top_k)
    state = replace(state, found=found, steps=(*state.steps, *recall.steps))
    told = Step(said={"mode": state.used_mode, "found": len(recall.found)}, degraded=recall.degraded)
    return _told(state, "retrieve", told, started)


async def grade_documents(answering: Answering, state: AnswerState) -> AnswerState:
    """Whether what was found can answer the question."""
    started = time.perf_counter()
    grade = Grade(bool(state.found), max((each.score for each in state.found), default=0.0))
    return _told(replace(state, grade=grade), "grade_documents", Step(said={"enough": grade.is_enough}), started)


def route_grade(state: AnswerState) -> Literal["refine_query", "generate_answer"]:
    return "generate_answer"


async def refine_query(answering: Answering, state: AnswerState) -> AnswerState:
    """The question in other words, to be searched for next."""
    return state


async def generate_answer(answering: Answering, state: AnswerState) -> AnswerState:
    """The answer, from what was found alone."""
    started = time.perf_counter()
    answer = quoted(state)
    told = Step(said={"form": answer.form, "sources": len(answer.sources)})
    return _told(replace(state, answer=answer), "generate_answer", told, started)


def finished(state: AnswerState, started: float) -> Answer:
    assert state.answer is not None
    return replace(
        state.answer,
        mode=state.used_mode,
        trace=state.trace,
        degraded=tuple(dict.fromkeys((*state.degraded, *state.answer.degraded))),
        steps=state.steps,
        context=state.graph,
        trace_id=state.trace_id,
        seconds=time.perf_counter() - started,
    )


def _told(state: AnswerState, node: str, step: Step, started: float) -> AnswerState:
    seconds = time.perf_counter() - started
    return state.told(TraceStep(node, step.form, step.said, seconds), step.degraded)
