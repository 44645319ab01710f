"""Generations: later ones win, deletes win over what they overtook, and a version serves until the next is in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import Connection

from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.core.types import (
    LOCAL_TENANT,
    Column,
    Document,
    Mark,
    PageStart,
    Piece,
    Prepared,
    QAPair,
    Submission,
    Table,
    TableSpan,
    Text,
)
from qianxun.records import Records, bases, chunks, document_heads, document_retries, documents, listing, outbox
from qianxun.records.database.counters import allocate


@pytest.fixture
def records(records_url: str) -> Iterator[Records]:
    opened = Records.open(records_url)
    with opened.writing() as tx:
        bases.create(tx, "医保", tenant=LOCAL_TENANT)
    yield opened
    opened.close()


KB = 1001


def prepared(*texts: str, model: str = "m") -> Prepared:
    pieces, start = [], 0
    for text in texts:
        pieces.append(Piece(start, start + len(text), text))
        start += len(text)
    vectors = np.eye(len(texts), 4, dtype=np.float32) if model else None
    return Prepared(tuple(pieces), vectors, model)


def offer(content: str, *, doc_id: str = "d", generation: int | None = None, ready: bool = False) -> Submission:
    document = Document(doc_id, content, name=f"{doc_id}.txt", structure=Text(content))
    return Submission(document, f"mark:{content}", generation, prepared(content) if ready else None)


def accept(tx: Connection, *submissions: Submission) -> list[tuple[str, int]]:
    return [(one.outcome, one.generation) for one in documents.accept(tx, KB, list(submissions))]


def texts(tx: Connection, doc_id: str = "d") -> list[str]:
    return [chunk.text for chunk in chunks.document_chunks(tx, KB, doc_id)]


def test_knowledge_bases_are_numbered_from_1001_and_names_are_taken_once(records: Records) -> None:
    with records.writing() as tx:
        assert bases.find(tx, "医保", tenant=LOCAL_TENANT).id == 1001
        assert bases.create(tx, "小说", tenant=LOCAL_TENANT).id == 1002
        with pytest.raises(AlreadyThere):
            bases.create(tx, " 医保 ", tenant=LOCAL_TENANT)
        with pytest.raises(BadInput):
            bases.create(tx, "　", tenant=LOCAL_TENANT)
        with pytest.raises(NotFound, match="qianxun kb list"):
            bases.find(tx, "没有", tenant=LOCAL_TENANT)


def test_counters_never_give_a_number_twice_even_after_deletes(records: Records) -> None:
    with records.writing() as tx:
        assert list(allocate(tx, "chunk", 3)) == [1, 2, 3]
        assert list(allocate(tx, "chunk", 2)) == [4, 5]


def test_a_rolled_back_transaction_leaves_nothing(records: Records) -> None:
    def interrupted() -> None:
        with records.writing() as tx:
            accept(tx, offer("住院报销比例", ready=True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with records.reading() as tx:
        assert document_heads.heads(tx, KB, ["d"]) == {}
        assert chunks.count(tx, KB) == outbox.depth(tx, KB) == 0


def test_a_prepared_document_is_whole_in_one_transaction(records: Records) -> None:
    with records.writing() as tx:
        (accepted,) = documents.accept(tx, KB, [offer("住院报销比例为85%", ready=True)])
    with records.reading() as tx:
        (chunk,) = chunks.document_chunks(tx, KB, "d")
        assert (chunk.chunk_id, chunk.key) == ("c_1001_d_0", accepted.chunk_keys[0])
        assert chunk.text == "住院报销比例为85%"
        (row,) = outbox.pending(tx, KB, 0, 10)
        assert (row.kind, row.is_ready) == ("created", True)
        (material,) = chunks.material(tx, [accepted.document_key], "m")
        assert material.vector is not None
        assert material.vector.tolist() == [1, 0, 0, 0]


def test_the_same_content_again_is_unchanged_and_other_content_an_update(records: Records) -> None:
    with records.writing() as tx:
        assert accept(tx, offer("一", ready=True)) == [("created", 1)]
        assert accept(tx, offer("一", ready=True)) == [("unchanged", 1)]
        assert accept(tx, offer("二", ready=True)) == [("updated", 2)]


def test_a_document_that_stands_twice_in_one_batch_ends_as_the_later_one(records: Records) -> None:
    with records.writing() as tx:
        outcome = accept(tx, offer("一", ready=True), offer("他", doc_id="e", ready=True), offer("二", ready=True))
        assert outcome == [("created", 1), ("created", 1), ("updated", 2)]
        assert texts(tx) == ["二"]


def test_the_old_version_serves_until_the_new_one_is_completed(records: Records) -> None:
    with records.writing() as tx:
        accept(tx, offer("旧版", ready=True))
        accept(tx, offer("新版"))
        assert texts(tx) == ["旧版"]
        key = document_heads.heads(tx, KB, ["d"])["d"].key
        documents.complete(tx, KB, [(key, 2, prepared("新版"))])
        assert texts(tx) == ["新版"]
        assert chunks.count(tx, KB) == 2  # the old rows stay until the index has let go of them
        documents.settle(tx, [(key, 2)])
        assert chunks.count(tx, KB) == 1
        assert len(chunks.orphans(tx, KB)) == 0


def test_work_overtaken_by_a_newer_version_or_a_delete_changes_nothing(records: Records) -> None:
    with records.writing() as tx:
        accept(tx, offer("一"))
        key = document_heads.heads(tx, KB, ["d"])["d"].key
        accept(tx, offer("二"))
        assert documents.complete(tx, KB, [(key, 1, prepared("一"))]) == {}
        documents.remove(tx, KB, "d")
        assert documents.complete(tx, KB, [(key, 2, prepared("二"))]) == {}
        assert chunks.count(tx, KB) == 0


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3)])
def test_events_in_any_order_end_at_the_highest_generation(records: Records, order: tuple[int, ...]) -> None:
    with records.writing() as tx:
        for generation in order:
            accept(tx, offer(f"第{generation}版", generation=generation, ready=True))
        assert texts(tx) == ["第3版"]


@pytest.mark.parametrize("delete_first", [True, False])
def test_a_delete_wins_over_the_create_it_overtook(records: Records, delete_first: bool) -> None:
    with records.writing() as tx:
        if delete_first:
            documents.remove(tx, KB, "d", generation=2)
            assert accept(tx, offer("迟到", generation=1, ready=True)) == [("stale", 2)]
        else:
            accept(tx, offer("先到", generation=1, ready=True))
            assert documents.remove(tx, KB, "d", generation=2)
        assert texts(tx) == []
        assert accept(tx, offer("重建", generation=3, ready=True)) == [("created", 3)]
        assert texts(tx) == ["重建"]


def test_a_late_delete_does_not_touch_a_newer_version(records: Records) -> None:
    with records.writing() as tx:
        accept(tx, offer("第5版", generation=5, ready=True))
        assert not documents.remove(tx, KB, "d", generation=4)
        assert texts(tx) == ["第5版"]
        assert documents.remove(tx, KB, "d", generation=5)
        assert texts(tx) == []


def test_deleting_twice_and_deleting_nothing_are_quiet(records: Records) -> None:
    with records.writing() as tx:
        assert not documents.remove(tx, KB, "没有")
        accept(tx, offer("一", ready=True))
        assert documents.remove(tx, KB, "d")
        assert not documents.remove(tx, KB, "d")
        assert [row.kind for row in outbox.pending(tx, KB, 0, 10)] == ["created", "deleted"]


def test_a_time_to_try_again_that_a_clock_ahead_noted_has_come(records: Records) -> None:
    """The clock was a day ahead when the model failed, and is right again: the document does not wait for a day."""
    now = datetime.now(UTC)
    with records.writing() as tx:
        accept(tx, offer("一"))
        key = document_heads.heads(tx, KB, ["d"])["d"].key
        document_retries.fail(tx, key, 1, "模型不可用", now + timedelta(days=1))
        assert document_retries.next_attempts(tx, now) == {KB: now}
        assert document_retries.enqueue_due(tx, KB, now) == 1


def test_a_failed_document_is_retried_when_due_and_then_quarantined(records: Records) -> None:
    now = datetime.now(UTC)
    with records.writing() as tx:
        accept(tx, offer("一"))
        key = document_heads.heads(tx, KB, ["d"])["d"].key
        document_retries.fail(tx, key, 1, "模型不可用", now + timedelta(seconds=5))
        assert document_retries.next_attempts(tx, now) == {KB: now + timedelta(seconds=5)}
        assert document_retries.enqueue_due(tx, KB, now) == 0
        assert document_retries.enqueue_due(tx, KB, now + timedelta(seconds=6)) == 1
        assert outbox.pending(tx, KB, 1, 10)[0].is_unprepared
        document_retries.fail(tx, key, 1, "向量含有非数", None)
        state = listing.state(tx, KB, "d")
        assert (state.status, state.attempts, state.reason) == ("quarantined", 2, "向量含有非数")
        assert accept(tx, offer("一")) == [("updated", 2)]  # offering it again tries again


def test_what_was_accepted_comes_back_with_its_structure(records: Records) -> None:
    content = "第一章 总则\n\n表一\n| 类别 | 比例 |\n| 住院 | 85% |"
    columns = (Column("类别", ("类别",)), Column("比例", ("2023年", "比例"), "percent"))
    table = Table("表一", columns, (("住院", 0.85),), (("住院", "85%"),), source="Sheet1", notes="单位：%")
    text = Text(content, (Mark(0, 1, "第一章 总则"),), (TableSpan(9, len(content), table, (25,)),), (PageStart(0, 1),))
    document = Document(
        "d",
        content,
        name="手册.xlsx",
        content_type="chapter",
        user_id="u1",
        project_id="p1",
        tags=("医保", "2023"),
        metadata={"年份": 2023, "地区": ("杭州", "宁波"), "有效": True, "比例": 0.5},
        structure=text,
        pairs=(QAPair("住院报多少？", "住院 | 85%"),),
        source="手册.xlsx",
    )
    with records.writing() as tx:
        (accepted,) = documents.accept(tx, KB, [Submission(document, "f")])
        assert documents.load(tx, accepted.document_key, 1) == document


def test_what_waits_is_known_for_the_bases_of_all_tenants(records: Records) -> None:
    now = datetime.now(UTC)
    with records.writing() as tx:
        other = bases.create(tx, "医保", tenant="甲方").id
        bases.create(tx, "空", tenant="乙方")
        assert (outbox.busy(tx), outbox.depth_of_all(tx), document_retries.next_attempts(tx, now)) == (set(), 0, {})
        accept(tx, offer("一"))
        documents.accept(tx, other, [offer("一", doc_id="x"), offer("二", doc_id="y")])
        assert (outbox.busy(tx), outbox.depth_of_all(tx)) == ({KB, other}, 3)
        for late, (doc_id, head) in enumerate(document_heads.heads(tx, other, ["x", "y"]).items()):
            assert doc_id in ("x", "y")
            document_retries.fail(tx, head.key, 1, "模型不可用", now + timedelta(seconds=5 + late))
        assert document_retries.next_attempts(tx, now) == {other: now + timedelta(seconds=5)}
        assert bases.tenants(tx, {KB, other, 9999}) == {KB: LOCAL_TENANT, other: "甲方"}
        bases.remove(tx, other, tenant="甲方")
        assert (outbox.busy(tx), document_retries.next_attempts(tx, now)) == ({KB}, {})


def test_ids_that_no_database_holds_are_nowhere_of_record(records: Records) -> None:
    with records.writing() as tx:
        accept(tx, offer("一"))
        for doc_id in ("\ud800", "d\x00", ""):
            assert document_heads.heads(tx, KB, [doc_id]) == {}
            assert documents.remove(tx, KB, doc_id) is False
            assert chunks.document_chunks(tx, KB, doc_id) == []
            assert listing.attributes(tx, KB, [doc_id]) == {}
            with pytest.raises(NotFound):
                listing.state(tx, KB, doc_id)
            with pytest.raises(BadInput):
                documents.remove(tx, KB, doc_id, generation=7)
        assert [state.doc_id for state in listing.states(tx, KB, after="\ud800")] == ["d"]
        assert listing.states(tx, KB, limit=-1) == []


def test_events_are_noted_once(records: Records) -> None:
    with records.writing() as tx:
        assert outbox.first_time(tx, KB, "e1")
        assert not outbox.first_time(tx, KB, "e1")
        assert outbox.first_time(tx, 9999, "e1")


def test_removing_a_base_removes_everything_in_it_and_nothing_else(records: Records) -> None:
    with records.writing() as tx:
        other = bases.create(tx, "另一个", tenant=LOCAL_TENANT).id
        accept(tx, offer("一", ready=True))
        documents.accept(tx, other, [offer("二", ready=True)])
        bases.remove(tx, KB, tenant=LOCAL_TENANT)
        assert [base.id for base in bases.every(tx, tenant=LOCAL_TENANT)] == [other]
        assert chunks.count(tx, KB) == 0
        assert chunks.count(tx, other) == 1


@pytest.mark.parametrize(
    "document",
    [Document("", "x"), Document("长" * 256, "x"), Document("d", "a\x00b"), Document("d", "x", user_id="u" * 129)],
)
def test_documents_that_no_database_could_hold_are_refused(records: Records, document: Document) -> None:
    with records.writing() as tx, pytest.raises(BadInput):
        documents.accept(tx, KB, [Submission(document, "f")])


def test_a_reason_may_quote_anything(records: Records) -> None:
    with records.writing() as tx:
        accept(tx, offer("一"))
        (row,) = outbox.pending(tx, KB, 0, 10)
        document_retries.fail(tx, row.document_key, 1, "模型说：\x00\ud800", None)
        assert listing.state(tx, KB, "d").reason == "模型说：\ufffd?"
