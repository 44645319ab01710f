"""How many requests of a kind run at once, how many wait, and when one is cancelled: client disconnected, timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

from qianxun.core.errors import Overloaded
from qianxun.core.system.fair_slots import FairSlots

WATCH_AFTER: Final = 0.05  # seconds: most searches are done by then and need no watcher task


class ClientDisconnected(Exception):
    """The client has closed its connection: nothing is sent."""


class ConcurrencyLimit:
    """``limit`` slots, then a queue of at most ``max_waiting``, both fair between tenants; then Overloaded."""

    def __init__(self, limit: int, max_waiting: int, seconds: float | None) -> None:
        """``seconds``: the timeout of a request, its time in the queue included; None for no timeout."""
        self.seconds = seconds
        self.is_closed = False
        self._capacity = limit + max_waiting
        self._slots = FairSlots(limit)

    @property
    def running(self) -> int:
        return self._slots.running

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    def close(self) -> None:
        """Accepts no more requests; those that run or wait are finished."""
        self.is_closed = True

    @asynccontextmanager
    async def slot(self, request: Request) -> AsyncIterator[None]:
        """Waits for a slot. Raises Overloaded at once if the queue is full, and after the timeout.

        Raises ClientDisconnected, and cancels the block, if the client leaves.
        """
        tenant = self._admitted(request)
        async with cancelled_with_client(request, self.seconds), self._slots.slot(tenant):
            yield

    @asynccontextmanager
    async def slot_without_client(self, request: Request) -> AsyncIterator[Callable[[], None]]:
        """The same for work that is done whether or not its client waits for the result: it has no timeout, either.

        The function that the block is given gives the slot back before the block ends.
        """
        async with self._slots.slot(self._admitted(request)) as release:
            yield release

    def _admitted(self, request: Request) -> str:
        """The tenant of a request that may wait; one without any other request may always."""
        if self.is_closed:
            raise Overloaded("服务正在停止，不再接受新的请求", hint="稍后重试，或换一个实例")
        tenant: str = getattr(request.state, "tenant", "")
        if self.running + self.waiting >= self._capacity and self._slots.is_known(tenant):
            raise Overloaded("同时进行的请求太多", hint="稍后重试")
        return tenant


@asynccontextmanager
async def cancelled_with_client(request: Request, seconds: float | None) -> AsyncIterator[None]:
    """Cancels the block if its client disconnects (raises ClientDisconnected) or after ``seconds`` (raises Overloaded).

    The body must have been read: the next message then is the disconnect.
    """
    task = asyncio.current_task()
    assert task is not None, "a handler runs in a task"
    loop = asyncio.get_running_loop()
    cancelled_before = task.cancelling()
    reasons: list[Exception] = []
    watchers: list[asyncio.Task[None]] = []

    async def watch() -> None:
        reasons.append(await _reason_to_cancel(request, seconds))
        task.cancel()

    timer = loop.call_later(WATCH_AFTER, lambda: watchers.append(loop.create_task(watch())))
    try:
        yield
    except asyncio.CancelledError:
        if reasons and task.uncancel() <= cancelled_before:
            raise reasons.pop() from None
        raise
    finally:
        timer.cancel()
        for watcher in watchers:
            watcher.cancel()


async def _reason_to_cancel(request: Request, seconds: float | None) -> Exception:
    try:
        async with asyncio.timeout(None if seconds is None else seconds - WATCH_AFTER):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return Overloaded(f"超过 {seconds:g} 秒仍未完成，已放弃", hint="稍后重试，或缩小范围")
    return ClientDisconnected()
