"""What is known of a chunk under a search: where it left it, how its score came about, what would bring it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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

    @property
    def is_returned(self) -> bool:
        return self.step == "returned"


@dataclass(frozen=True, slots=True)
class Explained:
    """A search, how each result came by its score, and the chunk that was asked about."""

    answer: Recall
    weights: Mapping[str, float]
    sums: tuple[Sum, ...]  # one per result, in their order
    chunk: Explanation | None = None
