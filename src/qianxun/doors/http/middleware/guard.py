"""The guard in front of the routes: which tenant a request belongs to, what its key permits, how large its body may be.

All of that is decided before a byte of the body is read. Without any key the service is for this machine alone:
requests from other machines, and from web pages that lure a browser here, are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.errors import Forbidden, NotFound, QianxunError, Unauthorized
from qianxun.core.limits import MIB
from qianxun.core.types import LOCAL_TENANT
from qianxun.doors.http.context import Service, read_only_key
from qianxun.doors.http.responses import error_response, path_exists, prefers_english, problem, unknown_path_message
from qianxun.engine.operations import KeyLookup

OPEN: Final = frozenset({"/healthz", "/readyz"})  # need no key
# Paths that a read-only key may POST to; with GET it may read everything.
READ_PATHS: Final = (
    "/v1/retrieval/", "/v1/recall/", "/v1/query/", "/v1/explain/",
    "/retrieval", "/v1/rerank", "/v1/chat/completions", "/v1/embeddings", "/v1/vector_stores/",
    "/mcp",
)  # fmt: skip
UPLOAD_PATH: Final = re.compile(r"/v1/knowledge-bases/[^/]+/documents(/.*)?", re.DOTALL)
HOST_AND_PORT: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(?::[0-9]{0,5})?")
FORM_BYTES: Final = MIB  # of an upload form beside its file
STALLED_SECONDS: Final = 30.0  # without a byte of a body that was announced
BODIES_IN_MEMORY: Final = 16  # of the largest size

Headers = Mapping[bytes, bytes]


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.keys = KeyLookup(service.engine.records, service.settings.service.request_seconds)
        self.body_bytes = service.settings.service.body_megabytes * MIB
        self.file_bytes = service.settings.parsing.file_megabytes * MIB + FORM_BYTES
        self.memory = _BodyMemory(BODIES_IN_MEMORY * self.body_bytes)
        self._has_keys = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        try:
            await self._authorize(scope, headers)
            with _routed_as_get(scope) as routed:
                await self._limit_body(routed, headers, receive, send)
        except QianxunError as error:  # the guard's own: routes have their handlers
            await error_response(error, scope)(scope, receive, send)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    async def _authorize(self, scope: Scope, headers: Headers) -> None:
        """Puts tenant and access into the request's state. Raises Unauthorized, Forbidden or NotFound."""
        state = scope.setdefault("state", {})
        state["tenant"], state["access"] = "", ""
        if scope["path"] in OPEN:
            return
        if not await self._requires_key():
            # A key that was sent is ignored: clients of other services cannot be configured without one.
            _check_is_local(scope)
            state["tenant"], state["access"] = LOCAL_TENANT, "write"
            return
        key = _key(headers)
        if key is None:
            raise Unauthorized("需要密钥", hint="写在请求头里：Authorization: Bearer qx_…（qianxun keys create 签发）")
        holder = await self.keys.holder(key)
        if holder is None:
            raise Unauthorized("密钥无效或已吊销", hint="用 qianxun keys create 签发新的密钥")
        state["tenant"], state["access"] = holder.tenant, holder.scope
        if state["access"] != "write" and not _is_read(scope):
            if not path_exists(scope):  # with another key it would not exist, either
                raise NotFound(unknown_path_message(scope["path"]))
            raise read_only_key()

    async def _requires_key(self) -> bool:
        """True once a key has been created, even if all have been revoked since."""
        if not self._has_keys:
            self._has_keys = await self.keys.any_ever()
        return self._has_keys

    # ── bodies ───────────────────────────────────────────────────────────────────────────────────

    async def _limit_body(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        length = headers.get(b"content-length", b"")
        if not length and b"transfer-encoding" not in headers:
            await self.app(scope, receive, send)
            return
        is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
        if is_form and UPLOAD_PATH.fullmatch(scope["path"]):
            body = _Body(receive, self.file_bytes, None)
        else:
            body = _Body(receive, self.body_bytes, self.memory)
        if length.isdigit() and int(length) > body.limit:
            await problem(413, body.too_large(), english=prefers_english(scope))(scope, receive, send)
            return
        try:
            await self.app(scope, body, send)
        finally:
            body.release()


@dataclass
class _BodyMemory:
    """Bytes of bodies that are in memory now, of all requests together."""

    limit: int
    bytes: int = 0


class _Body:
    """Receives a body and counts it; an uploaded file goes to the disk and not to ``memory``."""

    __slots__ = ("_memory", "_receive", "bytes", "is_complete", "limit")

    def __init__(self, receive: Receive, limit: int, memory: _BodyMemory | None) -> None:
        self._receive, self._memory = receive, memory
        self.limit = limit
        self.bytes = 0
        self.is_complete = False  # the next message then is the disconnect, whenever it comes

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout(None if self.is_complete else STALLED_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "请求体迟迟没有到齐　检查网络后重试") from None
        self.is_complete = not message.get("more_body", False)
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self.bytes += size
            if self._memory is not None:
                self._memory.bytes += size
                if self._memory.bytes > self._memory.limit:
                    raise HTTPException(503, "同时收到的请求体太多　稍后重试")
            if self.bytes > self.limit:  # an HTTPException: FastAPI's body parsing passes on no other
                raise HTTPException(413, self.too_large())
        return message

    def release(self) -> None:
        if self._memory is not None:
            self._memory.bytes -= self.bytes

    def too_large(self) -> str:
        setting = "service.body_megabytes" if self._memory is not None else "parsing.file_megabytes"
        return f"请求体超过 {self.limit / MIB:g} MB 的上限　分成几次提交，或调高 {setting}"


@contextmanager
def _routed_as_get(scope: Scope) -> Iterator[Scope]:
    """HEAD is served by the route of GET; uvicorn, which still sees HEAD, leaves out the body."""
    routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
    try:
        yield routed
    finally:
        if "route" in routed:
            scope["route"] = routed["route"]  # for the metrics


def _key(headers: Headers) -> str | None:
    """The key that was sent, valid or not; None if there is none. Raises Unauthorized for another scheme.

    Basic credentials are meant for a proxy in between: the key then is in X-API-Key.
    """
    authorization, own = headers.get(b"authorization"), headers.get(b"x-api-key")
    if authorization is not None:
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() == b"bearer":
            return key.strip().decode("latin-1")
        if own is None or scheme.lower() != b"basic":
            hint = "写作 Authorization: Bearer qx_…，或把密钥写在 X-API-Key 里"
            raise Unauthorized("请求头 Authorization 里没有 Bearer 和密钥", hint=hint)
    return None if own is None else own.strip().decode("latin-1")


def _is_read(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and scope["path"].startswith(READ_PATHS))


# ── without keys: this machine only ──────────────────────────────────────────────────────────────


def _check_is_local(scope: Scope) -> None:
    """Raises Forbidden for a request that did not begin at this machine.

    A browser sends the name it connected to (``Host``; another name that resolves to this machine is DNS rebinding)
    and the page that sends the request (``Origin``; a foreign page may send forms without reading the response).
    """
    hint = "从本机用 http://127.0.0.1 访问；要从别处访问，先用 qianxun keys create 签发密钥"
    ends = (scope.get("client"), scope.get("server"))
    if any(end is not None and end[0] and not is_loopback(end[0]) for end in ends):
        raise Forbidden("还没有密钥，只接受本机的请求", hint=hint)
    if not all(map(is_loopback, _forwarded_for(scope))):
        raise Forbidden("还没有密钥，不接受反向代理替别的机器转来的请求", hint=hint)
    hosts = _values(scope, b"host")
    if len(hosts) != 1:  # which of several another part of the way goes by is anybody's guess
        raise Forbidden("还没有密钥，请求头 Host 应恰好有一个", hint=hint)
    if not is_loopback(_without_port(hosts[0])):
        raise Forbidden("还没有密钥，只接受以本机地址发来的请求（请求头 Host）", hint=hint)
    own = (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower())
    if any(origin.lower() not in own for origin in _values(scope, b"origin")):
        raise Forbidden("还没有密钥，不接受别的网页发来的请求（请求头 Origin）", hint=hint)


def _values(scope: Scope, name: bytes) -> list[str]:
    """The values of all header lines of this name."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _forwarded_for(scope: Scope) -> list[str]:
    """The clients that a proxy at this machine names. They are only ever refused: a forged header gains nothing."""
    values = [value for name in (b"x-forwarded-for", b"x-real-ip") for value in _values(scope, name)]
    for value in _values(scope, b"forwarded"):
        values += re.findall(r'[;,\s]for="?([^";,]+)', "," + value, re.IGNORECASE)
    clients = (client.strip() for value in values for client in value.split(","))
    return [_without_port(end) if end.count(":") < 2 or "]" in end else end for end in clients if end]


def _without_port(host: str) -> str:
    """The name or address in ``host[:port]``, an IPv6 address without its brackets; "" for what is not of that form."""
    found = HOST_AND_PORT.fullmatch(host)
    return "" if found is None else found["ipv6"] or found["name"]


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Returns True for an address of this machine, or ``localhost``."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0] if ":" in host else host)  # only IPv6 has zones
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
