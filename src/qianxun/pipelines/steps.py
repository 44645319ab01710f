"""How long each step of a search took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from qianxun.pipelines.options import Mode
from qianxun.types import Recall, StepTime


@dataclass
class Steps:
    done: list[StepTime] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.done.append(StepTime(name, time.perf_counter() - started, start=started))


@dataclass(frozen=True, slots=True)
class Recalled:
    """A search that has ended: with an answer, or without one because every arm failed."""

    mode: Mode
    started: float  # as in `StepTime`
    seconds: float
    answer: Recall | None
