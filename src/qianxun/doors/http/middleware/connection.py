"""uvicorn's connection with bounds on what comes before a request is complete, or beside its body, and on how long a
response waits for its reader.

httptools buffers a header, a trailer or a line without limit until it is complete. How many connections there may be is
for `open_connections` to say.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.guard import STALLED_BYTES, STALLED_SECONDS
from qianxun.doors.http.middleware.open_connections import OpenConnections
from qianxun.doors.http.middleware.trace_ids import within_trace
from qianxun.doors.http.responses import problem

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 10.0
HEALTH: Final = frozenset({b"/healthz", b"/readyz"})
STEPS_OF_READING: Final = 10  # a large response is read within so many times STALLED_SECONDS


class Connection(HttpToolsProtocol):
    """Closes a connection whose request head is too large or takes too long, or for which there is no room."""

    _unparsed = 0  # bytes since the last head, body byte or end of a message
    _is_in_head = True
    _is_let_in = True  # else a health check is all that it may ask for
    _is_refused = False  # its request has been answered here: the rest of it does not matter
    _running: RequestResponseCycle | None = None
    _timeout: asyncio.TimerHandle | None = None  # of a head …
    _reading: asyncio.TimerHandle | None = None  # … and of a response that its client is slow to read

    def __init__(self, *arguments: Any, open_connections: OpenConnections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._open = open_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_let_in = self._open.opened(self, self.client[0] if self.client else "")
        if not self._is_let_in and self._open.is_overfull:
            transport.abort()
        self._start_timeout()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._running is not None:  # uvicorn tells the last request of a pipeline alone
            self._running.disconnected = True
        self._open.closed(self)
        self._stop_timeout()
        self._stop_reading_timeout()
        super().connection_lost(exc)

    def give_way(self) -> None:
        self._hang_up()

    def timeout_keep_alive_handler(self) -> None:
        if self.flow.write_paused:  # the last response is still being read
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        """Closed politely, a connection would stay until its client has read the last byte."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
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
        self._note_state()

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
        if not self._is_let_in and self.url not in HEALTH:
            return self._refuse(refusal(503, "overloaded", "同时打开的连接太多　稍后重试"))
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            return self._refuse(head_too_large())  # one that came whole, in one read of the socket
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
        self._note_state()

    def _note_state(self) -> None:
        """At work, or waiting for its client: for a request, the rest of one, or to read what it was sent."""
        at_work = self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused
        if at_work and (self.pipeline or not self.cycle.more_body):
            self._open.busy(self)
        else:
            self._open.idle(self)

    # ── responses that nobody reads ──────────────────────────────────────────────────────────────

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_state()
        left = self.transport.get_write_buffer_size()
        self._expect_reading(left, max(STALLED_BYTES, left // STEPS_OF_READING))

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reading_timeout()
        self._note_state()

    def _expect_reading(self, left: int, least: int) -> None:
        self._reading = self.loop.call_later(STALLED_SECONDS, self._check_reading, left, least)

    def _check_reading(self, before: int, least: int) -> None:
        """A response in memory is given up where its client reads as slowly as no body may be sent."""
        left = self.transport.get_write_buffer_size()
        if before - left < least:
            log.info("a response was given up: its client hardly reads")
            self.transport.abort()
        else:
            self._expect_reading(left, least)

    def _stop_reading_timeout(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    # ── heads that do not end ────────────────────────────────────────────────────────────────────

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(HEAD_SECONDS, self._hang_up)

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
