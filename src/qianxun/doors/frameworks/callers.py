"""An engine or a running service, asked by code that awaits and by code that does not, from any thread or loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from qianxun.core.errors import BadInput
from qianxun.doors.client import Client
from qianxun.doors.frameworks.engine_caller import EngineCaller
from qianxun.engine.blocking import BlockingEngine, running_loop
from qianxun.engine.engine import Engine

Result = TypeVar("Result")
Call: TypeAlias = Callable[[Engine | Client], Coroutine[Any, Any, Result]]


@runtime_checkable
class Caller(Protocol):
    def wait(self, call: Call[Result], *, instead: str) -> Result:
        """What is asked, for code that does not await. ``instead`` is what to call where waiting is impossible."""
        ...

    async def join(self, call: Call[Result]) -> Result:
        """What is asked, for code that awaits, on whichever loop."""
        ...


Rag: TypeAlias = Engine | BlockingEngine | Client | Caller


def caller_of(rag: Rag) -> Caller:
    """How to ask it from here on. An engine is taken to live on the loop that is running now, where one is."""
    if isinstance(rag, Engine | BlockingEngine):
        return EngineCaller(rag)
    if isinstance(rag, Client):
        return ClientCaller(rag)
    if isinstance(rag, Caller):
        return rag
    raise BadInput(f"rag 是 {type(rag).__name__}", hint="请给出 Engine、open_blocking 打开的引擎，或 Client(url)")


class ClientCaller:
    """A service. On the loop where this was made the client itself asks; else a twin of it, in a thread of its own:
    connections belong to one loop."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = running_loop()
        self._lock = threading.Lock()
        self._twin: _Twin | None = None

    def wait(self, call: Call[Result], *, instead: str) -> Result:
        twin = self._ready_twin()
        begun = asyncio.run_coroutine_threadsafe(call(twin.client), twin.loop)
        try:
            return begun.result()
        finally:
            begun.cancel()  # whoever is interrupted takes the work with them

    async def join(self, call: Call[Result]) -> Result:
        if asyncio.get_running_loop() is self._loop:
            return await call(self._client)
        twin = self._ready_twin()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(twin.client), twin.loop))

    def _ready_twin(self) -> _Twin:
        with self._lock:
            if self._twin is None or not self._twin.thread.is_alive():  # threads do not survive a fork
                self._twin = _Twin(self._client)
            return self._twin


class _Twin:
    """Lives as long as a reference to it."""

    def __init__(self, client: Client) -> None:
        self.client = client.twin()
        self.loop = asyncio.new_event_loop()
        work = (self.client, self.loop)
        self.thread = threading.Thread(target=_live, args=work, name="qianxun-client", daemon=True)
        self.thread.start()
        weakref.finalize(self, _stop, self.loop)


def _live(client: Client, loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(client.close())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
