"""Open clients of registered models: borrowed for one call, closed when they are idle and outdated."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

OPEN_CLIENTS: Final = 64  # that stay open for the next call


@dataclass
class _Entry:
    client: Any
    version: int
    uses: int = 0
    is_retired: bool = False

    @property
    def is_done(self) -> bool:
        return self.is_retired and not self.uses


class ClientPool:
    """One client per model, of its latest version. Thread-safe."""

    def __init__(self, size: int = OPEN_CLIENTS) -> None:
        self._size = size
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def borrow(self, model: int, version: int, open_client: Callable[[], Any]) -> Iterator[Any]:
        """The client of this version for the length of the block; one of an older version is retired."""
        entry = self._borrowed(model, version, open_client)
        try:
            yield entry.client
        finally:
            with self._lock:
                entry.uses -= 1
                is_done = entry.is_done
            if is_done:
                entry.client.close()

    def drop(self, *models: int) -> None:
        """Closes the clients of removed, disabled or changed models once they are idle."""
        with self._lock:
            done = _retired(self._entries.pop(model) for model in models if model in self._entries)
        _close(done)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            models = list(self._entries)
        self.drop(*models)

    @property
    def opened(self) -> int:
        with self._lock:
            return len(self._entries)

    def _borrowed(self, model: int, version: int, open_client: Callable[[], Any]) -> _Entry:
        with self._lock:
            entry = self._current(model, version)
            if entry is not None:
                return entry
        opened = _Entry(open_client(), version, uses=1)  # without the lock: opening may be slow
        with self._lock:
            if self._is_closed:
                entry, done = None, [opened]
            elif (entry := self._current(model, version)) is not None:  # another thread was faster
                done = [opened]
            else:
                entry, done = opened, self._add(model, opened)
        _close(done)
        if entry is None:
            raise RuntimeError("the engine has been closed")
        return entry

    def _add(self, model: int, opened: _Entry) -> list[_Entry]:
        """Adds a client unless there is a newer one; returns those to be closed. Needs the lock."""
        current = self._entries.get(model)
        if current is not None and current.version > opened.version:
            return _retired([opened])  # for this call alone
        surplus = [self._entries.pop(model)] if current is not None else []
        self._entries[model] = opened
        while len(self._entries) > self._size:
            surplus.append(self._entries.popitem(last=False)[1])
        return _retired(surplus)

    def _current(self, model: int, version: int) -> _Entry | None:
        """Needs the lock."""
        entry = self._entries.get(model)
        if entry is None or entry.version != version:
            return None
        self._entries.move_to_end(model)
        entry.uses += 1
        return entry


def _retired(entries: Iterable[_Entry]) -> list[_Entry]:
    """Those that can be closed at once; the others are closed after their last use."""
    retired = list(entries)
    for entry in retired:
        entry.is_retired = True
    return [entry for entry in retired if entry.is_done]


def _close(entries: Iterable[_Entry]) -> None:
    for entry in entries:
        entry.client.close()
