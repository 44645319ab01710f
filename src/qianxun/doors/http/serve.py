"""`qianxun serve`: binds, opens the engine, serves until a signal, and finishes the requests that it accepted."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import uvicorn

from qianxun.core.errors import BadInput, BadSettings, Forbidden
from qianxun.core.system.memory import limit_arenas
from qianxun.doors.http.app import create_app
from qianxun.doors.http.context import Service
from qianxun.doors.http.middleware.client_address import trust
from qianxun.doors.http.middleware.connection import Connection
from qianxun.doors.http.middleware.guard import is_loopback
from qianxun.doors.http.middleware.open_connections import open_connections, raise_descriptor_limit
from qianxun.doors.http.middleware.spans import Spans, open_spans
from qianxun.doors.http.native import uploads
from qianxun.doors.http.native.health import indexes_to_open, open_indexes
from qianxun.engine.engine import Engine
from qianxun.engine.operations import has_valid_key
from qianxun.engine.settings import Settings, has_span_endpoint
from qianxun.engine.wiring import preload

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

OWN_ADDRESS = "用 --host 127.0.0.1，或本机的另一个地址"


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's if it is installed: it is faster."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def serve(settings: Settings, on_start: Callable[[str], object] = lambda url: None) -> None:
    """Serves until SIGINT or SIGTERM. ``on_start`` is called with the address once requests are accepted.

    Raises BadInput if the address cannot be bound, Forbidden if it is not this machine's own and there is no key,
    FolderInUse if another process has the data folder.
    """
    preload()  # before it listens: who connects meanwhile would wait
    with bound(settings.service.host, settings.service.port) as listener:
        await serve_on(listener, settings, on_start)


async def serve_on(
    listener: socket.socket,
    settings: Settings,
    on_start: Callable[[str], object] = lambda url: None,
    *,
    public: socket.socket | None = None,
    reader: bool = False,
    around: Callable[[FastAPI], ASGIApp] | None = None,
) -> None:
    """`serve` on a socket that is bound already; ``public`` is where requests come from, if that is another one.

    A ``reader`` searches beside the process that writes (`workers`); ``around`` makes the application that is served.
    """
    preload()
    raise_descriptor_limit()
    limit_arenas()
    background = settings.service.background
    opened = Engine.open(settings=settings, background=background, reader=reader)
    async with _opened_spans() as spans, opened as engine:
        if not reader:
            check_background(engine)
            check_address(engine, public or listener)
            await asyncio.to_thread(uploads.remove_leftovers, settings.folder, shared=engine.is_one_of_many)
        app = create_app(engine, settings, spans)
        server = Server(app, settings, on_start)
        if around is not None:
            server.config.app = around(app)
        with on_signals({signal.SIGINT: server.stop, signal.SIGTERM: server.drain}):
            bases = await indexes_to_open(app.state.service)  # before the first readiness probe
            opening = asyncio.create_task(open_indexes(app.state.service, bases))
            try:
                await server.serve(sockets=[listener])
            finally:
                opening.cancel()
                with suppress(asyncio.CancelledError):
                    await opening


@asynccontextmanager
async def _opened_spans() -> AsyncIterator[Spans | None]:
    """Spans if OpenTelemetry's variables name an endpoint; the last ones are exported at the end."""
    spans = await asyncio.to_thread(open_spans) if has_span_endpoint() else None
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


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


def check_address(engine: Engine, listener: socket.socket) -> None:
    """Raises Forbidden for an address that other machines can reach while there is no key."""
    address = str(listener.getsockname()[0])
    if not is_loopback(address) and not has_valid_key(engine):
        raise Forbidden(
            f"还没有密钥，不能在 {address} 上提供服务：任何人都能读写",
            hint="先签发密钥：qianxun keys create --tenant local；或只在本机使用：--host 127.0.0.1",
        )


def check_background(engine: Engine) -> None:
    """Raises BadSettings where nobody else could do what this process is to leave undone."""
    if not engine.settings.service.background and not engine.is_one_of_many:
        raise BadSettings(
            "service.background 是 false，而没有别的进程能同用这份数据：存下的文档永远不会进索引",
            hint="去掉 --no-background；或把记录与索引都放在服务器上，再另外运行 qianxun worker",
        )


def url_of(listener: socket.socket) -> str:
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn without its own signal handling."""

    def __init__(self, app: FastAPI, settings: Settings, on_start: Callable[[str], object] = lambda url: None) -> None:
        limits = settings.service
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(  # type: ignore[arg-type]  # it calls what it is given
                    Connection,
                    open_connections=open_connections(
                        limits.connections, limits.connections_per_address, trust(limits.trusted_proxies)
                    ),
                ),
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # the client is who connects: a header can be forged (client_address.py)
                server_header=False,
                timeout_graceful_shutdown=max(1, round(limits.close_seconds)),
            )
        )
        self.service: Service = app.state.service
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            log.info("listening on %s", url_of(listener))
            self._on_start(url_of(listener))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Waits also for the requests that uvicorn cancels at the end: writes among them store their documents."""
        await super().shutdown(sockets=sockets)
        if self.server_state.tasks and not self.force_exit:
            await asyncio.wait(set(self.server_state.tasks), timeout=self.config.timeout_graceful_shutdown)

    def stop(self) -> None:
        """Accepts no new connections and requests; called again, it aborts those that still run."""
        for limit in (self.service.recalls, self.service.writes, self.service.answers):
            limit.close()
        self.handle_exit(signal.SIGINT, None)

    def drain(self) -> None:
        """Says that it is not ready, so that no more requests are sent here, serves on for a while, and stops."""
        seconds = self.service.settings.service.drain_seconds
        if self.service.readiness.is_draining or seconds <= 0:
            return self.stop()
        self.service.readiness.is_draining = True
        log.info("not ready any more; stopping in %g seconds", seconds)
        asyncio.get_running_loop().call_later(seconds, self.stop)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


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
