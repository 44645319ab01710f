"""The transport to a remote model: resolves a host, checks all its addresses, connects to a checked one.

httpcore passes the timeouts of a request through unchanged. Here they are one `Deadline` of the whole exchange, so that
a service that sends one byte a second runs out of time, too.
"""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias

import httpcore

from qianxun.core.errors import ModelUnavailable
from qianxun.core.ports import never
from qianxun.models.remote.url_policy import Address, UrlPolicy, allow_hint, as_address, unmapped

CONNECT_SECONDS = 10.0  # for one address: another may answer
POLL_SECONDS = 0.2  # between two calls of ``stop`` while waiting
PIECE = 1 << 16

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]  # raises OSError or UnicodeError
log = logging.getLogger(__name__)


def system_addresses(host: str, port: int) -> Sequence[str]:
    """The addresses of the system's resolver, in its order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]


@dataclass(slots=True)
class Deadline:
    """The end of an exchange: at ``due`` of the monotonic clock, or as soon as ``stop`` returns True.

    ``due`` may be extended whenever a piece of a long reply has arrived.
    """

    due: float
    stop: Callable[[], bool] = never

    def left(self, over: type[httpcore.TimeoutException]) -> float:
        left = self.due - time.monotonic()
        if left <= 0 or self.stop():
            raise over("到了时限")
        return left


class PinnedTransport(httpcore.NetworkBackend):
    """Connects to addresses that the policy allows, and to no others."""

    def __init__(self, policy: UrlPolicy, resolve: Resolve = system_addresses) -> None:
        self._policy = policy
        self._resolve = resolve
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: Any = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises ModelUnavailable if any address of the host is not allowed."""
        addresses = checked(self._addresses(host, port, timeout), host, port, self._policy)
        failure: Exception = httpcore.ConnectError("域名没有地址")
        for address in addresses:
            seconds = min(CONNECT_SECONDS, _deadline(timeout).left(httpcore.ConnectTimeout))
            try:
                stream = self._sockets.connect_tcp(str(address), port, seconds, local_address, socket_options or ())
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return DeadlineStream(stream)
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: Any = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("不连接本机套接字")

    def _addresses(self, host: str, port: int, timeout: Any) -> Sequence[Address]:
        literal = as_address(host)
        if literal is not None:
            return [literal]
        answer = _in_time(lambda: self._resolve(host, port), _deadline(timeout).left(httpcore.ConnectTimeout))
        if isinstance(answer, Exception):
            raise httpcore.ConnectError("域名解析失败") from answer
        return [ip_address(address) for address in answer]


class DeadlineStream(httpcore.NetworkStream):
    """A connection on which every wait ends at the deadline of the request."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        deadline = _deadline(timeout)
        while True:
            left = deadline.left(httpcore.ReadTimeout)
            try:
                return self._stream.read(max_bytes, left if deadline.stop is never else min(left, POLL_SECONDS))
            except httpcore.ReadTimeout:
                continue  # `left` raises if that was the deadline

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        connection: socket.socket = self._stream.get_extra_info("socket")
        rest = memoryview(buffer)
        while rest:
            connection.settimeout(_deadline(timeout).left(httpcore.WriteTimeout))
            try:
                rest = rest[connection.send(rest[:PIECE]) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore.NetworkStream:
        left = _deadline(timeout).left(httpcore.ConnectTimeout)
        return DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def checked(addresses: Iterable[Address], host: str, port: int, policy: UrlPolicy) -> list[Address]:
    """All of them, each once. One that is not allowed condemns the host: no public service has private addresses."""
    plain = list(dict.fromkeys(unmapped(address) for address in addresses))
    for address in plain:
        if not policy.covers(host, address, port):
            # Only the operator sees the address: users must not learn of the internal network.
            log.warning("model service %s leads to %s, which is out of reach", host, address)
            raise ModelUnavailable(f"主机 {host} 指向本机或内网地址，不允许访问", hint=allow_hint(host, port))
    return plain


def _in_time(look_up: Callable[[], Sequence[str]], seconds: float) -> Sequence[str] | Exception:
    """The resolver has no timeout, so it runs in a thread of its own, which it ends some time."""
    answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

    def answer() -> None:
        try:
            answers.put(look_up())
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=answer, name="qianxun-resolve", daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        raise httpcore.ConnectTimeout("域名解析超时") from None


def _deadline(timeout: Any) -> Deadline:
    """A request without a deadline has no time."""
    return timeout if isinstance(timeout, Deadline) else Deadline(0.0)
