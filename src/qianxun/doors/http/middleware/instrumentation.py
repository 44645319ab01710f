"""What is watched while the service runs: its requests, the engine's searches, answers and index work."""

from __future__ import annotations

from fastapi import FastAPI

from qianxun.core.layered_types import LayeredRecall
from qianxun.core.log_types import Recalled
from qianxun.doors.http.middleware import metrics
from qianxun.doors.http.middleware.spans import Spans
from qianxun.doors.http.middleware.tracing import Traced
from qianxun.engine.engine import Engine


def watch(app: FastAPI, engine: Engine, spans: Spans | None = None) -> None:
    """Counts, times, traces and logs from now on. Called when all else is in place: it stands before everything."""
    numbers = metrics.Metrics(has_cache=engine.settings.search.cache_entries > 0)

    def recalled(done: Recalled) -> None:
        numbers.recalled(done)
        if spans is not None:
            spans.recalled(done)

    def climbed(done: LayeredRecall) -> None:
        numbers.climbed(done)
        if spans is not None:
            spans.climbed(done)

    def asked(done: metrics.AnswerTime) -> None:
        numbers.asked(done)
        if spans is not None:
            spans.asked(done)

    engine.hooks.recalled = recalled
    engine.hooks.layered = climbed
    engine.hooks.indexed = numbers.indexed
    app.state.metrics = numbers
    app.state.asked = asked  # by the route that answers: it knows when the first word and the last were told
    app.include_router(metrics.routes())
    app.add_middleware(Traced, metrics=numbers, spans=spans)
