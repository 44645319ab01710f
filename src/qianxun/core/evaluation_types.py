"""Evaluation sets: questions with what should be found for them, and what searches achieved on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

CaseOrigin: TypeAlias = Literal["saved", "feedback", "imported"]
RunStatus: TypeAlias = Literal["running", "cancelling", "done", "cancelled", "interrupted", "failed"]
ACTIVE: Final = ("running", "cancelling")


@dataclass(frozen=True, slots=True)
class Relevant:
    """What should be found: a passage of a document, or the whole document where ``text`` is empty.

    The passage is named by its own words, not by a chunk: it stays what it is when the document is cut in another way.
    """

    doc_id: str
    text: str = ""
    grade: int = 1  # above 0: relevant, the higher the more


@dataclass(frozen=True, slots=True)
class Case:
    """A question of an evaluation set. ``id`` is 0 until it is stored."""

    question: str
    relevant: tuple[Relevant, ...]
    expected: str = ""  # the right answer, where somebody wrote it down
    origin: CaseOrigin = "saved"
    log_id: int | None = None  # the search it was saved from
    id: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    id: int
    knowledge_base_id: int
    name: str
    cases: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One way of searching, measured on the cases of a set. ``metrics`` are means over the cases measured so far."""

    id: int
    set_id: int
    knowledge_base_id: int
    name: str
    mode: str
    choices: Mapping[str, Any]  # of the search beside its mode, as a request writes them
    status: RunStatus
    done: int  # cases measured
    total: int
    metrics: Mapping[str, float]
    p50_ms: float
    p95_ms: float
    setup: Mapping[str, str]  # what was measured: model, generation of the base, version
    notes: tuple[str, ...]  # what a reader of the numbers has to know
    reason: str  # why it failed
    created_at: datetime
    updated_at: datetime

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one run achieved on one case. ``digest`` is of question and labels: runs are compared on equal ones."""

    case_id: int
    question: str
    metrics: Mapping[str, float]
    milliseconds: float
    first_rank: int | None  # of the first relevant result; None: not found
    chunk_ids: tuple[str, ...]  # found, best first
    digest: str = ""


@dataclass(frozen=True, slots=True)
class CaseChange:
    case_id: int
    question: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs over the cases that both measured, unchanged in between; ``cases`` with the largest loss first."""

    metric: str
    before: int  # ids of the runs
    after: int
    means: tuple[float, float]
    difference: float
    p_value: float
    is_significant: bool
    better: int
    worse: int
    left_out: int  # cases that only one of them measured, or that were changed in between
    cases: tuple[CaseChange, ...] = field(default=())
