"""An engine or a running service, asked by code that awaits and by code that does not, from any thread or loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from qianxun.core.errors import BadInput
from qianxun.doors.client import Client
from qianxun.doors.frameworks.hybrid_retriever import here
from qianxun.engine.blocking import BlockingEngine
from qianxun.engine.engine import Engine

Result = TypeVar("Result")
Call: TypeAlias = Callable[[Engine | Client], Coroutine[Any, Any, Result]]

ROUND_SECONDS: Final = 60.0  # an engine's loop that has not come round by then waits for whoever asks


@runtime_checkable
class Reach(Protocol):
    def wait(self, call: Call[Result], *, instead: str) -> Result:
        """What is asked, for code that does not await. ``instead`` is what to call where waiting is impossible."""
        ...

    async def join(self, call: Call[Result]) -> Result:
        """What is asked, for code that awaits, on whichever loop."""
        ...


Rag: TypeAlias = Engine | BlockingEngine | Client | Reach


def reach(rag: Rag) -> Reach:
    """How to ask it from here on. An engine is taken to live on the loop that is running now, where one is."""
    if isinstance(rag, BlockingEngine):
        return EngineReach(rag.engine, rag)
    if isinstance(rag, Engine):
        return EngineReach(rag, here(rag))
    if isinstance(rag, Client):
        return ClientReach(rag)
    if isinstance(rag, Reach):
        return rag
    raise BadInput(f"rag 是 {type(rag).__name__}", hint="请给出 Engine、open_blocking 打开的引擎，或 Client(url)")


class EngineReach:
    """An engine, asked on its own loop."""

    def __init__(self, engine: Engine, home: BlockingEngine | None) -> None:
        self._engine = engine
        self._home = home

    def wait(self, call: Call[Result], *, instead: str) -> Result:
        if self._home is None:
            raise BadInput(
                "不知道引擎在哪个事件循环里，没法阻塞等待",
                hint=f"请用 open_blocking 打开引擎，或在引擎的事件循环里建检索器，或改用 {instead}",
            )
        if (seen := self._seen()) is not None:
            try:
                seen.result(ROUND_SECONDS)
            except TimeoutError:
                seen.cancel()
                raise _stuck(instead) from None
        return self._home.run(call(self._engine), instead=instead)

    async def join(self, call: Call[Result]) -> Result:
        if self._home is None:
            return await call(self._engine)
        if (seen := self._seen()) is not None:
            try:
                await asyncio.wait_for(asyncio.wrap_future(seen), ROUND_SECONDS)
            except TimeoutError:
                raise _stuck("await") from None
        return await self._home.join(call(self._engine))

    def _seen(self) -> Future[None] | None:
        """Done when the engine's loop comes round; None on that loop, or where it runs no more.

        A framework that is called on the engine's loop may block it and ask from threads of its own (LangChain's
        ``batch``, LlamaIndex's fusion): each would wait for the other for ever.
        """
        assert self._home is not None
        loop = self._home.loop
        if loop is _running() or not loop.is_running():
            return None
        seen: Future[None] = Future()
        with suppress(RuntimeError):  # it has closed a moment ago: the call itself will fail
            loop.call_soon_threadsafe(_set_result, seen)
            return seen
        return None


class ClientReach:
    """A service. On the loop where this was made the client itself asks; else a twin of it, in a thread of its own:
    connections belong to one loop."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = _running()
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


def _set_result(seen: Future[None]) -> None:
    if seen.set_running_or_notify_cancel():  # else no caller waits for it any more
        seen.set_result(None)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _stuck(instead: str) -> BadInput:
    return BadInput(
        f"引擎的事件循环 {ROUND_SECONDS:g} 秒没有动静：多半正等着这次检索",
        hint=f"在那个事件循环里请改用 {instead} 等异步调用，或用 open_blocking 打开引擎",
    )
