"""Every request has a trace: the caller's (W3C ``traceparent``), or one of its own.

It is named in ``X-Trace-Id`` of every answer, in the log of searches and in every line logged meanwhile, also from
worker threads: they run in a copy of the request's context.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.service.answers import unforeseen

if TYPE_CHECKING:
    from qianxun.service.metrics import Metrics
    from qianxun.service.spans import OpenSpan, Spans

log = logging.getLogger(__name__)
requests = logging.getLogger("qianxun.service.requests")

OTHER: Final = "other"  # the route of what no route took or was turned away before; an odd method
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
GONE: Final = 499  # the status of a request whose client did not wait for an answer; never sent

# https://www.w3.org/TR/trace-context-1/#traceparent-header: a version after 00 may have more to say at the end.
_TRACEPARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_trace_id: ContextVar[str] = ContextVar("trace_id", default="")


def trace_id() -> str:
    """The trace of the request that is being answered, 32 hexadecimal digits; "" outside of any."""
    return _trace_id.get()


def new_trace_id() -> str:
    return os.urandom(16).hex()


@dataclass(frozen=True, slots=True)
class Parent:
    """The span of the caller that a request is a part of."""

    trace_id: str
    span_id: str
    flags: int
    state: str = ""  # of other tracing systems, handed on as it came


def parent_of(headers: Sequence[tuple[bytes, bytes]]) -> Parent | None:
    """What ``traceparent`` names; None where there is none, more than one, or one that is not well formed."""
    given = [value for name, value in headers if name == b"traceparent"]
    if len(given) != 1 or (read := _TRACEPARENT.fullmatch(given[0].strip(b" \t"))) is None:
        return None
    version, trace, span, flags, more = read.groups()
    if version == b"ff" or (version == b"00" and more is not None) or not (trace.strip(b"0") and span.strip(b"0")):
        return None
    state = b",".join(value for name, value in headers if name == b"tracestate")
    return Parent(trace.decode(), span.decode(), int(flags, 16), state.decode("latin-1"))


class Traced:
    """The outermost layer of the service: names, counts, times and logs every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, spans: Spans | None = None) -> None:
        self._app, self._metrics, self._spans = app, metrics, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = parent_of(scope["headers"])
        exchange = _Exchange(parent.trace_id if parent else new_trace_id(), send)
        scope.setdefault("state", {})["trace_id"] = exchange.trace_id
        token = _trace_id.set(exchange.trace_id)
        span = self._spans.begin(parent) if self._spans is not None else None
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, exchange.send)
        except Exception as error:  # the outermost door: for what went wrong in front of the guard's
            if exchange.status:  # half of an answer is out: only a cut connection says that the rest is missing
                raise
            log.exception("unforeseen")
            await unforeseen(error, exchange.trace_id)(scope, receive, exchange.send)
        finally:
            self._metrics.in_flight.dec()
            self._tell(scope, exchange, span)
            _trace_id.reset(token)

    def _tell(self, scope: Scope, exchange: _Exchange, span: OpenSpan | None) -> None:
        method, route, status = method_of(scope), route_of(scope), exchange.status or GONE
        seconds = time.perf_counter() - exchange.started
        self._metrics.answered(method, route, status, seconds)
        if self._spans is not None and span is not None:
            self._spans.end(span, method, route, status)
        level = logging.INFO if status < 500 else logging.ERROR if status == 500 else logging.WARNING
        if requests.isEnabledFor(level):
            tenant = str(scope["state"].get("tenant", ""))
            about = {
                "tenant": tenant,
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1e3, 2),
            }
            requests.log(level, "request", extra={"about": about})


class _Exchange:
    """One request's answer on its way out."""

    __slots__ = ("_send", "started", "status", "trace_id")

    def __init__(self, trace: str, send: Send) -> None:
        self.trace_id, self._send = trace, send
        self.started = time.perf_counter()
        self.status = 0  # until the answer has begun

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (b"x-trace-id", self.trace_id.encode())
            message = {**message, "headers": [*message.get("headers", ()), own]}
        await self._send(message)


def method_of(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else OTHER


def route_of(scope: Scope) -> str:
    """The template of the route that took the request, such as ``/v1/retrieval/{knowledge_base_id}``."""
    return str(getattr(scope.get("route"), "path_format", "") or OTHER)
