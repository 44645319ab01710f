"""A question in the log of recalls: its options, what was found, whether that answered it. Never the answer.

One row to a question, however many wordings were searched for. Its mode is that of the query with the call before it,
``ask:mix`` or ``gather:mix``: `retrieve` has a ``hybrid`` of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from qianxun.answer.retrieve import merged
from qianxun.answer.state import AnswerState
from qianxun.core.answer_types import Answer
from qianxun.core.codec.digests import found_digest
from qianxun.core.codec.options import choices_from, params_of
from qianxun.core.log_types import LogEntry
from qianxun.core.options import AskOptions, QueryMode, SearchOptions
from qianxun.core.types import Found, KnowledgeBase, StepTime
from qianxun.graph.modes import ModeRecall

ASK: Final = "ask:"
GATHER: Final = "gather:"


def is_question(entry: LogEntry) -> bool:
    return entry.mode.startswith((ASK, GATHER))


def gather_entry(
    base: KnowledgeBase, options: SearchOptions, recall: ModeRecall, *, elsewhere: bool = False
) -> LogEntry:
    """``elsewhere``: a graph server with a copy of the graph took part."""
    chosen = AskOptions(where=options.where)
    params = {**_params(chosen, options, recall.mode), "answer": False, **({"surroundings": True} if elsewhere else {})}
    return replace(
        _entry(base, GATHER, recall, params), is_zero=False if recall.mode == "bypass" else not recall.results
    )


def answer_entry(
    base: KnowledgeBase, options: AskOptions, search: SearchOptions, state: AnswerState, answer: Answer
) -> LogEntry:
    """``cited`` are the chunks that the answer cites; the results are all that it could have cited."""
    details = {
        "answer": True,
        "form": answer.form,
        "writer": state.trace[-1].form if state.trace else "rules",
        "cited": [source.chunk_id for source in answer.sources if source.chunk_id],
        "wordings": list(state.asked),
        "attached": len(state.given),
        **({"partial": True} if answer.is_partial else {}),
    }
    walked = tuple(StepTime(step.node, step.seconds) for step in state.trace)
    recall = ModeRecall(
        state.query,
        answer.mode,
        state.found,
        degraded=answer.degraded,
        steps=(*answer.steps, *walked),
        seconds=answer.seconds,
        trace_id=answer.trace_id,
        generation=state.generation,
    )
    has_answer = answer.form == "direct" or bool(answer.sources)
    entry = _entry(base, ASK, recall, {**_params(options, search, answer.mode), **details})
    return replace(entry, is_zero=answer.is_declined or not has_answer)


async def retrieve_again(entry: LogEntry, gather: Callable[..., Awaitable[ModeRecall]]) -> ModeRecall:
    """What the wordings of a logged question find now, merged as then. ``gather`` takes a query and the other
    arguments of `Engine.gather`."""
    arguments = _arguments(entry.params)
    wordings = entry.params.get("wordings", [entry.query])
    recalls = [await gather(wording, **arguments) for wording in wordings]
    found: tuple[Found, ...] = ()
    for recall in recalls:
        found = merged(found, recall.results, arguments["top_k"])
    return ModeRecall(
        entry.query,
        arguments["mode"],
        found,
        degraded=tuple(dict.fromkeys(part for recall in recalls for part in recall.degraded)),
        seconds=sum(recall.seconds for recall in recalls),
        trace_id=recalls[0].trace_id if recalls else "",
        generation=recalls[0].generation if recalls else entry.generation,
    )


def _entry(base: KnowledgeBase, call: str, recall: ModeRecall, params: Mapping[str, Any]) -> LogEntry:
    best = sorted(recall.results, key=lambda result: (-result.score, result.chunk.key))
    return LogEntry(
        knowledge_base_id=base.id,
        tenant=base.tenant,
        query=recall.query,
        params=params,
        results=tuple((result.chunk.chunk_id, result.score) for result in best),
        time_cost_ms=round(recall.seconds * 1000),
        created_at=datetime.now(UTC),
        mode=f"{call}{recall.mode}",
        trace_id=recall.trace_id,
        generation=recall.generation,
        digest=found_digest(recall.query, recall.mode, recall.results),
        steps=recall.steps,
        degraded=recall.degraded,
    )


def _params(options: AskOptions, search: SearchOptions, mode: QueryMode) -> dict[str, Any]:
    """The options with what was chosen for the caller. `gather` may name documents besides."""
    return {**params_of(replace(options, mode=mode, top_k=search.top_k)), "doc_ids": list(search.doc_ids)}


def _arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    chosen = choices_from(AskOptions, params)
    return {**{name: chosen[name] for name in ("mode", "top_k", "where")}, "doc_ids": tuple(params["doc_ids"])}
