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
IMPATIENT_SECONDS: Final = 5.0  # after a client has left others are expected to, when they have waited as long
LEAST_WAIT: Final = 1.0  # seconds; who leaves sooner had other reasons than the wait
WORTH_WAITING: Final = 0.7  # of that time: clients are not all alike
SMOOTHING: Final = 0.1  # what the last one counts in a moving average
REFUSED_AT_ONCE: Final = 16  # those after them wait until so many requests are finished …
FINISHED_PER_REFUSAL: Final = 4
REFUSAL_SECONDS: Final = 5.0  # … but at most for this long, nor until they leave

Clock = Callable[[], float]


class ClientDisconnected(Exception):
    """The client has closed its connection: nothing is sent."""


class ConcurrencyLimit:
    """``limit`` slots, then a queue of at most ``max_waiting``, both fair between tenants; then Overloaded.

    Made for more clients than can be answered, some of whom leave: as many answers as ever come of it, since little is
    spent on the others. Whoever comes when the queue is full, or so long that its time would be over, is refused; where
    many are, only after a pause, at a fraction of the pace at which requests are finished, since many ask again at
    once. Where clients leave, so does whatever would take longer than they wait: to see one go costs more than to
    refuse it. While they leave the queue the last to come is served first: those before it are about to leave, too
    (Maurer 2015, Fail at Scale: adaptive LIFO).
    """

    def __init__(self, limit: int, max_waiting: int, seconds: float | None, clock: Clock = time.monotonic) -> None:
        """``seconds``: the timeout of a request, its time in the queue included; None for no timeout."""
        self.seconds = seconds
        self.is_closed = False
        self._limit = limit
        self._max_waiting = max_waiting
        self._clock = clock
        self._slots = FairSlots(limit, lambda: clock() < self._left_queue_at + IMPATIENT_SECONDS)
        self._longest_wait = math.inf  # seconds after which clients have left …
        self._left_at = self._left_queue_at = -math.inf  # … the last of them, the last from the queue
        self._slot_seconds = 0.0  # a moving average of how long a slot is taken
        self._free_refusals = REFUSED_AT_ONCE
        self._finished_since = 0  # the last refusal that had to wait, or was made free again
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
        tenant, has_begun, came = await self._admitted(request), False, self._clock()
        try:
            async with cancelled_with_client(request, self.seconds), self._timed_slot(tenant):
                has_begun = True
                yield
        except ClientDisconnected:
            if not has_begun:
                self._left_queue_at = self._clock()
                self._note_departure(came)
            raise

    def _note_departure(self, came: float) -> None:
        """A client that came then has left without an answer."""
        self._longest_wait = min(self._accepted_wait(), max(self._clock() - came, LEAST_WAIT))
        self._left_at = self._clock()

    def _accepted_wait(self) -> float:
        """Seconds that clients wait, as far as the last ones tell; more and more after nobody has left for a while."""
        since = (self._clock() - self._left_at) / IMPATIENT_SECONDS
        return self._longest_wait if self._longest_wait == math.inf else self._longest_wait * max(1.0, since)

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
        """Whether the queue will take longer than a request may or a client waits, as far as the last ones tell."""
        longest = min(self.seconds or math.inf, WORTH_WAITING * self._accepted_wait())
        return self.waiting * self._slot_seconds / self._limit > longest

    def _finished(self, seconds: float) -> None:
        """A slot was taken for so long: after some of them a refusal may follow."""
        self._slot_seconds += SMOOTHING * (seconds - self._slot_seconds)
        self._finished_since += 1
        if self._finished_since < FINISHED_PER_REFUSAL:
            return
        self._finished_since = 0
        if self._refusing:
            self._refusing.popleft().set()
        else:
            self._free_refusals = min(self._free_refusals + 1, REFUSED_AT_ONCE)

    async def _pace_refusals(self, request: Request) -> None:
        """A few refusals are free; then one waits until requests are finished, but not for long."""
        if self._free_refusals:
            self._free_refusals -= 1
            return
        pause, came = asyncio.Event(), self._clock()
        longest = min(REFUSAL_SECONDS, WORTH_WAITING * self._accepted_wait())
        self._refusing.append(pause)
        try:
            async with cancelled_with_client(request, None), asyncio.timeout(longest):
                await pause.wait()
        except TimeoutError:
            pass
        except ClientDisconnected:
            self._note_departure(came)
            raise
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
