"""The bases that are open: each is opened once, whoever asks first, and made and removed by one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from qianxun.bases.base import OpenBase, Serving, stamp_for
from qianxun.core.errors import IndexUnusable, QianxunError
from qianxun.core.ports import EmbeddingModel, IndexBackend
from qianxun.core.types import KnowledgeBase
from qianxun.indexing.maintenance import catch_up, rebuild
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.records import bases
from qianxun.records.tenancy import BaseRecords
from qianxun.text.chinese import Analyser

log = logging.getLogger(__name__)

Result = TypeVar("Result")


async def open_base(
    about: KnowledgeBase, records: BaseRecords, backend: IndexBackend, model: EmbeddingModel | None, **parts: Any
) -> OpenBase:
    """The base with its index, which is sound and caught up with the records when this returns.

    ``parts`` are the other fields of `OpenBase` that do not come from the base itself.
    """
    config = about.config
    analyser = Analyser(config.get("dictionary", ()))
    stamp = stamp_for(about, model, analyser)
    unusable = ""
    try:
        index = await backend.open(about.id, stamp)
    except IndexUnusable as error:
        unusable = str(error)
        index = await backend.build(about.id, stamp)
    base = OpenBase(
        about=about,
        records=records,
        backend=backend,
        serving=Serving(index, model),
        splitter=ChunkSplitter(config["chunk_size"], config["chunk_overlap"]),
        analyser=analyser,
        by_meaning=bool(config.get("by_meaning")) and model is not None,
        **parts,
    )
    try:
        if unusable:
            log.warning("index of base %s is rebuilt from the records: %s", about.id, unusable)
            await rebuild(base, model)
        await catch_up(base)
    except BaseException:
        await base.serving.retire()
        raise
    return base


class OpenBases:
    """Knowledge base → what is open of it, for all tenants. Who may use it is asked elsewhere."""

    def __init__(self) -> None:
        self._open: dict[int, OpenBase] = {}
        self._moving: dict[int, asyncio.Task[Any]] = {}  # what is being opened, made or removed

    def get(self, knowledge_base: int) -> OpenBase | None:
        return self._open.get(knowledge_base)

    def every(self) -> tuple[OpenBase, ...]:
        return tuple(self._open.values())

    def holds(self, base: OpenBase) -> bool:
        """False once the base has been removed."""
        return self._open.get(base.id) is base

    async def opened(self, knowledge_base: int, opening: Callable[[], Coroutine[Any, Any, OpenBase]]) -> OpenBase:
        """The base; opened now if it is not yet. Another base that is being opened is not waited for."""

        async def open_it() -> OpenBase:
            if knowledge_base not in self._open:
                self._open[knowledge_base] = await opening()
            return self._open[knowledge_base]

        held = self._open.get(knowledge_base)
        return held if held is not None else await self.alone(knowledge_base, open_it)

    async def alone(self, knowledge_base: int, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Does ``work`` while nobody else opens, makes or removes this base.

        It is carried to its end even when the caller is cancelled: half of it would leave files open, or behind.
        """
        while (moving := self._moving.get(knowledge_base)) is not None:
            await asyncio.wait([moving])
        task = asyncio.create_task(work())
        self._moving[knowledge_base] = task
        task.add_done_callback(lambda done: self._moved(knowledge_base, done))
        return await asyncio.shield(task)

    def _moved(self, knowledge_base: int, done: asyncio.Task[Any]) -> None:
        del self._moving[knowledge_base]
        if not done.cancelled():
            done.exception()  # whoever waits for it hears it; a caller that was cancelled need not

    async def made(
        self, about: KnowledgeBase, own: BaseRecords, backend: IndexBackend, model: EmbeddingModel | None
    ) -> None:
        """The first index of a new base, unless somebody has opened the base, or removed it, before it came to that.

        Where it cannot be made the base is taken back: who is told of a failure finds the name free.
        """

        async def make() -> None:
            if about.id in self._open or not await own.is_there():
                return
            try:
                analyser = Analyser(about.config.get("dictionary", ()))
                built = await backend.build(about.id, stamp_for(about, model, analyser))
                await backend.switch(about.id, built)
                await built.close()
            except (QianxunError, OSError):
                await own.write(lambda tx: bases.remove(tx, about.id, tenant=own.tenant))
                raise

        await self.alone(about.id, make)

    async def removed(self, own: BaseRecords, backend: IndexBackend) -> None:
        """The base with everything in it, its index last. Raises NotFound when it is gone already."""

        async def remove() -> None:
            # The records first: whatever works on the base finds it gone with its next transaction, and lets go.
            await own.write(lambda tx: bases.remove(tx, own.knowledge_base, tenant=own.tenant))
            base = self._open.pop(own.knowledge_base, None)
            if base is not None:
                async with base.indexing:
                    await base.serving.retire()
            await backend.drop(own.knowledge_base)

        await self.alone(own.knowledge_base, remove)

    async def close(self) -> None:
        while self._moving:
            await asyncio.wait(self._moving.values())
        for base in self._open.values():
            await base.serving.retire()
