"""`qianxun serve`: binds, opens the engine, answers until it is told to stop, and finishes what it accepted."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import uvicorn

import qianxun.engine.preload  # noqa: F401
from qianxun.core.errors import BadInput, Forbidden
from qianxun.doors.http.app import create_app
from qianxun.doors.http.context import Service
from qianxun.doors.http.middleware.connection import Connection
from qianxun.doors.http.middleware.guard import is_loopback
from qianxun.doors.http.middleware.spans import Spans, open_spans
from qianxun.doors.http.native import uploads
from qianxun.doors.http.native.health import indexes_to_open, open_indexes
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, has_span_endpoint
from qianxun.records import keys

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

STOPPED_BY = (signal.SIGINT, signal.SIGTERM)


def _untold(_: str) -> None:
    return None


def new_loop() -> asyncio.AbstractEventLoop:
    """The quickest loop there is here."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def serve(settings: Settings, listening: Callable[[str], None] = _untold) -> None:
    """Serves until SIGINT or SIGTERM. ``listening`` is told the address once requests are answered.

    Raises BadInput where the address cannot be had, Forbidden where it is not this machine's own and there is no key,
    FolderInUse where another process has the data folder.
    """
    with bound(settings.service.host, settings.service.port) as taken:
        async with _opened_spans() as spans, Engine.open(settings=settings) as engine:
            check_address(engine, taken)
            await asyncio.to_thread(uploads.sweep, settings.folder)
            app = create_app(engine, settings, spans)
            server = Server(app, settings, listening)
            with _told_by_signals(server.stop):
                found = await indexes_to_open(app.state.service)  # before anybody can ask whether it is ready
                opening = asyncio.create_task(open_indexes(app.state.service, found))
                try:
                    await server.serve(sockets=[taken])
                finally:
                    opening.cancel()
                    with suppress(asyncio.CancelledError):
                        await opening


@asynccontextmanager
async def _opened_spans() -> AsyncIterator[Spans | None]:
    """Where OpenTelemetry's variables say where they go; the last of them are sent before the end."""
    spans = await asyncio.to_thread(open_spans) if has_span_endpoint() else None
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


# ── the address ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket of this address. Raises BadInput, saying what to do, where it cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BadInput(f"找不到地址 {host}", hint="用 --host 127.0.0.1，或本机的另一个地址") from error
    family, kind, protocol, _, address = sorted(found, key=lambda each: each[0] != socket.AF_INET)[0]
    # With its protocol named: asyncio lets small packets go at once only where it knows that they are TCP, and an
    # answer that waits for the other side's delayed acknowledgement takes 40 ms longer.
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(address)
            taken.listen(2048)
        except (OSError, OverflowError) as error:
            raise _not_to_be_had(host, port, error) from error
        taken.setblocking(False)
        yield taken
    finally:
        taken.close()


def _not_to_be_had(host: str, port: int, error: OSError | OverflowError) -> BadInput:
    kind = getattr(error, "errno", None)
    if kind == errno.EADDRINUSE:
        return BadInput(f"{host} 的端口 {port} 已被占用", hint="换一个端口：--port 8001；或停掉占用它的程序")
    if kind == errno.EACCES:
        return BadInput(f"没有权限使用端口 {port}", hint="用 1024 以上的端口：--port 8000")
    if kind == errno.EADDRNOTAVAIL:
        return BadInput(f"{host} 不是本机的地址", hint="用 --host 127.0.0.1，或本机的另一个地址")
    return BadInput(f"不能在 {host}:{port} 上监听：{error}", hint="换一个地址或端口")


def check_address(engine: Engine, taken: socket.socket) -> None:
    """Without a key only this machine is served."""
    address = str(taken.getsockname()[0])
    if is_loopback(address):
        return
    with engine.records.reading() as tx:
        has_keys = keys.any_live(tx)
    if not has_keys:
        raise Forbidden(
            f"还没有密钥，不能在 {address} 上提供服务：任何人都能读写",
            hint="先签发密钥：qianxun keys create --tenant local；或只在本机使用：--host 127.0.0.1",
        )


def url_of(taken: socket.socket) -> str:
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# ── the server ───────────────────────────────────────────────────────────────────────────────────


class Server(uvicorn.Server):
    """uvicorn with our signals: it neither takes them itself nor raises them again when it is done."""

    def __init__(self, app: FastAPI, settings: Settings, listening: Callable[[str], None] = _untold) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # who asks is who connects: a header may say anything
                server_header=False,
                timeout_graceful_shutdown=max(1, round(settings.service.close_seconds)),
            )
        )
        self.service: Service = app.state.service
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for each in sockets or ():
            log.info("listening on %s", url_of(each))
            self._listening(url_of(each))

    def stop(self) -> None:
        """No new connection, no new recall; a second time, what is still running is cut off."""
        self.service.turns.close()
        self.service.writes.close()
        self.service.answers.close()
        self.handle_exit(signal.SIGINT, None)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


@contextmanager
def _told_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block Ctrl-C and SIGTERM call ``stop``. Only the main thread hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for each in STOPPED_BY:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in STOPPED_BY:
            loop.remove_signal_handler(each)
