"""An answer as server-sent events: each one out as it comes, a sign of life while none comes, and an end, always.

The end is one event: ``done``, or ``error`` for what was cut off, failed or took too long. Whoever leaves before
cancels the work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qianxun.core.answer_types import AnswerEvent, Done, Failed
from qianxun.core.errors import Overloaded, QianxunError
from qianxun.doors.http.concurrency import ClientDisconnected
from qianxun.doors.http.responses import encoded

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 10.0  # after which a sign of life is sent: proxies and clients take silence for the end
LAST_SECONDS: Final = 5.0  # for the last event to a client that does not read
AHEAD: Final = 64  # events that are ready before their client has taken those before them
ALIVE: Final = b": keep-alive\n\n"
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-transform",  # no-store is the guard's
    "x-accel-buffering": "no",  # nginx and its like would hold it back until the end
}


class Listening:
    """The events of one answer, made in a task of their own, which ends with the block."""

    def __init__(self, events: AsyncGenerator[AnswerEvent, None]) -> None:
        self._events = events
        self._ready: asyncio.Queue[AnswerEvent | Exception | None] = asyncio.Queue(AHEAD)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def next(self) -> AnswerEvent | None:
        """None at the end. Raises what the work raises, and TimeoutError where nothing comes for a while."""
        async with asyncio.timeout(QUIET_SECONDS):
            came = await self._ready.get()
        if isinstance(came, Exception):
            raise came
        return came

    async def _listen(self) -> None:
        last: Exception | None = None
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    await self._ready.put(event)
        except Exception as error:  # belongs to whoever listens
            last = error
        await self._ready.put(last)


class Telling(Protocol):
    """How one answer is told, in bytes of an event stream, and what is noted of it."""

    def event(self, event: AnswerEvent) -> bytes:
        """Nothing where this door says nothing of such an event."""

    def failure(self, error: Exception) -> bytes: ...

    def left(self) -> None:
        """Nobody listens any more."""


async def stream_response(
    turn: AbstractAsyncContextManager[None], events: AsyncGenerator[AnswerEvent, None], telling: Telling
) -> Response:
    """The answer to a request that wants events, once the first is there or a while has passed.

    What goes wrong until then is raised here, and so answered with its own status.
    """
    async with AsyncExitStack() as held:
        await held.enter_async_context(turn)
        listening = await held.enter_async_context(Listening(events))
        first: AnswerEvent | None = None
        with suppress(TimeoutError):
            first = await listening.next()
        return EventStream(held.pop_all(), _all(first, listening), telling)


class EventStream(Response):
    """Sends what comes, and lets go of what is held for it."""

    def __init__(
        self, held: AsyncExitStack, events: AsyncGenerator[AnswerEvent | None, None], telling: Telling
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._held, self._events, self._telling = held, events, telling

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """In the task of the request, which its turn watches over."""
        try:
            async with self._held:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._send_all(send)
        except ClientDisconnected:
            self._telling.left()
            return
        except asyncio.CancelledError:  # the service stops, and has waited for this answer long enough
            await self._send_failure(send, Overloaded("服务正在停止，答案没有写完", hint="稍后再问一次"))
            raise
        except Exception as error:  # the outer door of an answer that has begun: told in its last event
            if not isinstance(error, QianxunError):
                log.exception("unforeseen")
            await self._send_failure(send, error)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        last: AnswerEvent | None = None
        async with aclosing(self._events) as events:
            async for event in events:
                if told := ALIVE if event is None else self._telling.event(event):
                    await send(_part(told))
                last = event or last
        if not isinstance(last, Done | Failed):
            raise RuntimeError("the events of an answer ended without an end")

    async def _send_failure(self, send: Send, error: Exception) -> None:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await send(_part(self._telling.failure(error)))
        except TimeoutError:
            raise error from None  # it does not read: only a cut connection ends this


async def _all(first: AnswerEvent | None, listening: Listening) -> AsyncGenerator[AnswerEvent | None, None]:
    """None where a sign of life is due."""
    yield first
    while True:
        try:
            event = await listening.next()
        except TimeoutError:
            yield None
            continue
        if event is None:
            return
        yield event


def _part(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


def encode_event(name: str, data: dict[str, Any]) -> bytes:
    """Without a name, an event of data alone. JSON has no line ends of its own, so that it is one line."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + encoded(data) + b"\n\n"
