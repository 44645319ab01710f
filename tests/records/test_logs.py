"""The log keeps what it is told, whatever stands in it, and forgets in time; every write raises a base's generation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select

from qianxun.core.errors import NotFound
from qianxun.core.log_types import Feedback, LogCount, LogEntry, LogFilter
from qianxun.core.types import LOCAL_TENANT, Degraded, Document, Piece, Prepared, StepTime, Submission, Text
from qianxun.records import Records, bases, document_heads, document_retries, documents, logs, outbox
from qianxun.records.schema import RetrievalLogRow
from tests.hypothesis_settings import SLOW_OR_SHARED, examples

KB = 1001
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def records(records_url: str) -> Iterator[Records]:
    opened = Records.open(records_url)
    with opened.writing() as tx:
        bases.create(tx, "医保", tenant=LOCAL_TENANT)
        bases.create(tx, "手册", tenant=LOCAL_TENANT)
    yield opened
    opened.close()


def entry(query: str = "住院报销比例", **told: Any) -> LogEntry:
    results = told.pop("results", (("c_1001_d_0", 0.8123456789012345),))
    values: dict[str, Any] = {"time_cost_ms": 12, "created_at": NOW, **told}
    return LogEntry(values.pop("knowledge_base_id", KB), query, values.pop("params", {"top_k": 5}), results, **values)


def written(records: Records, *entries: LogEntry) -> list[int]:
    with records.writing() as tx:
        logs.append(tx, entries)
        return sorted(tx.execute(select(RetrievalLogRow.id)).scalars())[-len(entries) :]


def test_an_entry_comes_back_as_it_was(records: Records) -> None:
    whole = entry(
        mode="hybrid",
        tier="strict",
        trace_id="a" * 32,
        generation="7.7.bge-small-zh-v1.5.1",
        digest="f" * 64,
        steps=(StepTime("arms.vector", 0.0123, 200), StepTime("fuse", 1e-05, 10)),
        degraded=(Degraded("vector", "模型不在"),),
        from_cache=True,
    )
    (number,) = written(records, whole)
    with records.reading() as tx:
        assert logs.get(tx, number, tenant=LOCAL_TENANT) == replace(whole, id=number)


HOSTILE = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["\x00", "\ud800", "\ud83d\ude00", "\\u0000", "escaped"]
)


@examples(60, suppress_health_check=SLOW_OR_SHARED)
@given(
    HOSTILE,
    st.dictionaries(HOSTILE.filter(lambda name: name != "query"), HOSTILE | st.floats(allow_nan=False) | st.booleans()),
)
def test_hostile_texts_come_back_as_they_were(records: Records, query: str, params: dict[str, Any]) -> None:
    (number,) = written(records, entry(query, params=params, degraded=(Degraded("vector", query),)))
    with records.reading() as tx:
        found = logs.get(tx, number, tenant=LOCAL_TENANT)
    assert (found.query, dict(found.params), found.degraded) == (query, params, (Degraded("vector", query),))


def test_a_long_query_is_cut_in_the_column_only(records: Records) -> None:
    (number,) = written(records, entry("医" * 3000))
    with records.reading() as tx:
        column = tx.execute(select(RetrievalLogRow.query).where(RetrievalLogRow.id == number)).scalar_one()
        assert column == "医" * 2048
        assert logs.get(tx, number, tenant=LOCAL_TENANT).query == "医" * 3000


def test_long_short_fields_are_cut_to_their_columns(records: Records) -> None:
    (number,) = written(records, entry(trace_id="t" * 500))
    with records.reading() as tx:
        assert logs.get(tx, number, tenant=LOCAL_TENANT).trace_id == "t" * 64


def test_the_list_is_newest_first_and_narrows(records: Records) -> None:
    written(
        records,
        entry("一", time_cost_ms=10),
        entry("二", time_cost_ms=500),
        entry("三", results=(), time_cost_ms=300),
        entry("四", knowledge_base_id=1002),
    )

    def asked(**told: Any) -> list[str]:
        with records.reading() as tx:
            limits = {name: told.pop(name) for name in ("tenant", "limit", "before") if name in told}
            return [each.query for each in logs.listed(tx, LogFilter(**told), **{"tenant": LOCAL_TENANT, **limits})]

    assert asked() == ["四", "三", "二", "一"]
    assert asked(knowledge_base=1002) == ["四"]
    assert asked(zero=True) == ["三"]
    assert asked(slow_ms=200.0) == ["三", "二"]
    assert asked(slow_ms=300.0) == ["二"]
    assert asked(limit=2) == ["四", "三"]
    assert asked(limit=2, before=3) == ["二", "一"]
    assert asked(tenant="another") == []


def test_an_entry_that_is_not_there_is_said_so(records: Records) -> None:
    (number,) = written(records, entry())
    with records.reading() as tx:
        with pytest.raises(NotFound, match="999"):
            logs.get(tx, 999, tenant=LOCAL_TENANT)
        with pytest.raises(NotFound):
            logs.get(tx, number, tenant="another")


def test_the_log_forgets_by_age_and_by_number(records: Records) -> None:
    written(records, *(entry(str(at), created_at=NOW - timedelta(days=40 - at)) for at in range(1, 40)))
    with records.writing() as tx:
        assert logs.prune(tx, 30, 100, now=NOW) == 9
        assert logs.prune(tx, 30, 5, now=NOW) == 25
        assert [each.query for each in logs.listed(tx, tenant=LOCAL_TENANT)] == ["39", "38", "37", "36", "35"]
        assert logs.prune(tx, 30, 5, now=NOW) == 0
        assert logs.prune(tx, 30, 0, now=NOW) == 5
        assert logs.prune(tx, 30, 0, now=NOW) == 0


def test_numbers_are_not_used_again(records: Records) -> None:
    written(records, entry(), entry())
    with records.writing() as tx:
        logs.prune(tx, 30, 0, now=NOW)
    assert written(records, entry()) == [3]


def test_the_log_of_a_base_goes_with_it_and_late_entries_do_not_come_back(records: Records) -> None:
    written(records, entry(), entry(knowledge_base_id=1002))
    with records.writing() as tx:
        bases.remove(tx, KB, tenant=LOCAL_TENANT)
        assert logs.append(tx, [entry("迟到"), entry("还在", knowledge_base_id=1002)]) == 1
        assert [each.query for each in logs.listed(tx, tenant=LOCAL_TENANT)] == ["还在", "住院报销比例"]


# ── the generation of a base ─────────────────────────────────────────────────────────────────────


def offer(content: str, *, ready: bool, generation: int | None = None) -> Submission:
    vectors = np.eye(1, 4, dtype=np.float32)
    prepared = Prepared((Piece(0, len(content), content),), vectors, "m") if ready else None
    return Submission(Document("d", content, structure=Text(content)), f"mark:{content}", generation, prepared)


def add(content: str, *, ready: bool = True) -> Any:
    return lambda tx: documents.accept(tx, KB, [offer(content, ready=ready)])


def retry(tx: Connection) -> None:
    key = document_heads.heads(tx, KB, ["d"])["d"]
    document_retries.fail(tx, key.key, key.generation, "坏了", NOW)
    assert document_retries.enqueue_due(tx, KB, datetime.now(UTC)) == 1


WRITES: list[tuple[str, Any]] = [
    ("add", add("甲")),
    ("update", add("乙")),
    ("update unprepared", add("丙", ready=False)),
    ("retry", retry),
    ("delete", lambda tx: documents.remove(tx, KB, "d")),
    ("add again", add("甲")),
    ("delete by event", lambda tx: documents.remove(tx, KB, "d", 99)),
    ("add by event", lambda tx: documents.accept(tx, KB, [offer("丁", ready=True, generation=100)])),
    ("another model", lambda tx: bases.change_model(tx, KB, "bge", 512, tenant=LOCAL_TENANT)),
    ("rebuilt", lambda tx: bases.revise(tx, KB)),
    ("rebuilt again", lambda tx: bases.revise(tx, KB)),
]


@pytest.mark.parametrize("applied", [False, True])
def test_every_write_raises_the_generation_whether_or_not_the_index_follows(records: Records, applied: bool) -> None:
    seen = [0]
    for name, write in WRITES:
        with records.writing() as tx:
            write(tx)
        with records.reading() as tx:
            seen.append(bases.generation(tx, KB))
        assert seen[-1] > seen[-2], name
        if applied:
            with records.writing() as tx:
                outbox.acknowledge(tx, KB, range(1, outbox.last_sequence(tx) + 1))
                assert bases.generation(tx, KB) == seen[-1], f"{name}: what the index took in is no new write"


def test_what_changes_nothing_leaves_the_generation(records: Records) -> None:
    with records.writing() as tx:
        add("甲")(tx)
    with records.writing() as tx:
        before = bases.generation(tx, KB)
        add("甲")(tx)
        assert not documents.remove(tx, KB, "另一个")
        documents.accept(tx, KB, [offer("旧", ready=True, generation=1)])
        documents.accept(tx, 1002, [offer("别家的", ready=True)])
        logs.append(tx, [entry()])
        assert bases.generation(tx, KB) == before
        assert bases.generation(tx, 4711) == 0


def test_counts_over_time_tell_stretches_apart(records: Records) -> None:
    hours = [NOW + timedelta(hours=at) for at in range(3)]
    written(
        records,
        entry("早", created_at=hours[0] - timedelta(seconds=1)),
        entry("一", created_at=hours[0], time_cost_ms=10),
        entry("二", created_at=hours[0] + timedelta(minutes=59), results=(), time_cost_ms=500),
        entry("三", created_at=hours[2], degraded=(Degraded("vector", "慢"),), time_cost_ms=30),
        entry("别处", created_at=hours[2], knowledge_base_id=1002),
    )
    with records.reading() as tx:
        first, second, third = logs.counts(tx, LogFilter(knowledge_base=KB), hours, 200.0, tenant=LOCAL_TENANT)
        assert (first.start, first.searches, first.zero, first.slow, first.degraded) == (hours[0], 2, 1, 1, 0)
        assert (first.mean_ms, first.worst_ms) == (255.0, 500.0)
        assert second == LogCount(hours[1])
        assert (third.searches, third.degraded) == (1, 1)
        (whole,) = logs.counts(tx, LogFilter(until=hours[2]), hours[:1], 200.0, tenant=LOCAL_TENANT)
        assert whole.searches == 2
        assert [each.query for each in logs.listed(tx, LogFilter(degraded=True), tenant=LOCAL_TENANT)] == ["三"]
        found = logs.listed(tx, LogFilter(since=hours[2], until=hours[2] + timedelta(hours=1)), tenant=LOCAL_TENANT)
        assert {each.query for each in found} == {"三", "别处"}
        (other,) = logs.counts(tx, LogFilter(), hours[:1], 200.0, tenant="别的租户")
        assert other.searches == 0


def test_rated_searches_are_listed(records: Records) -> None:
    written(records, entry("好"), entry("坏"), entry("没有"))
    with records.writing() as tx:
        numbers = {each.query: each.id for each in logs.listed(tx, tenant=LOCAL_TENANT)}
        logs.rate(tx, numbers["好"], Feedback("good"), tenant=LOCAL_TENANT)
        logs.rate(tx, numbers["坏"], Feedback("bad"), tenant=LOCAL_TENANT)
        for rating, expected in (("good", ["好"]), ("bad", ["坏"]), ("any", ["坏", "好"])):
            found = logs.listed(tx, LogFilter(rating=rating), tenant=LOCAL_TENANT)  # type: ignore[arg-type]
            assert [each.query for each in found] == expected
