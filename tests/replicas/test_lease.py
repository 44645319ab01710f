"""A consumer that was stopped for longer than its lease cannot write once another has taken over; and the control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qianxun import Document
from qianxun.bases.lease import LeaseKeeper, WriteTurn
from qianxun.core.errors import LeaseLost
from qianxun.core.types import IndexBatch
from qianxun.index.postgres import tables
from qianxun.records import Records, leases
from tests.replicas.audit import audited, lapsed_writes
from tests.replicas.engines import found, replicas

SHORT = {"index.lease_seconds": 0.2}


def test_a_lease_is_had_by_one_until_it_gives_it_back_or_lapses(records_url: str) -> None:
    records = Records.open(records_url)

    def take(holder: int, seconds: float = 60.0) -> leases.Lease | None:
        with records.leasing() as tx:
            return leases.take(tx, "outbox.1", holder, seconds)

    first = take(1)
    assert first is not None
    assert not first.was_abandoned
    assert take(2) is None
    with records.leasing() as tx:
        leases.give_back(tx, first)
    second = take(2, seconds=-1.0)  # has lapsed already
    assert second is not None
    assert second.fence > first.fence
    assert not second.was_abandoned
    third = take(1)
    assert third is not None
    assert third.was_abandoned
    assert third.fence > second.fence
    with records.leasing() as tx:
        assert not leases.renew(tx, second, 60.0)
        assert leases.renew(tx, third, 60.0)
        leases.require(tx, third)
        with pytest.raises(LeaseLost):
            leases.require(tx, second)
        leases.give_back(tx, second)  # too late: it is another's
    assert take(2) is None
    records.close()


def test_a_fence_grows_even_over_a_clock_that_went_back(records_url: str) -> None:
    records = Records.open(records_url)
    with records.leasing() as tx:
        first = leases.take(tx, "outbox.1", 1, 60.0)
        assert first is not None
        far = first.fence + 10**12
        tx.execute(leases.update(leases.LeaseRow).values(fence=far))
        again = leases.take(tx, "outbox.1", 1, 60.0)
    assert again is not None
    assert again.fence == far + 1
    records.close()


async def paused_and_overtaken(
    tmp_path: Path, url: str, before_resuming: Callable[[], None] = lambda: None
) -> tuple[list[str], bool]:
    """Stops a replica right before it writes to the index, has another take over and write a newer version, and lets
    it go on. Returns what the audit found, and whether the index is what the records say."""
    async with replicas(tmp_path, url, **SHORT) as (slow, quick):
        base = (await slow.create_knowledge_base("医保")).id
        audited(url)
        await slow.add_documents(base, [Document("甲", "第一版的内容。")])
        await found(quick, base, "内容")
        reached, resume = stop_before_writing(await slow.base(base))
        adding = asyncio.create_task(slow.add_documents(base, [Document("甲", "第二版的内容。")]))
        await reached.wait()
        await quick.add_documents(base, [Document("甲", "第三版的内容。"), Document("乙", "另一篇内容。")])
        before_resuming()
        resume.set()
        await adding
        return lapsed_writes(url), (await quick.admin.verify(base)).is_clean


def stop_before_writing(base: Any) -> tuple[asyncio.Event, asyncio.Event]:
    """As SIGSTOP does: neither the write nor the renewal of the lease goes on, once."""
    reached, resume, apply = asyncio.Event(), asyncio.Event(), base.index.apply
    renewed = LeaseKeeper._renewed

    def stopped(keeper: LeaseKeeper, turn: WriteTurn) -> bool:
        return renewed(keeper, turn) if keeper is not base.lease or resume.is_set() else True

    async def late(batch: IndexBatch) -> None:
        if not reached.is_set():
            reached.set()
            await resume.wait()
        await apply(batch)

    base.lease._renewed = lambda turn: stopped(base.lease, turn)
    base.serving.index.apply = late
    return reached, resume


def test_a_consumer_that_was_stopped_cannot_write_after_another_took_over(tmp_path: Path, postgres_url: str) -> None:
    assert asyncio.run(paused_and_overtaken(tmp_path, postgres_url)) == ([], True)


def test_without_fencing_the_same_is_a_write_by_a_lapsed_lease(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfenced() -> None:
        monkeypatch.setattr(tables, "fenced", lambda state, fence: tables.replace(state, fence=fence))
        monkeypatch.setattr(leases, "require", lambda tx, lease: None)

    lapsed, _ = asyncio.run(paused_and_overtaken(tmp_path, postgres_url, unfenced))
    assert lapsed


def test_an_index_that_a_lapsed_process_has_built_takes_no_ones_place(tmp_path: Path, postgres_url: str) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, **SHORT) as (slow, quick):
            base = (await slow.create_knowledge_base("医保")).id
            await slow.add_documents(base, [Document("甲", "第一版的内容。")])
            opened = await slow.base(base)
            reached, resume, switch = asyncio.Event(), asyncio.Event(), slow.backend.switch

            async def late(knowledge_base: int, built: Any) -> None:
                reached.set()
                await resume.wait()
                await switch(knowledge_base, built)

            slow.backend.switch = late  # type: ignore[method-assign]
            opened.lease._renewed = lambda turn: True  # type: ignore[method-assign]
            rebuilding = asyncio.create_task(slow.admin.rebuild(base))
            await reached.wait()
            await quick.add_documents(base, [Document("乙", "后来的内容。")])
            resume.set()
            with pytest.raises(LeaseLost):
                await rebuilding
            assert await found(quick, base, "内容") == {"甲", "乙"}
            assert (await quick.admin.verify(base)).is_clean

    asyncio.run(story())


def test_what_a_dead_replica_accepted_another_indexes_once_its_lease_and_claim_have_lapsed(
    tmp_path: Path, postgres_url: str
) -> None:
    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 2, background=True, **SHORT) as (dead, alive):
            base = (await dead.create_knowledge_base("医保")).id
            await alive.base(base)
            opened = await dead.base(base)
            reached, resume = stop_before_writing(opened)
            adding = asyncio.create_task(dead.add_documents(base, [Document("甲", "没有写完的内容。")]))
            await reached.wait()
            async with asyncio.timeout(30):
                while await found(alive, base, "没有写完的内容") != {"甲"}:  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(0.05)
            resume.set()
            await adding
            assert (await alive.admin.verify(base)).is_clean

    asyncio.run(story())


def test_two_replicas_do_not_prepare_the_same_document(tmp_path: Path, postgres_url: str) -> None:
    """The one that accepted it does, however often the other looks."""

    async def story() -> None:
        async with replicas(tmp_path, postgres_url, 2, background=True) as (one, two):
            base = (await one.create_knowledge_base("医保")).id
            await two.base(base)
            accepted = await asyncio.gather(
                *(one.add_documents(base, [Document(f"{at}", f"第 {at} 篇。")]) for at in range(8))
            )
            assert all(len(each.chunk_keys) == 1 for (each,) in accepted)

    asyncio.run(story())
