"""The clock of the clients of remote models, turned by the test: what really passes does not count."""

from __future__ import annotations

import pytest


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def turned_by_hand(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """The clients look at this clock: before they wait, and now and then while a caller who may say stop waits."""
    for name in ("http", "pinned_transport", "chat"):
        monkeypatch.setattr(f"qianxun.models.remote.{name}.time", clock)
