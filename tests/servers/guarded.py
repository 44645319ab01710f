"""Servers that tests start by themselves, and that end with their users.

A server belongs to a guard, a process that waits for the locks of all its users. The kernel lets go of a lock when its
process ends, however it ends: then the guard stops the server and removes the folder. Should the guard be killed too,
the next run finds the folder without an owner and clears it away.

Nothing is installed or configured. As root (in a container, say) a server runs as `nobody`; it listens on a Unix socket
in a folder of its own and never on a network address.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.servers import child_environment

LONGEST_SOCKET = 100  # bytes; the kernels allow 103 to 107
START_SECONDS = 60.0
SETTLING_SECONDS = 120.0  # a folder younger than this may not have its locks yet


class NoServer(RuntimeError):
    """No server can be started here; the message says why."""


class GuardedServer(Protocol):
    """The server whose data and socket lie in ``folder``. Its module is run by the guard, and calls it ``Server``."""

    @property
    def folder(self) -> Path: ...

    def create(self) -> None: ...

    def start(self) -> None:
        """Returns once it takes connections."""

    def process(self) -> int | None:
        """Of the server, if it runs."""


AnyServer = TypeVar("AnyServer", bound=GuardedServer)


@contextmanager
def shared(kind: type[AnyServer], prefix: str, run: str, place: Path | None = None) -> Iterator[AnyServer]:
    """The server of a test run: started by its first user, stopped when the last has left or died.

    Its folder lies in ``place``, where that will do: a file system in memory makes it faster still.
    """
    sweep(kind, prefix, place)
    folder = _place(prefix, place) / (prefix + hashlib.sha256(run.encode()).hexdigest()[:12])
    users = _join(folder)
    try:
        _see_that_it_runs(kind, folder)
        yield kind(folder)  # type: ignore[call-arg]
    finally:
        os.close(users)


def sweep(kind: type[AnyServer], prefix: str, place: Path | None = None) -> None:
    """Clears away what a killed run left: folders that neither a user nor a guard has locked."""
    for folder in _place(prefix, place).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another process clears it at this moment
            if time.time() - folder.stat().st_mtime > SETTLING_SECONDS and is_left(folder):
                remove(kind(folder))  # type: ignore[call-arg]


def guard(server: GuardedServer) -> None:
    """The life of a server. Runs in a process of its own."""
    folder = server.folder
    handle = os.open(folder / "guard", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, str(os.getpid()).encode())
    try:
        server.create()
        server.start()
        (folder / "ready").touch()
    except (NoServer, OSError) as error:
        (folder / "failed").write_text(str(error))
    users = os.open(folder / "users", os.O_RDWR)
    fcntl.flock(users, fcntl.LOCK_EX)
    remove(server)


def _join(folder: Path) -> int:
    """A share in the folder's lock; again, should the guard have removed the folder meanwhile."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid not in {os.geteuid(), *unprivileged()[:1]}:
            raise NoServer(f"{folder} 属于别人，不用它")
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


def _see_that_it_runs(kind: type[AnyServer], folder: Path) -> None:
    starting = os.open(folder / "starting", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not (folder / "ready").exists() and not (folder / "failed").exists():
            _start_guard(kind, folder)
        if (folder / "failed").exists():
            raise NoServer((folder / "failed").read_text())
    finally:
        os.close(starting)


def _start_guard(kind: type[AnyServer], folder: Path) -> None:
    with (folder / "guard.log").open("wb") as log:
        command = [sys.executable, "-m", "tests.servers.guarded", kind.__module__, str(folder)]
        guarding = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=child_environment(),
        )
    give_up = time.monotonic() + START_SECONDS
    while not (folder / "ready").exists() and not (folder / "failed").exists():
        if guarding.poll() is not None or time.monotonic() > give_up:
            raise NoServer(f"服务器没有启动：{(folder / 'guard.log').read_text(errors='replace')}")
        time.sleep(0.02)
    guarding.returncode = 0  # it outlives us on purpose: no warning of a child that still runs


def _place(prefix: str, preferred: Path | None = None) -> Path:
    """Where folders lie: short enough a name for a socket, and `nobody` can enter it."""
    for candidate in (
        *([preferred] if preferred is not None else []),
        Path(tempfile.gettempdir()).resolve(),
        Path("/tmp"),
    ):
        is_short = len(os.fsencode(candidate / (prefix + "0" * 12) / ".s.PGSQL.5432")) <= LONGEST_SOCKET
        if is_short and (os.geteuid() != 0 or _is_open_to_all(candidate)):
            return candidate
    raise NoServer("临时目录的路径太长，或 nobody 进不去，放不下服务器的套接字")


def _is_open_to_all(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


def run_options() -> dict[str, Any]:
    """Options to run a program: never as root, and with none of the caller's variables or locale."""
    plain: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": "/", "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
    if os.geteuid() != 0:
        return plain
    user, group = unprivileged()
    return {**plain, "user": user, "group": group, "extra_groups": []}


def has_unprivileged() -> bool:
    try:
        return bool(unprivileged())
    except KeyError:
        return False


def unprivileged() -> tuple[int, int]:
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def hand_over(folder: Path) -> None:
    if os.geteuid() == 0:
        user, group = unprivileged()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, group)


def is_left(folder: Path) -> bool:
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


def remove(server: GuardedServer) -> None:
    pid = server.process()
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)  # at once: its data are removed with the folder
        give_up = time.monotonic() + 10
        while server.process() is not None and time.monotonic() < give_up:
            time.sleep(0.02)
        if server.process() is not None:
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(server.folder, ignore_errors=True)


def process_in(pid_file: Path, folder: Path) -> int | None:
    """The process of the folder's server, if it runs. A number alone proves nothing: it may have been given again."""
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
        return pid if str(folder) in command_line(pid) else None
    except (OSError, ValueError):
        return None


def command_line(pid: int) -> str:
    if Path("/proc/self/cmdline").exists():
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout


def last_words(folder: Path) -> str:
    log = folder / "log"
    return log.read_text(errors="replace")[-2000:] if log.exists() else ""


if __name__ == "__main__":
    guard(importlib.import_module(sys.argv[1]).Server(Path(sys.argv[2])))
