"""uvicorn's connection with bounds on what comes before a request is complete, or beside its body.

httptools buffers a header, a trailer or a line without limit until it is complete. How many connections there may be is
for `open_connections` to say.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.guard import OPEN
from qianxun.doors.http.middleware.open_connections import OpenConnections
from qianxun.doors.http.middleware.trace_ids import within_trace
from qianxun.doors.http.responses import problem

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0


class Connection(HttpToolsProtocol):
    """Closes a connection whose request head is too large or takes too long, or for which there is no room."""

    _unparsed = 0  # bytes since the last head, body byte or end of a message
    _is_in_head = True
    _is_let_in = True  # else a health check is all that it may ask for
    _is_refused = False  # its request has been answered here: the rest of it does not matter
    _timeout: asyncio.TimerHandle | None = None

    def __init__(self, *arguments: Any, open_connections: OpenConnections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open = open_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_let_in = self._open.opened(self, self.client[0] if self.client else "")
        if not self._is_let_in and self._open.is_overfull:
            transport.abort()
        self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.closed(self)
        self._stop_timeout()
        super().connection_lost(exc)

    def give_way(self) -> None:
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unparsed > HEAD_BYTES:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(head_too_large())
            self.transport.close()
        elif self._is_in_head and self._timeout is None:
            self._start_timeout()

    def send_400_response(self, msg: str) -> None:
        """The bytes are not HTTP."""
        self.transport.write(refusal(400, "bad_request", "收到的不是合法的 HTTP 请求　检查客户端与代理"))
        self.transport.close()

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._is_in_head = False
        self._stop_timeout()
        if not self._is_let_in and self.url.decode("latin-1") not in OPEN:
            return self._refuse(refusal(503, "overloaded", "同时打开的连接太多　稍后重试"))
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            return self._refuse(head_too_large())  # one that came whole, in one read of the socket
        self._open.busy(self)
        super().on_headers_complete()

    def _refuse(self, answer: bytes) -> None:
        self._is_refused = True
        self.transport.write(answer)
        self.transport.close()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if not self._is_refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:  # no other request was waiting on this connection
            self._open.idle(self)

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None


def head_too_large() -> bytes:
    return refusal(431, "too_large", f"请求头超过 {HEAD_BYTES // 1024} KB　去掉不需要的请求头")


def refusal(status: int, word: str, message: str) -> bytes:
    """The response to what never became a request, in the usual format: with a trace id, and a line in the log."""
    response, trace = problem(status, message, word), new_trace_id()
    headers = [(b"x-trace-id", trace.encode()), (b"connection", b"close"), *response.raw_headers]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    with within_trace(trace):
        log.info("refused before it was a request", extra={"about": {"status": status}})
    return STATUS_LINE[status] + head + b"\r\n" + bytes(response.body)
