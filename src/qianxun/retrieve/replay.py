"""A replay searches for real and leaves no trace: it asks no cache, fills none, and is not logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_replaying: ContextVar[bool] = ContextVar("replaying", default=False)


@contextmanager
def replaying() -> Iterator[None]:
    """The searches of this task inside the block are replays; other tasks' are not."""
    token = _replaying.set(True)
    try:
        yield
    finally:
        _replaying.reset(token)


def is_replaying() -> bool:
    return _replaying.get()
