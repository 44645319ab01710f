"""Answers and their events as JSON, and back: for the service and its client, as `shapes` is for searches.

What the graph keeps of its evidence are keys of rows, which do not travel; read back, an answer's context has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qianxun.core.answer_types import (
    Answer,
    AnswerEvent,
    Citation,
    Done,
    Failed,
    Flag,
    SentenceCited,
    Source,
    SourcesFound,
    Token,
    TraceStep,
)
from qianxun.core.codec.results import read_degraded, read_steps, written_degraded, written_metadata, written_steps
from qianxun.core.graph_types import Community, Entity, GraphContext, Relation

# ── a whole answer ───────────────────────────────────────────────────────────────────────────────


def written_answer(knowledge_base: int, answer: Answer) -> dict[str, Any]:
    """What the contract names first, then all else that is known of it."""
    return {
        "knowledge_base_id": knowledge_base,
        "answer": answer.answer,
        "sources": written_sources(answer.sources),
        "mode": answer.mode,
        "trace_id": answer.trace_id,
        "form": answer.form,
        "is_partial": answer.is_partial,
        "citations": [_written_citation(each) for each in answer.citations],
        "flags": [_written_flag(each) for each in answer.flags],
        "degraded": written_degraded(answer.degraded),
        "trace": [_written_trace(each) for each in answer.trace],
        "steps": written_steps(answer.steps),
        "graph": _written_context(answer.context),
        "time_cost_ms": round(answer.seconds * 1000),
        "seconds": answer.seconds,
        "reason": answer.reason,
    }


def read_answer(data: Mapping[str, Any]) -> Answer:
    return Answer(
        answer=data["answer"],
        sources=read_sources(data["sources"]),
        citations=tuple(_read_citation(each) for each in data["citations"]),
        form=data["form"],
        mode=data["mode"],
        flags=tuple(_read_flag(each) for each in data["flags"]),
        is_partial=data["is_partial"],
        trace=tuple(_read_trace(each) for each in data["trace"]),
        degraded=read_degraded(data["degraded"]),
        steps=read_steps(data["steps"]),
        context=_read_context(data["graph"]),
        trace_id=data["trace_id"],
        seconds=data["seconds"],
        reason=data.get("reason", ""),  # an older service does not say
    )


def written_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    return [
        {
            "number": each.number,
            "doc_id": each.doc_id,
            "doc_name": each.doc_name,
            "chunk_id": each.chunk_id,
            "content": each.text,
            "start": each.start,
            "end": each.end,
            "score": each.score,
            "metadata": written_metadata(each.metadata),
        }
        for each in sources
    ]


def read_sources(data: Sequence[Mapping[str, Any]]) -> tuple[Source, ...]:
    return tuple(
        Source(
            number=each["number"],
            doc_id=each["doc_id"],
            doc_name=each["doc_name"],
            chunk_id=each["chunk_id"],
            text=each["content"],
            start=each["start"],
            end=each["end"],
            score=each["score"],
            metadata=dict(each["metadata"]),
        )
        for each in data
    )


def _written_citation(citation: Citation) -> dict[str, Any]:
    return {"start": citation.start, "end": citation.end, "numbers": list(citation.numbers)}


def _read_citation(data: Mapping[str, Any]) -> Citation:
    return Citation(data["start"], data["end"], tuple(data["numbers"]))


def _written_flag(flag: Flag) -> dict[str, str]:
    return {"kind": flag.kind, "text": flag.text, "reason": flag.reason}


def _read_flag(data: Mapping[str, Any]) -> Flag:
    return Flag(data["kind"], data["text"], data["reason"])


def _written_trace(step: TraceStep) -> dict[str, Any]:
    return {"node": step.node, "form": step.form, "said": dict(step.said), "seconds": step.seconds}


def _read_trace(data: Mapping[str, Any]) -> TraceStep:
    return TraceStep(data["node"], data["form"], dict(data["said"]), data["seconds"])


def _written_context(context: GraphContext) -> dict[str, Any]:
    """`GraphContext.as_dict`, with what else is known of each."""
    return {
        "entities": [
            {"id": each.id, "name": each.name, "type": each.type, "importance": each.importance}
            for each in context.entities
        ],
        "relationships": [
            {"source": each.source, "target": each.target, "type": each.type, "weight": each.weight}
            for each in context.relations
        ],
        "communities": [
            {"id": each.id, "title": each.title, "summary": each.summary, "origin": each.origin, "score": each.score}
            for each in context.communities
        ],
    }


def _read_context(data: Mapping[str, Any]) -> GraphContext:
    return GraphContext(
        tuple(
            Entity(each["id"], each["name"], each["type"], importance=each["importance"]) for each in data["entities"]
        ),
        tuple(Relation(each["source"], each["target"], each["type"], each["weight"]) for each in data["relationships"]),
        tuple(
            Community(each["id"], (), each["title"], each["summary"], (), each["origin"], each["score"])
            for each in data["communities"]
        ),
    )


# ── as it comes ──────────────────────────────────────────────────────────────────────────────────


def written_event(knowledge_base: int, event: AnswerEvent) -> tuple[str, dict[str, Any]]:
    """(name, data)"""
    match event:
        case SourcesFound():
            return "sources", {"sources": written_sources(event.sources)}
        case Token():
            return "token", {"text": event.text}
        case SentenceCited():
            told = {**_written_citation(event.citation), "flags": [_written_flag(each) for each in event.flags]}
            return "citation", {**told, "sources": written_sources(event.sources)}
        case Done():
            return "done", written_answer(knowledge_base, event.answer)
        case Failed():
            failed = {"error": event.error, "msg": event.message, "trace_id": event.answer.trace_id}
            return "error", {**failed, "answer": written_answer(knowledge_base, event.answer)}


def read_event(name: str, data: Mapping[str, Any]) -> AnswerEvent | None:
    """None for an event that this version does not know, and for an ``error`` that has no answer in it."""
    match name:
        case "sources":
            return SourcesFound(read_sources(data["sources"]))
        case "token":
            return Token(data["text"])
        case "citation":
            flags = tuple(_read_flag(each) for each in data["flags"])
            return SentenceCited(_read_citation(data), flags, read_sources(data["sources"]))
        case "done":
            return Done(read_answer(data))
        case "error" if data["answer"] is not None:
            return Failed(data["error"], data["msg"], read_answer(data["answer"]))
    return None
