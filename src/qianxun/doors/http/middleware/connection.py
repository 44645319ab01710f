"""A connection: uvicorn's, with bounds on what comes before anybody is known and beside any body.

httptools itself keeps whatever it is sent of a header, a trailer or a line until that is complete.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from qianxun.core.log_types import new_trace_id
from qianxun.doors.http.middleware.trace_ids import within_trace
from qianxun.doors.http.responses import problem

log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 30.0  # for a connection to say what it wants


class Connection(HttpToolsProtocol):
    """Cuts off who sends a head without an end, whether much of it or slowly."""

    _beside = 0  # bytes that came since the last head, body byte or end of a message
    _is_in_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._beside += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._beside > HEAD_BYTES:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(
                    refusal(431, "too_large", f"请求头超过 {HEAD_BYTES // 1024} KB　去掉不需要的请求头")
                )
            self.transport.close()
        elif self._is_in_head and self._late is None:
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self.transport.write(refusal(400, "bad_request", "收到的不是合法的 HTTP 请求　检查客户端与代理"))
        self.transport.close()

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._beside = 0
        self._is_in_head = False
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._beside = 0
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def refusal(status: int, word: str, message: str) -> bytes:
    """The answer to what never became a request, in the shape of all others: with a trace, and a line in the log."""
    answer, trace = problem(status, message, word), new_trace_id()
    told = [(b"x-trace-id", trace.encode()), (b"connection", b"close"), *answer.raw_headers]
    head = b"".join(name + b": " + value + b"\r\n" for name, value in told)
    with within_trace(trace):
        log.info("refused before it was a request", extra={"about": {"status": status}})
    return STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body)
