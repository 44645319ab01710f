"""Evaluation sets in the records: what is stored, what is refused, and who may see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from qianxun.core.errors import AlreadyThere, BadInput, NotFound
from qianxun.core.evaluation_types import Case, CaseResult, Relevant
from qianxun.core.types import LOCAL_TENANT
from qianxun.records import Records, bases, evaluations
from qianxun.records.schema import Base, EvaluationRunRow

KB, OTHER = 1001, 1002
OWN: dict[str, Any] = {"tenant": LOCAL_TENANT}
CASE = Case("住院报销多少", (Relevant("手册", "住院报销比例为85%"),), expected="85%")
RUN: dict[str, Any] = {"name": "甲", "mode": "hybrid", "choices": {"fusion": "rrf"}, "total": 2, "setup": {"model": ""}}


@pytest.fixture
def records(records_url: str) -> Iterator[Records]:
    opened = Records.open(records_url)
    with opened.writing() as tx:
        bases.create(tx, "医保", tenant=LOCAL_TENANT)
        bases.create(tx, "别家", tenant="乙")
    yield opened
    opened.close()


def result(case: Case, **values: Any) -> CaseResult:
    return CaseResult(case.id, case.question, {"ndcg@10": 0.5}, 1.5, 2, ("c_1001_手册_0",), "甲", **values)


def test_a_question_is_once_in_a_set_and_has_its_last_labels(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        (first,) = evaluations.save_cases(tx, own.id, [CASE], **OWN)
        better = Case(" 住院报销多少 ", (Relevant("制度"),), origin="feedback", log_id=7)
        (second,) = evaluations.save_cases(tx, own.id, [better], **OWN)
    with records.reading() as tx:
        assert first.id == second.id
        assert evaluations.cases(tx, own.id, **OWN) == [second]
        assert (second.question, second.relevant, second.log_id) == ("住院报销多少", (Relevant("制度"),), 7)
        assert evaluations.get_set(tx, own.id, **OWN).cases == 1


@pytest.mark.parametrize(
    "case",
    [
        Case("  ", CASE.relevant),
        Case("问" * 2049, CASE.relevant),
        Case("问", ()),
        Case("问", (Relevant("手册", grade=0),)),
        Case("问", (Relevant(""),)),
        Case("问", (Relevant("手册"),) * 101),
        Case("问", CASE.relevant, expected="答" * 10_001),
    ],
)
def test_what_cannot_be_a_case_is_refused_and_nothing_is_stored(records: Records, case: Case) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
    with pytest.raises(BadInput), records.writing() as tx:
        evaluations.save_cases(tx, own.id, [CASE, case], **OWN)
    with records.reading() as tx:
        assert evaluations.cases(tx, own.id, **OWN) == []


def test_hostile_texts_are_stored(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "<script>", **OWN)
        hostile = Case("<img src=x>\x00\ud800", (Relevant("d\x00", "\ud800" * 9),), expected="\x00")
        (saved,) = evaluations.save_cases(tx, own.id, [hostile], **OWN)
        assert evaluations.cases(tx, own.id, **OWN) == [saved]


def test_names_are_once_in_a_base_and_a_set_is_found_by_its_name(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        assert evaluations.set_named(tx, KB, " 常用 ", **OWN) == own
        assert evaluations.set_named(tx, KB, "另一个", **OWN).id != own.id
        with pytest.raises(AlreadyThere):
            evaluations.create_set(tx, KB, "常用", **OWN)
        with pytest.raises(BadInput):
            evaluations.create_set(tx, KB, "\n", **OWN)


def test_a_tenant_sees_nothing_of_another(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        (case,) = evaluations.save_cases(tx, own.id, [CASE], **OWN)
        run = evaluations.start_run(tx, own.id, **OWN, **RUN)
        evaluations.report_progress(tx, run.id, [result(case)])
    calls = (
        lambda tx, who: evaluations.get_set(tx, own.id, tenant=who),
        lambda tx, who: evaluations.sets(tx, tenant=who, knowledge_base=KB),
        lambda tx, who: evaluations.cases(tx, own.id, tenant=who),
        lambda tx, who: evaluations.get_case(tx, own.id, case.id, tenant=who),
        lambda tx, who: evaluations.get_run(tx, run.id, tenant=who),
        lambda tx, who: evaluations.runs(tx, own.id, tenant=who),
        lambda tx, who: evaluations.results(tx, run.id, tenant=who),
        lambda tx, who: evaluations.cancel_run(tx, run.id, tenant=who),
        lambda tx, who: evaluations.save_cases(tx, own.id, [CASE], tenant=who),
        lambda tx, who: evaluations.remove_case(tx, own.id, case.id, tenant=who),
        lambda tx, who: evaluations.remove_run(tx, run.id, tenant=who),
        lambda tx, who: evaluations.remove_set(tx, own.id, tenant=who),
    )
    for call in calls:
        with pytest.raises(NotFound), records.writing() as tx:
            call(tx, "乙")
        with records.writing() as tx:
            assert call(tx, LOCAL_TENANT) != []
    with records.reading() as tx:
        assert evaluations.sets(tx, tenant="乙") == []


def test_a_base_takes_its_sets_to_another_tenant_and_into_the_grave(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        (case,) = evaluations.save_cases(tx, own.id, [CASE], **OWN)
        run = evaluations.start_run(tx, own.id, **OWN, **RUN)
        assert evaluations.report_progress(tx, run.id, [result(case)], done=1)
        bases.move(tx, KB, "丙", tenant=LOCAL_TENANT)
        assert evaluations.get_run(tx, run.id, tenant="丙").done == 1
        bases.remove(tx, KB, tenant="丙")
        for table in ("evaluation_sets", "evaluation_cases", "evaluation_runs", "evaluation_results"):
            assert tx.execute(select(Base.metadata.tables[table])).all() == []


def test_a_run_ends_when_it_is_cancelled_or_removed(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        (case,) = evaluations.save_cases(tx, own.id, [CASE], **OWN)
        run = evaluations.start_run(tx, own.id, **OWN, **RUN)
        assert evaluations.report_progress(tx, run.id, [result(case)], done=1, metrics={"ndcg@10": 0.5})
        assert evaluations.cancel_run(tx, run.id, **OWN).status == "cancelling"
        assert not evaluations.report_progress(tx, run.id, [], status="cancelled")
        assert evaluations.cancel_run(tx, run.id, **OWN).status == "cancelled"
        assert evaluations.results(tx, run.id, **OWN) == [result(case)]
        evaluations.remove_run(tx, run.id, **OWN)
        assert not evaluations.report_progress(tx, run.id, [], done=2)


def test_a_run_that_has_been_silent_for_long_was_interrupted(records: Records) -> None:
    with records.writing() as tx:
        own = evaluations.create_set(tx, KB, "常用", **OWN)
        run = evaluations.start_run(tx, own.id, **OWN, **RUN)
        assert run.status == "running"
        tx.execute(update(EvaluationRunRow).values(updated_at=datetime(2026, 1, 1, tzinfo=UTC)))
        assert evaluations.get_run(tx, run.id, **OWN).status == "interrupted"
