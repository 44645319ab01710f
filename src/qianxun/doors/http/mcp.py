"""The tools of the Model Context Protocol over streamable HTTP: ``POST /mcp``, stateless, answered as JSON.

The guard has let the request in and found its tenant; every call of a tool waits for its turn, as a search does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from starlette.types import Message, Receive

from qianxun.core.errors import Overloaded
from qianxun.core.limits import MIB
from qianxun.doors.http.concurrency import ClientDisconnected
from qianxun.doors.http.context import recall_slot, service_of, tenant_engine, trace_id
from qianxun.doors.http.responses import as_json
from qianxun.doors.mcp import require_driver
from qianxun.doors.mcp.collection import Collection
from qianxun.doors.mcp.ids import service_address

if TYPE_CHECKING:
    from qianxun.doors.mcp.server import ToolServer

PATH: Final = "/mcp"
# Gone from the protocol since 2025-06-18; the SDK would answer with what each of its types is not.
NO_BATCH: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "不接受成批的请求，请一次一个 · Send one request at a time, not a batch"},
}


def routes() -> APIRouter:
    """In no OpenAPI document: the protocol tells of its tools itself. It wants no other method than this one, since
    there is neither a stream to listen to nor a session to end."""
    router = APIRouter()
    for path in (PATH, f"{PATH}/"):  # many programs are given addresses with a slash at the end
        router.post(path, include_in_schema=False)(answer)
    return router


async def answer(request: Request) -> Response:
    require_driver()
    most = service_of(request).settings.service.body_megabytes * MIB
    body = await request.body()
    if body.lstrip()[:1] == b"[":
        return as_json(NO_BATCH, 400)
    is_loaded = _server.cache_info().currsize > 0
    server = _server() if is_loaded else await asyncio.to_thread(_server)
    from qianxun.doors.mcp.server import answer_http

    told = _Told()
    await answer_http(server, request.scope, _again(body, request.receive), told.hear, body_bytes=most)
    if getattr(request.state, "has_left", False):
        raise ClientDisconnected
    return Response(b"".join(told.parts), told.status, told.headers)


@cache
def _server() -> ToolServer:
    """One for all applications of a process, which it knows by the request alone. Loading it takes a second."""
    from qianxun.doors.mcp.server import create_server

    return create_server(_opened)


@asynccontextmanager
async def _opened(request: Request) -> AsyncIterator[Collection]:
    """What the tenant of this request has, for as long as its turn lasts."""
    engine = await tenant_engine(request)
    try:
        async with recall_slot(request):
            yield Collection(engine, service_address(str(request.base_url)), trace_id=trace_id(request))
    except ClientDisconnected:
        request.state.has_left = True
        raise Overloaded("提问的程序已经离开") from None  # told to nobody


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read to the next reader; what comes after it is the client's leaving."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return given.pop() if given else await receive()

    return next_message


class _Told:
    """An answer, held back until it is known whether anybody waits for it."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []

    async def hear(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            told = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ()))
            self.headers = {name: value for name, value in told if name != "content-length"}
        elif message["type"] == "http.response.body":
            self.parts.append(message.get("body", b""))
