"""Indexes that a search found damaged: rebuilt from the records in the background, and said to be so meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from qianxun.bases.base import OpenBase, Serving
from qianxun.core.errors import QianxunError
from qianxun.indexing.maintenance import is_sound, rebuild_unless

log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0  # between two rebuilds of one base: a disk that damages every index must not keep us busy


@dataclass
class Repairs:
    """Called in the event loop only."""

    _damaged: dict[int, tuple[OpenBase, Serving, str]] = field(default_factory=dict)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _next: dict[int, float] = field(default_factory=dict)  # base → not before

    def begin(self, base: OpenBase, reason: str) -> None:
        """Rebuilds the index that the base serves from, unless that is under way."""
        self._damaged[base.id] = (base, base.serving, reason)
        if base.id in self._tasks or time.monotonic() < self._next.get(base.id, 0.0):
            return
        self._next[base.id] = time.monotonic() + AGAIN_SECONDS
        log.warning("index of base %s is damaged and is rebuilt from the records: %s", base.id, reason)
        task = self._tasks[base.id] = asyncio.create_task(_repair(base))
        task.add_done_callback(lambda _: self._tasks.pop(base.id))

    def reasons(self) -> dict[int, str]:
        """Base → what is wrong with the index that it still serves from."""
        return {key: reason for key, (base, serving, reason) in self._damaged.items() if base.serving is serving}

    def forget(self, knowledge_base: int) -> None:
        """A base that was deleted."""
        self._damaged.pop(knowledge_base, None)

    async def close(self, *, finish: bool) -> None:
        """Ends what is under way, or with ``finish`` waits for it."""
        tasks = list(self._tasks.values())
        for task in tasks if not finish else ():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _repair(base: OpenBase) -> None:
    try:
        await rebuild_unless(base, lambda: is_sound(base))
    except QianxunError as error:
        log.error("index of base %s could not be rebuilt: %s", base.id, error)
    except Exception:  # the outer door of a background task
        log.exception("index of base %s could not be rebuilt", base.id)
    else:
        log.warning("index of base %s has been rebuilt from the records", base.id)
