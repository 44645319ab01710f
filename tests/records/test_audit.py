"""The audit log: written with the change or not at all, and no change to it goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete, text, update

from qianxun.core.governance.actor import acting_as
from qianxun.core.types import Document, Submission
from qianxun.records import Records, bases, documents
from qianxun.records.database.open import sqlite_url
from qianxun.records.governance import audit
from qianxun.records.schema import AuditRow
from qianxun.records.secrets import keys


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records.open(sqlite_url(tmp_path / "qianxun.db"))


def _filled(records: Records) -> int:
    with acting_as("key:7"), records.writing() as tx:
        base = bases.create(tx, "医保", tenant="local").id
        documents.accept(tx, base, [Submission(Document("甲", "住院"), "1"), Submission(Document("乙", "门诊"), "2")])
        documents.remove(tx, base, "甲")
        bases.rename(tx, base, "社保", tenant="local")
        keys.create(tx, "other", "read", "给前台")
    return base


def test_every_change_is_noted_with_who_did_it(records: Records) -> None:
    base = _filled(records)
    with records.reading() as tx:
        found = audit.entries(tx)
    actions = [(entry.action, entry.subject, entry.tenant) for entry in reversed(found)]
    assert actions == [
        ("base.create", "医保", "local"),
        ("document.add", "", "local"),
        ("document.delete", "甲", "local"),
        ("base.rename", "社保", "local"),
        ("key.create", "key:1", "other"),
    ]
    assert {entry.who for entry in found} == {"key:7"}
    assert found[3].details == {"created": 2, "updated": 0, "documents": ["甲", "乙"]}
    assert [entry.knowledge_base_id for entry in found] == [0, base, base, base, base]


def test_a_change_that_is_undone_leaves_no_entry(records: Records) -> None:
    base = _filled(records)
    with records.writing() as tx:
        documents.remove(tx, base, "乙")
        tx.rollback()
    with records.writing() as tx:
        documents.remove(tx, base, "乙")
    with records.reading() as tx:
        assert [entry.subject for entry in audit.entries(tx, action="document.delete")] == ["乙", "甲"]
        assert audit.verify(tx).is_intact


def test_lists_are_of_a_tenant_and_an_action_a_page_at_a_time(records: Records) -> None:
    base = _filled(records)
    with records.reading() as tx:
        assert [entry.action for entry in audit.entries(tx, tenant="other")] == ["key.create"]
        assert len(audit.entries(tx, knowledge_base=base)) == 4
        assert [entry.action for entry in audit.entries(tx, action="document")] == ["document.delete", "document.add"]
        assert audit.entries(tx, action="doc") == []
        first = audit.entries(tx, limit=2)
        assert [entry.sequence for entry in audit.entries(tx, limit=2, before=first[-1].sequence)] == [3, 2]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (update(AuditRow).where(AuditRow.sequence == 3).values(who="key:8"), "第 3 条的内容被改过"),
        (update(AuditRow).where(AuditRow.sequence == 3).values(subject="乙"), "第 3 条的内容被改过"),
        (update(AuditRow).where(AuditRow.sequence == 2).values(action="document.read"), "第 2 条与它的哈希不符"),
        (update(AuditRow).where(AuditRow.sequence == 2).values(tenant="other"), "第 2 条与它的哈希不符"),
        (
            text("UPDATE audit_log SET created_at = '2020-01-01' WHERE sequence = 4"),
            "第 4 条与它的哈希",
        ),
        (delete(AuditRow).where(AuditRow.sequence == 3), "缺少第 3–3 条"),
        (delete(AuditRow).where(AuditRow.sequence == 5), "结尾被截去"),
    ],
)
def test_what_is_changed_afterwards_is_seen(records: Records, change: object, problem: str) -> None:
    _filled(records)
    with records.writing() as tx:
        assert audit.verify(tx).is_intact
        tx.execute(change)  # type: ignore[call-overload]
        verdict = audit.verify(tx)
    assert not verdict.is_intact
    assert any(problem in one for one in verdict.problems)


def test_a_log_that_was_made_anew_does_not_have_the_head_that_was_noted(records: Records, tmp_path: Path) -> None:
    _filled(records)
    other = Records.open(sqlite_url(tmp_path / "other.db"))
    _filled(other)
    with records.reading() as tx, other.reading() as there:
        noted = audit.verify(tx).head
        assert audit.verify(tx, noted).is_intact
        assert audit.verify(there).is_intact
        assert "不在链上" in audit.verify(there, noted).problems[0]


def test_names_can_be_erased_and_the_chain_still_holds(records: Records) -> None:
    base = _filled(records)
    with records.writing() as tx:
        naming = audit.naming(tx, "local", ["甲"], knowledge_base=base)
        assert sorted(naming) == [2, 3]
        assert audit.erase(tx, naming) == 2
        verdict = audit.verify(tx)
        assert (verdict.is_intact, verdict.erased) == (True, 2)
        left = audit.entries(tx, action="document")
        assert [(entry.who, entry.subject, dict(entry.details), entry.is_erased) for entry in left] == [
            ("", "", {}, True)
        ] * 2
        assert audit.naming(tx, "local", ["甲"]) == []
        tx.execute(update(AuditRow).where(AuditRow.sequence == 3).values(action="document.keep"))
        assert not audit.verify(tx).is_intact
