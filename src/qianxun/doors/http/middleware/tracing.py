"""The outermost middleware: every request is traced, timed, counted and logged, also what the guard refuses."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.client_address import client_address, trust
from qianxun.doors.http.middleware.metrics import OTHER, Metrics
from qianxun.doors.http.middleware.spans import OpenSpan, Spans
from qianxun.doors.http.middleware.trace_ids import parent_of, within_trace
from qianxun.doors.http.responses import error_response, log_unforeseen

log = logging.getLogger(__name__)
requests = logging.getLogger("qianxun.doors.http.requests")

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
NO_STORE: Final = (b"cache-control", b"no-store")
CLIENT_DISCONNECTED: Final = 499  # the status of a request whose client did not wait for it; never sent


class Tracing:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics, spans: Spans | None = None, proxies: Sequence[str] = ()) -> None:
        """``proxies``: whose word on who the client is counts."""
        self._app, self._metrics, self._spans = app, metrics, spans
        self._is_trusted = trust(proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = parent_of(scope["headers"])
        response = _TracedResponse(parent.trace_id if parent else new_trace_id(), send)
        scope.setdefault("state", {})["trace_id"] = response.trace_id
        with within_trace(response.trace_id):
            span = self._spans.begin(parent) if self._spans is not None else None
            self._metrics.in_flight.inc()
            try:
                await self._app(scope, receive, response.send)
            except Exception as error:  # the outermost handler: what no other one foresaw
                log_unforeseen(error)
                if response.status:  # half of it is sent: only closing the connection says that the rest is missing
                    response.is_cut = True
                    raise
                await error_response(error, scope)(scope, receive, response.send)
            finally:
                self._metrics.in_flight.dec()
                self._report(scope, response, span)

    def _report(self, scope: Scope, response: _TracedResponse, span: OpenSpan | None) -> None:
        method, route, status = method_of(scope), route_of(scope), response.status or CLIENT_DISCONNECTED
        seconds = time.perf_counter() - response.started
        self._metrics.responded(method, route, status, seconds)
        if self._spans is not None and span is not None:
            self._spans.end(span, method, route, status)
        is_failure = status == 500 or response.is_cut
        level = logging.ERROR if is_failure else logging.WARNING if status > 500 else logging.INFO
        if requests.isEnabledFor(level):
            about: dict[str, object] = {"tenant": scope["state"].get("tenant", ""), "method": method, "route": route}
            about |= {"client": client_address(scope, self._is_trusted)}
            about |= {"status": status, "ms": round(seconds * 1e3, 2), **scope["state"].get("about", {})}
            if response.is_cut:
                about["cut"] = True
            requests.log(level, "request", extra={"about": about})


class _TracedResponse:
    """Adds ``X-Trace-Id`` and the security headers to a response, and knows its status."""

    __slots__ = ("_send", "is_cut", "started", "status", "trace_id")

    def __init__(self, trace: str, send: Send) -> None:
        self.trace_id, self._send = trace, send
        self.started = time.perf_counter()
        self.status = 0  # until the response begins
        self.is_cut = False  # it began and will not end

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-trace-id", self.trace_id.encode()), NOSNIFF]
            if not any(name == b"cache-control" for name, _ in headers):  # files of the console may be cached
                headers.append(NO_STORE)
            message = {**message, "headers": headers}
        await self._send(message)


def method_of(scope: Scope) -> str:
    """From a closed set, as every label of a metric."""
    method: str = scope["method"]
    return method if method in METHODS else OTHER


def route_of(scope: Scope) -> str:
    """The template of the matched route, such as ``/v1/retrieval/{knowledge_base_id}``.

    `OTHER` if none matched, or the guard refused the request before.
    """
    return str(getattr(scope.get("route"), "path_format", "") or OTHER)
