"""Python processes that begin with the service and the command line already imported.

Many tests are about another process: a service or a command that is interrupted, killed, or works beside others. To
import what it runs takes each of them a second of processor time. Here one process of a test run imports it and forks
for every start (`preloaded_parent`). `Popen` and `run` are those of `subprocess`, for commands of `sys.executable` with
``-c``, ``-m`` or the path of a script. A forked process has a number, files, variables and a folder of its own, and
takes signals as any other; what it does not do is read the options and variables that are for the interpreter.

Tests about importing, about the installed programs and about the encoding of the standard streams use `subprocess`.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ADDRESS = "TESTS_PRELOADED_SOCKET"  # the variable by which the workers of a run find its process
CHECKOUT = Path(__file__).resolve().parents[1]


def start() -> None:
    """The forking process, which ends with this one, unless there is one in this run. Returns before it is ready."""
    if ADDRESS in os.environ:
        return
    folder, listener = _listen()
    with listener:
        command = [sys.executable, "-m", "tests.preloaded_parent", str(listener.fileno())]
        parent = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C is for the tests, which end what they have started
        )
    atexit.register(_end, parent, folder)


def fork() -> socket.socket | None:
    """As `start`, from this process, which has imported what it takes. In the forked one: where it listens."""
    folder, listener = _listen()
    its_input, ours = os.pipe()
    number = os.fork()
    if number == 0:
        os.setsid()
        os.dup2(its_input, 0)
        os.closerange(3, listener.fileno())  # also what whoever has started the tests left open
        os.closerange(listener.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        return listener
    listener.close()
    os.close(its_input)
    atexit.register(_end_forked, number, ours, folder)
    return None


def _listen() -> tuple[str, socket.socket]:
    folder = tempfile.mkdtemp(prefix="qx-preloaded-")
    os.environ[ADDRESS] = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.environ[ADDRESS])
    listener.listen(64)
    return folder, listener


def _end(parent: subprocess.Popen[bytes], folder: str) -> None:
    parent.communicate()  # its input has an end: so has it
    shutil.rmtree(folder, ignore_errors=True)


def _end_forked(number: int, its_input: int, folder: str) -> None:
    os.close(its_input)
    os.waitpid(number, 0)
    shutil.rmtree(folder, ignore_errors=True)


class Popen(subprocess.Popen[Any]):
    """Overrides how `subprocess.Popen` starts a process and how it learns of its end; everything else is as there."""

    _its: socket.socket

    def _execute_child(
        self, args: Sequence[str | Path], executable: None, preexec_fn: None, close_fds: bool, pass_fds: Sequence[int],
        cwd: str | Path | None, env: Mapping[str, str] | None, startupinfo: None, creationflags: int, shell: bool,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, restore_signals: bool,
        gid: None, gids: None, uid: None, umask: int, start_new_session: bool, process_group: int,
    ) -> None:  # fmt: skip
        program, *arguments = map(str, args)
        assert program == sys.executable
        assert arguments[0] in ("-c", "-m", "-u") or arguments[0].endswith(".py")
        assert preexec_fn is None
        assert not pass_fds
        assert not shell
        start()
        ends = [end if end >= 0 else ours for ours, end in enumerate((p2cread, c2pwrite, errwrite))]
        order = {
            "arguments": arguments,
            "folder": str(cwd or Path.cwd()),
            "variables": dict(os.environ if env is None else env),
            "new_session": start_new_session,
        }
        self._its = socket.socket(socket.AF_UNIX)
        self._its.connect(os.environ[ADDRESS])
        try:
            socket.send_fds(self._its, [b"."], ends)
            with self._its.makefile("wb") as orders:
                orders.write(json.dumps(order).encode() + b"\n")
            self.pid = self._number()
        finally:
            self._close_pipe_fds(  # type: ignore[attr-defined]
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
            )
        self._child_created = True

    def _number(self) -> int:
        """What the forking process says next of this one: first its process id, and when it has ended its status."""
        said = self._its.recv(4, socket.MSG_WAITALL)
        if len(said) < 4:
            raise OSError(errno.EPIPE, "the process from which others are forked has ended")
        return int.from_bytes(said, "big")

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._its], [], [], 0)[0]:
            return 0, 0
        status = self._number()
        self._its.close()
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **_unused: Any) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                number, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if number:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                lock.release()
        return self.returncode


def run(
    command: Sequence[str | Path],
    *,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done
