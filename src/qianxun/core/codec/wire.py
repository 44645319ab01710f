"""Searches, answers, explanations, log entries and models as the JSON of HTTP, and back: for the service, its client
and the command line.

`SHAPES` says where the JSON differs from the values' own fields; the functions add what is computed from them. Keys of
rows are not sent: what is read back has key 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from qianxun.core.answer_types import (
    Answer,
    AnswerEvent,
    Done,
    Failed,
    SentenceCited,
    Source,
    SourcesFound,
    Token,
    TraceStep,
)
from qianxun.core.codec.options import search_body
from qianxun.core.codec.plain import Shape, plain, read
from qianxun.core.explanation import NO_DECISIONS, Decisions, Explained, Explanation, Sum
from qianxun.core.graph_types import Community, Entity, GraphContext, Relation
from qianxun.core.layered_types import MOST_CITED, Cited, LayeredRecall, LayeredResult, LayerRun, TableAnswer
from qianxun.core.log_types import LogEntry, zero_flag
from qianxun.core.model_types import UserModel
from qianxun.core.option_fields import choices_of
from qianxun.core.options import SearchOptions
from qianxun.core.types import LOCAL_TENANT, Chunk, DocumentState, Found, KnowledgeBase, Recall, StepTime

CHOICES: Final = choices_of(SearchOptions)
SHAPES: Final[Mapping[type, Shape]] = {
    Chunk: Shape({"text": "content"}, inline=("attributes",), absent={"key": 0}, newer=("corrected",)),
    Found: Shape({"fused": "fused_score", "rerank": "rerank_score"}, inline=("chunk",), newer=("outdated", "pinned")),
    Recall: Shape({"mode": "retrieval_mode", "results": "chunks"}, newer=("as_of",)),
    StepTime: Shape(absent={"start": 0.0}),
    Source: Shape({"text": "content"}, newer=("original",)),
    TraceStep: Shape(absent={"start": 0.0}),
    Answer: Shape({"context": "graph"}, newer=("reason", "as_of", "notes")),
    GraphContext: Shape({"relations": "relationships"}),
    Entity: Shape(absent={"aliases": (), "chunks": 0}),
    Relation: Shape(absent={"evidence": ()}),
    Community: Shape(absent={"entities": (), "sources": ()}),
    Sum: Shape({"share": "rerank_share", "shown": "score"}),
    Explanation: Shape(absent={"changes": {}}, newer=("rule", "decisions")),
    LayerRun: Shape(absent={"seconds": 0.0, "start": 0.0}),
    LayeredResult: Shape(absent={"doc": None}, newer=("table",)),
    LayeredRecall: Shape(absent={"kind": "text", "answer": None, "cited": (), "cells_total": 0}, newer=("as_of",)),
    Cited: Shape({"name": "column_name"}),
    LogEntry: Shape(
        {"params": "retrieval_params", "mode": "retrieval_mode"},
        absent={"tenant": "local", "results": (), "is_zero": None},
        newer=("principal",),
    ),
    TableAnswer: Shape(newer=("understood", "leftover")),
    DocumentState: Shape(newer=("validity", "access", "disabled")),
    UserModel: Shape({"masked_key": "api_key"}),
    KnowledgeBase: Shape(absent={"tenant": LOCAL_TENANT, "identity": ""}),
}


def to_wire(value: Any) -> Any:
    return plain(value, SHAPES)


# ── searches ─────────────────────────────────────────────────────────────────────────────────────


# The keys that come first in a response, in the order of its documented example.
FIRST: Final = ("trace_id", "tier", "degraded", "chunks")
FIRST_OF_CHUNK: Final = ("chunk_id", "doc_id", "doc_name", "content", "score", "source", "highlights", "metadata")


def written_recall(knowledge_base: int, recall: Recall) -> dict[str, Any]:
    """``doc_ids`` are the documents of the chunks, in the order in which they first appear."""
    written = to_wire(recall)
    return {
        "knowledge_base_id": knowledge_base,
        "doc_ids": list(dict.fromkeys(hit.chunk.doc_id for hit in recall.results)),
        "time_cost_ms": round(recall.seconds * 1000),
        **dict.fromkeys(FIRST),
        **written,
        "tier": recall.tier,
        "chunks": [{**dict.fromkeys(FIRST_OF_CHUNK), **chunk} for chunk in written["chunks"]],
    }


def read_recall(data: Mapping[str, Any]) -> Recall:
    return read(Recall, data, SHAPES)


def read_chunk(data: Mapping[str, Any]) -> Chunk:
    return read(Chunk, data, SHAPES)


def written_explained(knowledge_base: int, found: Explained, choices: Mapping[str, Any]) -> dict[str, Any]:
    """``choices`` are those of the search that is explained."""
    recall, why = written_recall(knowledge_base, found.answer), found.chunk
    for chunk, figures, decisions in zip(recall["chunks"], found.sums, found.decisions, strict=True):
        chunk |= {"sum": to_wire(figures), "decisions": to_wire(decisions)}
    request = search_body(found.answer.query, {**choices, **why.changes}) if why is not None and why.changes else None
    return {
        "knowledge_base_id": knowledge_base,
        "query": found.answer.query,
        "trace_id": found.answer.trace_id,
        **(written_explanation(why) if why is not None else {"chunk_id": None}),
        "request": request,
        "weights": dict(found.weights),
        "recall": recall,
    }


def written_explanation(why: Explanation) -> dict[str, Any]:
    changes = {CHOICES[name].wire_name: CHOICES[name].to_wire(value) for name, value in why.changes.items()}
    return {**to_wire(why), "returned": why.is_returned, "changes": changes}


def read_explained(data: Mapping[str, Any]) -> Explained:
    sums = tuple(read(Sum, chunk["sum"], SHAPES) for chunk in data["recall"]["chunks"])
    decisions = tuple(
        read(Decisions, chunk["decisions"], SHAPES) if "decisions" in chunk else NO_DECISIONS
        for chunk in data["recall"]["chunks"]
    )
    why = None
    if data["chunk_id"] is not None:
        choices = {offered.wire_name: offered for offered in CHOICES.values()}
        changes = {choices[name].name: choices[name].from_wire(value) for name, value in data["changes"].items()}
        why = replace(read(Explanation, data, SHAPES), changes=changes)
    return Explained(read_recall(data["recall"]), dict(data["weights"]), sums, decisions, why)


# ── layered searches ─────────────────────────────────────────────────────────────────────────────


def written_layered(knowledge_base: int, recall: LayeredRecall) -> dict[str, Any]:
    written = {
        "knowledge_base_id": knowledge_base,
        **to_wire(recall),
        "results": [_written_result(result) for result in recall.results],
        "layers": [{**to_wire(run), "time_cost_ms": round(run.seconds * 1000, 3)} for run in recall.layers],
        "time_cost_ms": round(recall.seconds * 1000),
    }
    if recall.kind == "table":
        written["answer"] = _written_table_answer(recall)
    return written


def read_layered(data: Mapping[str, Any]) -> LayeredRecall:
    answer = data.get("answer")
    return replace(
        read(LayeredRecall, {**data, "results": (), "layers": ()}, SHAPES),
        kind="table" if "answer" in data else "text",
        results=tuple(_read_result(result) for result in data["results"]),
        layers=tuple(
            replace(read(LayerRun, run, SHAPES), seconds=run["time_cost_ms"] / 1000) for run in data["layers"]
        ),
        answer=read(TableAnswer, answer, SHAPES) if answer is not None else None,
        cited=tuple(read(Cited, cell, SHAPES) for cell in answer["cells"]) if answer is not None else (),
        cells_total=answer["cells_total"] if answer is not None else 0,
    )


def _written_result(result: LayeredResult) -> dict[str, Any]:
    """The result's own text and metadata; those of its chunk where they are others."""
    chunk, written = to_wire(result.doc), to_wire(result)
    own = {name: chunk.pop(name) for name in ("content", "metadata")}
    is_same = own == {name: written[name] for name in own}
    del chunk["doc_name"]
    if result.doc.kind != "table":
        del written["table"]
    return {**chunk, **written, "chunk": None if is_same else own}


def _read_result(data: Mapping[str, Any]) -> LayeredResult:
    chunk = read_chunk({**data, "doc_name": data["document_name"], **(data["chunk"] or {})})
    return replace(read(LayeredResult, data, SHAPES), doc=chunk)


def _written_table_answer(recall: LayeredRecall) -> dict[str, Any] | None:
    """Of the cells and rows that an answer cites the first are sent, and how many there are: a count cites all rows."""
    if recall.answer is None:
        return None
    return {
        **to_wire(recall.answer),
        "cells": to_wire(recall.cited),
        "cells_total": recall.cells_total,
        "rows": list(recall.answer.rows[:MOST_CITED]),
        "rows_total": len(recall.answer.rows),
    }


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def written_answer(knowledge_base: int, answer: Answer) -> dict[str, Any]:
    cost = {"time_cost_ms": round(answer.seconds * 1000)}
    return {"knowledge_base_id": knowledge_base, **to_wire(answer), **cost}


def read_answer(data: Mapping[str, Any]) -> Answer:
    return read(Answer, data, SHAPES)


def written_event(knowledge_base: int, event: AnswerEvent) -> tuple[str, dict[str, Any]]:
    """(name, data)"""
    match event:
        case SourcesFound():
            return "sources", to_wire(event)
        case Token():
            return "token", {"text": event.text}
        case SentenceCited():
            written = to_wire(event)
            return "citation", {**written.pop("citation"), **written}
        case Done():
            return "done", written_answer(knowledge_base, event.answer)
        case Failed():
            failed = {"error": event.error, "msg": event.message, "trace_id": event.answer.trace_id}
            return "error", {**failed, "answer": written_answer(knowledge_base, event.answer)}


def read_event(name: str, data: Mapping[str, Any]) -> AnswerEvent | None:
    """None for an event that this version does not know, and for an ``error`` that has no answer in it."""
    match name:
        case "sources":
            return read(SourcesFound, data, SHAPES)
        case "token":
            return Token(data["text"])
        case "citation":
            return read(SentenceCited, {**data, "citation": data}, SHAPES)
        case "done":
            return Done(read_answer(data))
        case "error" if data["answer"] is not None:
            return Failed(data["error"], data["msg"], read_answer(data["answer"]))
    return None


# ── the log, and registered models ───────────────────────────────────────────────────────────────


def written_log(entry: LogEntry) -> dict[str, Any]:
    return {
        **to_wire(entry),
        "tier": entry.tier or None,
        "chunk_count": len(entry.results),
        "zero": entry.zero,
        "results": [{"chunk_id": chunk_id, "score": score} for chunk_id, score in entry.results],
    }


def read_log(data: Mapping[str, Any]) -> LogEntry:
    results = tuple((result["chunk_id"], result["score"]) for result in data["results"])
    entry = read(LogEntry, {**data, "tier": data["tier"] or ""}, SHAPES)
    return replace(entry, results=results, is_zero=zero_flag(data["zero"], results))


def written_model(model: UserModel) -> dict[str, Any]:
    """The users of the first services were numbers, and are written so; "007" is not the number 7."""
    user = model.user_id
    is_number = user.isascii() and user.isdigit() and str(int(user)) == user and int(user) < 2**63
    first = {"id": model.id, "user_id": user, "config_name": model.config_name, "api_key": model.masked_key}
    return {**first, **to_wire(model), "user_id": int(user) if is_number else user}


def read_model(data: Mapping[str, Any]) -> UserModel:
    return read(UserModel, {**data, "user_id": str(data["user_id"])}, SHAPES)
