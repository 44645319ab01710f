"""Recalls in flight: bounded, first come first served, given up when nobody waits or the time is over."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from qianxun.core.errors import Overloaded
from qianxun.core.system.fair_slots import FairSlots
from qianxun.core.types import Vector
from qianxun.doors.http.concurrency import (
    FINISHED_PER_REFUSAL,
    REFUSED_AT_ONCE,
    ClientDisconnected,
    ConcurrencyLimit,
    cancelled_with_client,
)
from qianxun.testing.scripted import HashEmbedding
from tests.http.served import Served, serving, until


class Caller:
    """A request whose client stays until `leave`."""

    def __init__(self, tenant: str = "") -> None:
        self.has_left = asyncio.Event()
        self.request = Request({"type": "http", "headers": []}, self._receive)
        self.request.state.tenant = tenant

    async def _receive(self) -> dict[str, Any]:
        await self.has_left.wait()
        return {"type": "http.disconnect"}


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 300))


def test_so_many_run_so_many_wait_and_the_next_is_refused_at_once() -> None:
    async def story() -> None:
        turns, go, order = ConcurrencyLimit(2, 2, 30.0), asyncio.Event(), []

        async def work(name: int) -> None:
            async with turns.slot(Caller().request):
                order.append(name)
                await go.wait()

        accepted = [asyncio.create_task(work(name)) for name in range(4)]
        await until(lambda: turns.waiting == 2)
        assert (turns.running, turns.waiting, order) == (2, 2, [0, 1])
        with pytest.raises(Overloaded):
            await work(4)
        go.set()
        await asyncio.gather(*accepted)
        assert (turns.running, turns.waiting, order) == (0, 0, [0, 1, 2, 3])

    run(story)


def test_without_a_queue_what_cannot_run_is_refused() -> None:
    async def story() -> None:
        turns = ConcurrencyLimit(1, 0, 30.0)
        async with turns.slot(Caller().request):
            with pytest.raises(Overloaded):
                async with turns.slot(Caller().request):
                    raise AssertionError("it has had a turn")
        async with turns.slot(Caller().request):
            assert turns.running == 1

    run(story)


def test_a_tenant_that_fills_the_queue_keeps_no_other_waiting() -> None:
    async def story() -> None:
        turns, go, order = ConcurrencyLimit(2, 2, 30.0), asyncio.Event(), []

        async def work(tenant: str) -> None:
            async with turns.slot_without_client(Caller(tenant).request):
                order.append(tenant)
                await go.wait()

        greedy = [asyncio.create_task(work("甲")) for _ in range(4)]
        await until(lambda: turns.waiting == 2)
        with pytest.raises(Overloaded):
            await work("甲")
        modest = [asyncio.create_task(work(tenant)) for tenant in "乙丙"]
        await until(lambda: turns.waiting == 3)
        assert order == ["甲", "甲", "乙"]
        go.set()
        await asyncio.gather(*greedy, *modest)
        assert order == ["甲", "甲", "乙", "丙", "甲", "甲"]

    run(story)


def test_what_gave_its_slot_back_takes_no_room_from_others() -> None:
    """Such as writes that are stored and wait to be indexed."""

    async def story() -> None:
        turns, go, order = ConcurrencyLimit(1, 1, None), asyncio.Event(), []

        async def work(name: str, *, is_stored: bool) -> None:
            async with turns.slot_without_client(Caller().request) as release:
                order.append(name)
                if is_stored:
                    release()
                await go.wait()

        tasks = [asyncio.create_task(work(name, is_stored=True)) for name in "甲乙"]
        await until(lambda: len(order) == 2)
        tasks += [asyncio.create_task(work(name, is_stored=False)) for name in "丙丁"]
        await until(lambda: turns.waiting == 1 or any(task.done() for task in tasks))
        assert (turns.running, turns.waiting) == (1, 1)
        with pytest.raises(Overloaded):  # the queue is full now
            await work("戊", is_stored=False)
        go.set()
        await asyncio.gather(*tasks)
        assert order == ["甲", "乙", "丙", "丁"]

    run(story)


def test_no_turn_is_lost_or_made_whatever_is_cancelled_when() -> None:
    async def story() -> None:
        chosen = random.Random(7)
        turns, most, done = ConcurrencyLimit(3, 20, 30.0), 0, 0

        async def work() -> None:
            nonlocal most, done
            async with turns.slot(Caller().request):
                most = max(most, turns.running)
                for _ in range(chosen.randrange(4)):
                    await asyncio.sleep(0)
                done += 1

        tasks: set[asyncio.Task[None]] = set()
        for _ in range(3000):
            tasks.add(asyncio.create_task(work()))
            if chosen.random() < 0.5:
                chosen.choice(sorted(tasks, key=id)).cancel()
            for _ in range(chosen.randrange(3)):
                await asyncio.sleep(0)
            tasks = {task for task in tasks if not task.done()}
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (turns.running, turns.waiting, most) == (0, 0, 3)
        assert done > 500

    run(story)


def test_a_client_that_leaves_takes_its_work_along_also_from_the_queue() -> None:
    async def story() -> None:
        turns, first, second = ConcurrencyLimit(1, 5, 30.0), Caller(), Caller()
        stopped = []

        async def work(caller: Caller) -> None:
            try:
                async with turns.slot(caller.request):
                    await asyncio.sleep(60)
            except ClientDisconnected:
                stopped.append(caller)

        tasks = [asyncio.create_task(work(caller)) for caller in (first, second)]
        await until(lambda: turns.waiting == 1)
        assert turns.running == 1
        second.has_left.set()
        await tasks[1]
        assert (turns.running, turns.waiting, stopped) == (1, 0, [second])
        first.has_left.set()
        await tasks[0]
        assert (turns.running, stopped) == (0, [second, first])

    run(story)


def test_what_takes_too_long_is_given_up_aloud() -> None:
    async def story() -> None:
        with pytest.raises(Overloaded, match=r"0\.2 秒"):
            async with cancelled_with_client(Caller().request, 0.2):
                await asyncio.sleep(60)
        async with cancelled_with_client(Caller().request, None):
            await asyncio.sleep(0.1)

    run(story)


def test_somebody_elses_cancellation_stays_one() -> None:
    async def story() -> None:
        async def work() -> None:
            async with cancelled_with_client(Caller().request, 30.0):
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story)


def test_an_error_of_the_work_is_passed_on_and_no_watcher_is_left() -> None:
    async def story() -> None:
        before = asyncio.all_tasks()

        async def work() -> None:
            async with cancelled_with_client(Caller().request, 30.0):
                await asyncio.sleep(0.1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    run(story)


def test_once_closed_those_that_wait_are_finished_and_nobody_else() -> None:
    async def story() -> None:
        turns, go, done = ConcurrencyLimit(1, 5, 30.0), asyncio.Event(), []

        async def work(name: int) -> None:
            async with turns.slot(Caller().request):
                await go.wait()
                done.append(name)

        tasks = [asyncio.create_task(work(name)) for name in range(3)]
        await asyncio.sleep(0)
        turns.close()
        with pytest.raises(Overloaded):
            await work(3)
        go.set()
        await asyncio.gather(*tasks)
        assert done == [0, 1, 2]

    run(story)


# ── more than can be answered ────────────────────────────────────────────────────────────────────


class Queue:
    """One slot, taken until `go_on`; what is asked for beyond waits, and notes when it was served."""

    def __init__(self, max_waiting: int = 20, seconds: float = 30.0) -> None:
        self.now = 0.0
        self.limit = ConcurrencyLimit(1, max_waiting, seconds, lambda: self.now)
        self.served: list[str] = []
        self._go = asyncio.Event()

    async def ask(self, name: str, caller: Caller | None = None) -> asyncio.Task[None]:
        async def work() -> None:
            async with self.limit.slot((caller or Caller()).request):
                self.served.append(name)
                await self._go.wait()

        task = asyncio.create_task(work())
        for _ in range(5):
            await asyncio.sleep(0)
        return task

    async def use_up_refusals(self) -> None:
        """Those that are made at once."""
        refused = [await self.ask("") for _ in range(REFUSED_AT_ONCE)]
        assert all(isinstance(one.exception(), Overloaded) for one in refused)

    def go_on(self) -> None:
        self._go.set()


@pytest.mark.parametrize(
    ("waited", "later", "order"),
    [(20.0, 0.0, "甲丁丙"), (20.0, 60.0, "甲丙丁"), (0.9, 0.0, "甲丙丁")],  # the last: it left for other reasons
)
def test_where_clients_leave_room_goes_to_the_last_to_come(waited: float, later: float, order: str) -> None:
    async def story() -> None:
        queue, impatient = Queue(max_waiting=0), Caller()
        tasks = [await queue.ask("甲")]
        await queue.use_up_refusals()
        leaving = await queue.ask("乙", impatient)
        tasks.append(await queue.ask("丙"))
        queue.now += waited
        impatient.has_left.set()
        with pytest.raises(ClientDisconnected):
            await leaving
        tasks.append(await queue.ask("丁"))
        queue.now += later  # nobody has left for a while: first come, first served
        queue.go_on()
        await asyncio.gather(*tasks)
        assert "".join(queue.served) == order

    run(story)


def test_what_the_queue_would_take_too_long_for_is_refused_when_it_comes() -> None:
    async def story() -> None:
        queue = Queue()
        for _ in range(40):
            async with queue.limit.slot(Caller().request):
                queue.now += 20.0  # seconds that a request takes
        tasks = [await queue.ask(name) for name in "甲乙丙"]
        with pytest.raises(Overloaded):  # two of twenty seconds before it, and it has thirty
            await (await queue.ask("丁"))
        queue.go_on()
        await asyncio.gather(*tasks)
        assert "".join(queue.served) == "甲乙丙"

    run(story)


def test_after_some_refusals_the_next_wait_for_room_and_are_answered() -> None:
    async def story() -> None:
        queue = Queue(max_waiting=0)
        first = await queue.ask("甲")
        await queue.use_up_refusals()
        hurried, patient = Caller(), await queue.ask("丙")
        leaving = await queue.ask("丁", hurried)
        assert not patient.done()
        hurried.has_left.set()
        with pytest.raises(ClientDisconnected):
            await leaving
        queue.go_on()
        await asyncio.gather(first, patient)
        assert "".join(queue.served) == "甲丙"
        for _ in range(FINISHED_PER_REFUSAL):  # while nobody waits for room
            async with queue.limit.slot(Caller().request):
                pass
        async with queue.limit.slot(Caller().request):
            with pytest.raises(Overloaded):  # at once again
                await (await queue.ask("戊"))

    run(story)


def test_who_waits_for_room_in_vain_is_refused_and_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr("qianxun.doors.http.concurrency.PAUSE_SECONDS", 0.01)
        queue = Queue(max_waiting=0)
        first = await queue.ask("甲")
        await queue.use_up_refusals()
        with pytest.raises(Overloaded):
            await (await queue.ask("乙"))
        queue.go_on()
        await first
        await (await queue.ask("丙"))
        assert "".join(queue.served) == "甲丙"
        assert (queue.limit.running, queue.limit.waiting) == (0, 0)

    run(story)


def test_a_timeout_of_the_work_itself_is_not_taken_for_a_lack_of_room() -> None:
    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with ConcurrencyLimit(1, 0, 30.0).slot(Caller().request):
                raise TimeoutError

    run(story)


def test_where_clients_leave_nobody_waits_longer_than_they_did() -> None:
    """Neither in the queue nor to be refused; and all that is forgotten when nobody has left for a while."""

    async def story() -> None:
        queue = Queue()
        for _ in range(40):
            async with queue.limit.slot(Caller().request):
                queue.now += 1.0  # seconds that a request takes
        tasks, impatient = [await queue.ask("甲"), await queue.ask("乙")], Caller()
        leaving = await queue.ask("丙", impatient)
        queue.now += 2.0
        impatient.has_left.set()
        with pytest.raises(ClientDisconnected):
            await leaving
        tasks.append(await queue.ask("丁"))
        with pytest.raises(Overloaded):  # two of a second before it, and clients left after two seconds
            await (await queue.ask("戊"))
        queue.now += 60.0
        tasks.append(await queue.ask("己"))
        queue.go_on()
        await asyncio.gather(*tasks)
        assert "".join(queue.served) == "甲乙丁己"

    run(story)


def test_a_slot_that_is_given_to_a_client_just_leaving_goes_to_the_next() -> None:
    """It has been cancelled, and has not run since: the queue behind it was lost."""

    async def story() -> None:
        slots, served = FairSlots(1), list[str]()

        async def work(name: str) -> None:
            async with slots.slot():
                served.append(name)
                await asyncio.sleep(0)

        first, leaving, last = (asyncio.create_task(work(name)) for name in "甲乙丙")
        await asyncio.sleep(0)
        leaving.cancel()  # in the moment in which the first one is done
        await asyncio.wait((first, leaving, last), timeout=60)
        assert served == ["甲", "丙"]
        assert (slots.running, slots.waiting) == (0, 0)

    run(story)


# ── the service ──────────────────────────────────────────────────────────────────────────────────


class GatedQueries(HashEmbedding):
    """Answers queries once the test opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.asked = 0

    def embed_query(self, text: str) -> Vector:
        self.asked += 1
        assert self.gate.wait(120), "nobody opened the gate"
        return super().embed_query(text)


ONE = {"service.recalls_at_once": 1, "service.recalls_waiting": 1, "search.cache_entries": 0}


def test_beyond_the_bound_the_service_says_when_to_come_back_and_answers_all_else(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedQueries()
        async with serving(tmp_path, ONE, model) as served:
            base, turns = await served.base(), served.app.state.service.recalls
            await served.add(base, "a", "住院费用报销比例为85%。")
            accepted = [asyncio.create_task(search(served, base)) for _ in range(2)]
            await until(lambda: turns.running == turns.waiting == 1)
            refused = await search(served, base)
            assert (refused.status_code, refused.json()["error"]) == (503, "overloaded")
            assert refused.headers["retry-after"] == "1"
            # Nothing has been read of what is not going to be answered.
            assert (await served.http.post(f"/v1/retrieval/{base}", content=b"{")).status_code == 503
            assert (await served.http.get("/healthz")).status_code == 200
            assert (await served.add(base, "b", "门诊费用。")).status_code == 201
            model.gate.set()
            assert [(await each).status_code for each in accepted] == [200, 200]
            assert (await search(served, base)).status_code == 200

    run(story)


def test_a_client_that_hangs_up_frees_its_turn_though_the_model_hangs(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedQueries()
        async with serving(tmp_path, ONE, model) as served:
            base, turns = await served.base(), served.app.state.service.recalls
            await served.add(base, "a", "住院费用报销比例为85%。")
            body = '{"query": "住院"}'.encode()
            head = f"POST /v1/retrieval/{base} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await until(lambda: turns.running == 1 and model.asked == 1)
            writer.close()
            await until(lambda: turns.running == 0)
            assert not model.gate.is_set()
            model.gate.set()
            assert (await search(served, base)).status_code == 200

    run(story)


def test_a_search_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedQueries()
        async with serving(tmp_path, {**ONE, "service.request_seconds": 0.3}, model) as served:
            base = await served.base()
            await served.add(base, "a", "住院费用报销比例为85%。")
            late = await search(served, base)
            assert (late.status_code, late.json()["error"]) == (503, "overloaded")
            model.gate.set()

    run(story)


async def search(served: Served, base: int) -> Any:
    return await served.http.post(f"/v1/retrieval/{base}", json={"query": "住院报销比例"})
