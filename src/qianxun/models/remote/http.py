"""The one HTTP client of remote models: retries, waits, time and size bounds; it never shows a key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any

import httpcore

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.core.ports import never
from qianxun.models.remote.breaker import Breaker, Outage, Paused, TryAgain
from qianxun.models.remote.endpoints import Endpoint
from qianxun.models.remote.pinned_transport import NAP_SECONDS, Moment, Resolve, Wire, system_addresses
from qianxun.models.remote.redaction import without_key
from qianxun.models.remote.url_policy import ServiceUrl, check_url

USER_AGENT = "qianxun"
MOST_HEARD = 1 << 13  # bytes of what it says went wrong
FAIR_SECONDS = 1.0  # a service that was given less to answer in has not failed
LONGEST_HOLD_SECONDS = 300.0  # that a service may ask to be left alone for
_FAILURES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str
    body: bytes


class ModelService:
    """A remote model's service. Safe to call from several threads at once; close it when done.

    Follows no redirect, so that the key goes only where its owner sent it, and reads no environment. Every connection
    goes over a `Wire`, to an address within the endpoint's reach. Raises BadInput for an impossible endpoint.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        resolve: Resolve = system_addresses,
    ) -> None:
        if endpoint.attempts < 1 or endpoint.outages < 1 or not endpoint.timeout_seconds > 0:
            raise BadInput("attempts、outages 和 timeout_seconds 必须大于零", hint="请改正模型设置")
        self._endpoint = endpoint
        self._url = check_url(endpoint.base_url, endpoint.reach)
        self._headers = _headers(self._url, endpoint.api_key)
        self._pool = _open_pool(self._url, Wire(endpoint.reach, resolve))
        self._breaker = Breaker(endpoint.outages, endpoint.pause_seconds, clock=clock)
        self._random = Random(endpoint.seed)
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self._endpoint.name or self._endpoint.model

    def ask(self, path: str, asked: Mapping[str, Any], most: int, stop: Callable[[], bool] = never) -> bytes:
        """The body of the reply to ``asked``, at most ``most`` bytes. Raises ModelUnavailable or BadModelReply.

        ``stop`` is asked before every attempt, and while waiting for the reply or for the next one.
        """
        body = json.dumps(asked, ensure_ascii=False).encode()
        for attempt in range(1, self._endpoint.attempts + 1):
            self._heed(stop)
            try:
                return self._ask_once(path, body, most, stop)
            except Paused as paused:
                raise self._left_alone(paused) from None
            except TryAgain as failure:
                self._rest_after(attempt, failure, stop)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stream(
        self, path: str, asked: Mapping[str, Any], most: int, seconds: float, stop: Callable[[], bool] = never
    ) -> Generator[bytes, None, None]:
        """The body of the reply to ``asked``, piece by piece, as it comes. Raises ModelUnavailable or BadModelReply.

        The endpoint's patience is for the first piece and for every next one, ``seconds`` and ``most`` bytes for the
        whole. Asks again only while nothing has come, and not where that took all patience: whoever listens has waited
        long enough. Closing the iterator closes the connection, as ``stop`` does.
        """
        body = json.dumps(asked, ensure_ascii=False).encode()
        for attempt in range(1, self._endpoint.attempts + 1):
            self._heed(stop)
            begun, has_come = time.monotonic(), False
            try:
                with closing(self._stream_once(path, body, most, seconds, stop)) as pieces:
                    for piece in pieces:
                        has_come = True
                        yield piece
                return
            except Paused as paused:
                raise self._left_alone(paused) from None
            except TryAgain as failure:
                if has_come:
                    raise self.unavailable(f"回复到一半断了：{failure.reason}", "请稍后再试") from failure
                if time.monotonic() - begun >= self._endpoint.timeout_seconds:
                    raise self.unavailable(f"试了 {attempt} 次：{failure.reason}", "请稍后再试") from failure
                self._rest_after(attempt, failure, stop)

    def close(self) -> None:
        self._pool.close()

    def _wait(self, attempt: int, failure: TryAgain) -> float:
        """Exponential, with jitter so that many clients do not come back together; at least what the server asked."""
        backoff: float = self._endpoint.backoff_seconds * 2 ** (attempt - 1)
        jittered = min(backoff, self._endpoint.longest_wait_seconds) * self._random.uniform(0.5, 1.0)
        return max(jittered, failure.wait or 0.0)

    def _rest_after(self, attempt: int, failure: TryAgain, stop: Callable[[], bool]) -> None:
        """Waits until it may be asked again. Raises ModelUnavailable where it has been asked often enough."""
        wait = self._wait(attempt, failure)
        if wait > self._endpoint.longest_wait_seconds:
            self._breaker.hold(min(wait, LONGEST_HOLD_SECONDS), failure.reason)
        self._heed(stop)
        if attempt == self._endpoint.attempts or self._breaker.is_open:
            raise self.unavailable(f"试了 {attempt} 次：{failure.reason}", "请稍后再试") from failure
        self._rest(wait, stop)

    def _rest(self, seconds: float, stop: Callable[[], bool]) -> None:
        nap = seconds if stop is never else NAP_SECONDS
        while seconds > 0:
            self._heed(stop)
            self._sleep(min(nap, seconds))
            seconds -= nap

    def _heed(self, stop: Callable[[], bool]) -> None:
        if stop():
            raise self.unavailable("到了时限，没有等到回复", "请放宽时限，或换用更快的模型服务")

    def _ask_once(self, path: str, body: bytes, most: int, stop: Callable[[], bool]) -> bytes:
        with self._breaker.attempt():
            reply = self._exchange(path, body, most, stop)
            if reply.status >= 500:
                raise Outage(self._said(reply), _retry_after(reply.retry_after))
        self._check_status(reply)
        return reply.body

    def _exchange(self, path: str, body: bytes, most: int, stop: Callable[[], bool]) -> _Reply:
        begun = time.monotonic()
        try:
            with self._opened(path, body, Moment(begun + self._endpoint.timeout_seconds, stop)) as response:
                return self._read(response, most)
        except _FAILURES as error:
            if time.monotonic() - begun < FAIR_SECONDS:
                self._heed(stop)
            raise Outage(_plain(error)) from error

    def _stream_once(
        self, path: str, body: bytes, most: int, seconds: float, stop: Callable[[], bool]
    ) -> Generator[bytes, None, None]:
        patience = self._endpoint.timeout_seconds
        ends = time.monotonic() + max(seconds, patience)
        over = Moment(time.monotonic() + patience, stop)
        with self._breaker.attempt() as has_begun:
            try:
                with self._opened(path, body, over) as response:
                    if response.status == 200:
                        for piece in self._pieces(response, most):
                            has_begun()
                            yield piece
                            over.due = min(ends, time.monotonic() + patience)
                        return
                    reply = self._read(response, most)
            except _FAILURES as error:
                self._heed(stop)  # whoever leaves says nothing about the service
                raise Outage(_plain(error)) from error
            if reply.status >= 500:
                raise Outage(self._said(reply), _retry_after(reply.retry_after))
        self._check_status(reply)

    def _opened(self, path: str, body: bytes, over: Moment) -> AbstractContextManager[httpcore.Response]:
        extensions = {
            "timeout": {"connect": over, "write": over, "read": over, "pool": self._endpoint.timeout_seconds},
            "sni_hostname": self._url.host.removesuffix("."),
        }
        url = httpcore.URL(
            scheme=self._url.scheme, host=self._url.host, port=self._url.port, target=self._url.target(path)
        )
        return self._pool.stream("POST", url, headers=self._headers, content=body, extensions=extensions)

    def _read(self, response: httpcore.Response, most: int) -> _Reply:
        """The whole reply, at most ``most`` bytes of it."""
        body = b"".join(self._pieces(response, most))
        return _Reply(response.status, _header(response, b"retry-after"), body)

    def _pieces(self, response: httpcore.Response, most: int) -> Iterator[bytes]:
        if (_header(response, b"content-encoding") or "identity").lower() != "identity":
            raise self._bad("的回复经过压缩，而请求说明了不要压缩", "请检查 base_url 与它前面的代理")
        left = most
        for piece in response.iter_stream():
            left -= len(piece)
            if left < 0:
                raise self._bad(f"的回复超过 {most} 字节，已中断", "请检查 base_url 是否正确")
            yield piece

    def _check_status(self, reply: _Reply) -> None:
        if (status := reply.status) == 200:
            return
        said = self._said(reply)
        if status in (408, 409, 425, 429):
            raise TryAgain(said, _retry_after(reply.retry_after))
        if status in (401, 402):  # it would say so to every request until somebody acts
            self._breaker.hold(self._endpoint.pause_seconds, said)
        if status in (401, 402, 403):
            raise self.unavailable(said, "请检查 api_key 是否正确、是否有权使用该模型、是否欠费")
        if 300 <= status < 400:
            raise self.unavailable(f"HTTP {status}：服务要求重定向，已拒绝", "请把 base_url 改为最终地址")
        raise self.unavailable(said, "请检查 base_url、模型名和输入长度")

    def _said(self, reply: _Reply) -> str:
        heard = reply.body[:MOST_HEARD].decode("utf-8", "replace")
        words = without_key(heard, self._endpoint.api_key)[:200]
        return f"HTTP {reply.status} {words}".strip()

    def _left_alone(self, paused: Paused) -> ModelUnavailable:
        until = datetime.now().astimezone() + timedelta(seconds=paused.seconds)
        reason = f"暂停访问到 {until:%H:%M:%S}，还有 {paused.seconds:.0f} 秒；原因：{paused.reason}"
        return self.unavailable(reason, "到时会自动再试")

    def unavailable(self, reason: str, hint: str) -> ModelUnavailable:
        """The error that says so, without the key, should the reason quote it."""
        return ModelUnavailable(
            f"模型服务 {self.name} 不可用（{without_key(reason, self._endpoint.api_key)}）", hint=hint
        )

    def _bad(self, reason: str, hint: str) -> BadModelReply:
        return BadModelReply(f"模型服务 {self.name} {reason}", hint=hint)


def _headers(url: ServiceUrl, api_key: str) -> dict[str | bytes, str | bytes]:
    headers: dict[str | bytes, str | bytes] = {
        "host": url.authority,
        "content-type": "application/json",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": USER_AGENT,
    }
    if api_key:
        if not (api_key.isascii() and api_key.isprintable()) or api_key != api_key.strip():
            raise BadInput("api_key 含有不可用的字符", hint="请重新复制密钥，注意首尾的空白和全角字符")
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def _open_pool(url: ServiceUrl, wire: Wire) -> httpcore.ConnectionPool:
    """The only place where connections to remote models are set up."""
    return httpcore.ConnectionPool(
        ssl_context=httpcore.default_ssl_context() if url.scheme == "https" else None,
        max_connections=100,
        max_keepalive_connections=20,
        keepalive_expiry=5.0,
        network_backend=wire,
    )


def _header(response: httpcore.Response, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in response.headers if name.lower() == wanted), "")


def _retry_after(header: str) -> float | None:
    """Seconds to wait, from either form of the header."""
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _plain(error: Exception) -> str:
    if isinstance(error, httpcore.TimeoutException):
        return "连接或回复超时"
    if isinstance(error, httpcore.ProtocolError):  # its text quotes what came instead of HTTP
        return "连接失败：回复不完整，或不是 HTTP"
    return f"连接失败：{type(error).__name__} {error}".strip()
