"""``python -m tests.preloaded_parent``: imports what services and commands run, and forks one for every connection.

Over a connection come the three standard streams and what to run; back go the process id and, once it has ended, its
status as `os.waitpid` gives it. This process ends with its own input. It does nothing that starts a thread: the fork
of a process with threads would inherit the locks that they hold.
"""

from __future__ import annotations

import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from qianxun.doors.cli.app import COMMANDS, app_of
from qianxun.text.chinese import Analyser

IMPORTED = (
    "qianxun.doors.http.app",
    "qianxun.doors.http.serve",
    "qianxun.doors.client",
    "qianxun.engine.engine",
    "qianxun.index.embedded.backend",
)
# What test modules import. Nothing that starts threads, as onnxruntime does, and no package with a plug-in of pytest,
# which wants to import that by itself.
IMPORTED_BY_TESTS = (
    "alembic.command",
    "axe_playwright_python.sync_playwright",
    "docx",
    "langchain_core.language_models.fake_chat_models",
    "langchain_core.prompts",
    "langgraph.graph",
    "llama_index.core",
    "mcp",
    "openai.types.chat",
    "openpyxl",
    "psycopg",
    "xlsxwriter",
)


def load() -> None:
    for name in IMPORTED + IMPORTED_BY_TESTS:
        import_module(name)
    app_of(tuple(COMMANDS))
    Analyser().index_words("先把词典读进来")
    gc.collect()
    gc.freeze()  # what the collector does not look at, no process has to copy


def serve(listener: socket.socket) -> dict[str, Any] | None:
    """Returns None at the end, and in every forked process what this one has to run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever has started the tests may ignore it
    ended, ends = os.pipe()
    os.set_blocking(ends, False)
    signal.set_wakeup_fd(ends)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    users: dict[int, socket.socket] = {}  # by the process that each has started
    while True:
        ready, _, _ = select.select([sys.stdin, ended, listener], [], [])
        if sys.stdin in ready:
            return None
        if ended in ready:
            os.read(ended, 4096)
            _report_ends(users)
        if listener in ready:
            user, _ = listener.accept()
            streams, order = _received(user)
            number = os.fork()
            if number == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _close(ended, ends, *(each.detach() for each in (listener, user, *users.values())))
                _take(streams)
                return order
            _close(*streams)
            users[number] = user
            _send(user, number)


def _received(user: socket.socket) -> tuple[list[int], dict[str, Any]]:
    _, streams, _, _ = socket.recv_fds(user, 1, 3)
    with user.makefile("rb") as orders:
        return streams, json.loads(orders.readline())


def _report_ends(users: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):  # there is no process left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with users.pop(ended[0]) as user:
                _send(user, ended[1])


def _send(user: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # the test has ended before its process
        user.sendall(number.to_bytes(4, "big"))


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


def _take(streams: list[int]) -> None:
    """As the standard streams of this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    _close(*streams)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), "utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), "utf-8", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), "utf-8", "backslashreplace", line_buffering=True)


def run(order: dict[str, Any]) -> None:
    """As Python does that was started with these arguments, variables and folder."""
    if order["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(order["variables"])
    os.chdir(order["folder"])
    given = [each for each in order["arguments"] if each != "-u"]
    if not given[0].startswith("-"):
        sys.argv = given
        sys.path[0] = os.path.dirname(given[0])
        runpy.run_path(given[0], run_name="__main__")
        return
    option, program, *arguments = given
    sys.argv = ["-c", *arguments]
    sys.path[0] = ""
    if option == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    load()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        run(order)
