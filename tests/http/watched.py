"""An application whose routes behave well and badly, watched as the service is; and readers of what it says."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI, Query, Response
from fastapi.responses import StreamingResponse

from qianxun import Engine
from qianxun.doors.http.app import create_app
from qianxun.doors.http.middleware.log_lines import logs_as_lines
from qianxun.doors.http.middleware.metrics import Metrics
from qianxun.doors.http.middleware.spans import Spans
from qianxun.doors.http.middleware.trace_ids import trace_id
from qianxun.doors.http.middleware.tracing import Tracing
from qianxun.engine.settings import load
from qianxun.models.threads import ModelThreads

log = logging.getLogger("tests.watched")

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


def small_app(metrics: Metrics | None = None, spans: Spans | None = None) -> FastAPI:
    app = FastAPI()
    threads = ModelThreads()

    @app.get("/well/{name}")
    async def well(name: str) -> dict[str, str]:
        await asyncio.sleep(0.001)
        return {"trace": trace_id()}

    @app.get("/number")
    async def number(at: int = Query()) -> int:
        return at

    @app.get("/broken")
    async def broken() -> None:
        raise ZeroDivisionError("the secret is qx_" + "k" * 43)

    @app.get("/half")
    async def half() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield b"first"
            raise ZeroDivisionError("second")

        return StreamingResponse(parts())

    @app.get("/busy")
    async def busy() -> Response:
        return Response(status_code=503)

    @app.get("/threads")
    async def in_threads() -> str:
        await asyncio.to_thread(log.info, "in a worker thread")
        await asyncio.get_running_loop().run_in_executor(threads.lane("chat"), log.info, "in a model's thread")
        return trace_id()

    app.add_middleware(Tracing, metrics=metrics or Metrics(), spans=spans)
    return app


@asynccontextmanager
async def real_app(folder: Path, model: Any, spans: Spans | None = None) -> AsyncIterator[tuple[Engine, FastAPI]]:
    settings = replace(load(environment={}), data=str(folder))
    async with Engine.open(settings=settings, models={model.name: model}, background=False) as engine:
        yield engine, create_app(engine, settings, spans)


def client(app: Any, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers, verify=False)


@contextmanager
def logged() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines that are logged within the block, read; each must be JSON by itself."""
    stream = io.StringIO()
    with logs_as_lines(stream):
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
