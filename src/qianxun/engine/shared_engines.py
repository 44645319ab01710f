"""Engines that several callers share: one for an event loop and data folder, opened on first use, closed when the last
caller has released it, or with its loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from qianxun.engine.engine import Engine
from qianxun.engine.settings import Settings


@dataclass
class _Shared:
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    # `Engine.open` is an asynchronous generator, and `asyncio.run` closes all that are left when the loop ends: it has
    # to be referenced, and not by another generator, which would then close it at the same time.
    manager: AbstractAsyncContextManager[Engine] | None = None
    opening: asyncio.Task[Engine] | None = None
    holders: int = 0
    is_permanent: bool = False
    releasing: asyncio.Task[None] | None = None

    async def opened(self, settings: Settings) -> Engine:
        """Called with ``changing`` taken."""
        task = self.opening
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            self.manager = Engine.open(settings=settings)
            task = self.opening = asyncio.create_task(_entered(self.manager))
        return await asyncio.shield(task)  # a caller that is cancelled leaves it to the next

    async def release(self) -> None:
        """Closes an engine that is no longer used, once it is open."""
        async with self.changing:
            if self.holders or self.is_permanent or self.manager is None or self.opening is None:
                return
            await asyncio.wait([self.opening])
            manager, opening, self.manager, self.opening = self.manager, self.opening, None, None
            if not opening.cancelled() and opening.exception() is None:
                await manager.__aexit__(None, None, None)


class SharedEngines:
    def __init__(self) -> None:
        self._of: dict[asyncio.AbstractEventLoop, dict[Path, _Shared]] = {}

    async def keep(self, settings: Settings) -> Engine:
        """The engine of this loop over the folder of the settings; the settings of the first caller are in force.

        Stays open until the loop ends. Raises what `Engine.open` raises, and tries again the next time.
        """
        shared = self._over(settings.folder)
        async with shared.changing:
            engine = await shared.opened(settings)
            shared.is_permanent = True
        return engine

    async def take(self, settings: Settings) -> Engine:
        """The same, until every caller has called `give_back`."""
        shared = self._over(settings.folder)
        try:
            async with shared.changing:
                engine = await shared.opened(settings)
                shared.holders += 1
        except asyncio.CancelledError:
            shared.releasing = asyncio.create_task(shared.release())  # unless another caller waits for it
            raise
        return engine

    async def give_back(self, folder: Path) -> None:
        """Once for every `take` of this loop. The last one releases the folder, unless `keep` was called."""
        shared = self._over(folder)
        shared.holders -= 1
        await shared.release()

    def _over(self, folder: Path) -> _Shared:
        for loop in [known for known in list(self._of) if known.is_closed()]:
            self._of.pop(loop, None)  # its engines have ended with it
        return self._of.setdefault(asyncio.get_running_loop(), {}).setdefault(folder.resolve(), _Shared())


async def _entered(manager: AbstractAsyncContextManager[Engine]) -> Engine:
    return await manager.__aenter__()


@cache
def shared_engines() -> SharedEngines:
    return SharedEngines()
