"""What `add` prints about a long embedding where nobody watches a bar."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from qianxun.core.ingest_types import Step
from qianxun.doors.cli import progress


class Printed(progress.Bars):
    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[str] = []

    def print(self, line: str, *, markup: bool = True) -> None:
        self.lines.append(line)


def test_a_log_shows_the_rate_of_embedding_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(progress, "tr", lambda zh, en: zh)
    shown = Printed()
    follow = progress.AddProgress(shown)
    for step in (Step("found", 10), Step("parsed", 5), Step("cut", 6_000)):
        follow(step)
    for _ in range(6):  # 100 chunks in ten seconds; a line at the third and the sixth
        now[0] += 10.0
        follow(Step("embedded", 100))
    assert shown.lines == [
        "向量化 300/~12000 块，10.0 块/秒，还要约 20 分钟",
        "向量化 600/~12000 块，10.0 块/秒，还要约 19 分钟",
    ]
