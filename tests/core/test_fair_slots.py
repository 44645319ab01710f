"""Slots between owners: each waits for its turn, and not for everything that another asked for before."""

from __future__ import annotations

import asyncio
import random

from qianxun.core.system.fair_slots import FairSlots


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_owners_that_wait_are_served_in_turn() -> None:
    async def story() -> None:
        slots, order, go = FairSlots(1), [], asyncio.Event()

        async def work(owner: str, name: str) -> None:
            async with slots.slot(owner):
                order.append(name)
                await go.wait()

        tasks = [asyncio.create_task(work("甲", f"甲{at}")) for at in range(4)]
        await settle()
        tasks += [asyncio.create_task(work("乙", f"乙{at}")) for at in range(2)]
        tasks += [asyncio.create_task(work("丙", "丙0"))]
        await settle()
        assert order == ["甲0", "乙0"]  # the one slot, and the one for an owner that has none
        go.set()
        await asyncio.gather(*tasks)
        assert order == ["甲0", "乙0", "甲1", "乙1", "丙0", "甲2", "甲3"]
        assert (slots.running, slots.waiting) == (0, 0)

    asyncio.run(story())


def test_no_slot_is_lost_or_made_whatever_is_cancelled_when() -> None:
    async def story() -> None:
        chosen, slots, done, most = random.Random(7), FairSlots(3), 0, 0

        async def work(owner: str) -> None:
            nonlocal done, most
            async with slots.slot(owner):
                most = max(most, slots.running)
                for _ in range(chosen.randrange(4)):
                    await asyncio.sleep(0)
                done += 1

        tasks: set[asyncio.Task[None]] = set()
        for _ in range(2_000):
            tasks.add(asyncio.create_task(work(chosen.choice("甲乙丙"))))
            if chosen.random() < 0.5:
                chosen.choice(sorted(tasks, key=id)).cancel()
            for _ in range(chosen.randrange(3)):
                await asyncio.sleep(0)
            tasks = {task for task in tasks if not task.done()}
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (slots.running, slots.waiting, most) == (0, 0, 4)
        assert done > 400
        assert not slots.is_known("甲")

    asyncio.run(story())


def test_no_slot_is_lost_where_waits_end_and_the_limit_changes() -> None:
    async def story() -> None:
        chosen, is_newest_first, done, in_vain = random.Random(7), False, 0, 0
        slots = FairSlots(3, lambda: is_newest_first)

        async def work(owner: str) -> None:
            nonlocal done, in_vain
            try:
                async with slots.slot(owner, chosen.choice((None, 0.0, 0.001))) as release:
                    await asyncio.sleep(chosen.choice((0.0, 0.001)))
                    if chosen.random() < 0.5:
                        release()
                    done += 1
            except TimeoutError:
                in_vain += 1

        tasks: list[asyncio.Task[None]] = []
        for _ in range(500):
            tasks.append(asyncio.create_task(work(chosen.choice("甲乙丙"))))
            if chosen.random() < 0.3:
                chosen.choice(tasks).cancel()
            slots.limit, is_newest_first = chosen.choice((0, 1, 3, 5)), chosen.random() < 0.5
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert (slots.running, slots.waiting) == (0, 0)
        assert all(slots.is_free(owner) for owner in "甲乙丙")
        assert done
        assert in_vain

    asyncio.run(story())
