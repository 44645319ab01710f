"""The HTTP client of all remote models: retries, backoff, time and size limits, redacted errors."""

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
from qianxun.models.remote.pinned_transport import POLL_SECONDS, Deadline, PinnedTransport, Resolve, system_addresses
from qianxun.models.remote.redaction import without_key
from qianxun.models.remote.url_policy import ServiceUrl, UrlPolicy, check_url

USER_AGENT = "qianxun"
ERROR_BYTES = 1 << 13  # of an error reply that are shown
FAIR_SECONDS = 1.0  # a service with less time to answer has not failed
LONGEST_HOLD_SECONDS = 300.0  # that a service may ask for
_FAILURES = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str
    body: bytes


class ModelService:
    """The service of a remote model. Thread-safe; close it when done.

    Follows no redirects, so that the key goes nowhere else, and reads no environment. Every connection goes through a
    `PinnedTransport` with the endpoint's policy. Raises BadInput for an impossible endpoint.
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
        self._url = check_url(endpoint.base_url, endpoint.policy)
        self._headers = _headers(self._url, endpoint.api_key)
        self._pool = _open_pool(self._url, PinnedTransport(endpoint.policy, resolve))
        self._breaker = Breaker(endpoint.outages, endpoint.pause_seconds, clock=clock)
        self._random = Random(endpoint.seed)
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self._endpoint.name or self._endpoint.model

    def post(self, path: str, payload: Mapping[str, Any], limit: int, stop: Callable[[], bool] = never) -> bytes:
        """The body of the reply, at most ``limit`` bytes. Raises ModelUnavailable or BadModelReply.

        ``stop`` is called before every attempt, and while waiting for the reply or the next attempt.
        """
        body = json.dumps(payload, ensure_ascii=False).encode()
        for attempt in range(1, self._endpoint.attempts + 1):
            self._check_stop(stop)
            try:
                return self._post_once(path, body, limit, stop)
            except Paused as paused:
                raise self._paused(paused) from None
            except TryAgain as failure:
                self._back_off(attempt, failure, stop)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def stream(
        self, path: str, payload: Mapping[str, Any], limit: int, seconds: float, stop: Callable[[], bool] = never
    ) -> Generator[bytes, None, None]:
        """The body of the reply piece by piece, as it arrives. Raises ModelUnavailable or BadModelReply.

        The endpoint's timeout is for the first piece and for every next one, ``seconds`` and ``limit`` bytes for the
        whole. Tries again only if nothing has arrived before the timeout. Closing the iterator closes the connection,
        as ``stop`` does.
        """
        body = json.dumps(payload, ensure_ascii=False).encode()
        for attempt in range(1, self._endpoint.attempts + 1):
            self._check_stop(stop)
            begun, has_begun = time.monotonic(), False
            try:
                with closing(self._stream_once(path, body, limit, seconds, stop)) as pieces:
                    for piece in pieces:
                        has_begun = True
                        yield piece
                return
            except Paused as paused:
                raise self._paused(paused) from None
            except TryAgain as failure:
                if has_begun:
                    raise self.unavailable(f"回复到一半断了：{failure.reason}", "请稍后再试") from failure
                if time.monotonic() - begun >= self._endpoint.timeout_seconds:
                    raise self.unavailable(f"试了 {attempt} 次：{failure.reason}", "请稍后再试") from failure
                self._back_off(attempt, failure, stop)

    def close(self) -> None:
        self._pool.close()

    def _wait(self, attempt: int, failure: TryAgain) -> float:
        """Exponential with jitter; at least as long as the service asked."""
        backoff: float = self._endpoint.backoff_seconds * 2 ** (attempt - 1)
        jittered = min(backoff, self._endpoint.longest_wait_seconds) * self._random.uniform(0.5, 1.0)
        return max(jittered, failure.wait or 0.0)

    def _back_off(self, attempt: int, failure: TryAgain, stop: Callable[[], bool]) -> None:
        """Waits before the next attempt. Raises ModelUnavailable after the last one."""
        wait = self._wait(attempt, failure)
        if wait > self._endpoint.longest_wait_seconds:
            self._breaker.hold(min(wait, LONGEST_HOLD_SECONDS), failure.reason)
        self._check_stop(stop)
        if attempt == self._endpoint.attempts or self._breaker.is_open:
            raise self.unavailable(f"试了 {attempt} 次：{failure.reason}", "请稍后再试") from failure
        nap = wait if stop is never else POLL_SECONDS
        while wait > 0:
            self._check_stop(stop)
            self._sleep(min(nap, wait))
            wait -= nap

    def _check_stop(self, stop: Callable[[], bool]) -> None:
        if stop():
            raise self.unavailable("到了时限，没有等到回复", "请放宽时限，或换用更快的模型服务")

    def _post_once(self, path: str, body: bytes, limit: int, stop: Callable[[], bool]) -> bytes:
        with self._breaker.attempt():
            reply = self._exchange(path, body, limit, stop)
            if reply.status >= 500:
                raise Outage(self._error_message(reply), _retry_after(reply.retry_after))
        self._check_status(reply)
        return reply.body

    def _exchange(self, path: str, body: bytes, limit: int, stop: Callable[[], bool]) -> _Reply:
        begun = time.monotonic()
        try:
            with self._opened(path, body, Deadline(begun + self._endpoint.timeout_seconds, stop)) as response:
                return self._read(response, limit)
        except _FAILURES as error:
            if time.monotonic() - begun < FAIR_SECONDS:
                self._check_stop(stop)
            raise Outage(_failure(error)) from error

    def _stream_once(
        self, path: str, body: bytes, limit: int, seconds: float, stop: Callable[[], bool]
    ) -> Generator[bytes, None, None]:
        timeout = self._endpoint.timeout_seconds
        ends = time.monotonic() + max(seconds, timeout)
        deadline = Deadline(time.monotonic() + timeout, stop)
        with self._breaker.attempt() as has_begun:
            try:
                with self._opened(path, body, deadline) as response:
                    if response.status == 200:
                        for piece in self._pieces(response, limit):
                            has_begun()
                            yield piece
                            deadline.due = min(ends, time.monotonic() + timeout)
                        return
                    reply = self._read(response, limit)
            except _FAILURES as error:
                self._check_stop(stop)  # a cancelled request says nothing about the service
                raise Outage(_failure(error)) from error
            if reply.status >= 500:
                raise Outage(self._error_message(reply), _retry_after(reply.retry_after))
        self._check_status(reply)

    def _opened(self, path: str, body: bytes, deadline: Deadline) -> AbstractContextManager[httpcore.Response]:
        extensions = {
            "timeout": {
                "connect": deadline,
                "write": deadline,
                "read": deadline,
                "pool": self._endpoint.timeout_seconds,
            },
            "sni_hostname": self._url.host.removesuffix("."),
        }
        url = httpcore.URL(
            scheme=self._url.scheme, host=self._url.host, port=self._url.port, target=self._url.target(path)
        )
        return self._pool.stream("POST", url, headers=self._headers, content=body, extensions=extensions)

    def _read(self, response: httpcore.Response, limit: int) -> _Reply:
        body = b"".join(self._pieces(response, limit))
        return _Reply(response.status, _header(response, b"retry-after"), body)

    def _pieces(self, response: httpcore.Response, limit: int) -> Iterator[bytes]:
        if (_header(response, b"content-encoding") or "identity").lower() != "identity":
            raise self._bad("的回复经过压缩，而请求说明了不要压缩", "请检查 base_url 与它前面的代理")
        left = limit
        for piece in response.iter_stream():
            left -= len(piece)
            if left < 0:
                raise self._bad(f"的回复超过 {limit} 字节，已中断", "请检查 base_url 是否正确")
            yield piece

    def _check_status(self, reply: _Reply) -> None:
        if (status := reply.status) == 200:
            return
        message = self._error_message(reply)
        if status in (408, 409, 425, 429):
            raise TryAgain(message, _retry_after(reply.retry_after))
        if status in (401, 402):  # any further request would fail the same way
            self._breaker.hold(self._endpoint.pause_seconds, message)
        if status in (401, 402, 403):
            raise self.unavailable(message, "请检查 api_key 是否正确、是否有权使用该模型、是否欠费")
        if 300 <= status < 400:
            raise self.unavailable(f"HTTP {status}：服务要求重定向，已拒绝", "请把 base_url 改为最终地址")
        raise self.unavailable(message, "请检查 base_url、模型名和输入长度")

    def _error_message(self, reply: _Reply) -> str:
        body = reply.body[:ERROR_BYTES].decode("utf-8", "replace")
        return f"HTTP {reply.status} {without_key(body, self._endpoint.api_key)[:200]}".strip()

    def _paused(self, paused: Paused) -> ModelUnavailable:
        until = datetime.now().astimezone() + timedelta(seconds=paused.seconds)
        reason = f"暂停访问到 {until:%H:%M:%S}，还有 {paused.seconds:.0f} 秒；原因：{paused.reason}"
        return self.unavailable(reason, "到时会自动再试")

    def unavailable(self, reason: str, hint: str) -> ModelUnavailable:
        """The error with this reason, the key masked."""
        return ModelUnavailable(
            f"模型服务 {self.name} 不可用（{without_key(reason, self._endpoint.api_key)}）", hint=hint
        )

    def _bad(self, reason: str, hint: str) -> BadModelReply:
        return BadModelReply(f"模型服务 {self.name} {reason}", hint=hint)


def fetched(url: str, policy: UrlPolicy, limit: int, seconds: float, resolve: Resolve = system_addresses) -> bytes:
    """What is at an address that passes the policy, at most ``limit`` bytes. Follows no redirects.

    Raises BadInput for an address that does not pass, ModelUnavailable for what cannot be had.
    """
    checked = check_url(url, policy, "url")
    deadline = Deadline(time.monotonic() + seconds, never)
    timeout = {"connect": deadline, "write": deadline, "read": deadline, "pool": seconds}
    extensions = {"timeout": timeout, "sni_hostname": checked.host.removesuffix(".")}
    headers: dict[str | bytes, str | bytes] = {
        "Host": checked.authority,
        "User-Agent": USER_AGENT,
        "Accept-Encoding": "identity",
    }
    body = b""
    try:
        with (
            _open_pool(checked, PinnedTransport(policy, resolve)) as pool,
            pool.stream("GET", url, headers=headers, extensions=extensions) as response,
        ):
            for piece in response.iter_stream():
                body += piece
                if len(body) > limit:
                    raise ModelUnavailable(f"{checked.authority} 的回复超过 {limit} 字节", hint="检查地址")
    except _FAILURES as error:
        raise ModelUnavailable(f"取不到 {checked.authority}：{_failure(error)}", hint="检查地址与网络") from error
    if response.status != 200:
        raise ModelUnavailable(f"{checked.authority} 回复了 {response.status}", hint="检查地址")
    return body


class RemoteModel:
    """What all clients of remote models have in common."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None]) -> None:
        self._service = ModelService(endpoint, sleep=sleep)

    @property
    def name(self) -> str:
        return self._service.name

    def close(self) -> None:
        self._service.close()


def post_signed(url: str, policy: UrlPolicy, headers: Mapping[str, str], body: bytes, seconds: float) -> int:
    """Posts to an address that a user registered, once, under the same rules as a model's. Returns the status; what the
    reply says is not read. Raises BadInput for an address that is not allowed, ModelUnavailable for one that fails."""
    place = check_url(url, policy, "url")
    deadline = Deadline(time.monotonic() + seconds, never)
    limits = {"connect": deadline, "write": deadline, "read": deadline, "pool": seconds}
    target = place.path or "/"
    address = httpcore.URL(
        scheme=place.scheme,
        host=place.host,
        port=place.port,
        target=f"{target}?{place.query}" if place.query else target,
    )
    extensions = {"timeout": limits, "sni_hostname": place.host.removesuffix(".")}
    sent = _headers(place, "")
    sent.update(headers)
    try:
        with (
            closing(_open_pool(place, PinnedTransport(policy, system_addresses))) as pool,
            pool.stream("POST", address, headers=sent, content=body, extensions=extensions) as response,
        ):
            return int(response.status)
    except _FAILURES as error:
        raise ModelUnavailable(_failure(error), hint="检查地址与对方的服务") from error


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


def _open_pool(url: ServiceUrl, transport: PinnedTransport) -> httpcore.ConnectionPool:
    """The only place where connections to remote models are set up."""
    return httpcore.ConnectionPool(
        ssl_context=httpcore.default_ssl_context() if url.scheme == "https" else None,
        max_connections=100,
        max_keepalive_connections=20,
        keepalive_expiry=5.0,
        network_backend=transport,
    )


def _header(response: httpcore.Response, header: bytes) -> str:
    return next((value.decode("latin-1") for name, value in response.headers if name.lower() == header), "")


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


def _failure(error: Exception) -> str:
    if isinstance(error, httpcore.TimeoutException):
        return "连接或回复超时"
    if isinstance(error, httpcore.ProtocolError):  # its text quotes the reply
        return "连接失败：回复不完整，或不是 HTTP"
    return f"连接失败：{type(error).__name__} {error}".strip()
