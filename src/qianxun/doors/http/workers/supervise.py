"""The process that starts the others, and starts them again."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from qianxun.core.errors import QianxunError, ServiceUnavailable, error_named
from qianxun.doors.http.listener import bound, on_signals, url_of
from qianxun.doors.http.workers.process import Role, Start
from qianxun.engine.settings import Settings
from qianxun.engine.storage import reader_backend

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.5  # before a process that died is started again
SHORT_LIFE_SECONDS: Final = 10.0  # one that lived no longer …
SHORT_LIVES: Final = 5  # … so many times in a row has no better future


async def serve_with_workers(
    settings: Settings,
    count: int,
    config: Path | None,
    arguments: Mapping[str, Any],
    on_start: Callable[[str], object] = lambda url: None,
) -> None:
    """Serves until SIGINT or SIGTERM with one process that writes and ``count`` that search.

    ``config`` and ``arguments`` are what the settings were loaded from: each process loads its own. Raises what
    `serve` raises, and BadSettings where records or index are on a server.
    """
    reader_backend(settings)
    with bound(settings.service.host, settings.service.port) as probe:  # which nobody else has
        host, port = probe.getsockname()[:2]
    with ExitStack() as stack:
        # A socket for each: on one for all, whoever wakes first would take every connection that is waiting.
        public = [stack.enter_context(bound(host, port, shared=True)) for _ in range(count)]
        place = Path(stack.enter_context(TemporaryDirectory(prefix="qianxun-"))) / "writer"
        private = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        private.bind(str(place))
        private.listen(2048)
        private.setblocking(False)

        def child(role: Role, listener: socket.socket) -> _Child:
            descriptors = (listener.fileno(), private.fileno())
            return _Child(Start(role, *descriptors, str(place), str(config or ""), dict(arguments)))

        supervisor = _Supervisor(child("writer", public[0]), [child("reader", listener) for listener in public])
        await supervisor.run(lambda: on_start(url_of(public[0])))


@dataclass
class _Child:
    """A process, as often as it has to be started."""

    start: Start
    process: asyncio.subprocess.Process | None = None
    since: float = 0.0
    short_lives: int = 0

    @property
    def role(self) -> Role:
        return self.start.role

    async def begin(self) -> None:
        """Returns once it accepts requests. Raises what kept it from that."""
        self.since = time.monotonic()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "qianxun.doors.http.workers.process",
            self.start.written(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(self.start.public, self.start.private),
            start_new_session=True,  # Ctrl-C is for the one that started it, which tells the others in turn
        )
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        words: dict[str, str] = json.loads(line) if line else {}
        if "ready" in words:
            return
        code = await self.process.wait()
        if "error" in words:
            raise error_named(words["error"], words["message"], hint=words["hint"])
        raise ServiceUnavailable(f"一个进程（{self.role}）没有启动起来，退出码 {code}", hint="原因在它的日志里")

    async def ended(self) -> _Child:
        assert self.process is not None
        await self.process.wait()
        return self

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            await self.process.wait()


@dataclass
class _Supervisor:
    writer: _Child
    readers: list[_Child]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, on_start: Callable[[], object]) -> None:
        with on_signals({signal.SIGINT: self.stopping.set, signal.SIGTERM: self.stopping.set}):
            try:
                await self.writer.begin()
                await asyncio.gather(*(reader.begin() for reader in self.readers))
                on_start()
                await self._watch()
            finally:
                # The writer last: the others finish what they have handed to it.
                await asyncio.gather(*(reader.stop() for reader in self.readers))
                await self.writer.stop()

    async def _watch(self) -> None:
        """Until it is told to stop. Raises when a process cannot be brought back."""
        lives = {asyncio.create_task(child.ended()) for child in (self.writer, *self.readers)}
        stop = asyncio.create_task(self.stopping.wait())
        try:
            while not stop.done():
                await asyncio.wait({*lives, stop}, return_when=asyncio.FIRST_COMPLETED)
                for life in [life for life in lives if life.done() and not stop.done()]:
                    lives.discard(life)
                    lives.add(asyncio.create_task(self._brought_back(life.result())))
        finally:
            for task in (*lives, stop):
                task.cancel()
            await asyncio.wait({*lives, stop})

    async def _brought_back(self, child: _Child) -> _Child:
        """Starts a process again, and returns when that one has ended, too."""
        assert child.process is not None
        log.error("the %s has ended with %s and is started again", child.role, child.process.returncode)
        has_lived = time.monotonic() - child.since > SHORT_LIFE_SECONDS
        child.short_lives = 0 if has_lived else child.short_lives + 1
        if child.short_lives >= SHORT_LIVES:
            raise ServiceUnavailable(f"一个进程（{child.role}）一再终止", hint="原因在它的日志里")
        await asyncio.sleep(AGAIN_SECONDS)
        try:
            await child.begin()
        except QianxunError as error:
            log.error("the %s could not be started: %s", child.role, error)
            return child
        return await child.ended()
