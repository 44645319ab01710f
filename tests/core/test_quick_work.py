"""Quick work runs on the event loop, slow work in a thread, by what pieces of its kind took before."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from qianxun.core.system.quick_work import QUICK_SECONDS, QuickWork


class Processor:
    """Its time passes by work alone, however busy the machine is."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def thread_time(self) -> float:
        return self._seconds

    def burn(self, seconds: float) -> int:
        """Takes so much of the processor; returns the thread it ran in."""
        self._seconds += seconds
        return threading.get_ident()


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    made = Processor()
    monkeypatch.setattr("qianxun.core.system.quick_work.time", made)
    return made


def test_the_first_piece_runs_in_a_thread_and_a_quick_one_after_it_does_not(processor: Processor) -> None:
    assert where_run(processor, [0.0, 0.0]) == ["thread", "loop"]


def test_after_a_slow_piece_the_next_ones_run_in_threads_for_a_while(processor: Processor) -> None:
    places = where_run(processor, [3 * QUICK_SECONDS, *[0.0] * 9])
    assert places[:4] == ["thread"] * 4
    assert places[-1] == "loop"


def test_a_larger_piece_is_expected_to_take_longer(processor: Processor) -> None:
    work = QuickWork()
    asyncio.run(work.run(10, lambda: processor.burn(QUICK_SECONDS / 4)))
    assert work.is_quick(10)
    assert not work.is_quick(100)


def test_a_large_piece_that_was_over_at_once_tells_of_no_other(processor: Processor) -> None:
    """Such a table was turned down at a glance; the next question stopped the loop for seconds."""
    work = QuickWork()
    asyncio.run(work.run(100_000, lambda: processor.burn(0.0)))
    assert not work.is_quick(100_000)


def test_what_work_raises_reaches_the_caller_from_either_place() -> None:
    work = QuickWork()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(work.run(1, lambda: 1 // 0))


def test_other_tasks_have_their_turn_before_each_piece(processor: Processor) -> None:
    assert asyncio.run(turns_of_another_task(processor, pieces=5)) >= 5


def where_run(processor: Processor, pieces: list[float]) -> list[str]:
    """Where each of these pieces of work was run, one after another."""

    async def run() -> list[str]:
        work, loop = QuickWork(), threading.get_ident()
        threads = [await work.run(1, partial(processor.burn, seconds)) for seconds in pieces]
        return ["loop" if thread == loop else "thread" for thread in threads]

    return asyncio.run(run())


async def turns_of_another_task(processor: Processor, pieces: int) -> int:
    work, turns = QuickWork(), 0
    await work.run(1, lambda: processor.burn(0.0))

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(pieces):
        await work.run(1, lambda: processor.burn(0.0))
    task.cancel()
    return turns
