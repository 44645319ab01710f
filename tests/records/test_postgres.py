"""Records on a real PostgreSQL: what happens when it goes away, refuses us, or somebody else works on it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, insert, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import BadInput, BadSettings, FolderInUse, Overloaded, QianxunError, RecordsUnavailable
from qianxun.core.types import Document, Submission
from qianxun.records import Records, bases, documents, listing
from qianxun.records.database.open import connect, open_database
from qianxun.records.database.server import ConnectionOptions
from qianxun.records.database.statements import COPIED_FROM, insert_rows
from qianxun.records.document_heads import Head
from qianxun.records.schema import Base, Counter
from qianxun.records.secrets import keys
from tests.integration.emptied import end_sessions
from tests.servers.postgres import WITH_PASSWORD, Server, create_database, drop_database

SECRET = "s3cret/p@ss:word"


@pytest.fixture
def records(migrated_postgres_url: str) -> Iterator[Records]:
    opened = Records.open(migrated_postgres_url)
    yield opened
    opened.close()


def create_base(records: Records, name: str = "医保") -> int:
    with records.writing() as tx:
        return bases.create(tx, name, tenant="甲").id


def names(records: Records) -> list[str]:
    with records.reading() as tx:
        return [base.name for base in bases.every(tx, tenant="甲")]


def together(*works: Callable[[], Any]) -> list[BaseException]:
    """Runs all at once; answers what they raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


# ── several at once ──────────────────────────────────────────────────────────────────────────────


def test_a_reader_sees_one_state_however_much_is_written_meanwhile(records_url: str) -> None:
    records = Records.open(records_url)
    create_base(records, "一")
    with records.reading() as tx:
        before = [base.name for base in bases.every(tx, tenant="甲")]
        create_base(records, "二")
        assert [base.name for base in bases.every(tx, tenant="甲")] == before == ["一"]
    assert names(records) == ["一", "二"]
    records.close()


def test_a_reader_cannot_write(records: Records) -> None:
    with records.reading() as tx, pytest.raises(DBAPIError, match="read-only"):
        bases.create(tx, "医保", tenant="甲")


def test_processes_that_write_the_same_document_at_once_take_turns(migrated_postgres_url: str) -> None:
    """Each reads what is there and then writes: without the lock of writers they all find no document, and clash."""
    several = [Records.open(migrated_postgres_url) for _ in range(4)]
    kb = create_base(several[0])

    def write(records: Records) -> None:
        for number in range(5):
            with records.writing() as tx:
                offered = Submission(Document("d", f"第 {number} 版"), f"{id(records)} {number}", None, None)
                documents.accept(tx, kb, [offered])

    assert together(*(lambda each=each: write(each) for each in several)) == []  # type: ignore[misc]
    with several[0].reading() as tx:
        assert listing.state(tx, kb, "d").generation == 20
    for each in several:
        each.close()


def test_without_the_lock_of_writers_they_do_clash(migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr("qianxun.records.database.postgres.lock_writers", lambda connection: None)
    several = [Records.open(migrated_postgres_url) for _ in range(2)]
    kb = create_base(several[0])
    both_have_read, read = threading.Barrier(2, timeout=60), documents.heads

    def heads(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, Head]:
        found = read(tx, knowledge_base, doc_ids)
        both_have_read.wait()
        return found

    def write(records: Records) -> None:
        with records.writing() as tx:
            documents.accept(tx, kb, [Submission(Document("d", "一版"), str(id(records)), None, None)])

    monkeypatch.setattr(documents, "heads", heads)
    assert together(*(lambda each=each: write(each) for each in several)) != []  # type: ignore[misc]
    for each in several:
        each.close()


def test_processes_that_find_an_empty_database_make_its_tables_once(postgres_url: str) -> None:
    opened: list[Records] = []
    assert together(*[lambda: opened.append(Records.open(postgres_url))] * 4) == []
    assert set(inspect(opened[0].engine).get_table_names()) >= set(Base.metadata.tables)
    for each in opened:
        each.close()


# ── one engine at a time ─────────────────────────────────────────────────────────────────────────


def test_a_second_engine_is_told_who_works_on_the_database(migrated_postgres_url: str) -> None:
    first = Records.open(migrated_postgres_url, alone=True)
    with pytest.raises(FolderInUse, match=r"qianxun .*始于") as told:
        Records.open(migrated_postgres_url, alone=True)
    assert "--url" in told.value.hint
    beside = Records.open(migrated_postgres_url)  # as `qianxun keys` has it beside a service
    with beside.writing() as tx:
        keys.create(tx, "甲", "read")
    beside.close()
    first.close()
    Records.open(migrated_postgres_url, alone=True).close()


def test_an_owner_keeps_the_session_that_it_has(migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records.open(migrated_postgres_url, alone=True)
    monkeypatch.setattr(
        "qianxun.records.database.ownership._locked", lambda engine: pytest.fail("it has its lock already")
    )
    create_base(records, "一")
    create_base(records, "二")
    records.close()


def test_an_owner_that_was_cut_off_goes_on_unless_somebody_else_was_there(migrated_postgres_url: str) -> None:
    first = Records.open(migrated_postgres_url, alone=True)
    create_base(first, "一")
    assert end_sessions(migrated_postgres_url) >= 2
    create_base(first, "二")
    assert names(first) == ["一", "二"]
    end_sessions(migrated_postgres_url)
    second = Records.open(migrated_postgres_url, alone=True)
    with pytest.raises(FolderInUse, match="另一个进程"):
        create_base(first, "三")
    second.close()
    with pytest.raises(FolderInUse, match="打开过"):
        create_base(first, "三")
    assert names(first) == ["一", "二"]
    first.close()


# ── away and back ────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_stops_is_a_clear_error_and_one_that_returns_is_found_again(postgres_server: Server) -> None:
    url = create_database(postgres_server)
    records = Records.open(url, alone=True)
    create_base(records, "一")
    postgres_server.stop("immediate")
    with pytest.raises(RecordsUnavailable, match="连不上数据库") as told:
        names(records)
    assert "records.url" in told.value.hint
    with pytest.raises(RecordsUnavailable):
        create_base(records, "二")
    with pytest.raises(RecordsUnavailable), records.single_statement() as tx:
        bases.generation(tx, 1001)
    postgres_server.start()
    assert names(records) == ["一"]
    create_base(records, "二")
    records.close()


def test_a_connection_that_dies_within_a_transaction_undoes_it(records: Records, migrated_postgres_url: str) -> None:

    def write() -> None:
        with records.writing() as tx:
            bases.create(tx, "一", tenant="甲")
            end_sessions(migrated_postgres_url)
            bases.create(tx, "二", tenant="甲")

    def glance() -> None:
        with records.single_statement() as tx:
            bases.generation(tx, 1)
            end_sessions(migrated_postgres_url)
            bases.generation(tx, 1)

    with pytest.raises(RecordsUnavailable):
        write()
    assert names(records) == []
    with pytest.raises(RecordsUnavailable):
        glance()
    create_base(records, "三")
    assert names(records) == ["三"]


def test_a_statement_has_its_time(migrated_postgres_url: str) -> None:
    records = Records(connect(migrated_postgres_url, ConnectionOptions(statement_seconds=0.1)))
    with pytest.raises(RecordsUnavailable, match="时间"), records.reading() as tx:
        tx.execute(text("SELECT pg_sleep(60)"))
    with records.writing() as tx:  # writers have more: to remove a large base takes a while
        tx.execute(text("SELECT pg_sleep(0.3)"))
    records.close()


def test_a_writer_that_waits_too_long_for_another_is_told_so(migrated_postgres_url: str) -> None:
    holding = Records.open(migrated_postgres_url)
    waiting = Records(connect(migrated_postgres_url, ConnectionOptions(statement_seconds=0.2)))
    with holding.writing() as tx:
        bases.create(tx, "一", tenant="甲")
        with pytest.raises(RecordsUnavailable, match="时间"):
            create_base(waiting, "二")
    create_base(waiting, "二")
    assert names(holding) == ["一", "二"]
    holding.close()
    waiting.close()


def test_when_all_connections_are_taken_the_next_is_told_to_come_again(migrated_postgres_url: str) -> None:
    records = Records.open(migrated_postgres_url, ConnectionOptions(pool_size=1, connect_seconds=0.1))
    with records.reading(), pytest.raises(Overloaded, match="连接"):
        names(records)
    assert names(records) == []
    records.close()


# ── refused ──────────────────────────────────────────────────────────────────────────────────────


def with_password(server: Server, password: str, **changes: Any) -> str:
    url = make_url(server.url).set(username=WITH_PASSWORD, password=password, **changes)
    return url.render_as_string(hide_password=False)


def test_what_a_server_refuses_is_said_without_the_password(
    postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with connect(postgres_server.url).connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD '{SECRET}'")
        connection.exec_driver_sql(f"GRANT ALL ON SCHEMA public TO {WITH_PASSWORD}")
        connection.commit()
    opened = Records.open(with_password(postgres_server, SECRET))
    assert SECRET not in repr(opened)
    opened.close()
    refused = [
        (with_password(postgres_server, SECRET + "!"), "密码"),
        (with_password(postgres_server, SECRET, database="没有"), "没有这个数据库"),
        (with_password(postgres_server, SECRET, query={"host": "/nowhere"}), "连不上数据库"),
        (f"postgresql://postgres:{SECRET.replace('@', '%40').replace('/', '%2F')}@127.0.0.1:1/x", "连不上数据库"),
    ]
    for url, said in refused:
        with pytest.raises(RecordsUnavailable, match=said) as told:
            Records.open(url)
        assert told.value.hint
        _nothing_of_the_secret_in(told.value)
    assert SECRET not in caplog.text


def _nothing_of_the_secret_in(error: BaseException | None) -> None:
    while error is not None:
        for part in (SECRET, "p%40ss", "s3cret"):
            assert part not in str(error)
            assert part not in repr(error)
        error = error.__cause__


@pytest.mark.parametrize(
    "url",
    ["", "不是地址", "oracle://root:s3cret@h/d", "postgresql+asyncpg://u:s3cret@h/d", "postgresql://u:s3cret@h:端口/d"],
)
def test_what_is_no_address_of_a_database_is_a_bad_setting(url: str) -> None:
    with pytest.raises(BadSettings, match=r"records\.url") as told:
        connect(url)
    _nothing_of_the_secret_in(told.value)


def test_without_the_driver_the_extra_is_named() -> None:
    script = """
import sys
sys.modules["psycopg"] = None
from qianxun.core.errors import MissingExtra
from qianxun.records import Records
try:
    Records.open("postgresql://u:s3cret@h/d")
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "qianxun[postgres]" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_maintenance_url: str) -> None:
    engine = connect(postgres_maintenance_url).execution_options(isolation_level="AUTOCOMMIT")
    name = f"ascii_{uuid.uuid4().hex}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = make_url(postgres_maintenance_url).set(database=name).render_as_string(hide_password=False)
    try:
        with pytest.raises(BadSettings, match="SQL_ASCII"):
            Records.open(url)
    finally:
        drop_database(postgres_maintenance_url, url)
        engine.dispose()


def test_an_error_does_not_quote_the_row_at_fault(records: Records) -> None:
    create_base(records, "机密的名字")
    with pytest.raises(DBAPIError) as told, records.writing() as tx:
        tx.exec_driver_sql("INSERT INTO counters SELECT '机密的名字', NULL")
    error: BaseException | None = told.value
    while error is not None:
        assert "机密的名字" not in str(error).replace("SELECT '机密的名字'", "")
        error = error.__cause__


def test_what_is_too_long_or_holds_nul_is_refused_in_words(records: Records) -> None:
    for name, said in (("名" * 300, "太长"), ("空\x00", "NUL")):
        with pytest.raises(BadInput, match=said) as told, records.writing() as tx:
            tx.execute(insert(Counter).values(name=name, next=1))
        assert name[:20] not in str(told.value)
    rows = [(f"名{number}" * 30, number) for number in range(COPIED_FROM)]
    with pytest.raises(BadInput, match="太长"), records.writing() as tx:
        insert_rows(tx, Counter, ("name", "next"), rows)


def test_documents_are_listed_in_the_order_of_their_bytes(records: Records) -> None:
    with records.reading() as tx:
        query = "SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation "
        query += "WHERE attrelid = 'documents'::regclass AND attname = 'doc_id'"
        assert tx.exec_driver_sql(query).scalar() == "C"


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────


def test_two_schemas_of_one_database_know_nothing_of_each_other(postgres_url: str) -> None:
    one, two = (Records.open(postgres_url, ConnectionOptions(schema=name), alone=True) for name in ("qx_one", "qx_two"))
    create_base(one, "一")
    create_base(two, "二")
    assert (names(one), names(two)) == (["一"], ["二"])
    assert inspect(one.engine).get_table_names(schema="public") == []
    one.close()
    two.close()


def test_a_schema_knows_nothing_of_what_is_in_public(postgres_url: str) -> None:
    """Another installation there, whose tables are the same, and the versions of anybody's migrations."""
    public = Records.open(postgres_url)
    create_base(public, "公共")
    mine = Records.open(postgres_url, ConnectionOptions(schema="qx_mine"))
    assert names(mine) == []
    create_base(mine, "自己")
    with public.writing() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = 'of another program'")
    again = Records.open(postgres_url, ConnectionOptions(schema="qx_mine"))
    assert (names(public), names(again)) == (["公共"], ["自己"])
    for records in (public, mine, again):
        records.close()


@pytest.mark.parametrize("schema", ["大", "a b", 'a"; DROP', "A", "a" * 64])
def test_a_schema_has_a_plain_name(postgres_url: str, schema: str) -> None:
    with pytest.raises(BadSettings, match=r"records\.schema"):
        connect(postgres_url, ConnectionOptions(schema=schema))


def test_a_newer_database_is_refused(migrated_postgres_url: str) -> None:
    engine = connect(migrated_postgres_url)
    with engine.begin() as tx:
        before = tx.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    try:
        with pytest.raises(QianxunError, match="9999"):
            open_database(migrated_postgres_url)
    finally:
        with engine.begin() as tx:
            tx.execute(text("UPDATE alembic_version SET version_num = :before"), {"before": before})
        engine.dispose()


def test_a_server_that_says_nothing_at_all_is_given_up(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepted the statement and hangs: its own time limit does not come either."""
    records = Records.open(migrated_postgres_url, ConnectionOptions(statement_seconds=1.0))
    with records.single_statement() as tx:
        session = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
        kind: Any = type(tx.connection.dbapi_connection)
    monkeypatch.setattr(kind, "reply_seconds", 0.3)
    os.kill(session, signal.SIGSTOP)
    try:
        with pytest.raises(RecordsUnavailable, match="没有任何答复"):
            names(records)
        monkeypatch.undo()  # a busy machine may need more
        assert names(records) == []  # another session is as good as ever
        monkeypatch.setattr(kind, "reply_seconds", 0.6)
        with records.writing() as tx:  # writers have more time
            tx.execute(text("SELECT pg_sleep(1.2)"))
    finally:
        os.kill(session, signal.SIGCONT)
        records.close()
