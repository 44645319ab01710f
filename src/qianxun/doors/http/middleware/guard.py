"""The first to see a request: who asks, for which tenant, what for, and how large a body may be.

All of that is known before a byte of the body is read. Without any key the service is for whoever sits at this
machine: requests of other machines, and of web pages that a browser here was lured to, are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.errors import Forbidden, NotFound, QianxunError, Unauthorized
from qianxun.core.limits import MIB
from qianxun.core.types import LOCAL_TENANT
from qianxun.doors.http.context import Service
from qianxun.doors.http.middleware.key_lookup import Lookups
from qianxun.doors.http.responses import english_wanted, is_address, no_address, of_error, problem, unforeseen
from qianxun.records import keys

log = logging.getLogger(__name__)

OPEN: Final = frozenset({"/healthz", "/readyz"})  # for whoever asks
# What a read key may ask for with POST; with GET it may ask for everything.
READING: Final = (
    "/v1/retrieval/", "/v1/recall/", "/v1/query/", "/v1/explain/",
    "/retrieval", "/v1/rerank", "/v1/chat/completions", "/v1/embeddings", "/v1/vector_stores/",
    "/mcp",
)  # fmt: skip
UPLOADED: Final = re.compile(r"/v1/knowledge-bases/[^/]+/documents(/.*)?", re.DOTALL)
FORM_BYTES: Final = MIB  # that a form may have beside its file
STALLED_SECONDS: Final = 30.0  # without a byte of a body that was announced
BODIES: Final = 16  # of the largest size that are held at once

_SECURE: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

Headers = Mapping[bytes, bytes]


class Guard:
    """Pure ASGI, in front of the routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.lookups = Lookups(service.engine.records, service.settings.service.request_seconds)
        self.body_bytes = service.settings.service.body_megabytes * MIB
        self.file_bytes = service.settings.parsing.file_megabytes * MIB + FORM_BYTES
        self.held = _Held(BODIES * self.body_bytes)
        self._has_keys = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        answer = _Outgoing(send)
        try:
            await self._admit(scope, headers)
            with _as_get(scope) as asked:
                await self._bounded(asked, headers, receive, answer)
        except QianxunError as error:  # of this page: the routes have told theirs
            await of_error(error, english=english_wanted(scope))(scope, receive, answer)
        except Exception as error:  # the outer door: told without detail, its place in the log
            log.exception("unforeseen")
            if answer.has_begun:
                raise
            told = unforeseen(error, scope["state"].get("trace_id", ""), english_wanted(scope))
            await told(scope, receive, answer)

    # ── who ──────────────────────────────────────────────────────────────────────────────────────

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        """Notes tenant and access in the request's state. Raises Unauthorized or Forbidden."""
        state = scope.setdefault("state", {})
        state["tenant"], state["access"] = "", ""
        if scope["path"] in OPEN:
            return
        if not await self._wants_key():
            # Whatever key was sent: clients of other services cannot ask without one, and it would open no more.
            _check_is_local(scope, headers)
            state["tenant"], state["access"] = LOCAL_TENANT, "write"
            return
        key = _key(headers)
        if key is None:
            raise Unauthorized("需要密钥", hint="写在请求头里：Authorization: Bearer qx_…（qianxun keys create 签发）")
        holder = await self.lookups.read(lambda tx: keys.find(tx, key))
        if holder is None:
            raise Unauthorized("密钥无效或已吊销", hint="用 qianxun keys create 签发新的密钥")
        state["tenant"], state["access"] = holder.tenant, holder.scope
        if state["access"] != "write" and not _is_reading(scope):
            if not is_address(scope):  # with another key it would be none, either
                raise NotFound(no_address(scope["path"]))
            raise Forbidden("这个密钥只能检索与查看", hint="换用可写的密钥：qianxun keys create --scope write")

    async def _wants_key(self) -> bool:
        """Once there has been a key. That the last one was revoked opens no door."""
        if not self._has_keys:
            self._has_keys = await self.lookups.read(keys.any_ever)
        return self._has_keys

    # ── how much ─────────────────────────────────────────────────────────────────────────────────

    async def _bounded(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        told = headers.get(b"content-length", b"")
        if not told and b"transfer-encoding" not in headers:
            await self.app(scope, receive, send)
            return
        is_file = headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
        if is_file and UPLOADED.fullmatch(scope["path"]):
            body = _Body(receive, self.file_bytes, None)
        else:
            body = _Body(receive, self.body_bytes, self.held)
        if told.isdigit() and int(told) > body.most:
            await body.too_large(english_wanted(scope))(scope, receive, send)
            return
        try:
            await self.app(scope, body, send)
        finally:
            body.let_go()


class _Held:
    """Bytes of bodies that are in memory now, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes = 0


class _Body:
    """A body on its way in, counted as it comes; an uploaded file goes to the disk and is not ``held``."""

    __slots__ = ("_held", "_receive", "bytes", "is_whole", "most")

    def __init__(self, receive: Receive, most: int, held: _Held | None) -> None:
        self._receive, self._held = receive, held
        self.most = most
        self.bytes = 0
        self.is_whole = False  # what comes then is the client's leaving, whenever that may be

    async def __call__(self) -> Message:
        try:
            async with asyncio.timeout(None if self.is_whole else STALLED_SECONDS):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "请求体迟迟没有到齐　检查网络后重试") from None
        self.is_whole = not message.get("more_body", False)
        if message["type"] == "http.request" and (came := len(message.get("body", b""))):
            self.bytes += came
            if self._held is not None:
                self._held.bytes += came
                if self._held.bytes > self._held.most:
                    raise HTTPException(503, "同时收到的请求体太多　稍后重试")
            if self.bytes > self.most:  # as an HTTPException: what reads bodies lets nothing else through
                raise HTTPException(413, self._said())
        return message

    def too_large(self, english: bool) -> ASGIApp:
        return problem(413, self._said(), english=english)

    def let_go(self) -> None:
        if self._held is not None:
            self._held.bytes -= self.bytes

    def _said(self) -> str:
        bound = "service.body_megabytes" if self._held is not None else "parsing.file_megabytes"
        return f"请求体超过 {self.most / MIB:g} MB 的上限　分成几次提交，或调高 {bound}"


class _Outgoing:
    """An answer on its way out: what every one says to browsers, and whether it has begun."""

    __slots__ = ("_send", "has_begun")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            message["headers"] = [*message.get("headers", ()), *_SECURE]
        await self._send(message)


@contextmanager
def _as_get(scope: Scope) -> Iterator[Scope]:
    """HEAD is answered by the route of GET; the server, which is asked for HEAD still, keeps the body back."""
    asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
    try:
        yield asked
    finally:
        if "route" in asked:
            scope["route"] = asked["route"]  # whoever counts requests looks for it there


def _key(headers: Headers) -> str | None:
    """The key that was sent, whether or not it is one; None where there is none. Raises Unauthorized.

    A name and password (Basic) are meant for a proxy in between: the key then stands in X-API-Key.
    """
    told, own = headers.get(b"authorization"), headers.get(b"x-api-key")
    if told is not None:
        kind, _, key = told.partition(b" ")
        if kind.lower() == b"bearer":
            return key.strip().decode("latin-1")
        if own is None or kind.lower() != b"basic":
            hint = "写作 Authorization: Bearer qx_…，或把密钥写在 X-API-Key 里"
            raise Unauthorized("请求头 Authorization 里没有 Bearer 和密钥", hint=hint)
    return None if own is None else own.strip().decode("latin-1")


def _is_reading(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and scope["path"].startswith(READING))


# ── without keys: this machine only ──────────────────────────────────────────────────────────────


def _check_is_local(scope: Scope, headers: Headers) -> None:
    """Raises Forbidden for a request that did not begin at this machine.

    A browser tells where it believes to be (``Host``; another name that leads here is DNS rebinding) and which page
    asks (``Origin``; a foreign page may send forms without being allowed to read the answer).
    """
    hint = "从本机用 http://127.0.0.1 访问；要从别处访问，先用 qianxun keys create 签发密钥"
    ends = (scope.get("client"), scope.get("server"))
    if any(end is not None and end[0] and not is_loopback(end[0]) for end in ends):
        raise Forbidden("还没有密钥，只接受本机的请求", hint=hint)
    if any(not is_loopback(each) for each in _forwarded_for(headers)):
        raise Forbidden("还没有密钥，不接受反向代理替别的机器转来的请求", hint=hint)
    host = headers.get(b"host", b"").decode("latin-1")
    if not is_loopback(_without_port(host)):
        raise Forbidden("还没有密钥，只接受以本机地址发来的请求（请求头 Host）", hint=hint)
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1").lower() not in (
        f"http://{host}".lower(),
        f"https://{host}".lower(),
    ):
        raise Forbidden("还没有密钥，不接受别的网页发来的请求（请求头 Origin）", hint=hint)


def _forwarded_for(headers: Headers) -> list[str]:
    """For whom a proxy at this machine says to ask. Nobody is believed by it: who makes it up is only refused."""
    told = [b"," + value for name in (b"x-forwarded-for", b"x-real-ip") if (value := headers.get(name))]
    told += re.findall(rb'[;,\s]for="?([^";,]+)', b"," + headers.get(b"forwarded", b""), re.IGNORECASE)
    ends = (each.strip().decode("latin-1") for value in told for each in value.split(b","))
    return [_without_port(each) if each.count(":") < 2 or "]" in each else each for each in ends if each]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether an address, or a name that means one by definition, is this machine's own."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
