"""The log of searches, and what is reported of one that has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypedDict

from qianxun.core.options import Mode
from qianxun.core.types import LOCAL_TENANT, Degraded, Recall, StepTime

Rating: TypeAlias = Literal["good", "bad"]
RATINGS: tuple[Rating, ...] = ("good", "bad")


@dataclass(frozen=True, slots=True)
class Feedback:
    """A person's rating of an answer. ``chunk_ids``: those it is about, or those that should have been found."""

    rating: Rating
    chunk_ids: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One search. ``id`` is 0 until it is stored."""

    knowledge_base_id: int
    query: str
    params: Mapping[str, Any]  # plain JSON: enough to run the same search again
    results: tuple[tuple[str, float], ...]  # (chunk_id, score), best first
    time_cost_ms: int
    created_at: datetime
    mode: str = ""
    tier: str = ""  # "" when nothing was found
    trace_id: str = ""
    generation: str = ""
    digest: str = ""
    steps: tuple[StepTime, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    from_cache: bool = False
    tenant: str = LOCAL_TENANT
    id: int = 0
    feedback: Feedback | None = None
    is_zero: bool | None = None  # None: derived from the results
    principal: str | None = None  # who asked; None: one who sees everything

    @property
    def zero(self) -> bool:
        """True if there were no results, or a question that these did not answer."""
        return not self.results if self.is_zero is None else self.is_zero


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which searches of the log are meant; the defaults mean all."""

    knowledge_base: int | None = None
    zero: bool = False  # those that found or answered nothing
    slow_ms: float | None = None  # those that took longer
    degraded: bool = False  # those in which a part did not take part
    rating: Rating | Literal["any"] | None = None  # those that people rated
    trace_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None  # before it


class LogChoices(TypedDict, total=False):
    """`LogFilter` as keyword arguments."""

    knowledge_base: int | None
    zero: bool
    slow_ms: float | None
    degraded: bool
    rating: Rating | Literal["any"] | None
    trace_id: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class LogCount:
    """The searches that began within one stretch of time, from ``start`` to the start of the next."""

    start: datetime
    searches: int = 0
    zero: int = 0
    slow: int = 0
    degraded: int = 0
    mean_ms: float = 0.0
    worst_ms: float = 0.0


def zero_flag(zero: bool, results: Sequence[Any]) -> bool | None:
    """`LogEntry.is_zero` of a stored ``zero``: None where the results alone say the same."""
    return None if zero == (not results) else zero


@dataclass(frozen=True, slots=True)
class Recalled:
    """A search that has ended: with an answer, or without one because every arm failed."""

    mode: Mode
    started: float  # as in `StepTime`
    seconds: float
    answer: Recall | None


@dataclass(frozen=True, slots=True)
class IndexTime:
    """One batch of index work that is done: changes of so many documents prepared and put into the index."""

    knowledge_base: int
    documents: int
    seconds: float
    failed: int = 0  # of the documents: they are retried later, or quarantined


@dataclass(frozen=True, slots=True)
class IndexRebuild:
    """An index that cannot be used as it is, and is about to be rebuilt: searches of it wait."""

    name: str  # of the knowledge base
    chunks: int


def new_trace_id() -> str:
    """The name of one request in logs and spans. Not by `random`: a program that seeds it, as experiments do, would
    get the same names again, and other numbers than its seed gives."""
    return os.urandom(16).hex()
