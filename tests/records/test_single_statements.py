"""Short reads on the way of a search: over a kept connection, and never of an old state."""

from __future__ import annotations

import platform
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from qianxun.core.system.memory import trim
from qianxun.core.types import LOCAL_TENANT
from qianxun.records import IDLE, Records, bases
from qianxun.records.chunks import CHUNK, _existing_query, _page_query, table_share
from qianxun.records.database.change_mark import change_mark
from qianxun.records.database.open import CACHE_BYTES, open_database, sqlite_url
from qianxun.records.database.restrict import restricted
from qianxun.records.database.statements import insert_rows
from qianxun.records.schema import ChunkRow, TableRow, VectorRow, VersionRow


@pytest.fixture
def records(records_url: str) -> Records:
    return Records.open(records_url)


def count(records: Records) -> int:
    with records.single_statement() as tx:
        return int(tx.execute(text("SELECT count(*) FROM knowledge_bases")).scalar_one())


def create(records: Records, name: str) -> int:
    with records.writing() as tx:
        return bases.create(tx, name, tenant=LOCAL_TENANT).id


def test_a_single_statement_sees_what_was_written_since_the_last(records: Records) -> None:
    for written in range(1, 4):
        base = create(records, f"{written}")
        assert count(records) == written  # through SQLAlchemy, which begins a transaction
        with records.single_statement() as tx:  # as searches do, by a statement that begins none
            before = bases.generation(tx, base)
        with records.writing() as tx:
            bases.revise(tx, base)
        with records.single_statement() as tx:
            assert bases.generation(tx, base) == before + 1
    records.close()


def test_whether_anything_was_written_is_told_without_reading_it(records: Records) -> None:
    def mark() -> object:
        with records.single_statement() as tx:
            return change_mark(tx)

    base, before = create(records, "甲"), mark()
    assert mark() == before
    with records.writing() as tx:
        bases.revise(tx, base)
    assert (mark() != before) if records.is_here else (before is None)
    records.close()


def test_single_statements_at_once_have_a_connection_each_and_few_are_kept(records: Records) -> None:
    contexts = [records.single_statement() for _ in range(IDLE + 2)]
    connections = [context.__enter__() for context in contexts]
    assert len({id(connection) for connection in connections}) == IDLE + 2
    for context in contexts:
        context.__exit__(None, None, None)
    assert sum(not connection.closed for connection in connections) == (IDLE if records.is_here else 0)
    records.close()
    assert all(connection.closed for connection in connections)


def test_after_an_error_a_connection_is_not_used_again(records: Records) -> None:
    with pytest.raises(DBAPIError), records.single_statement() as failed:
        failed.exec_driver_sql("SELECT * FROM nothing_of_that_name")
    assert failed.closed
    with records.single_statement() as tx:
        assert tx is not failed
    records.close()


def test_a_statement_that_outlives_the_database_keeps_nothing_open(records: Records) -> None:
    """As of a request that was still being let in when the service ended."""
    with records.single_statement() as late:
        records.close()
    assert late.closed
    assert not records._idle


def test_a_closed_database_leaves_no_file_open(tmp_path: Path) -> None:
    from qianxun.records.database.open import migrate

    records = Records.open(f"sqlite:///{tmp_path / 'q.db'}")
    migrate(records.engine)
    assert count(records) == 0
    with records.single_statement() as tx:
        assert bases.generation(tx, 1) == 0
    records.close()
    assert not list(tmp_path.glob("*-wal"))  # the last connection takes it away


@pytest.mark.parametrize("count", [10, 100, 500])
@pytest.mark.parametrize("sets", [None, 20])
def test_chunks_are_looked_up_by_their_keys_and_not_through_all_documents(
    tmp_path: Path, count: int, sets: int | None
) -> None:
    """SQLite begins where it expects fewer rows, and knows nothing of how many a base has."""
    records = Records.open(f"sqlite:///{tmp_path / 'q.db'}")
    with records.reading() as tx:
        for query in (_page_query(tx.dialect, count, sets), _existing_query(tx.dialect, count, sets)):
            plan = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {query.sql}", (1,) * len(query.names or ())).all()
            assert plan[0][3].startswith("SEARCH chunks USING INTEGER PRIMARY KEY")
    records.close()


def test_what_a_principal_may_see_is_looked_up_row_by_row(tmp_path: Path) -> None:
    """To list all documents that it may see, for a few rows, takes longer than everything else in a search."""
    records = Records.open(f"sqlite:///{tmp_path / 'q.db'}")
    with records.reading() as tx:
        for column, own in (
            (VersionRow.name, VersionRow.document_key),
            (VectorRow.model, VectorRow.chunk_key),
            (TableRow.title, TableRow.key),
        ):
            made = restricted(select(column).where(own == 7), (0, 3, 5)).compile(
                tx, compile_kwargs={"literal_binds": True}
            )
            plan = [row[3] for row in tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {made}").all()]
            assert not [step for step in plan if step.startswith("SCAN")], plan
    records.close()


def test_the_share_of_tables_takes_no_longer_in_a_larger_base(tmp_path: Path) -> None:
    """It is looked up after every change of a base, before the next search."""
    records = Records.open(f"sqlite:///{tmp_path / 'q.db'}")
    with records.engine.connect() as tx:
        tx.exec_driver_sql("PRAGMA defer_foreign_keys=ON")  # chunks of no document, never committed
        steps = []
        for base, size in ((1, 1_000), (2, 20_000)):
            kinds = ["text" if at % 4 else "table" for at in range(size)]
            above = list[str]()
            rows = [(at + base * 100_000, base, 1, 1, at, 0, 1, kind, above, "文") for at, kind in enumerate(kinds)]
            insert_rows(tx, ChunkRow, (*CHUNK[:8], "headings", "text"), rows)
            connection: Any = tx.connection.dbapi_connection
            taken = list[int]()
            connection.set_progress_handler(partial(taken.append, 1), 100)
            assert table_share(tx, base) == pytest.approx(0.25, abs=0.06)
            connection.set_progress_handler(None, 100)
            steps.append(len(taken))
    records.close()
    assert steps[1] <= 1.5 * steps[0]


def test_sqlite_reads_with_the_connection_that_was_used_last(tmp_path: Path) -> None:
    """Its pages are in memory: by turns each of five read them anew, at twice the processor time."""
    engine = open_database(sqlite_url(tmp_path / "records.db"))
    first, last = engine.connect(), engine.connect()
    used = last.connection.driver_connection
    first.close()
    last.close()
    with engine.connect() as again:
        assert again.connection.driver_connection is used
    engine.dispose()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives back what is free when asked to")
def test_connections_that_wait_give_back_their_pages(tmp_path: Path) -> None:
    """Each may keep `CACHE_BYTES`, and there are up to fifteen."""
    records, readers = Records.open(sqlite_url(tmp_path / "qianxun.db")), 4
    with records.writing() as tx:
        tx.execute(text("CREATE TABLE pages (content TEXT)"))
        tx.execute(text("INSERT INTO pages VALUES (:content)"), [{"content": "页" * 1000}] * 4000)
    with ExitStack() as together:
        for connection in [together.enter_context(records.reading()) for _ in range(readers)]:
            assert connection.execute(text("SELECT sum(length(content)) FROM pages")).scalar_one() == 4_000_000
    trim()
    before = psutil.Process().memory_info().rss
    records.release_memory()
    trim()
    assert before - psutil.Process().memory_info().rss > readers / 2 * CACHE_BYTES
    assert count(records) == 0
    records.close()
