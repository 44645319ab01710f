"""The schema goes up and down, and the migrations say what the models say."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateTable

from qianxun.records.database.open import HEAD, MIGRATIONS, connect, downgrade, migrate, missing_revisions, sqlite_url
from qianxun.records.schema import Base


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "empty.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.mark.parametrize("first", ["head", HEAD])  # a new file has all tables at once
def test_migrations_go_up_down_and_up_again(empty_url: str, first: str) -> None:
    engine = connect(empty_url)
    migrate(engine, first)
    assert set(inspect(engine).get_table_names()) == set(Base.metadata.tables) | {"alembic_version"}
    downgrade(engine, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    migrate(engine)
    assert "chunks" in inspect(engine).get_table_names()
    engine.dispose()


def test_databases_that_are_opened_at_once_are_each_migrated(tmp_path: Path) -> None:
    engines = [connect(sqlite_url(tmp_path / f"{number}.db")) for number in range(2)]
    begin = threading.Barrier(len(engines))

    def opened(engine: Engine) -> set[str]:
        begin.wait()
        migrate(engine, HEAD)  # by every migration: a new file would have all tables at once
        return set(inspect(engine).get_table_names())

    with ThreadPoolExecutor(len(engines)) as threads:
        assert list(threads.map(opened, engines)) == [set(Base.metadata.tables) | {"alembic_version"}] * len(engines)
    for engine in engines:
        engine.dispose()


def test_the_newest_revision_is_known_without_reading_the_migrations() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]


def test_a_new_file_has_the_tables_that_all_migrations_come_to(tmp_path: Path) -> None:
    """To the letter, but for the order of a table's constraints."""

    def tables(name: str, revision: str) -> dict[str, list[str]]:
        engine = connect(sqlite_url(tmp_path / name))
        migrate(engine, revision)
        with engine.connect() as connection:
            made = connection.exec_driver_sql("SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_master").all()
            made += connection.exec_driver_sql("SELECT 'version', version_num FROM alembic_version").all()
        engine.dispose()
        return {name: sorted(re.split(r"[\s,\"]+", sql.replace("(", " ( ").replace(")", " ) "))) for name, sql in made}

    assert tables("made.db", "head") == tables("migrated.db", HEAD)


def test_migrated_schema_is_the_schema_of_the_models(empty_url: str) -> None:
    engine = connect(empty_url)
    migrate(engine, HEAD)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    engine.dispose()


def test_what_a_database_lacks_is_said_in_order(empty_url: str) -> None:
    engine = connect(empty_url)
    everything = missing_revisions(engine)
    assert everything[0] == "0001"
    migrate(engine, "0003")
    assert missing_revisions(engine) == everything[3:]
    migrate(engine)
    assert missing_revisions(engine) == []
    engine.dispose()


def test_sqlite_runs_in_wal_mode_with_full_synchronous_commits(tmp_path: Path) -> None:
    engine = connect(sqlite_url(tmp_path / "wal.db"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    engine.dispose()


def test_postgresql_and_mysql_take_the_same_tables() -> None:
    for dialect in (postgresql.dialect(), mysql.dialect()):
        written = "\n".join(str(CreateTable(table).compile(dialect=dialect)) for table in Base.metadata.sorted_tables)
        assert "CREATE TABLE documents" in written
    assert "LONGTEXT" in written
