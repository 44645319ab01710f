"""The engine over a folder, for those who bring none: opened on first use, one to an event loop and folder, however
many share it; closed when the last has given it back, or with its loop."""

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
    # `Engine.open` is an asynchronous generator, and whoever ends a loop as `asyncio.run` does closes all that are
    # left: it has to be held on to, and not by another generator, which would then close it at the same time.
    manager: AbstractAsyncContextManager[Engine] | None = None
    opening: asyncio.Task[Engine] | None = None
    holders: int = 0
    is_kept: bool = False
    letting_go: asyncio.Task[None] | None = None

    async def opened(self, settings: Settings) -> Engine:
        """For whoever holds ``changing``."""
        task = self.opening
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            self.manager = Engine.open(settings=settings)
            task = self.opening = asyncio.create_task(_entered(self.manager))
        return await asyncio.shield(task)  # whoever gives up waiting leaves it to the next

    async def let_go(self) -> None:
        """Closes what nobody uses, once it is open."""
        async with self.changing:
            if self.holders or self.is_kept or self.manager is None or self.opening is None:
                return
            await asyncio.wait([self.opening])
            manager, opening, self.manager, self.opening = self.manager, self.opening, None, None
            if not opening.cancelled() and opening.exception() is None:
                await manager.__aexit__(None, None, None)


class SharedEngines:
    def __init__(self) -> None:
        self._of: dict[asyncio.AbstractEventLoop, dict[Path, _Shared]] = {}

    async def keep(self, settings: Settings) -> Engine:
        """The engine of this loop over the folder of the settings; those of whoever came first are in force.

        Stays open until the loop ends. Raises what `Engine.open` raises, and tries anew the next time.
        """
        shared = self._over(settings.folder)
        async with shared.changing:
            engine = await shared.opened(settings)
            shared.is_kept = True
        return engine

    async def take(self, settings: Settings) -> Engine:
        """The same, until everybody has called `give_back`."""
        shared = self._over(settings.folder)
        try:
            async with shared.changing:
                engine = await shared.opened(settings)
                shared.holders += 1
        except asyncio.CancelledError:
            shared.letting_go = asyncio.create_task(shared.let_go())  # unless somebody else waits for it
            raise
        return engine

    async def give_back(self, folder: Path) -> None:
        """Once for every `take` of this loop. The last one lets the folder go, unless somebody keeps it."""
        shared = self._over(folder)
        shared.holders -= 1
        await shared.let_go()

    def _over(self, folder: Path) -> _Shared:
        for loop in [each for each in list(self._of) if each.is_closed()]:
            self._of.pop(loop, None)  # its engines have ended with it
        return self._of.setdefault(asyncio.get_running_loop(), {}).setdefault(folder.resolve(), _Shared())


async def _entered(manager: AbstractAsyncContextManager[Engine]) -> Engine:
    return await manager.__aenter__()


@cache
def shared_engines() -> SharedEngines:
    return SharedEngines()
