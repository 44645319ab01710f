"""Who does what is being done: set once where a request, a command or a task begins, read where a change is noted.

A variable of the context and no argument: it has to reach every transaction, and no function on the way has any use
for it. Tasks and threads that `asyncio` starts inherit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

LIBRARY: Final = "library"  # Python code that has not said who it works for
BACKGROUND: Final = "background"

_actor: ContextVar[str] = ContextVar("actor", default=LIBRARY)


def current_actor() -> str:
    """``key:3`` (the API key of that id), ``command:zhang`` (a user of the machine), ``local`` (the service without
    keys), ``background`` or ``library``."""
    return _actor.get()


def set_actor(who: str) -> None:
    """For the rest of this task, and for what it starts."""
    _actor.set(who)


@contextmanager
def acting_as(who: str) -> Iterator[None]:
    """What is changed inside the block is noted as done by ``who``."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)
