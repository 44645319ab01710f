"""An engine for code that does not await: it lives on an event loop in a thread of its own.

with open_blocking("./qianxun-data") as rag:
    kb = rag.create_knowledge_base("医保")
    rag.add(kb.id, ["手册.pdf"])
    found = rag.retrieve(kb.id, "住院报销比例是多少").found
    rag.events(kb.id).handle_document_deleted({"document_id": "旧手册"})
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from qianxun.core.errors import BadInput
from qianxun.engine.engine import Engine
from qianxun.engine.governance.facade import Governance

Result = TypeVar("Result")
PARTS: Final = frozenset(("events", "manager", "hybrid_search", "graph_keeper"))  # methods that return a part
FACADES: Final = frozenset(("admin", "contents", "governance", "logs"))  # attributes that are one
_END: Final = object()


@dataclass
class _Calls:
    """The calls of threads that run on a loop. Begun under ``lock``: after the end none begins."""

    under_way: set[asyncio.Task[Any]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    has_ended: bool = False

    async def counted(self, work: Coroutine[Any, Any, Result]) -> Result:
        call = asyncio.current_task()
        assert call is not None
        self.under_way.add(call)
        try:
            return await work
        finally:
            self.under_way.discard(call)

    async def end(self) -> None:
        with self.lock:
            self.has_ended = True
        for _ in range(3):  # what was begun a moment ago becomes a task, and the task takes its first step
            await asyncio.sleep(0)
        calls = tuple(self.under_way)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


class BlockingEngine:
    """Every method of `Engine` under its own name and without ``await``; ``ask_stream`` returns an iterator. The parts
    ``admin``, ``logs``, ``events``, ``manager``, ``hybrid_search`` and ``graph_keeper`` need no ``await`` either.

    May be used from any thread but the loop's own, and from several at once.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        """For an engine that was opened on ``loop``, which the caller keeps running."""
        self.engine = engine
        self.loop = loop
        self._calls = _Calls()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in FACADES:
            return BlockingPart(getattr(self.engine, name), self)
        found = self.waiting(getattr(self.engine, name))
        if name in PARTS:
            return wraps(found)(lambda *given, **named: BlockingPart(found(*given, **named), self))
        return found

    def waiting(self, method: Any) -> Any:
        """A method of an engine, or of a part of it, as a call that blocks instead of one that is awaited."""
        if inspect.isasyncgenfunction(method):
            return wraps(method)(lambda *given, **named: self.iterate(method(*given, **named)))
        if inspect.iscoroutinefunction(method):
            return wraps(method)(lambda *given, **named: self.run(method(*given, **named)))
        return method

    def of(self, tenant: str) -> BlockingEngine:
        """The same engine as another tenant sees it."""
        other = BlockingEngine(self.engine.of(tenant), self.loop)
        other._calls = self._calls  # they end with this one
        return other

    def run(self, work: Coroutine[Any, Any, Result], *, instead: str = "await") -> Result:
        """Returns or raises what ``work`` does. An interrupt while waiting cancels the work.

        ``instead`` is what to call from the engine's own loop, where waiting would never end.
        """
        begun = self._begin(work, instead)
        try:
            return begun.result()
        except CancelledError:
            raise _closed() from None
        finally:
            begun.cancel()

    async def join(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Returns or raises what ``work`` does, for code that awaits on any loop."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        begun = self._begin(work, "await")
        try:
            return await asyncio.wrap_future(begun)
        except asyncio.CancelledError:
            if self._calls.has_ended:
                raise _closed() from None
            raise

    def iterate(self, stream: AsyncGenerator[Result, None]) -> Iterator[Result]:
        """The items of ``stream`` as they come. It is closed as soon as the iterator is."""
        queue: SimpleQueue[Any] = SimpleQueue()
        pump = self._begin(_pumped(stream, queue.put), "async for")
        pump.add_done_callback(lambda _: queue.put(_END))
        try:
            while (item := queue.get()) is not _END:
                yield item
            pump.result()
        except CancelledError:
            raise _closed() from None
        finally:
            pump.cancel()

    async def end_calls(self) -> None:
        """Cancels the calls of other threads and refuses new ones: the engine is about to close."""
        await self._calls.end()

    def _begin(self, work: Coroutine[Any, Any, Result], instead: str) -> Future[Result]:
        if running_loop() is self.loop:
            work.close()
            raise BadInput("在引擎自己的事件循环里不能阻塞等待", hint=f"请改用 {instead}")
        with self._calls.lock:
            if self._calls.has_ended or not self.loop.is_running():
                work.close()
                raise _closed()
            return asyncio.run_coroutine_threadsafe(self._calls.counted(work), self.loop)


class BlockingPart:
    """A part of a blocking engine: every method of ``part`` under its own name, without ``await``."""

    def __init__(self, part: Any, engine: BlockingEngine) -> None:
        self.part = part
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.part, name)
        if isinstance(self.part, Governance):  # which has parts of its own
            return BlockingPart(found, self.engine)
        return self.engine.waiting(found) if callable(found) else found


@contextmanager
def open_blocking(data: str | Path | None = None, **options: Any) -> Iterator[BlockingEngine]:
    """Opens an engine and owns its folder until the block ends; ``options`` are those of `Engine.open`.

    Calls of other threads that have not returned by then raise BadInput.
    """
    opened: Future[tuple[BlockingEngine, asyncio.Event]] = Future()
    closed: Future[None] = Future()
    thread = threading.Thread(target=_live, args=(data, options, opened, closed), name="qianxun-engine", daemon=True)
    thread.start()
    try:
        rag, _ = opened.result()
        yield rag
    finally:
        opened.add_done_callback(_stop)  # at once, or as soon as it is open
        thread.join()
    closed.result()


def _stop(opened: Future[tuple[BlockingEngine, asyncio.Event]]) -> None:
    if opened.exception() is None:
        rag, stop = opened.result()
        if not rag.loop.is_closed():
            rag.loop.call_soon_threadsafe(stop.set)


def _live(
    data: str | Path | None,
    options: dict[str, Any],
    opened: Future[tuple[BlockingEngine, asyncio.Event]],
    closed: Future[None],
) -> None:
    """The engine's thread. What it raises is raised where the opening, or the closing, is waited for."""

    async def serve() -> None:
        async with Engine.open(data, **options) as engine:
            rag, stop = BlockingEngine(engine, asyncio.get_running_loop()), asyncio.Event()
            opened.set_result((rag, stop))
            await stop.wait()
            await rag.end_calls()

    try:
        asyncio.run(serve())
    except BaseException as error:  # raised in the thread that waits
        (closed if opened.done() else opened).set_exception(error)
    else:
        closed.set_result(None)


async def _pumped(stream: AsyncGenerator[Result, None], put: Callable[[Result], None]) -> None:
    """One task reads the whole stream: what it opens between two items is closed where it was opened."""
    async with aclosing(stream) as items:
        async for item in items:
            put(item)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The one that this code runs on; None where it runs on none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _closed() -> BadInput:
    return BadInput("引擎已关闭，这次调用没有做完", hint="请在 with open_blocking(...) 之内调用")
