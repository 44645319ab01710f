"""A real MariaDB to test MySQL against, where the machine has its programs (Debian: `apt-get install mariadb-server`).

    with shared_server("name of this test run") as server:     # every process that names the same run gets the same
        url = create_database(server)                          # one: an empty database
        ...
        drop_database(server, url)

    with own_server() as server:                               # one that the test may stop and start again
        server.crash()
        server.start()

See `guarded` for how it ends with its users. It does not flush to disk, which makes it fast.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError

from tests.servers import guarded
from tests.servers.guarded import NoServer, hand_over, has_unprivileged, last_words, process_in, run_options

PREFIX = "qx-my-"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/libexec"
SETTINGS = (
    "--skip-networking",
    "--innodb-flush-log-at-trx-commit=2",  # what was committed survives a crash of the server, not one of the machine
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--max-connections=200",
    "--performance-schema=OFF",
    "--character-set-server=latin1",  # neither ours nor UTC: what is left to the server's defaults a test would see
    "--default-time-zone=+08:00",
    "--sql-mode=",
)


@dataclass(frozen=True)
class Server:
    """The server whose data and socket lie in ``folder``."""

    folder: Path

    @property
    def url(self) -> str:
        """Of the database that is always there; `create_database` makes others beside it."""
        return f"mysql://root@localhost/mysql?unix_socket={self.folder / 'socket'}"

    def create(self) -> None:
        hand_over(self.folder)
        command = [_program("mariadb-install-db"), "--no-defaults", f"--datadir={self.folder / 'data'}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", **run_options())
        if done.returncode:
            raise NoServer(f"mariadb-install-db 以 {done.returncode} 结束：{done.stdout}{done.stderr}")

    def start(self, *options: str) -> None:
        """Returns once it takes connections."""
        here = (f"--datadir={self.folder / 'data'}", f"--socket={self.folder / 'socket'}")
        command = [
            _program("mariadbd"),
            "--no-defaults",
            *here,
            f"--pid-file={self.folder / 'pid'}",
            *SETTINGS,
            *options,
        ]
        with (self.folder / "log").open("ab") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **run_options())
        give_up = time.monotonic() + guarded.START_SECONDS
        while not (self.folder / "pid").exists() or not _answers(self.url):
            if running.poll() is not None or time.monotonic() > give_up:
                raise NoServer(f"MariaDB 没有启动：{last_words(self.folder)}")
            time.sleep(0.02)
        running.returncode = 0  # the guard ends it

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        """Nothing is finished, and the next start recovers."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        pid = self.process()
        assert pid is not None, "it does not run"
        os.kill(pid, how)
        give_up = time.monotonic() + guarded.START_SECONDS
        while self.process() is not None:
            if time.monotonic() > give_up:
                raise NoServer("MariaDB 没有停下")
            _reap(pid)
            time.sleep(0.01)
        (self.folder / "pid").unlink(missing_ok=True)

    @property
    def is_running(self) -> bool:
        return self.process() is not None

    def process(self) -> int | None:
        return process_in(self.folder / "pid", self.folder)


def _reap(pid: int) -> None:
    """Where it is a child of ours its end is noticed by waiting for it alone."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def unavailable() -> str:
    """Why no server can be started on this machine; empty when one can."""
    for program in ("mariadbd", "mariadb-install-db"):
        if shutil.which(program, path=SYSTEM_PATH) is None:
            return f"没有 MariaDB 服务器的程序 {program}（Debian：apt-get install mariadb-server）"
    if os.geteuid() == 0 and not has_unprivileged():
        return "以 root 运行而系统没有 nobody 用户：MariaDB 不肯以 root 运行"
    return ""


def _program(name: str) -> str:
    found = shutil.which(name, path=SYSTEM_PATH)
    if found is None:
        raise NoServer(unavailable())
    return found


@contextmanager
def shared_server(run: str, place: Path | None = None) -> Iterator[Server]:
    """The server of a test run: started by its first user, stopped when the last has left or died."""
    if reason := unavailable():
        raise NoServer(reason)
    with guarded.shared(Server, PREFIX, run, place) as server:
        yield server


@contextmanager
def own_server(place: Path | None = None) -> Iterator[Server]:
    """A server for one test, which may do with it what it likes."""
    with shared_server(uuid.uuid4().hex, place) as server:
        yield server


def create_database(server: Server | str) -> str:
    """The URL of a new, empty database on the server (or on the one a URL names)."""
    url = make_url(server if isinstance(server, str) else server.url)
    name = f"qianxun_{uuid.uuid4().hex[:12]}"
    execute(url, f"CREATE DATABASE {name}")
    return url.set(database=name).render_as_string(hide_password=False)


def drop_database(server: Server | str, url: str) -> None:
    home = make_url(server if isinstance(server, str) else server.url)
    execute(home, f"DROP DATABASE IF EXISTS {make_url(url).database}")


def with_driver(url: str | URL) -> str:
    """The same URL in the form that `sqlalchemy.create_engine` takes for pymysql."""
    return make_url(url).set(drivername="mysql+pymysql").render_as_string(hide_password=False)


def execute(url: str | URL, statement: str) -> None:
    engine = create_engine(with_driver(url), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def _answers(url: str) -> bool:
    try:
        execute(url, "SELECT 1")
    except OperationalError:
        return False
    return True
