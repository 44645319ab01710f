"""A connection: uvicorn's, with bounds on what comes before anybody is known and beside any body.

httptools itself keeps whatever it is sent of a header, a trailer or a line until that is complete.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 30.0  # for a connection to say what it wants

_TOO_LONG: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


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
                self.transport.write(_TOO_LONG)
            self.transport.close()
        elif self._is_in_head and self._late is None:
            self._expect_head()

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
