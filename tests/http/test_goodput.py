"""Goodput of `ConcurrencyLimit` when more is asked for than can be answered, in simulated time.

One processor serves closed loops of clients: whoever is answered or refused asks again at once, whoever has waited
longer than it cares to hangs up and comes back. Every step takes as much simulated time as it takes the service
processor time (measured: docs/benchmarks.md); nothing depends on the machine. `benchmarks.overload` is the same with a
real service.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from qianxun.core.errors import Overloaded
from qianxun.doors.http.concurrency import ClientDisconnected, ConcurrencyLimit

RECEIVED, ANSWERED, REFUSED, LEFT, CONNECTED = 0.0003, 0.0045, 0.0004, 0.0004, 0.0003  # seconds of the processor
STEPS = 3  # between which others may run
SECONDS, WARMING = 8.0, 5.0
AT_ONCE, WAITING, TIMEOUT = 8, 256, 60.0


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its clock stands still but for work, and jumps to the next timer when there is nothing to do."""

    def __init__(self, slowness: float) -> None:
        super().__init__()
        self.now, self._slowness = 0.0, slowness
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def jump(timeout: float | None) -> Any:
            self.now += timeout or 0.0
            return select(0)

        selector.select = jump

    def time(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds * self._slowness


class Clients:
    """So many, each of whom waits for ``patience`` seconds (0: for ever)."""

    def __init__(self, loop: SimulatedLoop, limit: ConcurrencyLimit, patience: float) -> None:
        self.loop, self.limit, self.waits = loop, limit, patience
        self.outcomes: Counter[str] = Counter()
        self._chance = random.Random(2)

    async def ask_again_and_again(self) -> None:
        while True:
            outcome = await self._ask()
            if self.loop.now > WARMING:
                self.outcomes[outcome] += 1
            await asyncio.sleep(0.0005)  # to the client and back

    async def _ask(self) -> str:
        has_left = asyncio.Event()
        leaving = None
        if self.waits:
            leaving = self.loop.call_later(self.waits * self._chance.uniform(0.8, 1.2), has_left.set)
        try:
            return await self._served(has_left)
        finally:
            if leaving is not None:
                leaving.cancel()

    async def _served(self, has_left: asyncio.Event) -> str:
        async def receive() -> dict[str, str]:
            await has_left.wait()
            return {"type": "http.disconnect"}

        request = cast(Request, SimpleNamespace(state=SimpleNamespace(tenant="local"), receive=receive))
        self.loop.work(RECEIVED)
        try:
            async with self.limit.slot(request):
                for _ in range(STEPS):
                    self.loop.work(ANSWERED / STEPS)
                    await asyncio.sleep(0)
        except Overloaded:
            self.loop.work(REFUSED)
            return "refused"
        except ClientDisconnected:
            self.loop.work(LEFT + CONNECTED)
            return "left"
        return "left" if has_left.is_set() else "answered"


def outcomes(clients: int, patience: float, slowness: float = 1.0) -> Counter[str]:
    """``slowness``: how many times as long every step takes."""

    async def serve(loop: SimulatedLoop) -> Counter[str]:
        asking = Clients(loop, ConcurrencyLimit(AT_ONCE, WAITING, TIMEOUT, loop.time), patience)
        tasks = [asyncio.create_task(asking.ask_again_and_again()) for _ in range(clients)]
        await asyncio.sleep(WARMING + SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return asking.outcomes

    loop = SimulatedLoop(slowness)
    try:
        return loop.run_until_complete(serve(loop))
    finally:
        loop.close()


FAST, SLOW = 1.0, 1.6  # 210 and 130 answers a second at most


@pytest.fixture(scope="module")
def peaks() -> dict[float, int]:
    return {slowness: outcomes(32, 0.0, slowness)["answered"] for slowness in (FAST, SLOW)}


@pytest.mark.parametrize(
    ("slowness", "clients", "patience", "least"),
    [
        (FAST, 280, 0.0, 0.99),
        (FAST, 400, 2.0, 0.93),
        (SLOW, 400, 0.0, 0.98),
        (SLOW, 400, 5.0, 0.98),
        # Most cannot be answered in time: to refuse all of them just before they leave would cost .16.
        (SLOW, 400, 2.0, 0.79),
        (SLOW, 1000, 0.0, 0.98),
    ],
)
def test_goodput_stays_near_its_peak_however_many_ask(
    peaks: dict[float, int], slowness: float, clients: int, patience: float, least: float
) -> None:
    found = outcomes(clients, patience, slowness)
    assert found["answered"] >= least * peaks[slowness], (found, peaks)
