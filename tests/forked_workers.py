"""``pytest -n``: workers that are forked once the tests have been read.

The workers of pytest-xdist read all tests each, and what they report goes through three layers: four seconds of
processor time for each of them, and another millisecond for each test. Here the process that was started reads the
tests, forks the workers, hands them one file after another, and reports what they send as if it had run the tests.

A worker asks for its next file when it begins the last test of one, because what that test shares with the next one
stays. One that ends by itself has failed the test it was running; another takes what was left to it.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import pytest

THREADED = ("onnxruntime", "grpc")  # libraries that start threads when they are imported: no fork inherits those
Tests = list[pytest.Item]


@dataclass
class Worker:
    """As the first process sees it."""

    number: int
    process: int
    connection: socket.socket
    received: bytes = b""
    left: deque[pytest.Item] = field(default_factory=deque)  # the test that runs, and what comes after it

    def send(self, number: int) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: that is read next
            self.connection.sendall(f"{number}\n".encode())

    def receive(self) -> list[bytes] | None:
        """Whole lines; None: it has ended."""
        with suppress(ConnectionResetError):
            if received := self.connection.recv(1 << 16):
                *lines, self.received = (self.received + received).split(b"\n")
                return lines
        return None


class ForkedWorkers:
    """A plug-in that runs the tests in ``count`` processes; each calls ``prepare`` first."""

    def __init__(self, count: int, prepare: Callable[[], None]) -> None:
        self._count = count
        self._prepare = prepare
        self._files: deque[Tests] = deque()
        self._workers: dict[socket.socket, Worker] = {}
        self._started = 0
        self._is_ending = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # as without workers
        assert threading.active_count() == 1, threading.enumerate()
        assert not set(THREADED) & set(sys.modules), f"{THREADED}: import them in the tests that use them"
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one, for all workers
        self._files.extend(list(tests) for _, tests in groupby(session.items, key=lambda item: item.path))
        with selectors.DefaultSelector() as selector:
            try:
                for _ in range(min(self._count, len(self._files))):
                    self._start(session, selector)
                while self._workers:
                    for key, _ in selector.select():
                        self._listen(session, selector, self._workers[key.fileobj])  # type: ignore[index]
                    if session.shouldfail or session.shouldstop:
                        self._interrupt()
            finally:
                self._interrupt()
                self._wait()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _start(self, session: pytest.Session, selector: selectors.BaseSelector) -> None:
        ours, its = socket.socketpair()
        number, self._started = self._started, self._started + 1
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the worker knows that it is one
        process = os.fork()
        if process == 0:
            _work(session, number, its, [ours, *self._workers], self._prepare)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        its.close()
        self._workers[ours] = Worker(number, process, ours)
        selector.register(ours, selectors.EVENT_READ)

    def _listen(self, session: pytest.Session, selector: selectors.BaseSelector, worker: Worker) -> None:
        lines = worker.receive()
        if lines is None:
            self._report_end(session, selector, worker)
            return
        for line in lines:
            self._take(session, worker, json.loads(line))

    def _take(self, session: pytest.Session, worker: Worker, message: dict[str, Any]) -> None:
        """What a worker says: that it wants a file, that it is done with a test, or how that went."""
        if "wants" in message:
            tests = self._files.popleft() if self._files and not self._is_ending else []
            worker.left.extend(tests)
            worker.send(session.items.index(tests[0]) if tests else -1)
        elif "done" in message:
            worker.left.popleft()
        else:
            session.config.hook.pytest_runtest_logreport(report=_restored(session.config, message["report"]))

    def _report_end(self, session: pytest.Session, selector: selectors.BaseSelector, worker: Worker) -> None:
        selector.unregister(worker.connection)
        del self._workers[worker.connection]
        worker.connection.close()
        _, status = os.waitpid(worker.process, 0)
        if not worker.left or self._is_ending:
            return
        test = worker.left.popleft()
        words = f"the worker has ended while it ran this: {os.waitstatus_to_exitcode(status)}"
        report = pytest.TestReport(test.nodeid, test.location, {}, "failed", words, "call")
        session.config.hook.pytest_runtest_logreport(report=report)
        for _, tests in reversed([(path, list(each)) for path, each in groupby(worker.left, lambda item: item.path)]):
            self._files.appendleft(tests)
        if self._files and not session.shouldfail:
            self._start(session, selector)

    def _interrupt(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            for worker in self._workers.values():
                os.kill(worker.process, signal.SIGINT)

    def _wait(self) -> None:
        for connection, worker in self._workers.items():
            connection.close()
            os.waitpid(worker.process, 0)
        self._workers.clear()


# ── in a worker ──────────────────────────────────────────────────────────────────────────────────


class Reporter:
    """Sends the reports of the tests to the first process."""

    def __init__(self, config: pytest.Config, connection: socket.socket) -> None:
        self._config = config
        self._connection = connection
        self._answers = connection.makefile("r")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        written = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self.send({"report": written})

    def send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def next_file(self, items: Sequence[pytest.Item]) -> Tests:
        """Its tests; none when there is nothing left to do."""
        self.send({"wants": True})
        first = int(self._answers.readline() or -1)
        return [] if first < 0 else list(_of_one_file(items, first))


def _of_one_file(items: Sequence[pytest.Item], first: int) -> Iterator[pytest.Item]:
    for item in items[first:]:
        if item.path != items[first].path:
            return
        yield item


def _work(
    session: pytest.Session,
    number: int,
    connection: socket.socket,
    of_others: Sequence[socket.socket],
    prepare: Callable[[], None],
) -> None:
    """The life of a worker; does not return."""
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        for each in of_others:
            each.close()
        atexit._clear()  # what the first process has to do at its end
        _be_alone(session.config, number)
        prepare()
        reporter = Reporter(session.config, connection)
        session.config.pluginmanager.register(reporter)
        try:
            _run_files(session, reporter)
        finally:
            session._setupstate.teardown_exact(None)
        status = 0
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        status = 2  # the first process ends, and says why
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        os._exit(status)


def _be_alone(config: pytest.Config, number: int) -> None:
    """Nothing is written to the terminal; files are those of this worker."""
    config.pluginmanager.unregister(name="terminalreporter")
    captures = config.pluginmanager.getplugin("capturemanager")
    captures.stop_global_capturing()
    captures.start_global_capturing()
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"worker-{number}"
    factory._basetemp.mkdir()


def _run_files(session: pytest.Session, reporter: Reporter) -> None:
    tests = reporter.next_file(session.items)
    while tests:
        upcoming: Tests = []
        for item, following in pairwise([*tests, None]):
            assert item is not None
            if following is None:
                upcoming = reporter.next_file(session.items)
                following = upcoming[0] if upcoming else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail or session.shouldstop:
                return
            reporter.send({"done": True})
        tests = upcoming


def _restored(config: pytest.Config, written: dict[str, Any]) -> pytest.TestReport:
    """JSON has made lists of what pytest takes for tuples."""
    for name in ("location", "longrepr"):
        if isinstance(written[name], list):
            written[name] = tuple(written[name])
    written["sections"] = [tuple(each) for each in written["sections"]]
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=written)
    return report
