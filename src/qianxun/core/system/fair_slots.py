"""Slots that are shared fairly between owners, be it tenants of a service or of its parsing workers."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


class FairSlots:
    """``limit`` slots, and one more for an owner that has none.

    Owners that wait are served in turn, each first come first served: however many one of them asks for, another waits
    for one slot and not for all of these.
    """

    def __init__(self, limit: int, is_newest_first: Callable[[], bool] = lambda: False) -> None:
        """``is_newest_first``: whether, at this moment, the last to come is the first of its owner to be served."""
        self.limit = limit  # may change: who waits then has a slot when the next one is given back
        self._is_newest_first = is_newest_first
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the owner whose turn it is comes first

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def is_known(self, owner: str) -> bool:
        """Whether the owner has a slot or waits for one."""
        return owner in self._running or owner in self._waiting

    def is_free(self, owner: str) -> bool:
        """Whether the owner would have a slot at once."""
        most = max(self.limit, 1) + (owner not in self._running)
        return self.running < most and owner not in self._waiting

    @asynccontextmanager
    async def slot(self, owner: str = "", seconds: float | None = None) -> AsyncIterator[Callable[[], None]]:
        """Waits for a slot and has it for the block, or until the function that the block is given is called.

        Raises TimeoutError if there is none within ``seconds``.
        """
        await self._acquire(owner, seconds)
        owners = [owner]

        def release() -> None:
            while owners:
                self._release(owners.pop())

        try:
            yield release
        finally:
            release()

    async def _acquire(self, owner: str, seconds: float | None) -> None:
        if self.is_free(owner):
            self._running[owner] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except (asyncio.CancelledError, TimeoutError):
            if turn.cancelled():
                self._forget(owner, turn)
            else:  # it had just been given
                self._release(owner)
            raise

    def _release(self, owner: str) -> None:
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        while (following := self._next()) is not None:
            turns = self._waiting.pop(following)
            turn = turns.pop() if self._is_newest_first() else turns.popleft()
            if turns:
                self._waiting[following] = turns  # behind the others
            if not turn.cancelled():  # whoever waited for it may have been, and not have run since
                turn.set_result(None)
                self._running[following] += 1

    def _next(self) -> str | None:
        free = max(self.limit, 1) - self.running
        return next((owner for owner in self._waiting if free + (owner not in self._running) > 0), None)

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(owner, deque())
        with suppress(ValueError):  # it was passed over
            turns.remove(turn)
        if not turns:
            self._waiting.pop(owner, None)
