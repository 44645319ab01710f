"""The engine's values as JSON, and back: one home for what goes over the wire, used by the service and its client.

Plain dictionaries, no framework: the client needs nothing of the service but this page.
A chunk's key does not travel; what is read back has key 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from qianxun.core.explanation import Explained, Explanation, Sum, Vote
from qianxun.core.filters import read_filters, written_filters
from qianxun.core.log_types import Feedback, LogEntry, zero_flag
from qianxun.core.model_types import UserModel
from qianxun.core.options import SearchOptions, choices_of, search_body
from qianxun.core.types import (
    ArmScore,
    Attributes,
    Chunk,
    Degraded,
    Found,
    Generation,
    Recall,
    StepTime,
)

CHOICES: Final = choices_of(SearchOptions)

# ── a search, answered ───────────────────────────────────────────────────────────────────────────


def written_recall(knowledge_base: int, recall: Recall) -> dict[str, Any]:
    """``doc_ids`` are the documents of the chunks, in the order in which they first appear."""
    return {
        "knowledge_base_id": knowledge_base,
        "doc_ids": list(dict.fromkeys(each.chunk.doc_id for each in recall.found)),
        "time_cost_ms": round(recall.seconds * 1000),
        "trace_id": recall.trace_id,
        "tier": recall.tier,
        "degraded": written_degraded(recall.degraded),
        "chunks": [written_found(each) for each in recall.found],
        "query": recall.query,
        "queries": list(recall.queries),
        "retrieval_mode": recall.mode,
        "seconds": recall.seconds,
        "steps": written_steps(recall.steps),
        "from_cache": recall.from_cache,
        "generation": written_generation(recall.generation),
    }


def read_recall(data: Mapping[str, Any]) -> Recall:
    return Recall(
        query=data["query"],
        mode=data["retrieval_mode"],
        found=tuple(read_found(each) for each in data["chunks"]),
        degraded=read_degraded(data["degraded"]),
        seconds=data["seconds"],
        trace_id=data["trace_id"],
        queries=tuple(data["queries"]),
        steps=read_steps(data["steps"]),
        generation=read_generation(data["generation"]),
        from_cache=data["from_cache"],
    )


def written_found(found: Found) -> dict[str, Any]:
    """A result: what the contract names first, then all else that is known of it."""
    chunk = found.chunk
    return {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        "doc_name": chunk.doc_name,
        "content": chunk.text,
        "score": found.score,
        "source": found.source,
        "highlights": list(found.highlights),
        "metadata": written_metadata(chunk.attributes.metadata),
        "tier": found.tier,
        "arms": _written_arms(found.arms),
        "matched": list(found.matched),
        "coverage": found.coverage,
        "fused_score": found.fused,
        "rerank_score": found.rerank,
        **_written_place(chunk),
    }


def read_found(data: Mapping[str, Any]) -> Found:
    return Found(
        chunk=read_chunk(data),
        score=data["score"],
        source=data["source"],
        arms=_read_arms(data["arms"]),
        tier=data["tier"],
        matched=tuple(data["matched"]),
        coverage=data["coverage"],
        fused=data["fused_score"],
        rerank=data["rerank_score"],
        highlights=tuple(data["highlights"]),
    )


def written_chunk(chunk: Chunk) -> dict[str, Any]:
    """A chunk by itself, as a document's list of chunks holds it."""
    return {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        "doc_name": chunk.doc_name,
        "content": chunk.text,
        "metadata": written_metadata(chunk.attributes.metadata),
        **_written_place(chunk),
    }


def read_chunk(data: Mapping[str, Any]) -> Chunk:
    return Chunk(
        key=0,
        chunk_id=data["chunk_id"],
        doc_id=data["doc_id"],
        doc_name=data["doc_name"],
        index=data["index"],
        text=data["content"],
        start=data["start"],
        end=data["end"],
        kind=data["kind"],
        headings=tuple(data["headings"]),
        page=data["page"],
        generation=data["generation"],
        attributes=Attributes(
            doc_id=data["doc_id"],
            user_id=data["user_id"],
            project_id=data["project_id"],
            content_type=data["content_type"],
            tags=tuple(data["tags"]),
            metadata={
                name: tuple(value) if isinstance(value, list) else value for name, value in data["metadata"].items()
            },
            kind=data["kind"],
        ),
    )


def _written_place(chunk: Chunk) -> dict[str, Any]:
    told = chunk.attributes
    return {
        "index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
        "kind": chunk.kind,
        "headings": list(chunk.headings),
        "page": chunk.page,
        "generation": chunk.generation,
        "user_id": told.user_id,
        "project_id": told.project_id,
        "content_type": told.content_type,
        "tags": list(told.tags),
    }


def written_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in metadata.items()}


def _written_arms(arms: Mapping[str, ArmScore]) -> dict[str, Any]:
    return {arm: {"rank": by.rank, "raw": by.raw, "score": by.score} for arm, by in arms.items()}


def _read_arms(data: Mapping[str, Any]) -> dict[str, ArmScore]:
    return {arm: ArmScore(by["rank"], by["raw"], by["score"]) for arm, by in data.items()}


def written_degraded(degraded: Sequence[Degraded]) -> list[dict[str, str]]:
    return [{"part": one.part, "reason": one.reason} for one in degraded]


def read_degraded(data: Sequence[Mapping[str, str]]) -> tuple[Degraded, ...]:
    return tuple(Degraded(one["part"], one["reason"]) for one in data)


def written_steps(steps: Sequence[StepTime]) -> list[dict[str, Any]]:
    return [{"name": step.name, "seconds": step.seconds, "count": step.count} for step in steps]


def read_steps(data: Sequence[Mapping[str, Any]]) -> tuple[StepTime, ...]:
    return tuple(StepTime(step["name"], step["seconds"], step["count"]) for step in data)


def written_generation(told: Generation | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {"records": told.records, "index": told.index, "model": told.model, "analysis": told.analysis}


def read_generation(told: Mapping[str, Any] | None) -> Generation | None:
    return Generation(told["records"], told["index"], told["model"], told["analysis"]) if told else None


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


def written_explained(knowledge_base: int, told: Explained, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` are those of the search that is explained, as `retrieval_body` takes them."""
    answer = written_recall(knowledge_base, told.answer)
    for chunk, figures in zip(answer["chunks"], told.sums, strict=True):
        chunk["sum"] = written_sum(figures)
    why = written_explanation(told.chunk) if told.chunk is not None else None
    request = None
    if told.chunk is not None and told.chunk.changes:
        request = search_body(told.answer.query, {**options, **told.chunk.changes})
    return {
        "knowledge_base_id": knowledge_base,
        "query": told.answer.query,
        "trace_id": told.answer.trace_id,
        **(why or {"chunk_id": None}),
        "request": request,
        "weights": dict(told.weights),
        "recall": answer,
    }


def read_explained(data: Mapping[str, Any]) -> Explained:
    return Explained(
        answer=read_recall(data["recall"]),
        weights=dict(data["weights"]),
        sums=tuple(_read_sum(chunk["sum"]) for chunk in data["recall"]["chunks"]),
        chunk=_read_explanation(data) if data["chunk_id"] is not None else None,
    )


def written_explanation(why: Explanation) -> dict[str, Any]:
    return {
        "chunk_id": why.chunk_id,
        "returned": why.is_returned,
        "step": why.step,
        "reason": why.reason,
        "hint": why.hint,
        "rank": why.rank,
        "rank_before": why.rank_before,
        "score": why.score,
        "tier": why.tier,
        "similarity": why.similarity,
        "coverage": why.coverage,
        "matched": list(why.matched),
        "arms": _written_arms(why.arms),
        "sum": written_sum(why.sum) if why.sum is not None else None,
        "failing": [written_filters(part) for part in why.failing],
        "status": why.status,
        "changes": {CHOICES[name].wire_name: CHOICES[name].to_wire(value) for name, value in why.changes.items()},
        "degraded": written_degraded(why.degraded),
        "chunk": written_chunk(why.chunk) if why.chunk is not None else None,
    }


def _read_explanation(data: Mapping[str, Any]) -> Explanation:
    choices = {offered.wire_name: offered for offered in CHOICES.values()}
    return Explanation(
        chunk_id=data["chunk_id"],
        step=data["step"],
        reason=data["reason"],
        hint=data["hint"],
        rank=data["rank"],
        rank_before=data["rank_before"],
        score=data["score"],
        tier=data["tier"],
        similarity=data["similarity"],
        coverage=data["coverage"],
        matched=tuple(data["matched"]),
        arms=_read_arms(data["arms"]),
        sum=_read_sum(data["sum"]) if data["sum"] is not None else None,
        failing=tuple(read_filters(part) for part in data["failing"]),
        status=data["status"],
        changes={choices[name].name: choices[name].from_wire(value) for name, value in data["changes"].items()},
        degraded=read_degraded(data["degraded"]),
        chunk=read_chunk(data["chunk"]) if data["chunk"] is not None else None,
    )


def written_sum(figures: Sum) -> dict[str, Any]:
    return {
        "fusion": figures.fusion,
        "votes": {side: {"weight": vote.weight, "score": vote.score} for side, vote in figures.votes.items()},
        "fused": figures.fused,
        "rerank": figures.rerank,
        "rerank_share": figures.share,
        "total": figures.total,
        "score": figures.shown,
    }


def _read_sum(data: Mapping[str, Any]) -> Sum:
    votes = {side: Vote(vote["weight"], vote["score"]) for side, vote in data["votes"].items()}
    return Sum(data["fusion"], votes, data["fused"], data["rerank_share"], data["rerank"], data["total"], data["score"])


# ── the log of searches ──────────────────────────────────────────────────────────────────────────


def written_log(entry: LogEntry) -> dict[str, Any]:
    feedback = entry.feedback
    return {
        "id": entry.id,
        "knowledge_base_id": entry.knowledge_base_id,
        "query": entry.query,
        "retrieval_params": dict(entry.params),
        "retrieval_mode": entry.mode,
        "tier": entry.tier or None,
        "chunk_count": len(entry.results),
        "zero": entry.zero,
        "time_cost_ms": entry.time_cost_ms,
        "from_cache": entry.from_cache,
        "degraded": written_degraded(entry.degraded),
        "steps": written_steps(entry.steps),
        "results": [{"chunk_id": chunk_id, "score": score} for chunk_id, score in entry.results],
        "trace_id": entry.trace_id,
        "generation": entry.generation,
        "digest": entry.digest,
        "created_at": entry.created_at.isoformat(),
        "feedback": _written_feedback(feedback) if feedback is not None else None,
    }


def read_log(data: Mapping[str, Any]) -> LogEntry:
    feedback = data["feedback"]
    results = tuple((each["chunk_id"], each["score"]) for each in data["results"])
    return LogEntry(
        id=data["id"],
        knowledge_base_id=data["knowledge_base_id"],
        query=data["query"],
        params=dict(data["retrieval_params"]),
        results=results,
        time_cost_ms=data["time_cost_ms"],
        created_at=datetime.fromisoformat(data["created_at"]),
        mode=data["retrieval_mode"],
        tier=data["tier"] or "",
        trace_id=data["trace_id"],
        generation=data["generation"],
        digest=data["digest"],
        steps=read_steps(data["steps"]),
        degraded=read_degraded(data["degraded"]),
        from_cache=data["from_cache"],
        feedback=read_feedback(feedback) if feedback is not None else None,
        is_zero=zero_flag(data["zero"], results),
    )


def _written_feedback(feedback: Feedback) -> dict[str, Any]:
    return {"rating": feedback.rating, "chunk_ids": list(feedback.chunk_ids), "comment": feedback.comment}


def read_feedback(data: Mapping[str, Any]) -> Feedback:
    return Feedback(data["rating"], tuple(data["chunk_ids"]), data["comment"])


# ── registered models ────────────────────────────────────────────────────────────────────────────

# In the order of the seed's UserApiInfo; the key is not among them, only its mask is.
MODEL_FIELDS: Final = (
    "base_url", "model_name", "model_type", "model_dim", "max_tokens", "temperature", "top_p", "timeout", "status",
    "is_default", "created_at", "updated_at",
)  # fmt: skip


def written_model(model: UserModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "user_id": _written_user(model.user_id),
        "config_name": model.config_name,
        "api_key": model.masked_key,
        **{name: getattr(model, name) for name in MODEL_FIELDS},
    }


def read_model(data: Mapping[str, Any]) -> UserModel:
    return UserModel(
        id=data["id"],
        user_id=str(data["user_id"]),
        config_name=data["config_name"],
        masked_key=data["api_key"],
        **{name: data[name] for name in MODEL_FIELDS},
    )


def _written_user(user_id: str) -> int | str:
    """The seed's users are numbers; "007" is not the number 7."""
    is_number = user_id.isascii() and user_id.isdigit() and str(int(user_id)) == user_id and int(user_id) < 2**63
    return int(user_id) if is_number else user_id
