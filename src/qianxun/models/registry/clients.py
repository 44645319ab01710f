"""Opened clients of registered models: lent for one call, closed once nobody uses them and nobody will."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

KEPT: Final = 64  # clients that stay open for the next call


@dataclass
class _Line:
    client: Any
    version: int
    uses: int = 0
    is_retired: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_retired and not self.uses


class Clients:
    """One client for each model, of its latest version. Safe to use from several threads."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._lines: OrderedDict[int, _Line] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def lent(self, model: int, version: int, open_it: Callable[[], Any]) -> Iterator[Any]:
        """The client of this version for the length of the block; one of another version is let go."""
        line = self._taken(model, version, open_it)
        try:
            yield line.client
        finally:
            with self._lock:
                line.uses -= 1
                is_done = line.is_done
            if is_done:
                line.client.close()

    def drop(self, model: int) -> None:
        """The model is gone, disabled or changed: its client closes once idle."""
        self._let_go([model])

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            held = list(self._lines)
        self._let_go(held)

    @property
    def opened(self) -> int:
        with self._lock:
            return len(self._lines)

    def _taken(self, model: int, version: int, open_it: Callable[[], Any]) -> _Line:
        with self._lock:
            line = self._held(model, version)
            if line is not None:
                return line
        opened = _Line(open_it(), version, uses=1)  # without the lock: a slow one keeps nobody waiting
        with self._lock:
            if self._is_closed:
                line, done = None, [opened]
            elif (line := self._held(model, version)) is not None:  # another thread was quicker
                done = [opened]
            else:
                line, done = opened, self._kept_by(model, opened)
        for each in done:
            each.client.close()
        if line is None:
            raise RuntimeError("the engine has been closed")
        return line

    def _kept_by(self, model: int, opened: _Line) -> list[_Line]:
        """Keeps a client, unless a later one is there already; answers those to be closed. Holds the lock."""
        held = self._lines.get(model)
        if held is not None and held.version > opened.version:
            return _retired([opened])  # for this call alone
        surplus = [self._lines.pop(model)] if held is not None else []
        self._lines[model] = opened
        while len(self._lines) > self._kept:
            surplus.append(self._lines.popitem(last=False)[1])
        return _retired(surplus)

    def _held(self, model: int, version: int) -> _Line | None:
        """Holds the lock."""
        line = self._lines.get(model)
        if line is None or line.version != version:
            return None
        self._lines.move_to_end(model)
        line.uses += 1
        return line

    def _let_go(self, models: list[int]) -> None:
        with self._lock:
            done = _retired([self._lines.pop(model) for model in models if model in self._lines])
        for each in done:
            each.client.close()


def _retired(lines: list[_Line]) -> list[_Line]:
    """Those that can be closed at once; the others close with their last use."""
    for line in lines:
        line.is_retired = True
    return [line for line in lines if line.is_done]
