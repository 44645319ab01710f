"""Records on a real MariaDB: what MySQL does otherwise than PostgreSQL, and what happens when it goes away."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, NullPool, create_engine, event, insert, inspect, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import BadInput, BadSettings, FolderInUse, Overloaded, RecordsUnavailable
from qianxun.core.types import Document, Submission
from qianxun.examples.store import ExampleStore
from qianxun.records import DEADLOCKS, Records, bases, document_retries, documents, listing
from qianxun.records.database import mysql
from qianxun.records.database.mysql_errors import without_detail
from qianxun.records.database.open import HEAD, connect, downgrade, migrate, missing_revisions, open_database
from qianxun.records.database.server import ConnectionOptions, Deadlocked
from qianxun.records.document_heads import Head
from qianxun.records.schema import Base, Counter, VersionRow
from qianxun.records.secrets import keys
from qianxun.testing.scripted import HashEmbedding
from tests.integration.emptied import end_sessions
from tests.records.certificates import write_certificate
from tests.records.test_postgres import create_base, names, together
from tests.servers.mysql import Server, create_database, execute, with_driver

SECRET = "s3cret/p@ss:word"


@pytest.fixture
def records(migrated_mysql_url: str) -> Iterator[Records]:
    opened = Records.open(migrated_mysql_url)
    yield opened
    opened.close()


def accept(records: Records, kb: int, *given: Document) -> None:
    with records.writing() as tx:
        documents.accept(tx, kb, [Submission(one, f"{one.id}", None, None) for one in given])


# ── what is stored ───────────────────────────────────────────────────────────────────────────────


def test_names_differ_by_case_accents_width_and_a_space_at_the_end(records: Records) -> None:
    kb = create_base(records)
    ids = ["a", "A", "á", "ａ", "a ", " a", "a\t", "ß", "ss", "发", "發", "👍", "👍🏽", "𠮷", "\U0010ffff"]
    accept(records, kb, *(Document(one, f"内容 {one}") for one in ids))
    with records.reading() as tx:
        assert [state.doc_id for state in listing.states(tx, kb)] == sorted(ids)  # the order of their bytes
        assert listing.state(tx, kb, "a ").doc_id == "a "
    for name in ("É", "é", "e"):
        create_base(records, name)
    assert names(records) == ["医保", "É", "é", "e"]


def test_json_and_moments_come_back_to_the_letter(records: Records) -> None:
    """MySQL's own type of JSON sorts keys and makes 2^70 a fraction, its DATETIME has whole seconds."""
    kb = create_base(records)
    metadata = {"较长的键": 1 << 70, "b": 0.1, "a": 1.0, "小": 5e-324}
    accept(records, kb, Document("d", "内容", metadata=metadata))
    with records.reading() as tx:
        stored = tx.execute(select(VersionRow.extra)).scalar_one()
    assert list(stored.items()) == list(metadata.items())
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    with records.writing() as tx:
        document_retries.fail(tx, 1, 1, "模型不在", moment)
    with records.reading() as tx:
        assert document_retries.next_attempts(tx, moment - timedelta(seconds=1)) == {kb: moment}


def test_what_is_longer_than_64_kilobytes_is_stored_whole(records: Records) -> None:
    kb = create_base(records)
    long = "长文😀" * 200_000  # 2 MB
    accept(records, kb, Document("d", long, source="s" * 100_000))
    with records.reading() as tx:
        found = documents.load(tx, 1, 1)
    assert (found.content, found.source) == (long, "s" * 100_000)


def test_what_is_larger_than_a_packet_is_refused_in_words_and_nothing_is_lost(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = create_base(records)
    with records.writing() as tx:
        largest = tx.connection.dbapi_connection.largest  # type: ignore[union-attr]
    assert largest == 16 * 1024 * 1024
    with pytest.raises(BadInput, match="一次能收") as told:
        accept(records, kb, Document("大", "x" * largest))
    assert "max_allowed_packet" in told.value.hint
    accept(records, kb, Document("小", "y" * (largest // 2)))
    with records.reading() as tx:
        assert [state.doc_id for state in listing.states(tx, kb)] == ["小"]


def test_the_log_of_searches_has_the_columns_that_are_documented(records: Records) -> None:
    query = """
        SELECT column_name, column_type, is_nullable, column_default, extra, column_comment
        FROM information_schema.columns
        WHERE table_schema = database() AND table_name = 'knowledge_retrieval_log'
    """
    with records.reading() as tx:
        found = {row[0]: tuple(map(str, row[1:])) for row in tx.exec_driver_sql(query)}
        indexed = "SHOW INDEX FROM knowledge_retrieval_log WHERE Key_name = 'idx_kb_created'"
        index = [row.Column_name for row in tx.exec_driver_sql(indexed)]
        table = tx.exec_driver_sql("SHOW CREATE TABLE knowledge_retrieval_log").one()[1]
    now = "current_timestamp(6)"
    expected = {
        "id": ("bigint(20) unsigned", "NO", "None", "auto_increment", ""),
        "knowledge_base_id": ("bigint(20) unsigned", "NO", "None", "", "知识库ID"),
        "query": ("varchar(2048)", "NO", "''", "", "用户原始查询"),
        "retrieval_params": ("longtext", "YES", "NULL", "", "检索参数快照(阈值/权重等)"),  # MariaDB's JSON
        "chunk_count": ("int(11)", "NO", "0", "", "召回chunk数"),
        "time_cost_ms": ("int(11)", "NO", "0", "", "查询耗时(ms)"),
        "created_at": ("datetime(6)", "NO", now, "", ""),
        "updated_at": ("datetime(6)", "NO", now, f"on update {now}", ""),
    }
    assert {name: found[name] for name in expected} == expected
    assert index == ["knowledge_base_id", "created_at"]
    assert "json_valid(`retrieval_params`)" in table
    assert "COMMENT='召回日志表'" in table
    assert "ENGINE=InnoDB" in table


def test_a_library_of_examples_is_refused_in_words(records: Records) -> None:
    store = ExampleStore(records.engine, model=HashEmbedding(), writing=records.writing)
    with pytest.raises(BadSettings, match="示例库"):
        store.prepare()
    assert store.missing_revisions() == []


# ── several at once ──────────────────────────────────────────────────────────────────────────────


def test_readers_see_one_state_and_writers_what_is_committed(records: Records) -> None:
    with records.reading() as tx:
        assert tx.exec_driver_sql("SELECT @@tx_isolation").scalar() == "REPEATABLE-READ"
        with pytest.raises(DBAPIError, match="READ ONLY"):
            bases.create(tx, "医保", tenant="甲")
    held = records.engine.connect()
    with records.writing() as tx:  # of the transaction alone: the session has what readers need
        tx.execute(insert(Counter).values(name="one", next=1))
        seen = "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = "
        number = tx.exec_driver_sql("SELECT connection_id()").scalar()
        assert held.exec_driver_sql(f"{seen}{number}").scalar() == "READ COMMITTED"
    held.close()


def test_processes_that_write_the_same_document_at_once_take_turns(migrated_mysql_url: str) -> None:
    several = [Records.open(migrated_mysql_url) for _ in range(4)]
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


def test_without_the_lock_of_writers_they_do_clash(migrated_mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr(mysql, "lock_writers", lambda connection: None)
    several = [Records.open(migrated_mysql_url) for _ in range(2)]
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


def test_a_deadlock_is_tried_again(records: Records, migrated_mysql_url: str) -> None:
    """With somebody who writes to our tables and takes no turn: one of the two has to give way."""
    with records.writing() as tx:
        tx.execute(insert(Counter), [{"name": name, "next": 0} for name in ("first", "second")])
    other = create_engine(with_driver(migrated_mysql_url), poolclass=NullPool)
    attempts = 0
    stranger: list[threading.Thread] = []

    def work(tx: Connection) -> None:
        nonlocal attempts
        attempts += 1
        tx.execute(update(Counter).where(Counter.name == "first").values(next=Counter.next + 1))
        if attempts == 1:
            has_second = threading.Event()
            stranger.append(threading.Thread(target=_deadlock, args=(other, has_second)))
            stranger[0].start()
            assert has_second.wait(60)
        tx.execute(update(Counter).where(Counter.name == "second").values(next=Counter.next + 1))

    records.run(work)
    stranger[0].join(60)
    assert attempts == 2
    with records.reading() as tx:
        found = dict(tx.execute(select(Counter.name, Counter.next).where(Counter.name.in_(("first", "second")))).all())
    assert found == {"first": 101, "second": 101}


def _deadlock(engine: Any, has_second: threading.Event) -> None:
    with engine.begin() as tx:
        # The server gives up whoever has changed less.
        tx.exec_driver_sql("INSERT INTO counters SELECT concat('made ', seq), 1 FROM seq_1_to_500")
        tx.exec_driver_sql("UPDATE counters SET next = next + 100 WHERE name = 'second'")
        has_second.set()
        tx.exec_driver_sql("UPDATE counters SET next = next + 100 WHERE name = 'first'")


def test_deadlock_after_deadlock_is_an_error_in_the_end(records: Records) -> None:
    attempts = 0

    def work(_: Connection) -> None:
        nonlocal attempts
        attempts += 1
        raise Deadlocked("互等")

    with pytest.raises(RecordsUnavailable):
        records.run(work)
    assert attempts == DEADLOCKS + 1


def test_a_second_engine_is_told_who_works_on_the_database(migrated_mysql_url: str) -> None:
    first = Records.open(migrated_mysql_url, alone=True)
    with pytest.raises(FolderInUse, match="root"):
        Records.open(migrated_mysql_url, alone=True)
    beside = Records.open(migrated_mysql_url)  # as `qianxun keys` has it beside a service
    with beside.writing() as tx:
        keys.create(tx, "甲", "read")
    beside.close()
    first.close()
    Records.open(migrated_mysql_url, alone=True).close()


def test_an_owner_that_was_cut_off_goes_on_unless_somebody_else_was_there(migrated_mysql_url: str) -> None:
    first = Records.open(migrated_mysql_url, alone=True)
    create_base(first, "一")
    assert end_sessions(migrated_mysql_url) >= 2
    create_base(first, "二")
    assert names(first) == ["一", "二"]
    end_sessions(migrated_mysql_url)
    Records.open(migrated_mysql_url, alone=True).close()
    with pytest.raises(FolderInUse, match="打开过"):
        create_base(first, "三")
    first.close()


def test_a_lock_is_shared_or_ones_own(records: Records) -> None:
    one, two, three = (mysql_session(records) for _ in range(3))
    assert mysql.lock_session(one, "test", is_shared=True)
    assert mysql.lock_session(two, "test", is_shared=True)
    assert not mysql.lock_session(three, "test", is_shared=False)
    assert "root" in mysql.lock_holder(three, "test")
    mysql.unlock_session(one, "test", is_shared=True)
    assert not mysql.lock_session(three, "test", is_shared=False)
    two.close()  # which was detached: the session ends, and its lock with it
    wait_until(lambda: mysql.lock_session(three, "test", is_shared=False))
    assert not mysql.lock_session(one, "test", is_shared=True)
    mysql.unlock_session(three, "test", is_shared=False)
    assert mysql.lock_session(one, "test", is_shared=True)
    for session in (one, three):
        session.close()


def mysql_session(records: Records) -> Connection:
    session = records.engine.execution_options(**mysql.SINGLE).connect()
    session.detach()
    return session


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come true")


# ── creation and migrations, which nothing undoes ────────────────────────────────────────────────


class Killed(Exception):
    """In the place of a process that dies before it sends a statement."""


def killing(engine: Any, at: int) -> list[str]:
    """Has the statement with this number that changes tables fail, once."""
    sent: list[str] = []

    def before(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if re.match(r"\s*(CREATE|ALTER|DROP|INSERT|UPDATE)", statement):
            sent.append(statement)
            if len(sent) == at:
                raise Killed

    event.listen(engine, "before_cursor_execute", before)
    return sent


def tables(url: str) -> set[tuple[Any, ...]]:
    columns = "SELECT table_name, column_name, column_type, is_nullable, collation_name FROM information_schema.columns"
    indexes = "SELECT table_name, index_name, column_name, seq_in_index, non_unique FROM information_schema.statistics"
    engine = create_engine(with_driver(url), poolclass=NullPool)
    with engine.connect() as connection:
        queries = (f"{query} WHERE table_schema = database()" for query in (columns, indexes))
        found = {tuple(row) for query in queries for row in connection.exec_driver_sql(query)}
        found.add(("version", *connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars()))
    return found


def test_processes_that_find_an_empty_database_make_its_tables_once(mysql_url: str) -> None:
    opened: list[Records] = []
    assert together(*[lambda: opened.append(Records.open(mysql_url))] * 4) == []
    assert set(inspect(opened[0].engine).get_table_names()) >= set(Base.metadata.tables)
    for each in opened:
        each.close()


@pytest.mark.parametrize("at", [2, 9, 30])
def test_a_creation_that_was_cut_short_is_finished(mysql_url: str, worker_mysql_url: str, at: int) -> None:
    engine = connect(mysql_url)
    sent = killing(engine, at)
    with pytest.raises(Killed):
        migrate(engine)
    assert len(sent) == at
    assert missing_revisions(engine)[0] == "0001"  # a creation that was cut short is none
    engine.dispose()
    open_database(mysql_url).dispose()
    assert tables(mysql_url) == tables(worker_mysql_url)


@pytest.mark.parametrize("at", [3, 31, 44, *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 72, 6))])
def test_a_migration_that_was_cut_short_goes_on(mysql_url: str, worker_mysql_url: str, at: int) -> None:
    engine = connect(mysql_url)
    killing(engine, at)
    with pytest.raises(Killed):
        migrate(engine, HEAD)  # by every migration: a new database would have all tables at once
    engine.dispose()
    engine = connect(mysql_url)
    migrate(engine, HEAD)
    assert tables(mysql_url) == tables(worker_mysql_url)
    engine.dispose()


def test_migrations_go_down_and_up_again(mysql_url: str, worker_mysql_url: str) -> None:
    engine = open_database(mysql_url)
    downgrade(engine, "base")
    assert set(inspect(engine).get_table_names()) == {"alembic_version", mysql.LOCK}
    migrate(engine)
    assert tables(mysql_url) == tables(worker_mysql_url)
    engine.dispose()


def test_tables_of_another_program_are_left_alone(mysql_url: str) -> None:
    execute(mysql_url, "CREATE TABLE documents (theirs INT)")
    with pytest.raises(BadSettings, match="documents"):
        Records.open(mysql_url)
    engine = create_engine(with_driver(mysql_url), poolclass=NullPool)
    assert set(inspect(engine).get_table_names()) == {"documents", "alembic_version"}


# ── away and back ────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_crashes_is_a_clear_error_and_one_that_returns_is_found_again(mysql_server: Server) -> None:
    url = create_database(mysql_server)
    records = Records.open(url, alone=True)
    create_base(records, "一")
    mysql_server.crash()
    with pytest.raises(RecordsUnavailable, match="连不上数据库") as told:
        names(records)
    assert "records.url" in told.value.hint
    with pytest.raises(RecordsUnavailable):
        create_base(records, "二")
    with pytest.raises(RecordsUnavailable), records.single_statement() as tx:
        bases.generation(tx, 1001)
    mysql_server.start()
    assert names(records) == ["一"]
    create_base(records, "二")
    records.close()


def test_a_connection_that_dies_within_a_transaction_undoes_it(records: Records, migrated_mysql_url: str) -> None:
    def write() -> None:
        with records.writing() as tx:
            bases.create(tx, "一", tenant="甲")
            end_sessions(migrated_mysql_url)
            bases.create(tx, "二", tenant="甲")

    with pytest.raises(RecordsUnavailable):
        write()
    assert names(records) == []
    create_base(records, "三")
    assert names(records) == ["三"]


def test_connections_that_the_server_closed_for_idleness_are_replaced(records: Records) -> None:
    """By its ``wait_timeout``, which is eight hours unless somebody has set it."""
    with records.engine.connect() as connection:
        connection.exec_driver_sql("SET wait_timeout = 1")
        idle = connection.connection.dbapi_connection
    wait_until(lambda: not mysql.is_quiet(idle))
    assert names(records) == []
    create_base(records, "一")


def test_a_statement_has_its_time_and_a_writer_more(migrated_mysql_url: str) -> None:
    records = Records(connect(migrated_mysql_url, ConnectionOptions(statement_seconds=0.2)))
    with pytest.raises(RecordsUnavailable, match="时间"), records.reading() as tx:
        tx.execute(text("SELECT sum(a.seq * b.seq) FROM seq_1_to_1000000 AS a, seq_1_to_1000000 AS b"))
    with records.writing() as tx:  # to remove a large base takes a while
        assert tx.exec_driver_sql("SELECT @@max_statement_time").scalar() == 600
        tx.execute(text("SELECT sleep(0.4)"))
    with records.single_statement() as tx:
        assert tx.exec_driver_sql("SELECT @@max_statement_time").scalar() == pytest.approx(0.2)
    records.close()


def test_a_server_that_says_nothing_at_all_is_given_up(migrated_mysql_url: str) -> None:
    records = Records.open(migrated_mysql_url)

    def read() -> None:
        with records.reading() as tx:
            mysql.wait_at_most(tx, 0.2)
            tx.execute(text("SELECT sleep(5)"))

    with pytest.raises(RecordsUnavailable, match="没有任何答复"):
        read()
    assert names(records) == []
    records.close()


def test_a_writer_that_waits_too_long_for_another_is_told_so(migrated_mysql_url: str) -> None:
    holding = Records.open(migrated_mysql_url)
    waiting = Records(connect(migrated_mysql_url, ConnectionOptions(statement_seconds=0.2)))
    with holding.writing() as tx:
        bases.create(tx, "一", tenant="甲")
        with pytest.raises(RecordsUnavailable, match="时间"):
            create_base(waiting, "二")
    create_base(waiting, "二")
    assert names(holding) == ["一", "二"]
    holding.close()
    waiting.close()


def test_when_all_connections_are_taken_the_next_is_told_to_come_again(migrated_mysql_url: str) -> None:
    records = Records.open(migrated_mysql_url, ConnectionOptions(pool_size=1, connect_seconds=0.1))
    with records.reading(), pytest.raises(Overloaded, match="连接"):
        names(records)
    assert names(records) == []
    records.close()


# ── refused ──────────────────────────────────────────────────────────────────────────────────────


def test_what_a_server_refuses_is_said_without_the_password(
    mysql_server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = make_url(create_database(mysql_server))
    execute(mysql_server.url, f"CREATE USER someone@localhost IDENTIFIED BY '{SECRET}'")
    execute(mysql_server.url, f"GRANT ALL ON {url.database}.* TO someone@localhost")
    execute(mysql_server.url, "CREATE USER guest@localhost")
    execute(mysql_server.url, f"GRANT SELECT ON {url.database}.* TO guest@localhost")

    def to(password: str = SECRET, username: str = "someone", **changes: Any) -> str:
        return url.set(username=username, password=password, **changes).render_as_string(hide_password=False)

    opened = Records.open(to())
    assert SECRET not in repr(opened)
    opened.close()
    away = {"unix_socket": str(tmp_path / "nowhere")}
    refused: list[tuple[str, type[Exception], str]] = [
        (to(SECRET + "!"), RecordsUnavailable, "密码"),
        (to(database="none"), RecordsUnavailable, "权限|没有这个数据库"),
        (to("", "guest"), BadSettings, "权限"),
        (to(query=away), RecordsUnavailable, "连不上数据库"),
        (f"mysql://root:{SECRET.replace('@', '%40').replace('/', '%2F')}@127.0.0.1:1/x", RecordsUnavailable, "连不上"),
    ]
    for address, kind, said in refused:
        with pytest.raises(kind, match=said) as told, connect(address).begin() as tx:
            tx.exec_driver_sql("CREATE TABLE one (n INT)")
        assert told.value.hint  # type: ignore[attr-defined]
        error: BaseException | None = told.value
        while error is not None:
            assert not any(part in f"{error} {error!r}" for part in (SECRET, "p%40ss", "s3cret"))
            error = error.__cause__
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:s3cret@h", "数据库的名字"),
        ("mysql://u:s3cret@h/d?no_such=1", "no_such"),
        ("mysql://u:s3cret@h/d?ssl_mode=perhaps", "ssl_mode"),
        ("mysql://u:s3cret@h/d?ssl_ca=/no/such/file", "证书"),
        ("mysql+mysqldb://u:s3cret@h/d", "不支持"),
    ],
)
def test_a_bad_address_is_a_bad_setting(url: str, said: str) -> None:
    with pytest.raises(BadSettings, match=said) as told:
        connect(url)
    assert "s3cret" not in str(told.value)


def test_a_schema_is_postgresqls(mysql_url: str) -> None:
    with pytest.raises(BadSettings, match=r"records\.schema"):
        connect(mysql_url, ConnectionOptions(schema="one"))


def test_without_the_driver_the_extra_is_named() -> None:
    script = """
import sys
sys.modules["pymysql"] = None
from qianxun.core.errors import MissingExtra
from qianxun.records import Records
try:
    Records.open("mysql://u:s3cret@h/d")
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "qianxun[mysql]" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_an_error_does_not_quote_the_row_at_fault(records: Records) -> None:
    broken = (
        "INSERT INTO counters VALUES ('机密', 1), ('机密', 2)",
        "INSERT INTO counters VALUES ('甲', '机密')",
        "SELEKT '机密'",
    )
    for statement in broken:
        with pytest.raises((DBAPIError, BadInput)) as told, records.writing() as tx:
            tx.exec_driver_sql(statement)
        error: BaseException | None = told.value
        while error is not None:
            assert "机密" not in str(error).replace(statement, "")
            error = error.__cause__


@pytest.mark.parametrize(
    ("message", "without"),
    [
        ("Duplicate entry '机密' for key 'PRIMARY'", "Duplicate entry '…'"),
        (
            "Incorrect string value: '机密' for column `a`.`b` at row 1",
            "Incorrect string value: '…' for column `a`.`b` at row 1",
        ),
        ("You have an error near 'it's 机密' at line 1", "You have an error near '…' at line 1"),
        ("near 'one", "near 'one"),
        ("Unknown column", "Unknown column"),
    ],
)
def test_what_a_message_quotes_is_left_out(message: str, without: str) -> None:
    error = RuntimeError(1062, message)
    assert without_detail(error) == (message != without)
    assert error.args == (1062, without)


def test_what_is_too_long_is_refused_in_words(records: Records) -> None:
    with pytest.raises(BadInput, match="太长") as told, records.writing() as tx:
        tx.execute(insert(Counter).values(name="名" * 300, next=1))
    assert "名名" not in str(told.value)


def test_connections_are_encrypted_where_the_address_asks_for_it(mysql_server: Server, tmp_path: Path) -> None:
    certificate, key = write_certificate(mysql_server.folder, "localhost")
    other, _ = write_certificate(tmp_path, "localhost")
    mysql_server.stop()
    mysql_server.start(f"--ssl-cert={certificate}", f"--ssl-key={key}")
    url = create_database(mysql_server)

    def cipher(options: str) -> str:
        engine = connect(f"{url}&{options}")
        with engine.connect() as connection:
            return str(connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1])

    assert cipher("ssl_mode=disabled") == ""
    assert cipher("ssl_mode=required") != ""
    assert cipher(f"ssl_mode=verify_identity&ssl_ca={certificate}") != ""
    with pytest.raises(RecordsUnavailable, match=r"加密|连不上"):
        cipher(f"ssl_ca={other}")
