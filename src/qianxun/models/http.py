"""The one HTTP client of remote models: retries, waits, time and size bounds; it never shows a key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any

import httpx

from qianxun.errors import BadInput, BadModelReply, ModelUnavailable
from qianxun.models.endpoints import Endpoint
from qianxun.ports import never

USER_AGENT = "qianxun"
NAP_SECONDS = 0.2  # how long a caller who says stop may be kept waiting between attempts


class _TryAgain(Exception):
    """This attempt failed in a way that another may mend; ``wait`` is what the server asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class ModelService:
    """A remote model's service. Safe to call from several threads at once; close it when done."""

    def __init__(self, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if endpoint.attempts < 1 or not endpoint.timeout_seconds > 0:
            raise BadInput("attempts 和 timeout_seconds 必须大于零", hint="请改正模型设置")
        self._endpoint = endpoint
        self._client = open_client(endpoint)
        self._random = Random(endpoint.seed)
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self._endpoint.name or self._endpoint.model

    def ask(self, path: str, asked: Mapping[str, Any], most: int, stop: Callable[[], bool] = never) -> bytes:
        """The body of the reply to ``asked``, at most ``most`` bytes. Raises ModelUnavailable or BadModelReply.

        ``stop`` is asked before every attempt, and while waiting for the next one or reading a long reply.
        """
        body = json.dumps(asked, ensure_ascii=False).encode()
        for attempt in range(1, self._endpoint.attempts + 1):
            self._heed(stop)
            try:
                return self._ask_once(path, body, most, stop)
            except _TryAgain as failure:
                wait = self._wait(attempt, failure)
                if attempt == self._endpoint.attempts or wait > self._endpoint.longest_wait_seconds:
                    raise self._unavailable(f"试了 {attempt} 次：{failure.reason}", "请稍后再试") from failure
                self._rest(wait, stop)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def close(self) -> None:
        self._client.close()

    def _wait(self, attempt: int, failure: _TryAgain) -> float:
        """Exponential, with jitter so that many clients do not come back together; at least what the server asked."""
        backoff: float = self._endpoint.backoff_seconds * 2 ** (attempt - 1)
        jittered = min(backoff, self._endpoint.longest_wait_seconds) * self._random.uniform(0.5, 1.0)
        return max(jittered, failure.wait or 0.0)

    def _rest(self, seconds: float, stop: Callable[[], bool]) -> None:
        nap = seconds if stop is never else NAP_SECONDS
        while seconds > 0:
            self._heed(stop)
            self._sleep(min(nap, seconds))
            seconds -= nap

    def _heed(self, stop: Callable[[], bool]) -> None:
        if stop():
            raise self._unavailable("到了时限，没有等到回复", "请放宽时限，或换用更快的模型服务")

    def _ask_once(self, path: str, body: bytes, most: int, stop: Callable[[], bool]) -> bytes:
        deadline = time.monotonic() + self._endpoint.timeout_seconds
        try:
            with self._client.stream("POST", path, content=body) as response:
                reply = self._read(response, most, deadline, stop)
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _TryAgain(_plain(error)) from error
        self._check_status(response, reply)
        return reply

    def _read(self, response: httpx.Response, most: int, deadline: float, stop: Callable[[], bool]) -> bytes:
        """The body, at most ``most`` bytes and before the deadline, however slowly it drips."""
        read = bytearray()
        for piece in response.iter_bytes():
            read += piece
            if len(read) > most:
                raise BadModelReply(
                    f"模型服务 {self.name} 的回复超过 {most} 字节，已中断", hint="请检查 base_url 是否正确"
                )
            if time.monotonic() > deadline:
                raise _TryAgain("回复超时")
            self._heed(stop)
        return bytes(read)

    def _check_status(self, response: httpx.Response, reply: bytes) -> None:
        status = response.status_code
        if status == 200:
            return
        said = self._without_key(reply[:2000].decode("utf-8", "replace"))[:200].strip()
        if status in (408, 409, 425, 429) or status >= 500:
            raise _TryAgain(f"HTTP {status} {said}", _retry_after(response.headers.get("retry-after", "")))
        if status in (401, 403):
            raise self._unavailable(f"HTTP {status} {said}", "请检查 api_key 是否正确、是否有权使用该模型")
        if 300 <= status < 400:
            raise self._unavailable(f"HTTP {status}：服务要求重定向，已拒绝", "请把 base_url 改为最终地址")
        raise self._unavailable(f"HTTP {status} {said}", "请检查 base_url、模型名和输入长度")

    def _unavailable(self, reason: str, hint: str) -> ModelUnavailable:
        return ModelUnavailable(f"模型服务 {self.name} 不可用（{self._without_key(reason)}）", hint=hint)

    def _without_key(self, text: str) -> str:
        return text.replace(self._endpoint.api_key, "***") if self._endpoint.api_key else text


def open_client(endpoint: Endpoint) -> httpx.Client:
    """The only place where a connection to a remote model is set up; what guards addresses belongs here.

    Follows no redirects, so that the key goes only where its owner sent it, and reads no environment.
    """
    headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": USER_AGENT}
    if endpoint.api_key:
        if not (endpoint.api_key.isascii() and endpoint.api_key.isprintable()):
            raise BadInput("api_key 含有不可用的字符", hint="请重新复制密钥，注意首尾的空白和全角字符")
        headers["authorization"] = f"Bearer {endpoint.api_key}"
    return httpx.Client(
        base_url=_service_url(endpoint.base_url),
        headers=headers,
        timeout=httpx.Timeout(endpoint.timeout_seconds, connect=min(10.0, endpoint.timeout_seconds)),
        follow_redirects=False,
        trust_env=False,
    )


def _service_url(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.rstrip("/") + "/")
    except httpx.InvalidURL as error:
        raise BadInput("base_url 不是合法的地址", hint="例如 https://example.com/v1") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise BadInput(
            "base_url 必须是不含用户名和密码的 HTTP 地址", hint="例如 https://example.com/v1；密钥请写在 api_key"
        )
    return url


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


def _plain(error: httpx.RequestError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "连接或回复超时"
    return f"连接失败：{type(error).__name__} {error}".strip()
