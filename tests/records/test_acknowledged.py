"""What was acknowledged and is not there any more is missed when the database is opened; nothing else ever is."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from qianxun.core.errors import BadInput, RecordsUnavailable
from qianxun.core.types import Document, Submission
from qianxun.records import Records, bases, documents
from qianxun.records.database.acknowledged import LOST, Count, losses
from qianxun.records.database.open import sqlite_url

WRITES = 20


def opened(folder: Path) -> Records:
    return Records.open(sqlite_url(folder / "a.db"), acknowledged=folder / "acknowledged")


def put(records: Records, kb: int, number: int) -> None:
    document = Document(f"文档{number}", f"第{number}条 住院报销的比例。" * 20, name=f"文档{number}")
    with records.writing() as tx:
        documents.accept(tx, kb, [Submission(document, f"{number}")])


def crashed(folder: Path, left: Path) -> None:
    """What a process leaves that ends without closing: the database, its log, the count."""
    left.mkdir()
    for name in ("a.db", "a.db-wal", "acknowledged"):
        shutil.copy(folder / name, left / name)


@pytest.fixture(scope="module")
def left_by_a_crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("running")
    records = opened(folder)
    with records.writing() as tx:
        kb = bases.create(tx, "医保", tenant="local").id
    with records.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(WRITES):
        put(records, kb, number)
    left = folder / "left"
    crashed(folder, left)
    records.close()
    return left


def count(records: Records) -> int:
    with records.reading() as tx:
        return int(tx.exec_driver_sql("SELECT count(*) FROM documents").scalar_one())


def copied(left: Path, target: Path) -> Path:
    shutil.copytree(left, target)
    return target


def test_a_crash_is_no_loss(left_by_a_crash: Path, tmp_path: Path) -> None:
    records = opened(copied(left_by_a_crash, tmp_path / "data"))
    assert (records.loss, count(records)) == (None, WRITES)
    records.close()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_damaged_log_is_missed_with_the_number_of_writes_it_held(
    left_by_a_crash: Path, tmp_path: Path, share: float
) -> None:
    folder = copied(left_by_a_crash, tmp_path / "data")
    log = folder / "a.db-wal"
    data = bytearray(log.read_bytes())
    data[int(len(data) * share)] ^= 0b100
    log.write_bytes(data)
    records = opened(folder)
    lost = WRITES - count(records)
    assert lost > 0
    assert records.loss is not None
    assert (records.loss.commits, records.loss.changes) == (lost, lost)
    put(records, 1001, 99)
    records.close()
    again = opened(folder)  # is counted from what there is now on, and what was lost is remembered
    assert again.loss is None
    assert [loss.changes for loss in losses(folder / "acknowledged")] == [lost]
    again.close()
    (folder / f"acknowledged{LOST}").unlink()
    assert losses(folder / "acknowledged") == []


def test_a_log_that_was_deleted_and_an_older_copy_are_missed(left_by_a_crash: Path, tmp_path: Path) -> None:
    folder = copied(left_by_a_crash, tmp_path / "data")
    (folder / "a.db-wal").unlink()
    records = opened(folder)
    assert records.loss is not None
    assert records.loss.commits == WRITES
    records.close()


@pytest.mark.parametrize("damage", ["none", "torn", "flipped"])
def test_without_a_readable_count_nothing_is_missed(left_by_a_crash: Path, tmp_path: Path, damage: str) -> None:
    folder = copied(left_by_a_crash, tmp_path / "data")
    mark = folder / "acknowledged"
    data = bytearray(mark.read_bytes())
    data[Random(damage).randrange(9, len(data) - 1)] ^= 1
    mark.unlink() if damage == "none" else mark.write_bytes(data[:30] if damage == "torn" else data)
    (folder / "a.db-wal").unlink()
    records = opened(folder)
    assert records.loss is None
    records.close()


def test_another_database_is_not_taken_for_one_that_lost_its_tail(left_by_a_crash: Path, tmp_path: Path) -> None:
    folder = copied(left_by_a_crash, tmp_path / "data")
    for name in ("a.db", "a.db-wal"):
        (folder / name).unlink()
    records = opened(folder)
    assert records.loss is None
    records.close()


def test_a_write_that_is_undone_is_not_counted(tmp_path: Path) -> None:
    records = opened(tmp_path)
    with pytest.raises(BadInput):
        _fail_midway(records)
    records.close()
    records = opened(tmp_path)
    assert records.loss is None
    records.close()


def _fail_midway(records: Records) -> None:
    with records.writing() as tx:
        bases.create(tx, "医保", tenant="local")
        bases.create(tx, "", tenant="local")


def test_another_process_that_writes_without_a_count_is_no_loss(tmp_path: Path) -> None:
    first = opened(tmp_path)
    other = Records.open(sqlite_url(tmp_path / "a.db"))
    for number, records in enumerate((first, other, first, other, other)):
        with records.writing() as tx:
            bases.create(tx, f"库{number}", tenant="local")
    first.close()
    other.close()
    records = opened(tmp_path)
    assert records.loss is None
    records.close()


def test_a_log_that_was_damaged_before_anything_else_was_stored_is_missed(tmp_path: Path) -> None:
    """On its first day all that a database has is in its log."""
    folder = tmp_path / "running"
    folder.mkdir()
    records = opened(folder)
    with records.writing() as tx:
        bases.create(tx, "医保", tenant="local")
    crashed(folder, tmp_path / "left")
    records.close()
    log = tmp_path / "left" / "a.db-wal"
    log.write_bytes(log.read_bytes()[:100])
    records = opened(tmp_path / "left")
    assert records.loss is not None
    assert (records.loss.commits, records.loss.changes) == (1, 0)
    records.close()


def test_what_comes_after_closing_is_written_nowhere(tmp_path: Path) -> None:
    """The number of the closed file is that of the next one to be opened, here another database."""
    records = opened(tmp_path)
    with records.writing() as tx:
        kb = bases.create(tx, "医保", tenant="local").id
    mark = records.acknowledged
    assert mark is not None
    records.close()
    others = [tmp_path / f"other{number}" for number in range(20)]
    handles = [os.open(path, os.O_RDWR | os.O_CREAT) for path in others]
    mark.note(Count(7, 7))
    mark.close()  # once more: not the file that has its number now
    for handle, path in zip(handles, others, strict=True):
        os.close(handle)
        assert path.read_bytes() == b""
    with pytest.raises(RecordsUnavailable), records.writing() as tx:
        bases.rename(tx, kb, "社保", tenant="local")
    with closing(opened(tmp_path)) as again, again.reading() as tx:
        assert bases.get(tx, kb, tenant="local").name == "医保"
