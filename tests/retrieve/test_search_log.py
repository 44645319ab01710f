"""The journal writes behind the searches' backs, keeps to its bound, and outlives a failing database."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from qianxun.core.codec.digests import digest, layered_digest
from qianxun.core.codec.options import choices_from, params_of
from qianxun.core.log_types import LogEntry
from qianxun.core.options import TablesOptions, TextsOptions
from qianxun.core.types import EVERYTHING, LOCAL_TENANT, Degraded, Eq, Generation, KnowledgeBase, Recall, StepTime
from qianxun.records import Records, bases, logs
from qianxun.records.database.open import sqlite_url
from qianxun.retrieve.recall_cache import replaying
from qianxun.retrieve.search_log import Journal
from tests.layered.recalls import TABLES, TEXTS
from tests.retrieve.recalls import answer

KB = 1001
PARAMS = {"mode": "hybrid", "top_k": 5}


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records.open(sqlite_url(tmp_path / "records.db"))
    with opened.writing() as tx:
        bases.create(tx, "医保", tenant=LOCAL_TENANT)
    yield opened
    opened.close()


def held(records: Records) -> list[LogEntry]:
    with records.reading() as tx:
        return list(reversed(logs.listed(tx, tenant=LOCAL_TENANT, limit=10_000)))


def queries(records: Records) -> list[str]:
    return [entry.query for entry in held(records)]


def test_a_recall_is_in_the_log_with_all_it_says_of_itself(records: Records) -> None:
    recall = answer(
        "住院报销比例",
        "住院报销八成",
        seconds=0.25,
        trace_id="t1",
        degraded=(Degraded("vector", "模型不在"),),
        steps=(StepTime("fuse", 0.001, 3),),
        generation=Generation(7, 6, "m", "1"),
    )

    async def work() -> None:
        journal = Journal(records)
        journal.note(KnowledgeBase(KB, "库"), recall, PARAMS)
        await journal.flush()

    asyncio.run(work())
    (entry,) = held(records)
    assert (entry.query, entry.params, entry.mode, entry.tier) == ("住院报销比例", PARAMS, "hybrid", "strict")
    assert (entry.time_cost_ms, entry.trace_id, entry.generation) == (250.0, "t1", "7.6.m.1")
    assert entry.results == (("c_1001_d_1", 1.0),)
    assert (entry.steps, entry.degraded, entry.digest) == (recall.steps, recall.degraded, digest(recall))


def test_a_layered_recall_is_in_the_log_with_the_layers_that_ran(records: Records) -> None:
    params = params_of(TablesOptions(5, Eq("user_id", "u1"), answer=True))

    async def work() -> None:
        journal = Journal(records)
        journal.note(KnowledgeBase(KB, "库"), TEXTS, params_of(TextsOptions()))
        journal.note(KnowledgeBase(KB, "库"), TABLES, params)
        journal.note(KnowledgeBase(KB, "库"), replace(TABLES, results=()), params)
        await journal.flush()

    asyncio.run(work())
    prose, tables, nothing = held(records)
    assert (prose.mode, prose.tier, prose.query, prose.trace_id) == ("texts", "layer 2", TEXTS.query, TEXTS.trace_id)
    assert [(step.name, step.count) for step in prose.steps] == [
        ("layer.vector", 1), ("layer.keyword", 1), ("layer.expansion", 0),
    ]  # fmt: skip
    assert (prose.degraded, prose.generation, prose.time_cost_ms) == (TEXTS.degraded, "7.6.m.1", 20.0)
    assert (tables.mode, tables.tier, tables.results) == ("tables", "layer 1", (("c_1_手册_2", 0.91),))
    assert choices_from(TablesOptions, tables.params) == {
        "top_k": 5, "where": Eq("user_id", "u1"), "as_of": "", "answer": True,
    }  # fmt: skip
    assert choices_from(TextsOptions, prose.params) == {"top_k": None, "where": EVERYTHING, "as_of": ""}
    assert (nothing.tier, nothing.results) == ("", ())
    assert len({entry.digest for entry in (prose, tables, nothing)}) == 3


def test_a_layered_answer_is_the_same_whatever_belongs_to_the_run() -> None:
    again = replace(TABLES, seconds=9.0, trace_id="", layers=tuple(replace(run, seconds=1.0) for run in TABLES.layers))
    assert layered_digest(again) == layered_digest(TABLES)
    others = (
        replace(TABLES, answer=None),
        replace(TABLES, degraded=TEXTS.degraded),
        replace(TABLES, results=(replace(TABLES.results[0], score=0.9),)),
        replace(TABLES, results=(replace(TABLES.results[0], match_details={}),)),
        replace(TABLES, layers=TABLES.layers[:3]),
    )
    assert len({layered_digest(each) for each in (TABLES, *others)}) == 6


def test_closing_writes_what_is_left_and_takes_no_more(records: Records) -> None:
    async def work() -> None:
        journal = Journal(records, pause_seconds=60)
        for at in range(1200):
            journal.note(KnowledgeBase(KB, "库"), answer(str(at)), PARAMS)
        await journal.close()
        journal.note(KnowledgeBase(KB, "库"), answer("太迟"), PARAMS)
        await journal.close()

    asyncio.run(work())
    assert queries(records) == [str(at) for at in range(1200)]


def test_closing_waits_for_a_write_that_is_under_way_but_for_no_pause(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, has_begun, may_go_on = Journal._write, asyncio.Event(), threading.Event()

    async def work() -> None:
        loop = asyncio.get_running_loop()

        def slow(journal: Journal, batch: Any) -> None:
            loop.call_soon_threadsafe(has_begun.set)
            may_go_on.wait()
            write(journal, batch)

        monkeypatch.setattr(Journal, "_write", slow)
        journal = Journal(records, pause_seconds=0.0)
        journal.note(KnowledgeBase(KB, "库"), answer("一"), PARAMS)
        await has_begun.wait()
        journal.pause_seconds = 3600.0
        journal.note(KnowledgeBase(KB, "库"), answer("二"), PARAMS)
        closing = asyncio.create_task(journal.close())
        loop.call_later(0.05, may_go_on.set)
        await asyncio.wait([closing], timeout=60.0)
        assert closing.done()

    asyncio.run(work())
    assert queries(records) == ["一", "二"]


def test_notes_are_written_without_being_asked(records: Records) -> None:
    async def work() -> None:
        journal = Journal(records, pause_seconds=0.01)
        for query in ("一", "二"):
            journal.note(KnowledgeBase(KB, "库"), answer(query), PARAMS)
            for _ in range(6000):
                if query in queries(records):
                    break
                await asyncio.sleep(0.01)
        await journal.close()

    asyncio.run(work())
    assert queries(records) == ["一", "二"]


def test_what_is_noted_while_the_log_is_written_waits_for_the_next_time(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches without a pause: their notes are written together, not by twos and threes."""
    written: list[int] = []
    journal, loop, done = Journal(records, pause_seconds=0.0), asyncio.new_event_loop(), asyncio.Event()
    write = Journal._write

    def busy(self: Journal, batch: Any) -> None:
        written.append(len(batch))
        if len(written) < 4:
            for number in range(10):
                loop.call_soon_threadsafe(
                    self.note, KnowledgeBase(KB, "库"), answer(f"{len(written)}-{number}"), PARAMS
                )
        else:
            loop.call_soon_threadsafe(done.set)
        write(self, batch)

    monkeypatch.setattr(Journal, "_write", busy)

    async def work() -> None:
        journal.note(KnowledgeBase(KB, "库"), answer("问"), PARAMS)
        await journal.flush()
        assert written == [1]
        await done.wait()
        await journal.close()

    loop.run_until_complete(asyncio.wait_for(work(), 60.0))
    loop.close()
    assert written == [1, 10, 10, 10]
    assert len(queries(records)) == 31


def test_the_oldest_are_dropped_when_too_many_wait(records: Records, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> Journal:
        journal = Journal(records, bound=3, pause_seconds=60)
        for at in range(10):
            journal.note(KnowledgeBase(KB, "库"), answer(str(at)), PARAMS)
        await journal.close()
        return journal

    with caplog.at_level(logging.WARNING, "qianxun.retrieve.search_log"):
        journal = asyncio.run(work())
    assert queries(records) == ["7", "8", "9"]
    assert journal.dropped == 7
    assert len(caplog.records) == 1


def test_a_failing_database_fails_no_search_and_gets_the_notes_later(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        journal = Journal(records, pause_seconds=60)
        with moved_away(records):
            for query in ("一", "二"):
                journal.note(KnowledgeBase(KB, "库"), answer(query), PARAMS)
                await journal.flush()
        assert queries(records) == []
        journal.note(KnowledgeBase(KB, "库"), answer("三"), PARAMS)
        await journal.flush()
        await journal.close()

    with caplog.at_level(logging.WARNING, "qianxun.retrieve.search_log"):
        asyncio.run(work())
    assert queries(records) == ["一", "二", "三"]
    assert len(caplog.records) == 1


@contextmanager
def moved_away(records: Records) -> Iterator[None]:
    """The table is not there: the database answers every write with an error of its own."""
    with records.writing() as tx:
        tx.exec_driver_sql("ALTER TABLE knowledge_retrieval_log RENAME TO elsewhere")
    try:
        yield
    finally:
        with records.writing() as tx:
            tx.exec_driver_sql("ALTER TABLE elsewhere RENAME TO knowledge_retrieval_log")


def test_a_database_that_stays_away_costs_the_log_only(records: Records, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        journal = Journal(records, bound=2, pause_seconds=60)
        with moved_away(records):
            for at in range(5):
                journal.note(KnowledgeBase(KB, "库"), answer(str(at)), PARAMS)
                await journal.flush()
            await journal.close()

    with caplog.at_level(logging.WARNING, "qianxun.retrieve.search_log"):
        asyncio.run(work())
    assert "2 recalls are missing" in caplog.text


@pytest.mark.parametrize(
    ("recall", "params"),
    [
        (answer("坏的"), {"top_k": object()}),
        (replace(answer("坏的"), results=(object(),)), PARAMS),
        (answer("坏的", trace_id=7), PARAMS),
    ],
)
def test_one_that_cannot_be_written_does_not_take_others_along(
    records: Records, recall: Recall, params: dict[str, Any]
) -> None:
    async def work() -> Journal:
        journal = Journal(records, pause_seconds=60)
        journal.note(KnowledgeBase(KB, "库"), answer("一"), PARAMS)
        journal.note(KnowledgeBase(KB, "库"), recall, params)
        journal.note(KnowledgeBase(KB, "库"), answer("二"), PARAMS)
        await journal.close()
        return journal

    assert asyncio.run(work()).dropped == 1
    assert queries(records) == ["一", "二"]


@pytest.mark.parametrize("query", ["\x00", "\ud800", "医" * 5000, ""])
def test_any_query_can_be_logged(records: Records, query: str) -> None:
    async def work() -> None:
        journal = Journal(records)
        journal.note(KnowledgeBase(KB, "库"), answer(query, seconds=math.nan), PARAMS)
        await journal.close()

    asyncio.run(work())
    assert [(entry.query, entry.time_cost_ms) for entry in held(records)] == [(query, 0.0)]


def test_a_replay_leaves_no_record_while_others_do(records: Records) -> None:
    async def work() -> None:
        journal = Journal(records)
        ready = asyncio.Event()

        async def again() -> None:
            with replaying():
                await ready.wait()
                journal.note(KnowledgeBase(KB, "库"), answer("重放"), PARAMS)

        task = asyncio.create_task(again())
        await asyncio.sleep(0)
        journal.note(KnowledgeBase(KB, "库"), answer("检索"), PARAMS)
        ready.set()
        await task
        await journal.close()

    asyncio.run(work())
    assert queries(records) == ["检索"]


def test_the_log_is_pruned_now_and_then(records: Records) -> None:
    async def work() -> None:
        journal = Journal(records, keep_rows=100, pause_seconds=60)
        for at in range(1600):
            journal.note(KnowledgeBase(KB, "库"), answer(str(at)), PARAMS)
        await journal.close()

    asyncio.run(work())
    kept = queries(records)
    assert kept[-1] == "1599"
    assert 100 <= len(kept) < 1100


def test_writers_at_the_same_time_lose_nothing(records: Records) -> None:
    async def search(journal: Journal, name: int) -> None:
        for at in range(50):
            journal.note(KnowledgeBase(KB, "库"), answer(f"{name}-{at}"), PARAMS)
            if at % 7 == 0:
                await journal.flush()
            await asyncio.sleep(0)

    async def work() -> None:
        journal = Journal(records, pause_seconds=0.001)
        await asyncio.gather(*(search(journal, name) for name in range(8)))
        await journal.close()

    asyncio.run(work())
    assert sorted(queries(records)) == sorted(f"{name}-{at}" for name in range(8) for at in range(50))


def test_a_search_never_waits_for_a_writer(records: Records) -> None:
    """The database is locked by a long write while notes are taken: only `flush` waits for it."""

    async def work(tx: Connection) -> None:
        journal = Journal(records, pause_seconds=0.0)
        for at in range(100):
            journal.note(KnowledgeBase(KB, "库"), answer(str(at)), PARAMS)
            await asyncio.sleep(0)
        tx.commit()
        holder.release()
        await journal.close()

    holder = records._writer
    holder.acquire()
    with records.engine.connect() as tx:
        asyncio.run(work(tx))
    assert len(queries(records)) == 100
