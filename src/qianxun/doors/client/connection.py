"""One service over HTTP: a bounded wait for every answer, more tries only where they are safe, errors by their word."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NoReturn, Protocol
from urllib.parse import quote

import httpx

from qianxun.core.errors import BadInput, ServiceUnavailable, error_named

# Below the five seconds after which many servers close an idle connection: else a request may go out on a dead one.
KEEP_ALIVE_SECONDS = 4.0
# Before or after these nothing is known of the request's fate; a timeout on the way back is not among them, because
# a service that is slow is not helped by the same request again.
BROKEN = (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError)
SAFE = frozenset(("GET", "PUT", "DELETE"))
QUICK_SECONDS = 5.0  # a service that refuses later than this has worked on the request: once more would load it more
BUSY = ("overloaded", "records_unavailable")
EVENTS = "text/event-stream"
# The service speaks of headers, which callers of this client do not write.
NO_KEY = "密钥用 --key 或环境变量 QIANXUN_KEY 给出（程序里：Client(url, key=…)）；qianxun keys create 签发"
# What the service calls a request that it could not read.
INVALID = frozenset(("validation", "bad_request"))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client waits, and how often it retries."""

    connect_seconds: float = 5.0
    answer_seconds: float = 90.0  # for a whole answer
    work_seconds: float = 1800.0  # … to an upload, or where an index is made anew
    attempts: int = 4
    pause_seconds: float = 0.2  # before the second attempt; doubled before each one after it
    longest_pause_seconds: float = 10.0  # a service that asks for more is given up


class FilePieces(Protocol):
    """An open file, as far as it takes to send it."""

    def read(self, size: int = -1, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way: opened anew for every attempt, read piece by piece."""

    name: str
    open: Callable[[], FilePieces]


@dataclass(frozen=True, slots=True)
class Request:
    """``repeatable``: asking twice does what asking once does. ``mistake``: the word for what is wrong in it."""

    method: str
    path: str
    body: Any = None
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    upload: Upload | None = None
    fields: Mapping[str, str] | None = None  # beside the upload
    repeatable: bool = False
    takes_long: bool = False
    mistake: str = BadInput.word

    @property
    def may_be_repeated(self) -> bool:
        return self.repeatable or self.method in SAFE


class Connection:
    """Asks one service. Connections are kept between requests; `close` lets go of them."""

    def __init__(
        self,
        url: str,
        key: str,
        timeouts: Timeouts,
        transport: httpx.AsyncBaseTransport | None = None,
        principal: Sequence[str] = (),
    ) -> None:
        self._timeouts = timeouts
        self._random = Random()
        self._base = _service_url(url)
        self._has_key = bool(key.strip())
        self._client = httpx.AsyncClient(
            base_url=self._base,
            headers={
                "user-agent": "qianxun",
                "accept": "application/json",
                **_authorization(key),
                **({"x-principal": ",".join(quote(label, safe=":") for label in principal)} if principal else {}),
            },
            timeout=httpx.Timeout(timeouts.answer_seconds, connect=timeouts.connect_seconds),
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_SECONDS),
            follow_redirects=False,  # the key goes only where its owner sent it
            trust_env=False,  # no proxy of the surroundings between a machine and itself
            verify=_certificates(self._base),
            transport=transport,
        )

    @property
    def url(self) -> str:
        return str(self._base).rstrip("/")

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, request: Request) -> Any:
        """The ``data`` of the answer. Raises the error that the service tells, or ServiceUnavailable."""
        for attempt in range(1, self._timeouts.attempts + 1):
            may_repeat = request.may_be_repeated and attempt < self._timeouts.attempts
            started = time.monotonic()
            try:
                response = await self._ask_once(request)
            except BROKEN as error:
                if not may_repeat:
                    self._give_up(error)
                await asyncio.sleep(self._pause(attempt))
                continue
            wait = _retry_after(response) if may_repeat and time.monotonic() - started < QUICK_SECONDS else None
            if wait is None or wait > self._timeouts.longest_pause_seconds:
                return self._data(request, response)
            await asyncio.sleep(max(wait, self._pause(attempt)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The answer piece by piece, without retries. Raises as `ask` does, also in the midst."""
        bounds = httpx.Timeout(self._timeouts.answer_seconds, connect=self._timeouts.connect_seconds)
        sent = self._client.build_request(
            request.method,
            request.path,
            content=_written(request),
            headers={**(request.headers or {}), "content-type": "application/json", "accept": EVENTS},
            timeout=bounds,
        )
        try:
            response = await self._client.send(sent, stream=True)
            try:
                if not response.is_success or not response.headers.get("content-type", "").startswith(EVENTS):
                    await response.aread()
                    self._data(request, response)
                    raise ServiceUnavailable(f"{self.url} 没有一边写一边给", hint="检查地址与版本")
                async for piece in response.aiter_bytes():
                    yield piece
            finally:
                await response.aclose()
        except httpx.ReadTimeout as error:
            raise ServiceUnavailable(
                f"服务 {self.url} 有 {self._timeouts.answer_seconds:g} 秒没有动静", hint="稍后再试；看看它的日志与负载"
            ) from error
        except BROKEN as error:
            self._give_up(error)
        except (httpx.TimeoutException, httpx.InvalidURL, httpx.ProtocolError, httpx.DecodingError) as error:
            raise ServiceUnavailable(f"与服务 {self.url} 说不通：{error}", hint="检查地址，再试一次") from error

    async def _ask_once(self, request: Request) -> httpx.Response:
        seconds = self._timeouts.work_seconds if request.takes_long else self._timeouts.answer_seconds
        bounds = httpx.Timeout(seconds, connect=self._timeouts.connect_seconds)
        try:
            async with asyncio.timeout(seconds):  # httpx bounds each read; a dripping answer could take for ever
                if request.upload is None:
                    return await self._send(request, bounds)
                opened = request.upload.open()
                try:
                    return await self._send(request, bounds, files={"file": (request.upload.name, opened)})
                finally:
                    opened.close()
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout) as error:
            raise ServiceUnavailable(
                f"服务 {self.url} 在 {seconds:g} 秒内没有答完", hint="稍后再试；看看它的日志与负载"
            ) from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.DecodingError) as error:
            raise ServiceUnavailable(f"与服务 {self.url} 说不通：{error}", hint="检查地址，再试一次") from error

    async def _send(self, request: Request, bounds: httpx.Timeout, **more: Any) -> httpx.Response:
        headers = dict(request.headers or {})
        if request.body is not None:
            more["content"] = _written(request)
            headers["content-type"] = "application/json"
        return await self._client.request(
            request.method,
            request.path,
            params=request.params,
            headers=headers,
            data=request.fields,
            timeout=bounds,
            **more,
        )

    def _pause(self, attempt: int) -> float:
        """Longer every time, and not the same for all: clients that were refused together do not come back together."""
        grown: float = self._timeouts.pause_seconds * 2 ** (attempt - 1)
        longest = min(grown, self._timeouts.longest_pause_seconds)
        return longest * self._random.uniform(0.5, 1.0)

    def _give_up(self, error: httpx.TransportError) -> NoReturn:
        if _was_never_sent(error):
            hint = "看看它是否在运行（qianxun serve），地址与端口对不对"
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                hint = "它的证书不受信任：用环境变量 SSL_CERT_FILE 指明签发者的证书"
            raise ServiceUnavailable(f"连不上服务 {self.url}：{_plain(error)}", hint=hint) from error
        raise ServiceUnavailable(
            f"与服务 {self.url} 的连接断了：{_plain(error)}", hint="请求也许已经生效：先看看结果，再试一次"
        ) from error

    def _data(self, request: Request, response: httpx.Response) -> Any:
        envelope = _envelope(response)
        if envelope is None:
            raise ServiceUnavailable(
                f"{self.url} 答了 HTTP {response.status_code}，但不是千寻服务的回答", hint="检查地址与端口"
            )
        if response.is_success:
            return envelope["data"]
        word = str(envelope.get("error") or "")
        message, hint = message_and_hint(envelope)
        if word == "unauthorized" and not self._has_key:
            hint = NO_KEY
        raise error_named(request.mistake if word in INVALID else word, message, hint=hint)


def _written(request: Request) -> bytes:
    """The body as JSON; half of a surrogate pair, which UTF-8 cannot say, is escaped with all the rest."""
    try:
        try:
            return json.dumps(request.body, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except UnicodeEncodeError:
            return json.dumps(request.body, allow_nan=False).encode("ascii")
    except (TypeError, ValueError) as error:
        hint = "只能有文字、有限的数字、真假、列表与键值对"
        raise error_named(request.mistake, f"请求写不成 JSON：{error}", hint=hint) from error


# ── addresses and keys ───────────────────────────────────────────────────────────────────────────


def _service_url(url: str) -> httpx.URL:
    try:
        found = httpx.URL(url.strip().rstrip("/") + "/")
    except httpx.InvalidURL as error:
        raise BadInput(f"{url!r} 不是合法的服务地址", hint="例如 http://127.0.0.1:8000") from error
    if found.userinfo:
        raise BadInput("服务地址里不能写用户名和密码", hint="密钥用 --key 或环境变量 QIANXUN_KEY 给出")
    if found.scheme not in ("http", "https") or not found.host or found.query or found.fragment:
        raise BadInput(f"{url!r} 不是合法的服务地址", hint="例如 http://127.0.0.1:8000")
    return found


def _certificates(url: httpx.URL) -> ssl.SSLContext | bool:
    """Whom to believe: the usual authorities, or those of SSL_CERT_FILE. Nobody where nothing is encrypted, since
    reading their certificates takes longer than a search."""
    return httpx.create_ssl_context() if url.scheme == "https" else False


def _authorization(key: str) -> dict[str, str]:
    key = key.strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise BadInput("密钥含有不可用的字符", hint="重新复制密钥，注意首尾的空白和全角字符")
    return {"authorization": f"Bearer {key}"}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def _envelope(response: httpx.Response) -> dict[str, Any] | None:
    """The JSON of the service; None for a response of another program."""
    try:
        envelope = response.json()
    except ValueError:
        return None
    return envelope if isinstance(envelope, dict) and "code" in envelope and "data" in envelope else None


def message_and_hint(envelope: Mapping[str, Any]) -> tuple[str, str]:
    """The service sends both in one text, as `str` of an error has them."""
    whole = str(envelope.get("msg") or "服务没有说明原因")
    message, _, hint = whole.rpartition("　")
    trace = envelope.get("trace_id")
    return (message, hint + (f"（trace_id {trace}）" if trace else "")) if message else (whole, "")


def _retry_after(response: httpx.Response) -> float | None:
    """The seconds that an overloaded service asks for; None for any other response."""
    envelope = _envelope(response)
    is_busy = envelope is None or envelope.get("error") in BUSY  # None: of a proxy before it
    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or "retry-after" not in response.headers or not is_busy:
        return None
    try:
        seconds = float(response.headers["retry-after"])
    except ValueError:  # a date: when exactly does not matter
        return 0.0
    return seconds if math.isfinite(seconds) and seconds >= 0.0 else None


def _was_never_sent(error: httpx.TransportError) -> bool:
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def _plain(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "超时"
    if str(error) == "All connection attempts failed":  # what is left of the system's own words
        return "那里没有程序应答"
    return str(error) or type(error).__name__
