"""How many recalls run at once, how many wait, and when one is given up: its client has left, its time is over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

from qianxun.core.errors import Overloaded

WATCHED_AFTER: Final = 0.05  # seconds: most recalls are done by then and never pay for a watcher


class ClientDisconnected(Exception):
    """Nobody waits for this answer any more."""


class Turns:
    """A bounded number of turns; beyond it a bounded queue, first come first served; beyond that, Overloaded."""

    def __init__(self, at_once: int, waiting: int, seconds: float | None) -> None:
        self.at_once = at_once
        self.most_waiting = waiting
        self.seconds = seconds
        self.is_closed = False
        self._free = at_once
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def running(self) -> int:
        return self.at_once - self._free

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        """No new ones; those that were accepted, waiting ones too, are finished."""
        self.is_closed = True

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Waits for a turn. Raises Overloaded at once where too many wait, and once the time is over."""
        if self.is_closed:
            raise Overloaded("服务正在停止，不再接受新的请求", hint="稍后重试，或换一个实例")
        if not self._free and len(self._queue) >= self.most_waiting:
            raise Overloaded("同时进行的请求太多", hint="稍后重试")
        async with attended(request, self.seconds):
            await self._enter()
            try:
                yield
            finally:
                self._leave()

    async def _enter(self) -> None:
        if self._free:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._queue.remove(mine)
            else:  # given up in the moment in which it was called up
                self._leave()
            raise

    def _leave(self) -> None:
        """Calls up the next one, or sets the turn free."""
        for at, each in enumerate(self._queue):
            if not each.done():
                del self._queue[at]
                each.set_result(None)
                return
        self._free += 1


@asynccontextmanager
async def attended(request: Request, seconds: float | None) -> AsyncIterator[None]:
    """Cancels the block if its client disconnects (raises ClientDisconnected) or after ``seconds`` (raises Overloaded).

    None: it may take as long as it takes. The body must have been read: what comes after it is the client's leaving.
    """
    task = asyncio.current_task()
    assert task is not None, "a handler runs in a task"
    loop = asyncio.get_running_loop()
    cancelled_before = task.cancelling()
    ended: list[Exception] = []
    watchers: list[asyncio.Task[None]] = []

    async def watch() -> None:
        ended.append(await _ending(request, seconds))
        task.cancel()

    timer = loop.call_later(WATCHED_AFTER, lambda: watchers.append(loop.create_task(watch())))
    try:
        yield
    except asyncio.CancelledError:
        if ended and task.uncancel() <= cancelled_before:
            raise ended.pop() from None
        raise
    finally:
        timer.cancel()
        for watcher in watchers:
            watcher.cancel()


async def _ending(request: Request, seconds: float | None) -> Exception:
    try:
        async with asyncio.timeout(None if seconds is None else seconds - WATCHED_AFTER):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return Overloaded(f"超过 {seconds:g} 秒仍未完成，已放弃", hint="稍后重试，或缩小范围")
    return ClientDisconnected()
