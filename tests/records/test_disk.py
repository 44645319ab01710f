"""What SQLite and the kernel say of a disk, in words that people can act on; every error here is a real one."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import QueuePool
from sqlalchemy.exc import DBAPIError

from qianxun.records import Records
from qianxun.records.database.disk_errors import is_disk_full, is_unwritable, trouble
from qianxun.records.database.open import sqlite_url


def _run(records: Records, *statements: str) -> None:
    with records.writing() as tx:
        for statement in statements:
            tx.exec_driver_sql(statement)


def _failure(path: Path, statement: str, pragma: str) -> DBAPIError:
    records = Records.open(sqlite_url(path))
    try:
        with pytest.raises(DBAPIError) as failure:
            _run(records, pragma, statement)
        return failure.value
    finally:
        records.close()


def test_a_full_disk(tmp_path: Path) -> None:
    error = _failure(tmp_path / "a.db", "CREATE TABLE more AS SELECT zeroblob(999999)", "PRAGMA max_page_count = 1")
    assert is_disk_full(error)
    message, hint = trouble(error) or ("", "")
    assert "磁盘已满" in message
    assert "腾出空间" in hint


def test_a_database_that_may_not_be_written(tmp_path: Path) -> None:
    error = _failure(tmp_path / "a.db", "CREATE TABLE more (a)", "PRAGMA query_only = ON")
    assert is_unwritable(error)
    message, hint = trouble(error) or ("", "")
    assert "不能写入" in message
    assert "权限" in hint


@pytest.mark.parametrize(("content", "said"), [(b"no database" * 999, "已损坏"), (None, "打不开")])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "a.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(DBAPIError) as failure:
        Records.open(sqlite_url(path))
    message, hint = trouble(failure.value) or ("", "")
    assert said in message
    assert hint


def test_extended_codes_count_as_what_they_extend() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE  # a full disk has no room for the -shm file
    message, hint = trouble(error) or ("", "")
    assert "满" in message
    assert "df" in hint


def test_what_the_kernel_says_through_what_was_raised_from_it() -> None:
    error = RuntimeError("on the way")
    error.__cause__ = OSError(errno.EROFS, "Read-only file system", "/data/index/rows")
    message, _ = trouble(error) or ("", "")
    assert "/data/index/rows" in message
    assert is_unwritable(error)
    assert is_disk_full(OSError(errno.ENOSPC, "No space left on device"))


def test_other_errors_are_no_trouble_of_the_disk() -> None:
    assert trouble(ValueError("wrong")) is None
    assert trouble(FileNotFoundError(errno.ENOENT, "No such file")) is None
    assert trouble(sqlite3.IntegrityError("UNIQUE constraint failed")) is None


def test_the_pages_that_all_connections_keep_have_a_bound(tmp_path: Path) -> None:
    """Whatever is only appended to, as the log of searches, fills them all."""
    records = Records.open(sqlite_url(tmp_path / "a.db"))
    with records.reading() as tx:
        kilobytes = -tx.exec_driver_sql("PRAGMA cache_size").scalar_one()
    pool = records.engine.pool
    assert isinstance(pool, QueuePool)
    connections = pool.size() + pool._max_overflow
    assert 0 < kilobytes * connections <= 128 * 1024
    records.close()
