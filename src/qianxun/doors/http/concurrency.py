"""How many requests of a kind run at once, how many wait, and when one is cancelled: client disconnected, timeout."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

from qianxun.core.errors import Overloaded
from qianxun.core.ports import nothing
from qianxun.core.system.fair_slots import FairSlots

WATCH_AFTER: Final = 0.05  # seconds: most searches are done by then and need no watcher task
IMPATIENT_SECONDS: Final = 2.0  # after a client has left others are expected to, when they have waited as long
MOST_DOUBLINGS: Final = 30  # of that time, since nobody has: it is as good as for ever then
LEAST_WAIT: Final = 1.0  # seconds; who leaves sooner had other reasons than the wait, such as its own end
WORTH_WAITING: Final = 0.7  # of that time in the queue: clients are not all alike
WORTH_PAUSING: Final = 0.9  # … and before a refusal, whose moment is known
SMOOTHING: Final = 0.1  # what the last one counts in a moving average
REFUSED_AT_ONCE: Final = 16  # those after them wait for room in the queue …
FINISHED_PER_REFUSAL: Final = 4  # … and after so many that are finished while nobody does, one more is refused at once
PAUSE_SECONDS: Final = 10.0  # that one waits for room at most

Clock = Callable[[], float]


class ClientDisconnected(Exception):
    """The client has closed its connection: nothing is sent."""


class ConcurrencyLimit:
    """``limit`` slots, then a queue of at most ``max_waiting``, both fair between tenants; then Overloaded.

    Made for more clients than can be answered, some of whom leave: as many answers as ever come of it, since little is
    spent on the others. Whoever comes when the queue is full, or so long that its time would be over, waits for room in
    it and is refused only when there is none for a while: a refusal costs, and many who are refused ask again at once.
    Where clients leave nobody waits longer than they did: to see one go costs more than to refuse it. Room then goes to
    the last to come: those before it are about to leave, too (Maurer 2015, Fail at Scale: adaptive LIFO). Who has room
    is served in turn: the queue is no longer than they wait.
    """

    def __init__(self, limit: int, max_waiting: int, seconds: float | None, clock: Clock = time.monotonic) -> None:
        """``seconds``: the timeout of a request, its time in the queue included; None for no timeout."""
        self.seconds = seconds
        self.is_closed = False
        self._limit = limit
        self._max_waiting = max_waiting
        self._clock = clock
        self._slots = FairSlots(limit)
        self._places = FairSlots(limit + max_waiting, lambda: self._accepted_wait() < (seconds or math.inf))
        self._longest_wait = math.inf  # seconds after which clients have left …
        self._left_at = -math.inf  # … the last of them
        self._slot_seconds = 0.0  # a moving average of how long a slot is taken
        self._free_refusals = REFUSED_AT_ONCE
        self._finished_since = 0  # a refusal was made free again

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
        """Waits for a slot. Raises Overloaded if there is no room in the queue, and after the timeout.

        Raises ClientDisconnected, and cancels the block, if the client leaves.
        """
        came, has_begun, watched = self._clock(), False, cancelled_with_client(request, self.seconds)
        try:
            async with watched, self._place(request) as (tenant, _), self._timed_slot(tenant):
                has_begun = True
                yield
        except ClientDisconnected:
            if not has_begun:
                self._note_departure(came)
            raise

    @asynccontextmanager
    async def slot_without_client(self, request: Request) -> AsyncIterator[Callable[[], None]]:
        """The same for work that is done whether or not its client waits for the result: it has no timeout, either.

        The function that the block is given gives the slot back before the block ends, and the room with it.
        """
        async with self._place(request) as (tenant, leave), self._timed_slot(tenant) as release:

            def release_both() -> None:
                release()
                leave()

            yield release_both

    @asynccontextmanager
    async def _place(self, request: Request) -> AsyncIterator[tuple[str, Callable[[], None]]]:
        """Waits for room among those that run or wait. One without any other has room.

        The block is given the tenant of the request, and a function that gives the room back before the block ends.
        """
        if self.is_closed:
            raise Overloaded("服务正在停止，不再接受新的请求", hint="稍后重试，或换一个实例")
        tenant: str = getattr(request.state, "tenant", "")
        self._places.limit = self._most_places()
        if not self._places.is_free(tenant):
            if not self._slots.is_known(tenant):
                yield tenant, nothing
                return
            self._refuse_at_once()
        has_place = False
        try:
            async with self._places.slot(tenant, min(PAUSE_SECONDS, WORTH_PAUSING * self._accepted_wait())) as leave:
                has_place = True
                yield tenant, leave
        except TimeoutError:
            if has_place:
                raise
            raise _too_many() from None

    def _refuse_at_once(self) -> None:
        """Raises Overloaded for a few, who need not wait to be told."""
        if self._free_refusals:
            self._free_refusals -= 1
            raise _too_many()

    def _most_places(self) -> int:
        """As many as the queue may have, and in time: before their timeout, and before clients leave."""
        longest = min(self.seconds or math.inf, WORTH_WAITING * self._accepted_wait())
        in_time = longest * self._limit / self._slot_seconds if self._slot_seconds else math.inf
        return self._limit + (self._max_waiting if in_time >= self._max_waiting else int(in_time) + 1)

    @asynccontextmanager
    async def _timed_slot(self, tenant: str) -> AsyncIterator[Callable[[], None]]:
        async with self._slots.slot(tenant) as release:
            began = [self._clock()]

            def finish() -> None:
                while began:
                    self._finished(self._clock() - began.pop())
                    release()

            try:
                yield finish
            finally:
                finish()

    def _finished(self, seconds: float) -> None:
        """A slot was taken for so long."""
        self._slot_seconds += SMOOTHING * (seconds - self._slot_seconds)
        self._places.limit = self._most_places()
        if self._places.waiting:
            return
        self._finished_since += 1
        if self._finished_since >= FINISHED_PER_REFUSAL:
            self._finished_since = 0
            self._free_refusals = min(self._free_refusals + 1, REFUSED_AT_ONCE)

    def _note_departure(self, came: float) -> None:
        """A client that came then has left without an answer."""
        waited = self._clock() - came
        if waited >= LEAST_WAIT:
            self._longest_wait = min(self._accepted_wait(), waited)
            self._left_at = self._clock()

    def _accepted_wait(self) -> float:
        """Seconds that clients wait, as far as the last ones tell; twice as long for every while that nobody leaves."""
        if self._longest_wait == math.inf:
            return math.inf
        whiles = (self._clock() - self._left_at) / IMPATIENT_SECONDS
        return math.ldexp(self._longest_wait, int(min(whiles, MOST_DOUBLINGS)))


def _too_many() -> Overloaded:
    return Overloaded("同时进行的请求太多", hint="稍后重试")


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
