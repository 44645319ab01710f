"""Requests that a searching process hands to the one that writes, and back; as an ASGI application around its own."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.doors.http.responses import problem

log = logging.getLogger(__name__)

# Answered by whoever gets it: searches, which write nothing but their log, and what is said about this process.
SEARCHES: Final = re.compile(
    r"/retrieval|/v1/retrieval/[^/]+|/v1/recall/[^/]+/(texts|tables)|/v1/vector_stores/.+/search"
)
OWN: Final = ("/healthz", "/readyz")
# What the writer may be able to do, and mends: an index that is damaged, or not made yet.
LEFT_TO_WRITER: Final = frozenset(("recall_failed", "index_unusable", "internal"))
CLIENT: Final = b"x-qianxun-client"  # of the request, from one of our processes to another
HOP_BY_HOP: Final = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer"))
CONNECT_SECONDS: Final = 5.0


class Forwarding:
    """``app`` for searches, the writer for everything else and for searches that fail here."""

    def __init__(self, app: ASGIApp, writer: str) -> None:
        self.app = app
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
        transport = httpx.AsyncHTTPTransport(uds=writer, limits=limits)
        self._client = httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OWN:
            await self.app(scope, receive, send)
        elif scope["method"] == "POST" and SEARCHES.fullmatch(scope["path"]):
            await self._search(scope, receive, send)
        else:
            await self._forward(scope, receive, send)

    async def _search(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An error is not sent before it is known whether the writer is asked instead."""
        body, error = list[Message](), list[Message]()

        async def noted() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.append(message)
            return message

        async def sent(message: Message) -> None:
            is_error = message["type"] == "http.response.start" and message["status"] >= 500
            if error or is_error:
                error.append(message)
            else:
                await send(message)

        await self.app(scope, noted, sent)
        if error and _word(error) in LEFT_TO_WRITER and body and not body[-1].get("more_body"):
            await self._forward(scope, _replayed(body, receive), send)
            return
        for message in error:
            await send(message)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when the client goes away: the writer then sees that its client has."""
        is_read = asyncio.Event()
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        if not has_body:
            is_read.set()
        body = _body(receive, is_read) if has_body else None
        exchange = asyncio.create_task(self._exchange(scope, body, send))
        watch = asyncio.create_task(_cancel_without_client(receive, is_read, exchange))
        try:
            await exchange
        except asyncio.CancelledError:
            if not watch.done():
                raise
        finally:
            exchange.cancel()
            watch.cancel()
            await asyncio.wait([exchange, watch])

    async def _exchange(self, scope: Scope, body: AsyncIterator[bytes] | None, send: Send) -> None:
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        url = httpx.URL(scheme="http", host="writer", raw_path=target)
        headers = [*_end_to_end(scope["headers"]), (CLIENT, _written_ends(scope))]
        request = httpx.Request(scope["method"], url, headers=headers, content=body)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            log.warning("the process that writes does not answer: %s", error)
            refused = problem(503, "写入的进程正在重新启动", "overloaded", hint="稍后重试；检索照常")
            await refused(scope, _nothing_more, send)
            return
        try:
            start = {"status": response.status_code, "headers": _end_to_end(response.headers.raw)}
            await send({"type": "http.response.start", **start})
            async for data in response.aiter_raw():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await response.aclose()


class FromReaders:
    """The writer's application: a request comes from where it came to the process that handed it on."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(CLIENT)
            ends = json.loads(given) if given else {}
            headers = [pair for pair in scope["headers"] if pair[0] != CLIENT]
            scope = {**scope, "headers": headers, "client": ends.get("client"), "server": ends.get("server")}
        await self.app(scope, receive, send)


def _written_ends(scope: Scope) -> bytes:
    return json.dumps({"client": scope.get("client"), "server": scope.get("server")}).encode()


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP and name.lower() != CLIENT]


def _word(answer: Sequence[Message]) -> str:
    """The machine word of an error."""
    data = b"".join(message.get("body", b"") for message in answer)
    with suppress(ValueError):
        found: Any = json.loads(data)
        return str(found.get("error", "")) if isinstance(found, dict) else ""
    return ""


def _replayed(body: Sequence[Message], receive: Receive) -> Receive:
    left = list(body)

    async def replay() -> Message:
        return left.pop(0) if left else await receive()

    return replay


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}


async def _body(receive: Receive, is_read: asyncio.Event) -> AsyncIterator[bytes]:
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise httpx.ReadError("the client has gone away")
            if data := message.get("body", b""):
                yield data
            if not message.get("more_body"):
                return
    finally:
        is_read.set()


async def _cancel_without_client(receive: Receive, is_read: asyncio.Event, exchange: asyncio.Task[None]) -> None:
    await is_read.wait()
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.cancel()
