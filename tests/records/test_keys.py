"""Keys to the service: told once, kept hashed, let in at once and kept out at once."""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, NotFound
from qianxun.records import Records
from qianxun.records.secrets import keys
from tests.records.stored_bytes import stored_bytes


def issue(records: Records, tenant: str = "甲", scope: keys.Scope = "write", name: str = "") -> tuple[keys.KeyRow, str]:
    with records.writing() as tx:
        return keys.create(tx, tenant, scope, name)


def holder(records: Records, plaintext: str) -> keys.KeyHolder | None:
    with records.reading() as tx:
        return keys.find(tx, plaintext)


def test_a_key_is_256_bits_and_lets_its_tenant_in(records: Records) -> None:
    row, plaintext = issue(records, "甲", "read", "报表")
    assert re.fullmatch(r"qx_[A-Za-z0-9_-]{43}", plaintext)
    assert holder(records, plaintext) == keys.KeyHolder(row.id, "甲", "read", "unlabelled")
    assert len({issue(records)[1] for _ in range(50)}) == 50


def test_the_key_itself_is_nowhere_in_the_files(records: Records, tmp_path: Path) -> None:
    _, plaintext = issue(records)
    found = stored_bytes(records, tmp_path)
    assert plaintext.encode() not in found
    assert plaintext[3:].encode() not in found
    assert hashlib.sha256(plaintext.encode()).hexdigest().encode() in found  # what is looked for would be found


def test_what_is_no_key_is_nobodys(records: Records) -> None:
    _, plaintext = issue(records)
    wrong = [
        "",
        "qx_",
        plaintext[:-1],
        plaintext + "a",
        plaintext.upper(),
        " " + plaintext,
        plaintext + "\n",
        "密" * 46,
    ]
    wrong += ["\ud800" * 46, "qx_" + "' or 1=1 --".ljust(43, "a"), hashlib.sha256(plaintext.encode()).hexdigest()]
    assert [holder(records, each) for each in wrong] == [None] * len(wrong)


def test_a_revoked_key_lets_nobody_in_and_stays_revoked(records: Records) -> None:
    row, plaintext = issue(records)
    other, kept = issue(records)
    with records.writing() as tx:
        gone = keys.revoke(tx, row.id)
    assert gone.revoked_at is not None
    assert (holder(records, plaintext), holder(records, kept)) == (None, keys.KeyHolder(other.id, "甲", "write"))
    with records.writing() as tx:
        assert keys.revoke(tx, row.id).revoked_at == gone.revoked_at
    with records.reading() as tx:
        assert [each.revoked_at is None for each in keys.listed(tx)] == [False, True]


def test_an_unknown_key_cannot_be_revoked(records: Records) -> None:
    for number in (7, 0, -1, 1 << 70):
        with records.writing() as tx, pytest.raises(NotFound):
            keys.revoke(tx, number)


def test_any_live_speaks_of_keys_that_let_somebody_in(records: Records) -> None:
    def live() -> bool:
        with records.reading() as tx:
            return keys.is_any_active(tx)

    assert not live()
    row, _ = issue(records)
    assert live()
    with records.writing() as tx:
        keys.revoke(tx, row.id)
    assert not live()


def test_any_ever_speaks_of_revoked_ones_too(records: Records) -> None:
    def ever() -> bool:
        with records.reading() as tx:
            return keys.was_any_created(tx)

    assert not ever()
    row, _ = issue(records)
    assert ever()
    with records.writing() as tx:
        keys.revoke(tx, row.id)
    assert ever()


@pytest.mark.parametrize("tenant", ["", " ", "甲" * 65, "甲\n", " 甲", "\x00"])
def test_a_tenant_has_a_proper_name(records: Records, tenant: str) -> None:
    with pytest.raises(BadInput, match="租户"):
        issue(records, tenant)


def test_scope_and_name_are_checked(records: Records) -> None:
    with pytest.raises(BadInput, match="admin"):
        issue(records, scope="admin")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="名称"):
        issue(records, name="名" * 201)
    with pytest.raises(BadInput, match="名称"):
        issue(records, name="一\n二")


def test_two_processes_that_write_wait_for_each_other(records: Records, records_url: str) -> None:
    """A transaction that read first and wrote later used to fail where another process wrote in between."""
    beside = Records.open(records_url)  # as `qianxun keys` has it beside a service
    has_read, failed = threading.Event(), []

    def serve() -> None:
        try:
            with records.writing() as tx:
                keys.is_any_active(tx)
                has_read.set()
                threading.Event().wait(0.2)
                keys.create(tx, "甲", "read")
        except Exception as error:
            failed.append(error)

    service = threading.Thread(target=serve)
    service.start()
    has_read.wait()
    issue(beside)
    service.join()
    beside.close()
    assert failed == []
    with records.reading() as tx:
        assert len(keys.listed(tx)) == 2
