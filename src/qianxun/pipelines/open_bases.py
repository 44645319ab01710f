"""The bases that are open: each is opened once, whoever asks first, and made and removed by one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from qianxun.chinese import Analyser
from qianxun.errors import IndexUnusable
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.pipelines.base import OpenBase, Serving, stamp_for
from qianxun.pipelines.upkeep import catch_up, rebuild
from qianxun.ports import EmbeddingModel, IndexBackend
from qianxun.records.tenancy import BaseRecords
from qianxun.types import KnowledgeBase

log = logging.getLogger(__name__)

Result = TypeVar("Result")


async def first_index(about: KnowledgeBase, backend: IndexBackend, model: EmbeddingModel | None) -> None:
    """An empty index for a new base."""
    analyser = Analyser(about.config.get("dictionary", ()))
    built = await backend.build(about.id, stamp_for(model, analyser))
    await backend.switch(about.id, built)
    await built.close()


async def open_base(
    about: KnowledgeBase, records: BaseRecords, backend: IndexBackend, model: EmbeddingModel | None, **parts: Any
) -> OpenBase:
    """The base with its index, which is sound and caught up with the records when this returns.

    ``parts`` are the other fields of `OpenBase` that do not come from the base itself.
    """
    config = about.config
    analyser = Analyser(config.get("dictionary", ()))
    stamp = stamp_for(model, analyser)
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

    def forget(self, knowledge_base: int) -> None:
        self._open.pop(knowledge_base, None)

    async def close(self) -> None:
        while self._moving:
            await asyncio.wait(self._moving.values())
        for base in self._open.values():
            await base.serving.retire()
