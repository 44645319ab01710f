"""`qianxun serve`: binds, opens the engine, serves until a signal, and finishes the requests that it accepted."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from qianxun.core.errors import BadSettings, Forbidden
from qianxun.core.system.gc_pause import collection_of_a_service
from qianxun.core.system.memory import limit_memory_pools, trim_regularly
from qianxun.doors.http.app import create_app
from qianxun.doors.http.context import Service
from qianxun.doors.http.listener import bound, on_signals, url_of
from qianxun.doors.http.middleware.client_address import trust
from qianxun.doors.http.middleware.connection import Connection
from qianxun.doors.http.middleware.guard import is_loopback
from qianxun.doors.http.middleware.open_connections import open_connections, raise_descriptor_limit
from qianxun.doors.http.middleware.spans import Spans, open_spans
from qianxun.doors.http.native import uploads
from qianxun.doors.http.native.health import indexes_to_open, open_indexes
from qianxun.engine.across_tenants import has_valid_key
from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings, has_span_endpoint
from qianxun.engine.wiring import preload

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

# For longer than clients keep an idle connection (httpx and OpenAI's 5 s, proxies 60): whoever closes first while the
# other sends loses that request. Idle ones give way where there is no room (`open_connections`).
KEEP_ALIVE_SECONDS: Final = 75


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
    limit_memory_pools()
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
            beside = asyncio.gather(
                open_indexes(app.state.service, bases), trim_regularly(engine.records.release_memory)
            )
            try:
                with collection_of_a_service():
                    await server.serve(sockets=[listener])
            finally:
                beside.cancel()
                with suppress(asyncio.CancelledError):
                    await beside


@asynccontextmanager
async def _opened_spans() -> AsyncIterator[Spans | None]:
    """Spans if OpenTelemetry's variables name an endpoint; the last ones are exported at the end."""
    spans = await asyncio.to_thread(open_spans) if has_span_endpoint() else None
    try:
        yield spans
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


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
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
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
        for limit in (self.service.recalls, self.service.writes, self.service.answers, self.service.transfers):
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
