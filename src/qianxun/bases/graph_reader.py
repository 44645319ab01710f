"""What an open base remembers of the reading of its chunks by a model."""

from __future__ import annotations

import asyncio
import time
from typing import Final

REST_SECONDS: Final = 60.0  # after an outage, before the model is asked again behind everybody's back


class GraphReader:
    """One for each open base. Nothing is lost with it: what was read is of record."""

    def __init__(self) -> None:
        self.reading = asyncio.Lock()  # one goes through the base at a time
        self.failed: dict[str, str] = {}  # digest of what the model could not make sense of → its fault
        self._seen: tuple[int, int] | None = None
        self._rests_until = 0.0
        self._owes_summaries = False
        self._summaries_after = 0.0

    def is_due(self, state: tuple[int, int]) -> bool:
        """Whether the base has changed since the model last went through all of it, and the model is not resting."""
        return state != self._seen and time.monotonic() >= self._rests_until

    def went_through(self, state: tuple[int, int]) -> None:
        self._seen = state

    def rest(self, seconds: float = REST_SECONDS) -> None:
        self._rests_until = time.monotonic() + seconds

    # ── summaries ────────────────────────────────────────────────────────────────────────────────

    def owe_summaries(self) -> None:
        """The graph may have changed since its communities were summarised."""
        self._owes_summaries = True

    def are_summaries_due(self) -> bool:
        now = time.monotonic()
        return self._owes_summaries and now >= self._summaries_after and now >= self._rests_until

    def summarise_again_after(self, seconds: float) -> None:
        self._owes_summaries = False
        self._summaries_after = time.monotonic() + seconds
