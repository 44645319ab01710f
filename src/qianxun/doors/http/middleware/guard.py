"""The guard in front of the routes: which tenant a request belongs to, what its key permits, how large its body may be.

All of that is decided before a byte of the body is read. Without any key the service is for this machine alone:
requests from other machines, and from web pages that lure a browser here, are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.core.errors import BadInput, Forbidden, NotFound, QianxunError, Unauthorized
from qianxun.core.governance.access import Principal
from qianxun.core.governance.actor import acting_as
from qianxun.core.limits import MIB
from qianxun.core.types import LOCAL_TENANT
from qianxun.doors.http.console.forms import SESSION_COOKIE
from qianxun.doors.http.context import Service, read_only_key
from qianxun.doors.http.middleware.principals import X_PRINCIPAL, named_principal, principal_for
from qianxun.doors.http.responses import error_response, path_exists, prefers_english, problem, unknown_path_message
from qianxun.engine.across_tenants import KeyHolder
from qianxun.engine.governance.tokens import looks_like_token

OPEN: Final = frozenset({"/", "/console", "/healthz", "/readyz", "/console/sign-in"})  # need no key
OPEN_FILES: Final = "/console/static/"
# Pages: a browser that signed in sends its cookie. Nowhere else does a cookie count.
PAGES: Final = ("/console/", "/docs", "/openapi.json")
# Paths that a read-only key may POST to; with GET it may read everything.
READ_PATHS: Final = (
    "/v1/retrieval/", "/v1/recall/", "/v1/query/", "/v1/explain/",
    "/retrieval", "/v1/rerank", "/v2/rerank", "/v1/chat/completions", "/v1/responses", "/v1/embeddings",
    "/v1/vector_stores/",
    "/mcp",
    "/console/answer", "/console/sign-out",
)  # fmt: skip
UPLOAD_PATH: Final = re.compile(
    r"/(v1/knowledge-bases|console/bases)/[^/]+/documents(/.*)?|/v1/knowledge-bases/import", re.DOTALL
)
# What tells of bases as a whole, or of others' doings: for owners.
OWNER_PATH: Final = re.compile(
    r"(?:/v1)?(?:/.*)?/(?:audit|receipts|webhooks?|quotas?|exports?|evaluation-sets?|evaluations?|operations|keys)"
    r"(?:/.*)?|/user/api/.*|/metrics",
    re.DOTALL,
)
HOST_AND_PORT: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(?::[0-9]{0,5})?")
FORM_BYTES: Final = MIB  # of an upload form beside its file
ANONYMOUS_BYTES: Final = 16 * 1024  # of a body that comes without a key: the form to sign in with one
STALLED_SECONDS: Final = 30.0  # that a body may take for every …
STALLED_BYTES: Final = 120 * 1024  # … of its bytes (4 KB a second), and for its last ones
BODIES_IN_MEMORY: Final = 16  # of the largest size
# Of that memory: whoever fills their own share takes nothing from others.
TENANT_SHARE: Final = 1 / 2
KEY_SHARE: Final = 1 / 4

Headers = Mapping[bytes, bytes]
Clock = Callable[[], float]
Owner = tuple[str, object]  # ("tenant", name) or ("key", id)


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, service: Service, clock: Clock = time.monotonic) -> None:
        self.app = app
        self.clock = clock
        self.keys, self.sessions, self.tokens = service.keys, service.sessions, service.tokens
        self.body_bytes = service.settings.service.body_megabytes * MIB
        self.file_bytes = service.settings.parsing.file_megabytes * MIB + FORM_BYTES
        self.memory = _BodyMemory(BODIES_IN_MEMORY * self.body_bytes)
        # "*" lets pages read what a key lets them ask for; without keys it would be every page anybody looks at.
        self.origins = frozenset(service.settings.service.cors_origins) - {"*"}
        self._has_keys = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        try:
            _expect_one_principal(scope, headers)
            await self._authorize(scope, headers)
            with acting_as(_actor(scope["state"])), _routed_as_get(scope) as routed:
                await self._limit_body(routed, headers, receive, send)
        except QianxunError as error:  # the guard's own: routes have their handlers
            await error_response(error, scope)(scope, receive, send)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    async def _authorize(self, scope: Scope, headers: Headers) -> None:
        """Puts tenant and access into the request's state. Raises Unauthorized, Forbidden or NotFound."""
        state = scope.setdefault("state", {})
        state["tenant"], state["access"], state["key_id"], state["principal"] = "", "", None, None
        if scope["path"] in OPEN or scope["path"].startswith(OPEN_FILES):
            return
        if not await self._requires_key():
            # A key that was sent is ignored: clients of other services cannot be configured without one.
            _check_is_local(scope, self.origins)
            state["tenant"], state["access"] = LOCAL_TENANT, "write"
            if X_PRINCIPAL in headers:  # this machine may try out what others see
                state["principal"] = named_principal(headers[X_PRINCIPAL])
                _expect_read(scope, state["principal"])
            return
        token = _key(headers) or ""
        if self.tokens.is_configured and looks_like_token(token):
            verified = await self.tokens.verified(token)
            state |= {"tenant": verified.tenant, "access": "read", "key_id": verified.principal.name}
            state["principal"] = verified.principal
            if X_PRINCIPAL in headers:
                raise Forbidden("令牌已经说明了主体，不能再用 X-Principal 另指", hint="去掉请求头 X-Principal")
            _expect_read(scope, verified.principal)
            return
        holder = await self._holder(scope, headers)
        state["tenant"], state["access"], state["key_id"] = holder.tenant, holder.scope, holder.id
        state["principal"] = principal_for(holder, headers.get(X_PRINCIPAL), is_read=_is_read(scope))
        if (
            X_PRINCIPAL in headers
            or holder.principal
            or (_is_for_owners(scope, state["principal"]) and await self.keys.hides_documents(holder.tenant))
        ):
            _expect_read(scope, state["principal"])
        if state["access"] != "write" and not _is_read(scope):
            if not path_exists(scope):  # with another key it would not exist, either
                raise NotFound(unknown_path_message(scope["path"]))
            raise read_only_key()

    async def _holder(self, scope: Scope, headers: Headers) -> KeyHolder:
        """Who sent the request. Raises Unauthorized."""
        key = _key(headers)
        if key is None and scope["path"].startswith(PAGES):
            session = await self.sessions.resume(_cookie(headers, SESSION_COOKIE))
            if session is not None:
                return session.holder
        if key is None:
            raise Unauthorized("需要密钥", hint="写在请求头里：Authorization: Bearer qx_…（qianxun keys create 签发）")
        holder = await self.keys.holder(key)
        if holder is None:
            raise Unauthorized("密钥无效或已吊销", hint="用 qianxun keys create 签发新的密钥")
        return holder

    async def _requires_key(self) -> bool:
        """True once a key has been created, even if all have been revoked since."""
        if not self._has_keys:
            self._has_keys = await self.keys.was_any_created()
        return self._has_keys

    # ── bodies ───────────────────────────────────────────────────────────────────────────────────

    async def _limit_body(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        length = headers.get(b"content-length", b"")
        if not length and b"transfer-encoding" not in headers:
            await self.app(scope, receive, send)
            return
        is_form = headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data")
        if is_form and UPLOAD_PATH.fullmatch(scope["path"]):
            body = _Body(receive, self.file_bytes, None, self.clock)
        else:
            limit = self.body_bytes if scope["state"]["access"] else min(self.body_bytes, ANONYMOUS_BYTES)
            body = _Body(receive, limit, self.memory.account(scope["state"]), self.clock)
        if length.isdigit() and int(length) > body.limit:
            await problem(413, body.too_large(), english=prefers_english(scope))(scope, receive, send)
            return
        try:
            await self.app(scope, body, send)
        finally:
            body.release()


def _expect_one_principal(scope: Scope, headers: Headers) -> None:
    """Raises BadInput for two lines: one may be the client's own, before or behind what a gateway adds."""
    if X_PRINCIPAL in headers and len(_values(scope, X_PRINCIPAL)) > 1:
        raise BadInput("请求头 X-Principal 应恰好有一个", hint="由一处写明；网关先去掉客户端带来的")


def _is_for_owners(scope: Scope, principal: Principal | None) -> bool:
    return principal is not None and OWNER_PATH.fullmatch(scope["path"]) is not None


def _expect_read(scope: Scope, principal: Principal | None) -> None:
    """A principal reads. Raises Forbidden for anything else, and for what only owners look at."""
    if principal is None:
        return
    if not path_exists(scope):
        raise NotFound(unknown_path_message(scope["path"]))
    if not _is_read(scope) or _is_for_owners(scope, principal):
        raise Forbidden(f"以主体“{principal.shown}”的身份只能检索与查看", hint="改动与管理请用不代表任何主体的密钥")


def _actor(state: Mapping[str, Any]) -> str:
    """What the audit log has for who sent this request."""
    return "local" if state["key_id"] is None else f"key:{state['key_id']}"


@dataclass
class _BodyMemory:
    """Bytes of bodies that are in memory now: of all requests together, and of every tenant and key."""

    limit: int
    bytes: int = 0
    by_owner: Counter[Owner] = field(default_factory=Counter)

    def account(self, state: Mapping[str, Any]) -> _Account:
        """Where a request's body counts. Without keys there is one tenant, which may have all of it."""
        if state["key_id"] is None:
            return _Account(self, {})
        shares = {("tenant", state["tenant"]): TENANT_SHARE, ("key", state["key_id"]): KEY_SHARE}
        return _Account(self, {owner: self.limit * share for owner, share in shares.items()})


@dataclass(frozen=True, slots=True)
class _Account:
    """Counts one body's bytes as its owners'."""

    memory: _BodyMemory
    limits: Mapping[Owner, float]

    def add(self, size: int) -> bool:
        """Returns False if that is more than one of them may have."""
        memory = self.memory
        memory.bytes += size
        memory.by_owner.update(dict.fromkeys(self.limits, size))
        is_within = all(memory.by_owner[owner] <= limit for owner, limit in self.limits.items())
        return is_within and memory.bytes <= memory.limit

    def release(self, size: int) -> None:
        self.memory.bytes -= size
        for owner in self.limits:
            self.memory.by_owner[owner] -= size
            if not self.memory.by_owner[owner]:
                del self.memory.by_owner[owner]


class _Body:
    """Receives a body and counts it; an uploaded file goes to the disk and has no ``account``."""

    __slots__ = ("_account", "_clock", "_receive", "_recent", "_waited", "bytes", "is_complete", "limit")

    def __init__(self, receive: Receive, limit: int, account: _Account | None, clock: Clock) -> None:
        self._receive, self._account, self._clock = receive, account, clock
        self.limit = limit
        self.bytes = 0
        self.is_complete = False  # the next message then is the disconnect, whenever it comes
        self._recent = 0  # bytes, and …
        self._waited = 0.0  # … the seconds that were spent waiting for them

    async def __call__(self) -> Message:
        message = await self._receive() if self.is_complete else await self._receive_in_time()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self.bytes += size
            if self._account is not None and not self._account.add(size):
                raise HTTPException(503, "同时收到的请求体太多　稍后重试")
            if self.bytes > self.limit:  # an HTTPException: FastAPI's body parsing passes on no other
                raise HTTPException(413, self.too_large())
        return message

    async def _receive_in_time(self) -> Message:
        """Raises HTTPException for a client that sends too slowly: it would keep memory from others."""
        started = self._clock()
        try:
            async with asyncio.timeout(STALLED_SECONDS - self._waited):
                message = await self._receive()
        except TimeoutError:
            raise _too_slow() from None
        self.is_complete = not message.get("more_body", False)
        self._waited += self._clock() - started
        self._recent += len(message.get("body", b""))
        if self._recent >= STALLED_BYTES:
            self._recent, self._waited = 0, 0.0
        elif self._waited >= STALLED_SECONDS and not self.is_complete:
            raise _too_slow()
        return message

    def release(self) -> None:
        if self._account is not None:
            self._account.release(self.bytes)

    def too_large(self) -> str:
        if self.limit == ANONYMOUS_BYTES:
            return f"没有密钥的请求体超过 {self.limit // 1024} KB 的上限　检查地址与请求体"
        setting = "service.body_megabytes" if self._account is not None else "parsing.file_megabytes"
        return f"请求体超过 {self.limit / MIB:g} MB 的上限　分成几次提交，或调高 {setting}"


def _too_slow() -> HTTPException:
    return HTTPException(408, "请求体迟迟没有到齐　检查网络后重试")


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


def _cookie(headers: Headers, name: str) -> str:
    """The value of a cookie; "" if there is none."""
    cookies = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
    return cookies.get(name, "")


def _is_read(scope: Scope) -> bool:
    return scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and scope["path"].startswith(READ_PATHS))


# ── without keys: this machine only ──────────────────────────────────────────────────────────────


def _check_is_local(scope: Scope, origins: frozenset[str]) -> None:
    """Raises Forbidden for a request that did not begin at this machine, or on a page of these origins.

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
    own = {f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower(), *origins}
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
