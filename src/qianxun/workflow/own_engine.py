"""The engine over the folder of the settings, for those who bring none: opened on first use, closed with its loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from qianxun.engine import Engine
from qianxun.settings import Settings


@dataclass
class _OfLoop:
    opening: dict[Path, asyncio.Task[Engine]] = field(default_factory=dict)
    # `Engine.open` is an asynchronous generator, and whoever ends a loop as `asyncio.run` does closes all that are
    # left: it has to be held on to, and to be closed by nobody else.
    open: dict[Path, AbstractAsyncContextManager[Engine]] = field(default_factory=dict)


class OwnEngines:
    """One engine to an event loop and folder, however many workflows share it."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()

    async def get(self, settings: Settings) -> Engine:
        """The engine of this loop. Raises what `Engine.open` raises, and tries anew the next time."""
        loop = asyncio.get_running_loop()
        own = self._of.setdefault(loop, _OfLoop())
        folder = settings.folder
        task = own.opening.get(folder)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = own.opening[folder] = loop.create_task(_opened(own, folder, settings))
        return await asyncio.shield(task)  # another may wait for the same


async def _opened(own: _OfLoop, folder: Path, settings: Settings) -> Engine:
    manager = own.open[folder] = Engine.open(settings=settings)
    return await manager.__aenter__()


@cache
def own_engines() -> OwnEngines:
    return OwnEngines()
