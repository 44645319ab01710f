"""How many requests of a kind run at once, how many wait, and when one is cancelled: client disconnected, timeout."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.requests import Request

from qianxun.core.errors import Overloaded
from qianxun.core.system.fair_slots import FairSlots

WATCH_AFTER: Final = 0.05  # seconds: most searches are done by then and need no watcher task
IMPATIENT_SECONDS: Final = 5.0  # after a client has left the queue others are expected to
SMOOTHING: Final = 0.1  # what the last one counts in a moving average
REFUSED_AT_ONCE: Final = 16  # beyond as many as were finished; those after them wait, at most for …
REFUSAL_SECONDS: Final = 5.0

Clock = Callable[[], float]


class ClientDisconnected(Exception):
    """The client has closed its connection: nothing is sent."""


class ConcurrencyLimit:
    """``limit`` slots, then a queue of at most ``max_waiting``, both fair between tenants; then Overloaded.

    Made for more clients than can be answered, some of whom leave: as many answers as ever come of it, since little is
    spent on the others. Whoever comes when the queue is full, or so long that its time would be over, is refused; more
    often than requests are finished only after a pause, since many ask again at once. While clients leave the queue the
    last to come is served first: those before it are about to leave, too (Maurer 2015, Fail at Scale: adaptive LIFO).
    """

    def __init__(self, limit: int, max_waiting: int, seconds: float | None, clock: Clock = time.monotonic) -> None:
        """``seconds``: the timeout of a request, its time in the queue included; None for no timeout."""
        self.seconds = seconds
        self.is_closed = False
        self._limit = limit
        self._max_waiting = max_waiting
        self._clock = clock
        self._slots = FairSlots(limit, lambda: clock() < self._impatient_until)
        self._impatient_until = -math.inf
        self._slot_seconds = 0.0  # a moving average of how long a slot is taken
        self._free_refusals = REFUSED_AT_ONCE
        self._refusing: deque[asyncio.Event] = deque()  # the pauses of those who wait to be refused

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
        """Waits for a slot. Raises Overloaded if the queue is full, and after the timeout.

        Raises ClientDisconnected, and cancels the block, if the client leaves.
        """
        tenant, has_begun = await self._admitted(request), False
        try:
            async with cancelled_with_client(request, self.seconds), self._timed_slot(tenant):
                has_begun = True
                yield
        except ClientDisconnected:
            if not has_begun:
                self._impatient_until = self._clock() + IMPATIENT_SECONDS
            raise

    @asynccontextmanager
    async def slot_without_client(self, request: Request) -> AsyncIterator[Callable[[], None]]:
        """The same for work that is done whether or not its client waits for the result: it has no timeout, either.

        The function that the block is given gives the slot back before the block ends.
        """
        async with self._timed_slot(await self._admitted(request)) as release:
            yield release

    @asynccontextmanager
    async def _timed_slot(self, tenant: str) -> AsyncIterator[Callable[[], None]]:
        async with self._slots.slot(tenant) as release:
            began = self._clock()
            try:
                yield release
            finally:
                self._finished(self._clock() - began)

    async def _admitted(self, request: Request) -> str:
        """The tenant of a request that may wait; one without any other request may always."""
        if self.is_closed:
            raise Overloaded("服务正在停止，不再接受新的请求", hint="稍后重试，或换一个实例")
        tenant: str = getattr(request.state, "tenant", "")
        if not self._slots.is_known(tenant) or not (self._is_full() or self._is_hopeless()):
            return tenant
        await self._pace_refusals(request)
        raise Overloaded("同时进行的请求太多", hint="稍后重试")

    def _is_full(self) -> bool:
        return self.running + self.waiting >= self._limit + self._max_waiting

    def _is_hopeless(self) -> bool:
        """Whether the queue will take longer than a request may, as far as the last ones tell."""
        return self.seconds is not None and self.waiting * self._slot_seconds / self._limit > self.seconds

    def _finished(self, seconds: float) -> None:
        """A slot was taken for so long: a refusal may follow."""
        self._slot_seconds += SMOOTHING * (seconds - self._slot_seconds)
        if self._refusing:
            self._refusing.popleft().set()
        else:
            self._free_refusals = min(self._free_refusals + 1, REFUSED_AT_ONCE)

    async def _pace_refusals(self, request: Request) -> None:
        """A few refusals are free; then one waits until a request is finished, but not for long."""
        if self._free_refusals:
            self._free_refusals -= 1
            return
        pause = asyncio.Event()
        self._refusing.append(pause)
        try:
            async with cancelled_with_client(request, None), asyncio.timeout(REFUSAL_SECONDS):
                await pause.wait()
        except TimeoutError:
            pass
        finally:
            with suppress(ValueError):  # it was its turn
                self._refusing.remove(pause)


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
