"""Workers that read documents serve the next engine, too.

Some five hundred tests open an engine that reads a file or two, and each would start a worker of its own: a twentieth
of what the whole suite takes. Whoever closes an engine here leaves a worker that has answered soundly to the next one
with the same limits; one that has not is ended, as ever. Pools that a test makes by itself are not concerned.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
import threading
from typing import Any

from qianxun.core.limits import MIB
from qianxun.engine import wiring
from qianxun.ingest.sandbox import pool
from qianxun.ingest.sandbox.limits import ParseLimits

KEPT = 4  # workers, each for its limits
_spare: list[tuple[ParseLimits, _Process]] = []  # the one left last at the end


class _Process:
    """Behaves as a process of asyncio, and can change from one event loop to another."""

    def __init__(self) -> None:
        command = [sys.executable, "-s", "-P", "-B", "-X", "utf8", "-m", "qianxun.ingest.sandbox.worker"]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": pool._IMPORT_ROOT},
            cwd="/",
            start_new_session=True,
        )
        self._transports: list[Any] = []
        self.pid = self._child.pid
        self.served = 0

    async def attach(self) -> None:
        """To the loop that runs now."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        loop = asyncio.get_running_loop()
        self.stdout = asyncio.StreamReader(limit=MIB)
        protocol = asyncio.StreamReaderProtocol(self.stdout)
        reading, _ = await loop.connect_read_pipe(
            lambda: protocol, os.fdopen(os.dup(self._child.stdout.fileno()), "rb")
        )
        writing, flow = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(os.dup(self._child.stdin.fileno()), "wb")
        )
        self.stdin = asyncio.StreamWriter(writing, flow, None, loop)
        self._transports = [reading, writing]

    def detach(self) -> None:
        for transport in self._transports:
            transport.close()

    @property
    def returncode(self) -> int | None:
        return self._child.poll()

    async def wait(self) -> int:
        code = await asyncio.to_thread(self._child.wait)
        self.detach()
        for end in (self._child.stdin, self._child.stdout):
            if end is not None:
                end.close()
        return code

    def kill(self) -> None:
        self._child.kill()


class SharedParserPool(pool.ParserPool):
    async def _start(self) -> pool._Worker:
        # A worker ends with the thread that has started it.
        if threading.current_thread() is not threading.main_thread():
            return await super()._start()
        fitting = [each for each in _spare if each[0] == self._limits and each[1].returncode is None]
        if fitting:
            _spare.remove(fitting[-1])
        process = fitting[-1][1] if fitting else _Process()
        await process.attach()
        worker = pool._Worker(process)  # type: ignore[arg-type]
        worker.served = process.served
        self._all.add(worker)
        return worker

    async def aclose(self) -> None:
        for worker in self._idle:
            process = worker._process
            if isinstance(process, _Process) and process.returncode is None:
                process.served = worker.served
                process.detach()
                _spare.append((self._limits, process))
                self._all.discard(worker)
        ended = _spare[:-KEPT]
        del _spare[:-KEPT]
        for _, process in ended:
            process.kill()
            await process.wait()
        self._idle.clear()
        await super().aclose()


def share_parsers() -> None:
    """Of all engines that are opened from now on in this process."""
    wiring.ParserPool = SharedParserPool  # type: ignore[misc]
    atexit.register(_end)


def _end() -> None:
    for _, process in _spare:
        process.kill()
