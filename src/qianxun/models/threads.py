"""Threads for models. A call that hangs for ever costs a thread, not its neighbours nor the end of the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from qianxun.core.errors import ModelUnavailable

AT_ONCE: Final = 4  # calls of one kind of model
AT_ONCE_AFAR: Final = 16  # … of one registered model, or of models that write: threads that only wait for a service
AFAR: Final = frozenset(("chat", "vision"))
STUCK: Final = 8  # calls that nobody waits for any more and that still run: more of them are not begun
IDLE_SECONDS: Final = 30.0  # after which a thread without work ends


class ModelThreads:
    """Lanes of threads, one to a kind of model: a language model that hangs takes no thread from an embedding.

    A registered model has lanes of its own: what one user's service does to its callers is nobody else's trouble.
    """

    def __init__(self, at_once: int = AT_ONCE, stuck: int = STUCK) -> None:
        self._at_once, self._most_stuck = at_once, stuck
        self._lanes: dict[str, Lane] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def lane(self, kind: str, registered: str = "") -> Lane:
        """``registered`` names the registered model, where it is one."""
        name = f"{kind}-{registered}" if registered else kind
        at_once = AT_ONCE_AFAR if registered or kind in AFAR else self._at_once
        with self._lock:
            if name not in self._lanes:
                self._lanes[name] = Lane(kind, at_once, self._most_stuck)
                if self._is_closed:
                    self._lanes[name].shutdown()
            return self._lanes[name]

    def shutdown(self) -> None:
        """Takes no more calls and waits for none."""
        with self._lock:
            self._is_closed = True
            for lane in self._lanes.values():
                lane.shutdown()


class Lane(Executor):
    """At most ``at_once`` calls that somebody waits for. Its threads are daemons: they never keep a process alive.

    A running call that is cancelled gives its place to the next one and counts as stuck until it returns. While too
    many are stuck, `submit` raises ModelUnavailable at once: to wait for the same model again would help nobody.
    """

    def __init__(
        self, kind: str, at_once: int = AT_ONCE, stuck: int = STUCK, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._kind, self._at_once, self._most_stuck, self._idle_seconds = kind, at_once, stuck, idle_seconds
        self._waiting: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._threads = self._idle = self._stuck = 0  # threads: without those of stuck calls
        self._is_closed = False

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        # In the caller's context, as asyncio.to_thread has it: what is logged there belongs to the caller's trace.
        call = _Call(self, partial(copy_context().run, work, *arguments, **named))
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the engine has been closed")
            if self._stuck >= self._most_stuck:
                raise ModelUnavailable(
                    f"模型还有 {self._stuck} 次调用没有返回，暂不再问它", hint="检查模型服务；它恢复后会自动继续"
                )
            self._waiting.append(call)
            self._attend()
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What waits is cancelled; what runs is left to itself."""
        with self._changed:
            self._is_closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for call in left:
            call.cancel()

    def give_up(self, call: _Call) -> None:
        """Nobody waits for this call any more."""
        with self._changed:
            if call.is_running_here and not call.is_given_up:
                call.is_given_up = True
                self._stuck += 1
                self._threads -= 1
                self._attend()

    def _attend(self) -> None:
        """Somebody for what waits: an idle thread, or a new one while there may be more. Holds the lock."""
        if not self._waiting:
            return
        if self._idle >= len(self._waiting):
            self._changed.notify()
        elif self._threads < self._at_once:
            self._threads += 1
            threading.Thread(target=self._work, name=f"model-{self._kind}", daemon=True).start()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.run()
            if not self._goes_on(call):
                return
            del call  # holds the arguments and the result

    def _next(self) -> _Call | None:
        with self._changed:
            is_wanted = True
            while not self._waiting and not self._is_closed and is_wanted:
                self._idle += 1
                is_wanted = self._changed.wait(self._idle_seconds)
                self._idle -= 1
            if not self._waiting:
                self._threads -= 1
                return None
            call = self._waiting.popleft()
            call.is_running_here = True
            return call

    def _goes_on(self, call: _Call) -> bool:
        """Whether the thread is still wanted: one whose call was given up has lost its place, and may find another."""
        with self._changed:
            call.is_running_here = False
            if not call.is_given_up:
                return True
            self._stuck -= 1
            if self._threads >= self._at_once:
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
        except StopIteration as error:  # an asyncio future cannot hold one
            self.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # the end of the thread: it belongs to whoever waits
            self.set_exception(error)
        else:
            self.set_result(result)
