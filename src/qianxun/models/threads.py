"""Threads for model calls: one that hangs forever blocks neither other calls nor the end of the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from qianxun.core.errors import ModelUnavailable

CONCURRENT_CALLS: Final = 4  # of one kind of model
CONCURRENT_REMOTE_CALLS: Final = 16  # of a registered model or a chat model: threads that only wait for a service
REMOTE_KINDS: Final = frozenset(("chat", "vision"))
MOST_STUCK: Final = 8  # cancelled calls that still run: with more of them new calls fail at once
IDLE_SECONDS: Final = 30.0  # after which an idle thread ends


class ModelThreads:
    """One lane of threads per kind of model: a chat model that hangs takes no thread from an embedding model.

    A registered model has lanes of its own: the service of one user cannot slow down others. So has the preparing of
    one tenant's documents.
    """

    def __init__(self, concurrent: int = CONCURRENT_CALLS, stuck: int = MOST_STUCK) -> None:
        self._concurrent, self._most_stuck = concurrent, stuck
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def lane(self, kind: str, registered: str = "", tenant: str = "") -> Lane:
        """``registered`` is the name of a registered model; with a ``tenant`` the lane is its own."""
        name = "-".join((kind, registered, tenant))
        concurrent = CONCURRENT_REMOTE_CALLS if registered or kind in REMOTE_KINDS else self._concurrent
        with self._lock:
            if name not in self._lanes:
                self._lanes[name] = Lane(kind, concurrent, self._most_stuck)
                if self._is_closed:
                    self._lanes[name].shutdown()
            return self._lanes[name]

    def shutdown(self) -> None:
        """Accepts no more calls and waits for none."""
        with self._lock:
            self._is_closed = True
            for lane in self._lanes.values():
                lane.shutdown()


class Lane(Executor):
    """An executor of at most ``concurrent`` calls. Its threads are daemons: they never keep a process alive.

    A cancelled call that is running gives its place to the next one and counts as stuck until it returns. While too
    many are stuck, `submit` raises ModelUnavailable at once.
    """

    def __init__(
        self,
        kind: str,
        concurrent: int = CONCURRENT_CALLS,
        stuck: int = MOST_STUCK,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._kind, self._concurrent, self._most_stuck, self._idle_seconds = kind, concurrent, stuck, idle_seconds
        self._pending: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._threads = self._idle = self._stuck = 0  # threads: without those of stuck calls
        self._is_closed = False

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        # In the caller's context, as asyncio.to_thread does, so that logs belong to the caller's trace.
        call = _Call(self, partial(copy_context().run, work, *arguments, **named))
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the engine has been closed")
            if self._stuck >= self._most_stuck:
                raise ModelUnavailable(
                    f"模型还有 {self._stuck} 次调用没有返回，暂不再问它", hint="检查模型服务；它恢复后会自动继续"
                )
            self._pending.append(call)
            self._start_next()
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancels pending calls; running ones go on."""
        with self._changed:
            self._is_closed = True
            left = list(self._pending)
            self._pending.clear()
            self._changed.notify_all()
        for call in left:
            call.cancel()

    def give_up(self, call: _Call) -> None:
        """Called when a running call is cancelled."""
        with self._changed:
            if call.is_running_here and not call.is_given_up:
                call.is_given_up = True
                self._stuck += 1
                self._threads -= 1
                self._start_next()

    def _start_next(self) -> None:
        """Wakes an idle thread for pending calls, or starts a new one. Needs the lock."""
        if not self._pending:
            return
        if self._idle >= len(self._pending):
            self._changed.notify()
        elif self._threads < self._concurrent:
            self._threads += 1
            threading.Thread(target=self._work, name=f"model-{self._kind}", daemon=True).start()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            if not self._continues(call):
                return
            del call  # it refers to the arguments and the result

    def _next(self) -> _Call | None:
        with self._changed:
            is_notified = True
            while not self._pending and not self._is_closed and is_notified:
                self._idle += 1
                is_notified = self._changed.wait(self._idle_seconds)
                self._idle -= 1
            if not self._pending:
                self._threads -= 1
                return None
            call = self._pending.popleft()
            call.is_running_here = True
            return call

    def _continues(self, call: _Call) -> bool:
        """Whether the thread takes another call: after a cancelled one its place may have been taken."""
        with self._changed:
            call.is_running_here = False
            if not call.is_given_up:
                return True
            self._stuck -= 1
            if self._threads >= self._concurrent:
                return False
            self._threads += 1
            return True


class _Call(Future[Any]):
    def __init__(self, lane: Lane, work: Callable[[], Any]) -> None:
        super().__init__()
        self._lane, self._work = lane, work
        self.is_running_here = self.is_given_up = False

    def cancel(self) -> bool:
        if super().cancel():
            return True
        self._lane.give_up(self)
        return False

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._work()
        except StopIteration as error:  # asyncio futures refuse it
            self.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # raised to the caller, whatever it is
            self.set_exception(error)
        else:
            self.set_result(result)
