"""A service that is down is left alone for a while, then tried with one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TryAgain(Exception):
    """An attempt failed in a way that another may mend; ``wait`` is how many seconds the service asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class Outage(TryAgain):
    """… because the service cannot be reached, breaks off or breaks down: it says nothing about the request."""


class Paused(Exception):
    """Not asked: for so many ``seconds`` more it is left alone, for this ``reason``."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.reason = reason


class Breaker:
    """Opens after ``outages`` in a row, for ``pause_seconds``; then lets one probe through, which closes it or not.

    Safe to use from several threads at once.
    """

    def __init__(self, outages: int, pause_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = outages
        self._pause = pause_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._in_a_row = 0
        self._until: float | None = None  # None: closed
        self._reason = ""
        self._probing = False

    @property
    def is_open(self) -> bool:
        with self._lock:
            return self._until is not None

    @contextmanager
    def attempt(self) -> Iterator[Callable[[], None]]:
        """One request to the service. Raises Paused instead of letting it begin.

        Left without an exception, the service has answered; left by an Outage, it has failed; left by anything else,
        nothing was learnt of it. What it yields is to be called once a long answer has begun: the service is there, so
        others need not wait for the end of the probe, which still decides.
        """
        probe = self._enter()

        def begun() -> None:
            nonlocal probe
            if probe:
                self._reopened()
            probe = False

        try:
            yield begun
        except Outage as outage:
            self._failed(outage.reason, probe)
            raise
        else:
            self._answered()
        finally:
            self._leave(probe)

    def hold(self, seconds: float, reason: str) -> None:
        """Opens it by decision: the service wants to be left alone, or has said what it would only say again."""
        with self._lock:
            self._open(seconds, reason)

    def _enter(self) -> bool:
        """Whether this request is the probe."""
        with self._lock:
            if self._until is None:
                return False
            left = self._until - self._clock()
            if left > 0 or self._probing:
                raise Paused(max(left, 0.0), self._reason)
            self._probing = True
            return True

    def _leave(self, probe: bool) -> None:
        with self._lock:
            self._probing = self._probing and not probe

    def _reopened(self) -> None:
        with self._lock:
            self._probing, self._until = False, None  # so many in a row remain: the next outage opens it again

    def _answered(self) -> None:
        with self._lock:
            self._in_a_row, self._until = 0, None

    def _failed(self, reason: str, probe: bool) -> None:
        with self._lock:
            self._in_a_row += 1
            # What set out before it opened and fails only now must not prolong the pause.
            if probe or (self._until is None and self._in_a_row >= self._limit):
                self._open(self._pause, reason)

    def _open(self, seconds: float, reason: str) -> None:
        self._until = self._clock() + seconds
        self._reason = reason
