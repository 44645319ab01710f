"""Answers over HTTP, whole or as server-sent events, and what is recorded of them.

`answer_response` serves both the native and the OpenAI-compatible route; each brings a writer that encodes its format.
A stream starts once its first event is there, so that an early error still has its own status; it sends a keep-alive
while nothing comes, and always ends with a last event, also if the answer fails, is cut off or times out. The work is
cancelled if the client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed, Token
from qianxun.core.codec import sse
from qianxun.core.errors import Overloaded, QianxunError, RecordsUnavailable, Unauthorized
from qianxun.core.options import AskChoices
from qianxun.doors.http.concurrency import ClientDisconnected
from qianxun.doors.http.context import answer_slot, service_of, trace_id
from qianxun.doors.http.middleware.metrics import AnswerTime
from qianxun.doors.http.responses import encode_json, error_response, json_response, log_unforeseen, status_of
from qianxun.engine.engine import Engine

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 10.0  # proxies and clients take a longer silence for the end
CHECK_KEY_SECONDS: Final = 1.0  # between two looks at whether the key of a stream is still in force
LAST_EVENT_SECONDS: Final = 5.0  # for the last event to a client that does not read
MAX_BUFFERED: Final = 64  # events that the client has not read yet
KEEP_ALIVE: Final = b": keep-alive\n\n"
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",  # else nginx buffers the stream until its end
}


class AnswerWriter(Protocol):
    """Encodes one answer in the format of a route."""

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The body of a response that is not streamed."""

    def event(self, event: AnswerEvent) -> bytes:
        """An event of the stream; b"" to send nothing."""

    def error(self, content: dict[str, Any], trace_id: str) -> bytes:
        """The last event of a stream that failed; ``content`` is the error in our own format."""


@dataclass
class AnswerRecorder:
    """Records one answer in the metrics and the log line of its request: no texts, only times and closed sets."""

    request: Request
    mode: str  # as requested
    started: float = field(default_factory=time.perf_counter)
    first_token: float | None = None  # seconds

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Records an answer that ends before any of it is sent. An invalid request is not a failed answer."""
        try:
            yield
        except ClientDisconnected:
            self.record(None, "left")
            raise
        except QianxunError as error:
            if status_of(error) >= 500:
                self.record(None, "failed")
            raise

    def event(self, event: AnswerEvent) -> None:
        match event:
            case Token() if self.first_token is None:
                self.first_token = time.perf_counter() - self.started
            case Done(answer):
                self.finished(answer)
            case Failed(answer=answer):
                self.record(answer, "failed")

    def finished(self, answer: Answer) -> None:
        self.record(answer, "partial" if answer.is_partial else "done")

    def record(self, answer: Answer | None, outcome: str) -> None:
        on_answer: Callable[[AnswerTime], None] = self.request.app.state.on_answer
        on_answer(AnswerTime(self.mode, outcome, time.perf_counter() - self.started, answer, self.first_token))
        about: dict[str, object] = {"mode": answer.mode if answer else self.mode, "outcome": outcome}
        if answer is not None:
            about |= {"form": answer.form, "sources": len(answer.sources)}
        if self.first_token is not None:
            about["first_word_ms"] = round(self.first_token * 1e3, 2)
        self.request.state.about = about


async def answer_response(
    recorder: AnswerRecorder,
    writer: AnswerWriter,
    engine: Engine,
    base: int,
    question: str,
    choices: AskChoices,
    *,
    stream: bool,
    checked: bool = False,
) -> Response:
    """Asks the engine and responds; call it within `AnswerRecorder.recording`. ``checked``: see `Engine.ask_stream`."""
    trace = trace_id(recorder.request)
    if not stream:
        async with answer_slot(recorder.request):
            answer = await engine.ask(base, question, trace_id=trace, **choices)
        recorder.finished(answer)
        return json_response(writer.whole(answer))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(answer_slot(recorder.request))
        events = _with_keep_alives(engine.ask_stream(base, question, checked=checked, trace_id=trace, **choices))
        await stack.enter_async_context(aclosing(events))
        first = await anext(events, None)
        return EventStream(stack.pop_all(), first, events, writer, recorder)


class EventStream(Response):
    """Sends the events; ``stack`` holds the slot and the running work, and is closed at the end."""

    def __init__(
        self,
        stack: AsyncExitStack,
        first: AnswerEvent | None,
        events: AsyncGenerator[AnswerEvent | None, None],
        writer: AnswerWriter,
        recorder: AnswerRecorder,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._stack, self._first, self._events = stack, first, events
        self._writer, self._recorder = writer, recorder
        self._checked = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs in the task of the request: the slot cancels it."""
        try:
            async with self._stack:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await self._send_events(send)
        except ClientDisconnected:
            self._recorder.record(None, "left")
            return
        except asyncio.CancelledError:  # the service stops, and has waited for this answer long enough
            await self._send_failure(send, Overloaded("服务正在停止，答案没有写完", hint="稍后再问一次"))
            raise
        except Exception as error:  # the outermost place for an answer that has begun: sent as its last event
            if not isinstance(error, QianxunError):
                log_unforeseen(error)
            await self._send_failure(send, error)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, send: Send) -> None:
        last = self._first
        await self._send(send, self._first)
        async for event in self._events:
            await self._expect_live_key()
            await self._send(send, event)
            last = event or last
        if not isinstance(last, Done | Failed):
            raise RuntimeError("the events of an answer ended without an end")

    async def _expect_live_key(self) -> None:
        """Raises Unauthorized once the key that asked is revoked: an answer may take minutes."""
        key_id = getattr(self._recorder.request.state, "key_id", None)
        if not isinstance(key_id, int) or time.monotonic() - self._checked < CHECK_KEY_SECONDS:
            return
        self._checked = time.monotonic()
        with suppress(RecordsUnavailable):  # the next request is told of it, this one was allowed
            if await service_of(self._recorder.request).keys.live(key_id) is None:
                raise Unauthorized("密钥已吊销，答案没有写完", hint="用 qianxun keys create 签发新的密钥")

    async def _send(self, send: Send, event: AnswerEvent | None) -> None:
        if event is not None:
            self._recorder.event(event)
        if body := KEEP_ALIVE if event is None else self._writer.event(event):
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _send_failure(self, send: Send, error: Exception) -> None:
        self._recorder.record(None, "failed")
        request = self._recorder.request
        body = self._writer.error(error_response(error, request.scope).content, trace_id(request))
        try:
            async with asyncio.timeout(LAST_EVENT_SECONDS):
                await send({"type": "http.response.body", "body": body, "more_body": True})
        except TimeoutError:
            raise error from None  # the client does not read: only closing the connection ends this


async def _with_keep_alives(events: AsyncGenerator[AnswerEvent, None]) -> AsyncGenerator[AnswerEvent | None, None]:
    """The events, produced in a task of their own that ends with this generator; None when a keep-alive is due."""
    ready: asyncio.Queue[AnswerEvent | Exception | None] = asyncio.Queue(MAX_BUFFERED)

    async def produce() -> None:
        end: Exception | None = None
        try:
            async with aclosing(events):
                async for event in events:
                    await ready.put(event)
        except Exception as error:  # raised where the events are consumed
            end = error
        await ready.put(end)

    task = asyncio.create_task(produce())
    try:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    event = await ready.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(event, Exception):
                raise event
            if event is None:
                return
            yield event
    finally:
        task.cancel()
        await asyncio.wait((task,))


def encode_event(name: str, data: dict[str, Any]) -> bytes:
    return sse.written(name, encode_json(data))
