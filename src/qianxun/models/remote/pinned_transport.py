"""The wire to a remote model: looks a name up, checks every address that it has, connects to what it checked.

httpcore passes what a request calls its timeout through to here, untouched. Here it is not a length but a `Moment` by
which the whole exchange is over: so a service that sends one byte a second is out of time, too.
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
from qianxun.models.remote.url_policy import Address, Reach, allow_hint, as_address, unmapped

CONNECT_SECONDS = 10.0  # for one address; another may answer
NAP_SECONDS = 0.2  # how long a caller who says stop may be kept waiting for a reply
PIECE = 1 << 16

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]  # raises OSError or UnicodeError
log = logging.getLogger(__name__)


def system_addresses(host: str, port: int) -> Sequence[str]:
    """What the machine's resolver says, in its order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]


@dataclass(slots=True)
class Moment:
    """When an exchange is over: at ``due``, of the monotonic clock, or as soon as the caller says stop.

    Whoever reads a long reply may put ``due`` off each time that something has come.
    """

    due: float
    stop: Callable[[], bool] = never

    def left(self, over: type[httpcore.TimeoutException]) -> float:
        left = self.due - time.monotonic()
        if left <= 0 or self.stop():
            raise over("到了时限")
        return left


class Wire(httpcore.NetworkBackend):
    """Opens no connection but to an address within ``reach``."""

    def __init__(self, reach: Reach, resolve: Resolve = system_addresses) -> None:
        self._reach = reach
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
        """Raises ModelUnavailable where any address of the host is out of reach."""
        addresses = checked(self._addresses(host, port, timeout), host, port, self._reach)
        failure: Exception = httpcore.ConnectError("域名没有地址")
        for address in addresses:
            seconds = min(CONNECT_SECONDS, _of(timeout).left(httpcore.ConnectTimeout))
            try:
                stream = self._sockets.connect_tcp(str(address), port, seconds, local_address, socket_options or ())
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return Line(stream)
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: Any = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("不连接本机套接字")

    def _addresses(self, host: str, port: int, timeout: Any) -> Sequence[Address]:
        literal = as_address(host)
        if literal is not None:
            return [literal]
        answer = _in_time(lambda: self._resolve(host, port), _of(timeout).left(httpcore.ConnectTimeout))
        if isinstance(answer, Exception):
            raise httpcore.ConnectError("域名解析失败") from answer
        return [ip_address(address) for address in answer]


class Line(httpcore.NetworkStream):
    """A connection whose every wait ends at the moment that the request named."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        moment = _of(timeout)
        while True:
            left = moment.left(httpcore.ReadTimeout)
            try:
                return self._stream.read(max_bytes, left if moment.stop is never else min(left, NAP_SECONDS))
            except httpcore.ReadTimeout:
                continue  # either may have come: `left` knows

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        line: socket.socket = self._stream.get_extra_info("socket")
        rest = memoryview(buffer)
        while rest:
            line.settimeout(_of(timeout).left(httpcore.WriteTimeout))
            try:
                rest = rest[line.send(rest[:PIECE]) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore.NetworkStream:
        left = _of(timeout).left(httpcore.ConnectTimeout)
        return Line(self._stream.start_tls(ssl_context, server_hostname, left))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def checked(addresses: Iterable[Address], host: str, port: int, reach: Reach) -> list[Address]:
    """All of them, each once. One out of reach condemns the name: nobody public has private addresses as well."""
    plain = list(dict.fromkeys(unmapped(address) for address in addresses))
    for address in plain:
        if not reach.covers(host, address, port):
            # The address is for the operator's eyes: whoever registered the name need not learn of the inner network.
            log.warning("model service %s leads to %s, which is out of reach", host, address)
            raise ModelUnavailable(f"主机 {host} 指向本机或内网地址，不允许访问", hint=allow_hint(host, port))
    return plain


def _in_time(look_up: Callable[[], Sequence[str]], seconds: float) -> Sequence[str] | Exception:
    """The resolver knows no deadline, so it is waited for from outside. It gives up by itself in the end."""
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


def _of(timeout: Any) -> Moment:
    """A request that names no moment has no time."""
    return timeout if isinstance(timeout, Moment) else Moment(0.0)
