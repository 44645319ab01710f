"""The outermost layer of the service: every request is traced, timed, counted and logged, whoever answers it."""

from __future__ import annotations

import logging
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.metrics import OTHER, Metrics
from qianxun.doors.http.middleware.spans import OpenSpan, Spans
from qianxun.doors.http.middleware.trace_ids import parent_of, within_trace
from qianxun.doors.http.responses import english_wanted, unforeseen

log = logging.getLogger(__name__)
requests = logging.getLogger("qianxun.doors.http.requests")

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
GONE: Final = 499  # the status of a request whose client did not wait for an answer; never sent


class Traced:
    """Pure ASGI, in front of the guard. ``X-Trace-Id`` is on what that turns away, too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, spans: Spans | None = None) -> None:
        self._app, self._metrics, self._spans = app, metrics, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = parent_of(scope["headers"])
        exchange = _Exchange(parent.trace_id if parent else new_trace_id(), send)
        scope.setdefault("state", {})["trace_id"] = exchange.trace_id
        with within_trace(exchange.trace_id):
            span = self._spans.begin(parent) if self._spans is not None else None
            self._metrics.in_flight.inc()
            try:
                await self._app(scope, receive, exchange.send)
            except Exception as error:  # the outermost door: for what went wrong in front of the guard's
                if exchange.status:  # half of an answer is out: only a cut connection says that the rest is missing
                    exchange.is_cut = True
                    raise
                log.exception("unforeseen")
                told = unforeseen(error, exchange.trace_id, english_wanted(scope))
                await told(scope, receive, exchange.send)
            finally:
                self._metrics.in_flight.dec()
                self._tell(scope, exchange, span)

    def _tell(self, scope: Scope, exchange: _Exchange, span: OpenSpan | None) -> None:
        method, route, status = method_of(scope), route_of(scope), exchange.status or GONE
        seconds = time.perf_counter() - exchange.started
        self._metrics.answered(method, route, status, seconds)
        if self._spans is not None and span is not None:
            self._spans.end(span, method, route, status)
        is_failure = status == 500 or exchange.is_cut
        level = logging.ERROR if is_failure else logging.WARNING if status > 500 else logging.INFO
        if requests.isEnabledFor(level):
            about: dict[str, object] = {"tenant": scope["state"].get("tenant", ""), "method": method, "route": route}
            about |= {"status": status, "ms": round(seconds * 1e3, 2), **scope["state"].get("about", {})}
            if exchange.is_cut:
                about["cut"] = True
            requests.log(level, "request", extra={"about": about})


class _Exchange:
    """One request's answer on its way out."""

    __slots__ = ("_send", "is_cut", "started", "status", "trace_id")

    def __init__(self, trace: str, send: Send) -> None:
        self.trace_id, self._send = trace, send
        self.started = time.perf_counter()
        self.status = 0  # until the answer has begun
        self.is_cut = False  # it began and will not end

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (b"x-trace-id", self.trace_id.encode())
            message = {**message, "headers": [*message.get("headers", ()), own]}
        await self._send(message)


def method_of(scope: Scope) -> str:
    """From a closed set, as all that names a number."""
    method: str = scope["method"]
    return method if method in METHODS else OTHER


def route_of(scope: Scope) -> str:
    """The template of the route that took the request, such as ``/v1/retrieval/{knowledge_base_id}``.

    `OTHER` where none did, or the guard turned it away before.
    """
    return str(getattr(scope.get("route"), "path_format", "") or OTHER)
