"""What is known of a chunk under a search: where it left it, how its score came about, what would bring it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from qianxun.core.governance.corrections import CorrectionKind, CorrectionState
from qianxun.core.governance.validity import NO_VALIDITY, Validity
from qianxun.core.types import ArmScore, Chunk, Degraded, Filter, Recall, Tier

Step: TypeAlias = Literal[
    "returned",
    "records",
    "index",
    "validity",
    "filter",
    "rule",
    "recall",
    "fuse",
    "threshold",
    "tier",
    "rerank",
    "top_k",
]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one side brought into the fusion: the vector side, or the words."""

    weight: float
    score: float


@dataclass(frozen=True, slots=True)
class Sum:
    """How a score came about.

    fused = Σ weight · score ÷ Σ weight over the votes; total = (1 − share) · fused + share · rerank, and behind what
    was read again no more than the last of that; ``shown`` is the total on the curve that gives it its meaning.
    """

    fusion: str
    votes: Mapping[str, Vote]
    fused: float
    share: float
    rerank: float | None
    total: float
    shown: float


@dataclass(frozen=True, slots=True)
class CorrectionNote:
    """A correction that bears on a chunk; the record has the rest."""

    id: int
    kind: CorrectionKind
    state: CorrectionState
    author: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Decisions:
    """What people decided on a chunk and its document, and when that document is valid."""

    corrections: tuple[CorrectionNote, ...] = ()  # of the chunk and of its document, the first made first
    access: tuple[str, ...] = ()  # labels of those who may see it; none: everybody
    validity: Validity = NO_VALIDITY


NO_DECISIONS: Final = Decisions()


@dataclass(frozen=True, slots=True)
class Explanation:
    """One chunk under one search. What is not known of it at the step where it was dropped is None.

    ``changes`` are fields of the search's options with other values; a search with them returns the chunk. They are
    the fewest that do, each number as small a change as possible; empty where no change does, or none is needed.
    """

    chunk_id: str
    step: Step  # the one that dropped it, or "returned"
    reason: str
    hint: str = ""  # what else to do
    rank: int | None = None  # among all that are let in, from 1
    rank_before: int | None = None  # the same without the reranker
    score: float | None = None  # the one it shows, or would show
    tier: Tier | None = None
    similarity: float | None = None
    coverage: float = 0.0
    matched: tuple[str, ...] = ()
    arms: Mapping[str, ArmScore] = field(default_factory=dict)  # rank 0: not among that arm's candidates
    sum: Sum | None = None
    failing: tuple[Filter, ...] = ()  # the parts of the filter that keep it out
    status: str = ""  # of a document that is not of record
    changes: Mapping[str, Any] = field(default_factory=dict)
    degraded: tuple[Degraded, ...] = ()
    chunk: Chunk | None = None
    rule: int = 0  # the rule of people for this question that put it first, or keeps it out
    decisions: Decisions = NO_DECISIONS

    @property
    def is_returned(self) -> bool:
        return self.step == "returned"


@dataclass(frozen=True, slots=True)
class Explained:
    """A search, how each result came by its score, and the chunk that was asked about."""

    answer: Recall
    weights: Mapping[str, float]
    sums: tuple[Sum, ...]  # one per result, in their order
    decisions: tuple[Decisions, ...]  # likewise
    chunk: Explanation | None = None
