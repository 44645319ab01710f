"""How long each step of a search took."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from qianxun.core.types import StepTime


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
