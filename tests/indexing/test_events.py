"""Events may come twice, late, in any order and in the middle of something: the end is the same."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import BadModelReply, ModelUnavailable, NotFound
from qianxun.core.types import IndexBatch
from qianxun.engine.engine import Engine
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.indexing import outbox_indexer as indexing
from tests.indexing.opened import FailingEmbedding, GatedEmbedding, doc, found, opened

OLD, NEW = "旧版规定住院报销百分之七十", "新版规定住院报销百分之八十五"


def event(document_id: str, content: str = "", **told: Any) -> dict[str, Any]:
    return {"document_id": document_id, **({"content": content} if content else {}), **told}


async def deliver(engine: Engine, kb: int, kind: str, told: dict[str, Any]) -> str:
    handler = await engine.events(kb)
    outcome = await getattr(handler, f"handle_document_{kind}")(told)
    return str(outcome.result)


def test_a_document_is_created_updated_and_deleted_by_events(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            assert await deliver(engine, kb, "created", event("d", OLD, user_id="u1")) == "accepted"
            assert await found(engine, kb, "报销") == {}  # durable, not yet indexed
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {"d": OLD}
            assert await deliver(engine, kb, "updated", event("d", NEW, user_id="u1")) == "accepted"
            assert await found(engine, kb, "报销") == {"d": OLD}
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {"d": NEW}
            assert await deliver(engine, kb, "updated", event("d", NEW, user_id="u1")) == "unchanged"
            assert await deliver(engine, kb, "deleted", event("d")) == "accepted"
            assert await found(engine, kb, "报销") == {}  # at once, before any indexing
            assert await deliver(engine, kb, "deleted", event("d")) == "unchanged"

    asyncio.run(story())


@pytest.mark.parametrize("cleared", ["", " \n\u3000"])
def test_a_chapter_whose_text_was_cleared_is_not_found_any_more(tmp_path: Path, cleared: str) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            assert await deliver(engine, kb, "created", event("d", OLD)) == "accepted"
            await engine.drain(kb)
            assert await deliver(engine, kb, "updated", {"document_id": "d", "content": cleared}) == "accepted"
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {}
            assert (await engine.document(kb, "d")).status == "indexed"
            assert await deliver(engine, kb, "updated", event("d", NEW)) == "accepted"
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {"d": NEW}
            assert await deliver(engine, kb, "updated", event("d")) == "rejected"  # it says nothing of the text

    asyncio.run(story())


def test_an_event_that_comes_twice_is_handled_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            first = event("d", OLD, event_id="e1")
            assert await deliver(engine, kb, "created", first) == "accepted"
            assert await deliver(engine, kb, "deleted", event("d", event_id="e2")) == "accepted"
            assert await deliver(engine, kb, "created", first) == "duplicate"
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {}
            # Without a name or a generation it is a new wish.
            assert await deliver(engine, kb, "created", event("d", OLD, event_id="")) == "accepted"
            assert await deliver(engine, kb, "updated", event("d", NEW, event_id="")) == "accepted"

    asyncio.run(story())


@pytest.mark.parametrize("last", ["updated", "deleted"])
def test_every_order_of_the_same_events_ends_in_the_same_state(tmp_path: Path, last: str) -> None:
    kinds = ["created", "updated", "deleted", last]
    orders = list(permutations(range(4)))

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            for number, order in enumerate(orders):
                for step in order:
                    told = event(f"d{number}", f"{NEW}第{step}版", generation=step + 1)
                    await deliver(engine, kb, kinds[step], told)
                    if number % 2 and step == order[1]:
                        await engine.drain(kb)
                    assert await deliver(engine, kb, kinds[step], told) in ("stale", "unchanged")
            await engine.drain(kb)
            survivors = {f"d{number}": f"{NEW}第3版" for number in range(len(orders))} if last == "updated" else {}
            assert await found(engine, kb, NEW) == survivors
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_a_delete_wins_over_the_indexing_it_overtook(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedEmbedding("新版")
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("d", OLD)])
            await deliver(engine, kb, "updated", event("d", NEW))
            indexing_it = asyncio.create_task(engine.drain(kb))
            await asyncio.to_thread(model.entered.wait, 60)
            assert await deliver(engine, kb, "deleted", event("d")) == "accepted"
            assert await found(engine, kb, "报销") == {}
            model.gate.set()
            await indexing_it
            assert await found(engine, kb, "报销") == {}
            assert (await engine.admin.verify(kb)).is_clean
            with pytest.raises(NotFound):
                await engine.document(kb, "d")

    asyncio.run(story())


def test_a_newer_version_wins_over_the_indexing_it_overtook(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedEmbedding("新版")
        async with opened(tmp_path, model) as (engine, kb):
            await deliver(engine, kb, "created", event("d", NEW, generation=1))
            indexing_it = asyncio.create_task(engine.drain(kb))
            await asyncio.to_thread(model.entered.wait, 60)
            await deliver(engine, kb, "deleted", event("d", generation=2))
            await deliver(engine, kb, "created", event("d", "最新规定报销百分之九十", generation=3))
            model.gate.set()
            await indexing_it
            await engine.drain(kb)
            assert await found(engine, kb, "报销") == {"d": "最新规定报销百分之九十"}
            assert (await engine.document(kb, "d")).generation == 3
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


def test_the_old_version_serves_while_the_new_one_is_prepared(tmp_path: Path) -> None:
    async def story() -> None:
        model = GatedEmbedding("新版")
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("d", OLD)])
            replacing = asyncio.create_task(engine.add_documents(kb, [doc("d", NEW)]))
            await asyncio.to_thread(model.entered.wait, 60)
            for mode in ("fulltext", "vector", "hybrid"):
                assert await found(engine, kb, "住院报销", mode=mode) == {"d": OLD}
            model.gate.set()
            await replacing
            assert await found(engine, kb, "住院报销", mode="hybrid") == {"d": NEW}

    asyncio.run(story())


def test_a_search_finds_one_version_or_the_other_at_every_moment_of_a_replacement(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("d", f"{OLD}第0次")])
            done = asyncio.Event()
            seen: list[dict[str, str]] = []

            async def search() -> None:
                while not done.is_set():
                    seen.append(await found(engine, kb, "住院报销"))

            searching = asyncio.create_task(search())
            number = 0
            async with asyncio.timeout(300):
                while number < 14 or (len(seen) <= 14 and not searching.done()):
                    number += 1
                    await engine.add_documents(kb, [doc("d", f"{OLD}第{number}次")])
            done.set()
            await searching
            assert all(list(each) == ["d"] for each in seen)

    asyncio.run(story())


def test_a_writer_that_is_cancelled_halfway_does_not_undo_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread goes on after the cancellation: here it is held up until the next writer has had its chance."""
    honest = EmbeddedIndex._apply
    entered, gate, left = threading.Event(), threading.Event(), threading.Event()

    def held_up(index: EmbeddedIndex, batch: IndexBatch) -> None:
        if entered.is_set():
            return honest(index, batch)
        entered.set()
        gate.wait(60)
        honest(index, batch)
        left.set()

    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.add_documents(kb, [doc("d", "最早的规定")])
            monkeypatch.setattr(EmbeddedIndex, "_apply", held_up)
            first = asyncio.create_task(engine.add_documents(kb, [doc("d", OLD)]))
            await asyncio.to_thread(entered.wait, 60)
            first.cancel()
            second = asyncio.create_task(engine.add_documents(kb, [doc("d", NEW)]))
            await asyncio.wait([second], timeout=0.3)
            gate.set()
            await asyncio.gather(first, second, return_exceptions=True)
            assert first.cancelled()
            await asyncio.to_thread(left.wait, 60)
            assert await found(engine, kb, "报销") == {"d": NEW}
            assert (await engine.admin.verify(kb)).is_clean

    asyncio.run(story())


@pytest.mark.parametrize("error", [BadModelReply("向量含有非数"), RuntimeError("显存不足"), MemoryError("内存不足")])
def test_a_failing_document_is_retried_then_quarantined_while_the_queue_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(indexing, "FIRST_WAIT", timedelta(0))

    async def story() -> None:
        model = FailingEmbedding("有毒", error)
        async with opened(tmp_path, model) as (engine, kb):
            await deliver(engine, kb, "created", event("坏", "有毒的报销规定"))
            await deliver(engine, kb, "created", event("好", "正常的报销规定"))
            for attempt in (1, 2, 3):
                drained = await engine.drain(kb)
                state = await engine.document(kb, "坏")
                assert (drained.failed, state.attempts) == (1, attempt)
                assert state.status == ("quarantined" if attempt == 3 else "retrying")
                assert str(error.args[0]) in state.reason
                assert await found(engine, kb, "报销规定") == {"好": "正常的报销规定"}
            assert (await engine.drain(kb)).failed == 0  # nobody tries it any more
            assert (await engine.admin.verify(kb)).is_clean
            model.error = None
            await deliver(engine, kb, "updated", event("坏", "有毒的报销规定"))  # until somebody sends it again
            await engine.drain(kb)
            assert (await found(engine, kb, "报销规定")).keys() == {"好", "坏"}

    asyncio.run(story())


def test_an_unreachable_model_is_waited_for_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "FIRST_WAIT", timedelta(0))

    async def story() -> None:
        model = FailingEmbedding("", ModelUnavailable("模型服务连不上"))
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("d", OLD)])
            for _ in range(6):
                await engine.drain(kb)
                assert (await engine.document(kb, "d")).status == "retrying"
            model.error = None
            await engine.drain(kb)
            assert (await engine.document(kb, "d")).status == "indexed"
            assert await found(engine, kb, "住院报销", mode="vector") == {"d": OLD}

    asyncio.run(story())


def test_a_document_that_waits_for_its_next_try_is_taken_at_once_when_offered_again(tmp_path: Path) -> None:
    async def story() -> None:
        model = FailingEmbedding("", ModelUnavailable("模型服务连不上"))
        async with opened(tmp_path, model) as (engine, kb):
            await engine.add_documents(kb, [doc("d", OLD)])
            model.error = None
            await engine.add_documents(kb, [doc("d", OLD)])
            assert await found(engine, kb, "住院报销") == {"d": OLD}

    asyncio.run(story())


def test_the_indexer_in_the_background_retries_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "FIRST_WAIT", timedelta(milliseconds=10))

    async def story() -> None:
        model = FailingEmbedding("", ModelUnavailable("模型服务连不上"))
        async with opened(tmp_path, model, background=True) as (engine, kb):
            await deliver(engine, kb, "created", event("d", OLD))
            await asyncio.to_thread(model.failed_twice.wait, 60)
            model.error = None
            while not await found(engine, kb, "报销"):  # noqa: ASYNC110  # nobody tells when the background is done
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(story(), 180))


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"content": OLD}, "document_id"),
        ({"document_id": "d"}, "content"),
        ({"document_id": "d", "content": "  "}, "content"),
        ({"document_id": 7, "content": OLD}, "document_id"),
        ({"document_id": "d", "content": OLD, "user_id": 7}, "user_id"),
        ({"document_id": "d", "content": OLD, "user_id": "u" * 200}, "user_id"),
        ({"document_id": "d", "content": OLD, "tags": "医保"}, "tags"),
        ({"document_id": "d", "content": OLD, "tags": 7}, "tags"),
        ({"document_id": "d", "content": OLD, "metadata": [1]}, "metadata"),
        ({"document_id": "d", "content": OLD, "metadata": {"年份": {"a": 1}}}, "metadata.年份"),
        ({"document_id": "d", "content": OLD, "metadata": {"比例": float("inf")}}, "metadata.比例"),
        ({"document_id": "d", "content": OLD, "format": "pdf"}, "format"),
        ({"document_id": "d", "content": OLD, "generation": "3"}, "generation"),
        ({"document_id": "d", "content": OLD, "generation": 0}, "generation"),
        ({"document_id": "d", "content": OLD, "event_id": "e" * 201}, "event_id"),
        ({"document_id": "d", "content": OLD, "user_id": "半个\ud800字符"}, "user_id"),
    ],
)
def test_an_event_that_makes_no_sense_is_rejected_by_the_name_of_its_field(
    tmp_path: Path, told: dict[str, Any], field: str
) -> None:
    async def story() -> None:
        async with opened(tmp_path, model="none") as (engine, kb):
            handler = await engine.events(kb)
            outcome = await handler.handle_document_created(told)
            assert (outcome.result, field in outcome.reason) == ("rejected", True), outcome
            assert await engine.documents(kb) == []

    asyncio.run(story())


def test_an_event_that_cannot_be_stored_is_raised_and_can_be_sent_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as (engine, kb):
            await engine.base(kb)
            with engine.records.writing() as tx:
                tx.exec_driver_sql("ALTER TABLE outbox RENAME TO lost")
            with pytest.raises(SQLAlchemyError):
                await deliver(engine, kb, "created", event("d", OLD, event_id="e1"))
            with engine.records.writing() as tx:
                tx.exec_driver_sql("ALTER TABLE lost RENAME TO outbox")
            assert await deliver(engine, kb, "created", event("d", OLD, event_id="e1")) == "accepted"

    asyncio.run(story())


def test_batch_index_counts_chunks_and_says_minus_one_for_what_is_not_searchable(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, FailingEmbedding("有毒", BadModelReply("向量含有非数"))) as (engine, kb):
            manager = await engine.manager(kb)
            assert await manager.index_document(doc("旧", OLD)) == 1
            counts = await manager.batch_index(
                [
                    doc("短", OLD),
                    doc("长", "参保人员住院的费用按比例报销。" * 100),
                    doc("毒", "有毒"),
                    doc("超", OLD, user_id="u" * 200),
                ]
            )
            assert (counts["短"], counts["毒"], counts["超"]) == (1, -1, -1)
            assert counts["长"] == len(await engine.chunks(kb, "长")) > 2
            # A failed update is no success, though the old version serves on.
            assert await manager.batch_index([doc("旧", "有毒的新版"), doc("短", NEW, user_id="\ud800")]) == {
                "旧": -1,
                "短": -1,
            }
            assert (await found(engine, kb, OLD))["旧"] == OLD
            assert await manager.index_document(doc("旧", "有毒的再新版")) == 0
            assert await manager.delete_document("长")
            assert not await manager.delete_document("长")
            assert await manager.batch_index([]) == {}

    asyncio.run(story())
