"""The real service on a loopback port: uvicorn in this process, beside its engine, or `qianxun serve` in its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

import httpx
from fastapi import FastAPI

from qianxun.core.ports import EmbeddingModel
from qianxun.doors.http.app import create_app
from qianxun.doors.http.concurrency import WATCH_AFTER
from qianxun.doors.http.listener import bound, url_of
from qianxun.doors.http.serve import Server
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.records.secrets import keys
from qianxun.testing.scripted import HashEmbedding
from tests.preloaded import Popen

MODEL = "fake-64"
BASES = "/v1/knowledge-bases"
PATIENT = {"search.arm_seconds": 100.0, "search.rerank_seconds": 100.0, "search.rewrite_seconds": 100.0}
"""Settings with which no part of a search is late because the machine is busy."""


@dataclass(frozen=True)
class Served:
    """A service that listens, a client of it, and what is behind it."""

    url: str
    http: httpx.AsyncClient
    app: FastAPI
    engine: Engine
    server: Server
    running: asyncio.Task[None]  # done when the server has come to its end

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    async def base(self, name: str = "医保") -> int:
        made = await self.http.post(BASES, json={"name": name, "embedding_model": MODEL})
        assert made.status_code == 201, made.text
        number: int = made.json()["data"]["id"]
        return number

    async def add(self, base: int, doc_id: str, content: str, **more: Any) -> httpx.Response:
        return await self.http.put(
            f"{BASES}/{base}/documents/{doc_id}", json={"name": doc_id, "content": content, **more}
        )

    async def raw(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """What comes back on one connection to which these bytes are sent, until the service closes it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        try:
            return await asyncio.wait_for(reader.read(), 120)
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    folder: Path, told: Mapping[str, Any] | None = None, *models: EmbeddingModel, key: str = ""
) -> AsyncIterator[Served]:
    """``told`` are settings by their dotted names."""
    settings = load(environment={}, arguments={"data": str(folder), **PATIENT, **(told or {})}, folder=folder)
    held = {each.name: each for each in models or (HashEmbedding(),)}
    async with Engine.open(settings=settings, models=held) as engine:
        app = create_app(engine, settings)
        ready = asyncio.Event()
        server = Server(app, settings, lambda _: ready.set())
        with bound("127.0.0.1", 0) as taken:
            url = url_of(taken)
            running = asyncio.create_task(server.serve(sockets=[taken]))
            await ready.wait()
            headers = {"authorization": f"Bearer {key}"} if key else {}
            try:
                async with httpx.AsyncClient(
                    base_url=url,
                    headers=headers,
                    timeout=60,
                    trust_env=False,
                    verify=False,  # there is nothing to verify, and to read all certificates takes 20 ms
                ) as http:
                    yield Served(url, http, app, engine, server, running)
            finally:
                server.stop()
                await running


async def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < ends, "it never came to that"
        await asyncio.sleep(0.005)


async def until_told(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Asks again until that is the answer."""
    ends = time.monotonic() + 120
    while (told := await ask()) != wanted:
        assert time.monotonic() < ends, told
        await asyncio.sleep(0.02)


async def later(seconds: float) -> None:
    """So much time passes at once for whatever waits in this loop, once that has begun to wait."""
    await asyncio.sleep(2 * WATCH_AFTER)  # the watcher of a request among them
    loop = asyncio.get_running_loop()
    clock = loop.time
    loop.time = lambda: clock() + seconds  # type: ignore[method-assign]


def issue(engine: Engine, tenant: str = "local", scope: keys.Scope = "write") -> tuple[int, str]:
    """(id, key)"""
    with engine.records.writing() as tx:
        row, key = keys.create(tx, tenant, scope)
    return row.id, key


def revoke(engine: Engine, key: int) -> None:
    with engine.records.writing() as tx:
        keys.revoke(tx, key)


@dataclass
class Running:
    """`qianxun serve` as a process."""

    process: subprocess.Popen[str]
    url: str
    log: TextIO

    def stop(self, signal: int) -> tuple[int, str]:
        """(exit code, what it wrote) after this signal."""
        told, logged = self.end(signal)
        return self.process.returncode, told + logged

    def end(self, signal: int) -> tuple[str, str]:
        """(what it said, what it logged) until this signal was its end."""
        self.process.send_signal(signal)
        told, _ = self.process.communicate(timeout=300)
        self.log.seek(0)
        return told, self.log.read()


@contextmanager
def running(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    preloaded: bool = True,
) -> Iterator[Running]:
    """``before`` is called in the new process, which has then imported nothing, as one that is not ``preloaded``."""
    command = [
        sys.executable,
        "-c",
        "import sys; from qianxun.doors.cli import main; sys.exit(main())",
        "--data",
        str(folder),
        "serve",
        "--port",
        "0",
        *arguments,
    ]
    # What it logs goes to a file: a pipe that nobody reads is full after some hundred requests, and then it waits.
    with TemporaryFile("w+", encoding="utf-8") as log:
        start = Popen if preloaded and before is None else subprocess.Popen
        process = start(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            env=environment,
            preexec_fn=before,  # nothing has a thread yet that could hold a lock
        )
        try:
            yield _started(process, log)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


def _started(process: subprocess.Popen[str], log: TextIO) -> Running:
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line and line.startswith("千寻"):
            return Running(process, next(word for word in line.split() if word.startswith("http://")), log)
    code = process.wait()
    log.seek(0)
    raise AssertionError(f"it ended with {code}: {log.read()}")
