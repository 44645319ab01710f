"""The tools of the Model Context Protocol over streamable HTTP: ``POST /mcp``, stateless, with JSON responses.

The guard has admitted the request and found its tenant; every tool call takes a slot as a search does. The routes are
in no OpenAPI document, since the protocol describes its tools itself, and have no other method, since there is neither
a stream to open nor a session to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from starlette.types import Message, Receive

from qianxun.core.errors import MissingExtra, Overloaded
from qianxun.core.limits import MIB
from qianxun.doors.http.concurrency import ClientDisconnected
from qianxun.doors.http.context import answer_slot, recall_slot, tenant_engine, trace_id
from qianxun.doors.http.responses import json_response
from qianxun.doors.mcp import require_driver
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.ids import service_address

if TYPE_CHECKING:
    from qianxun.doors.mcp.server import ToolServer

PATH: Final = "/mcp"
# Removed from the protocol in 2025-06-18; the SDK's own error would list why it is none of its types.
NO_BATCH: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "不接受成批的请求，请一次一个 · Send one request at a time, not a batch"},
}

# A call is a question with its options: filters of 64 K characters at most. The SDK takes a second of the event loop
# for every few megabytes of arguments, before it is known whether there is such a tool.
MOST_BYTES: Final = MIB
TOO_LARGE: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "请求体超过 1 MB 的上限，请缩短它 · The body is larger than 1 MB, send less"},
}

router = APIRouter()


@router.post(PATH, include_in_schema=False)
@router.post(f"{PATH}/", include_in_schema=False)  # many clients are configured with a trailing slash
async def call(request: Request) -> Response:
    try:
        require_driver()
    except MissingExtra as error:
        return json_response(_failure(str(error)), 503)
    body = await request.body()
    if body.lstrip()[:1] == b"[":
        return json_response(NO_BATCH, 400)
    if len(body) > MOST_BYTES:
        return json_response(TOO_LARGE, 413)
    server = _server() if _server.cache_info().currsize else await asyncio.to_thread(_server)
    from qianxun.doors.mcp.server import answer_http

    response = _BufferedResponse()
    await answer_http(server, request.scope, _replay(body, request.receive), response.send, body_bytes=MOST_BYTES)
    if getattr(request.state, "is_disconnected", False):
        raise ClientDisconnected
    return Response(b"".join(response.parts), response.status, response.headers)


def _failure(message: str) -> dict[str, Any]:
    """An error as clients of the protocol read it, and with our own fields."""
    error = {"code": -32603, "message": message}
    return {"jsonrpc": "2.0", "id": None, "error": error, "code": 503, "msg": message, "data": None}


@cache
def _server() -> ToolServer:
    """One for all applications of a process, since it takes them from the request. Loading it takes a second."""
    from qianxun.doors.mcp.server import create_server

    return create_server(_collection)


@asynccontextmanager
async def _collection(request: Request, is_answer: bool) -> AsyncIterator[Collection]:
    """The tenant's collection, for as long as the request has its slot: that of a search, or of an answer."""
    engine = await tenant_engine(request)
    try:
        async with answer_slot(request) if is_answer else recall_slot(request):
            yield Collection(engine, service_address(str(request.base_url)), trace_id=trace_id(request))
    except ClientDisconnected:
        request.state.is_disconnected = True
        raise Overloaded("提问的程序已经离开") from None  # is never sent


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read to the next reader; what comes after it is the disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


class _BufferedResponse:
    """Holds a response back until it is known whether the client is still there."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ()))
            self.headers = {name: value for name, value in headers if name != "content-length"}
        elif message["type"] == "http.response.body":
            self.parts.append(message.get("body", b""))
