"""The socket, the event loop and the signals of a service, without the service: a process that only starts others needs
no more."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from qianxun.core.errors import BadInput

OWN_ADDRESS: Final = "用 --host 127.0.0.1，或本机的另一个地址"


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's if it is installed: it is faster."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@contextmanager
def bound(host: str, port: int, *, shared: bool = False) -> Iterator[socket.socket]:
    """A listening socket of this address, or one of several that share it. Raises BadInput, whose hint says what to
    do."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BadInput(f"找不到地址 {host}", hint=OWN_ADDRESS) from error
    family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    # With its protocol named: asyncio sets TCP_NODELAY only on sockets that it knows to be TCP, and a response that
    # waits for the other side's delayed acknowledgement takes 40 ms longer.
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind(address)
            listener.listen(2048)
        except (OSError, OverflowError) as error:
            raise _bind_error(host, port, error) from error
        listener.setblocking(False)
        yield listener


def _bind_error(host: str, port: int, error: OSError | OverflowError) -> BadInput:
    message, hint = {
        errno.EADDRINUSE: (f"{host} 的端口 {port} 已被占用", "换一个端口：--port 8001；或停掉占用它的程序"),
        errno.EACCES: (f"没有权限使用端口 {port}", "用 1024 以上的端口：--port 8000"),
        errno.EADDRNOTAVAIL: (f"{host} 不是本机的地址", OWN_ADDRESS),
    }.get(getattr(error, "errno", None) or 0, (f"不能在 {host}:{port} 上监听：{error}", "换一个地址或端口"))
    return BadInput(message, hint=hint)


def url_of(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def on_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Within the block Ctrl-C and SIGTERM call these. Only the main thread receives them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
