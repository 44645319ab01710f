"""A circuit breaker: a service that is down is not called for a while, then tried with one request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TryAgain(Exception):
    """An attempt failed and may succeed later; ``wait`` are the seconds that the service asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class Outage(TryAgain):
    """The service is unreachable, breaks off or fails, whatever the request."""


class Paused(Exception):
    """Not called: the breaker is open for so many ``seconds`` more."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.reason = reason


class Breaker:
    """Opens after ``outages`` in a row for ``pause_seconds``; then one probe closes or reopens it. Thread-safe."""

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

        An Outage counts as a failure, a normal exit as a success, any other exception as neither. Call what it yields
        once a long reply has begun: other requests need not wait for the end of the probe, which still decides.
        """
        probe = self._enter()

        def begun() -> None:
            nonlocal probe
            if probe:
                with self._lock:  # still as many in a row: the next outage opens it again
                    self._probing, self._until = False, None
            probe = False

        try:
            yield begun
        except Outage as outage:
            self._failed(outage.reason, probe)
            raise
        else:
            with self._lock:
                self._in_a_row, self._until = 0, None
        finally:
            with self._lock:
                self._probing = self._probing and not probe

    def hold(self, seconds: float, reason: str) -> None:
        """Opens it: the service asked for a pause, or would only repeat its error."""
        with self._lock:
            self._open(seconds, reason)

    def _enter(self) -> bool:
        """Returns whether this request is the probe."""
        with self._lock:
            if self._until is None:
                return False
            left = self._until - self._clock()
            if left > 0 or self._probing:
                raise Paused(max(left, 0.0), self._reason)
            self._probing = True
            return True

    def _failed(self, reason: str, probe: bool) -> None:
        with self._lock:
            self._in_a_row += 1
            # A request from before it opened must not prolong the pause.
            if probe or (self._until is None and self._in_a_row >= self._limit):
                self._open(self._pause, reason)

    def _open(self, seconds: float, reason: str) -> None:
        self._until = self._clock() + seconds
        self._reason = reason
