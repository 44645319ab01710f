"""What was searched, and evaluations with their cases and results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Boolean, ColumnElement, Double, ForeignKey, Index, Integer, String, Text, UniqueConstraint

from qianxun.records.schema.base import Base, BigKey, LongText, Moment, column


class RetrievalLogRow(Base):
    """One retrieval: enough to repeat it and to see whether the result is still the same.

    No foreign key: the log is written in the background, and its base may be deleted by then.
    """

    __tablename__ = "knowledge_retrieval_log"
    __table_args__ = (
        Index("idx_kb_created", "knowledge_base_id", "created_at"),
        Index("ix_retrieval_log_created", "created_at"),
        Index("ix_retrieval_log_trace", "trace_id"),
        Index("ix_retrieval_log_tenant", "tenant", "id"),
    )

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    tenant: ColumnElement[str] = column(String(64))
    knowledge_base_id: ColumnElement[int] = column(BigKey)
    trace_id: ColumnElement[str] = column(String(64))
    query: ColumnElement[str] = column(String(2048))
    retrieval_params: ColumnElement[dict[str, Any]] = column(JSON)
    mode: ColumnElement[str] = column(String(16))
    tier: ColumnElement[str] = column(String(16))  # "" when nothing was found
    chunk_count: ColumnElement[int] = column(Integer)
    zero: ColumnElement[bool] = column(Boolean)
    time_cost_ms: ColumnElement[int] = column(Integer)
    from_cache: ColumnElement[bool] = column(Boolean)
    generation: ColumnElement[str] = column(Text)
    digest: ColumnElement[str] = column(String(64))  # sha256 of the answer's canonical bytes
    steps: ColumnElement[list[Any]] = column(JSON)
    degraded: ColumnElement[list[Any]] = column(JSON)
    results: ColumnElement[list[Any]] = column(JSON)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)
    # A user's rating of the answer; NULL without one.
    rating: ColumnElement[str | None] = column(String(8), nullable=True)  # good | bad
    rated_chunks: ColumnElement[list[Any] | None] = column(JSON, nullable=True)
    comment: ColumnElement[str | None] = column(Text, nullable=True)
    rated_at: ColumnElement[datetime | None] = column(Moment, nullable=True)
    principal: ColumnElement[str | None] = column(String(128), nullable=True)  # who asked; NULL: one who sees all


class EvaluationSetRow(Base):
    """Labelled questions about one base; they go with it, also to another tenant."""

    __tablename__ = "evaluation_sets"
    __table_args__ = (UniqueConstraint("knowledge_base_id", "name", name="uq_evaluation_sets_base_name"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    knowledge_base_id: ColumnElement[int] = column(BigKey, ForeignKey("knowledge_bases.id"))
    name: ColumnElement[str] = column(String(200))
    created_at: ColumnElement[datetime] = column(Moment)


class EvaluationCaseRow(Base):
    """A question and what should be found; ``question_digest`` is unique within a set, as the question is."""

    __tablename__ = "evaluation_cases"
    __table_args__ = (UniqueConstraint("set_id", "question_digest", name="uq_evaluation_cases_question"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    set_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_sets.id"))
    question: ColumnElement[str] = column(String(2048))
    question_digest: ColumnElement[str] = column(String(40))
    relevant: ColumnElement[list[Any]] = column(JSON)
    expected: ColumnElement[str] = column(LongText)
    origin: ColumnElement[str] = column(String(16))  # a `CaseOrigin`
    log_id: ColumnElement[int | None] = column(BigKey, nullable=True)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)


class EvaluationRunRow(Base):
    """``updated_at`` is also the sign of life of a run: one that has been silent for long was interrupted."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (Index("ix_evaluation_runs_set", "set_id", "id"),)

    id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    set_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_sets.id"))
    name: ColumnElement[str] = column(String(200))
    mode: ColumnElement[str] = column(String(16))
    choices: ColumnElement[dict[str, Any]] = column(JSON)
    status: ColumnElement[str] = column(String(16))  # a `RunStatus`
    done: ColumnElement[int] = column(Integer)
    total: ColumnElement[int] = column(Integer)
    metrics: ColumnElement[dict[str, float]] = column(JSON)
    p50_ms: ColumnElement[float] = column(Double)
    p95_ms: ColumnElement[float] = column(Double)
    setup: ColumnElement[dict[str, str]] = column(JSON)
    notes: ColumnElement[list[str]] = column(JSON)
    reason: ColumnElement[str] = column(Text)
    created_at: ColumnElement[datetime] = column(Moment)
    updated_at: ColumnElement[datetime] = column(Moment)


class EvaluationResultRow(Base):
    """What a run achieved on a case; it outlives the case, so that a run's numbers stay explained."""

    __tablename__ = "evaluation_results"

    run_id: ColumnElement[int] = column(BigKey, ForeignKey("evaluation_runs.id"), primary_key=True)
    case_id: ColumnElement[int] = column(BigKey, primary_key=True, autoincrement=False)
    question: ColumnElement[str] = column(String(2048))
    digest: ColumnElement[str] = column(String(40))  # of question and labels
    metrics: ColumnElement[dict[str, float]] = column(JSON)
    milliseconds: ColumnElement[float] = column(Double)
    first_rank: ColumnElement[int | None] = column(Integer, nullable=True)
    chunk_ids: ColumnElement[list[str]] = column(JSON)
