"""How long each step of a search took."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from qianxun.core.options import Mode
from qianxun.core.types import Recall, StepTime


def new_trace_id() -> str:
    """The name of one request in logs and spans. Not by `random`: whoever seeds that, as experiments do, would get the
    same names again, and would not get the numbers that follow from the seed."""
    return os.urandom(16).hex()


@dataclass
class Steps:
    done: list[StepTime] = field(default_factory=list)

    def timed(self, name: str) -> Timed:
        return Timed(self.done, name)


@dataclass(slots=True)
class Timed:
    """A step that is under way. Not a generator: a search has four of them, and each would cost three times as much."""

    done: list[StepTime]
    name: str
    started: float = 0.0

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.done.append(StepTime(self.name, time.perf_counter() - self.started, start=self.started))


@dataclass(frozen=True, slots=True)
class Recalled:
    """A search that has ended: with an answer, or without one because every arm failed."""

    mode: Mode
    started: float  # as in `StepTime`
    seconds: float
    answer: Recall | None
