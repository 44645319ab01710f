"""The opened knowledge bases of all tenants: opened, created and deleted by one task at a time.

So many of the most recently used stay open; of an idle one beyond them only its records and files are left. A base
that anybody still has at hand stays as it is, and is found, until the last of them lets go of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, Serving, read, stamp_for
from qianxun.bases.chunk_cache import ChunkCache, ChunkMemory
from qianxun.bases.graph_cache import GraphCache
from qianxun.bases.lease import LEASE_SECONDS, LeaseKeeper
from qianxun.bases.principal_view import view_for, whole_base
from qianxun.core.errors import BadInput, BadSettings, IndexUnusable, LeaseLost, NotFound, QianxunError, RecallFailed
from qianxun.core.governance.access import Principal
from qianxun.core.log_types import IndexRebuild, IndexTime
from qianxun.core.ports import EmbeddingModel, IndexBackend, nothing
from qianxun.core.system.fair_slots import FairSlots
from qianxun.core.types import IndexBatch, KnowledgeBase
from qianxun.engine.embedding_models import Embeddings
from qianxun.engine.model_catalog import BaseModels, ModelCatalog, registered_models
from qianxun.graph.build import is_graph_enabled
from qianxun.indexing.maintenance import catch_up, rebuild_unless
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.jobs.repair import Repairs
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.rank.rerank import RerankCache, SharedScores
from qianxun.records import Records, bases
from qianxun.records.leases import outbox_lease
from qianxun.records.tenancy import BaseRecords
from qianxun.text.chinese import Analyser

log = logging.getLogger(__name__)

Result = TypeVar("Result")
MOST_OPEN = 256  # bases; each takes a file and a tenth of a megabyte at least
LOOKED_AT = 16  # of those beyond, by one who uses a base
IN_MEMORY = 8  # calls that add documents, with these in memory until they are indexed


@dataclass
class OpenBases:
    records: Records
    backend: IndexBackend
    embeddings: Embeddings
    catalog: ModelCatalog
    registered: Registry
    model_threads: ModelThreads
    parsers: ParserPool
    scores: SharedScores | None  # of rerankers, where processes share them
    indexed: Callable[[IndexTime], None]
    rebuilding: Callable[[IndexRebuild], None]
    wake: Callable[[], None]  # tells the indexer that there is work
    lexicon: str = ""  # of graphs
    lease_seconds: float = LEASE_SECONDS
    is_reader: bool = False  # another process writes, and repairs
    graph_folder: Path | None = None  # where large graphs are kept; None: nowhere
    repairs: Repairs = field(default_factory=Repairs)
    chunk_memory: ChunkMemory = field(default_factory=ChunkMemory)
    in_memory: FairSlots = field(default_factory=lambda: FairSlots(IN_MEMORY))
    committing: FairSlots = field(default_factory=lambda: FairSlots(max(2, os.cpu_count() or 1)))
    # Those that anybody uses; `_recent` uses the last ones, so that they stay.
    _open: WeakValueDictionary[int, OpenBase] = field(default_factory=WeakValueDictionary)
    _recent: dict[int, OpenBase] = field(default_factory=dict)  # the most recently used last
    _failed: dict[int, str] = field(default_factory=dict)  # base → why it could not be opened
    _states: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # base → the state of its settings in use
    _retiring: set[asyncio.Task[None]] = field(default_factory=set)
    _moving: dict[int, asyncio.Task[Any]] = field(default_factory=dict)  # what is being opened, created or deleted

    def every(self) -> tuple[OpenBase, ...]:
        return tuple(self._open.values())

    def unusable(self) -> dict[int, str]:
        """Base → why it cannot be opened, or not be searched in full, right now."""
        return {**self._failed, **self.repairs.reasons()}

    def is_open(self, knowledge_base: int, tenant: str) -> bool:
        base = self._open.get(knowledge_base)
        return base is not None and base.about.tenant == tenant

    def _graph_folder(self, knowledge_base: int) -> Path | None:
        return None if self.graph_folder is None else self.graph_folder / str(knowledge_base)

    def records_of(self, knowledge_base: int, tenant: str, principal: Principal | None = None) -> BaseRecords:
        """The records of a base, in transactions that begin by checking whose it is."""
        return BaseRecords(self.records, knowledge_base, tenant, principal)

    async def get(self, knowledge_base: int, tenant: str) -> OpenBase:
        """The opened base: its index is sound and up to date with the records, its settings are what another process
        has made of them. Raises NotFound."""
        found = self._open.get(knowledge_base)
        if found is not None and self.has_others:
            found = await self.follow(found)
        if found is None:
            await self.records_of(knowledge_base, tenant).read(nothing)  # another tenant's base fails fast
            found = await self._alone(knowledge_base, lambda: self._get(knowledge_base, tenant))
        if found.about.tenant != tenant:
            raise bases.missing(knowledge_base)
        self._note_use(found)
        return found

    @property
    def has_others(self) -> bool:
        """Whether other processes may change what is open here."""
        return self.is_reader or self.records.process != 0

    def _note_use(self, base: OpenBase) -> None:
        """Lets go of bases that were not used for longest, beyond as many as stay open and without work to come."""
        self._recent.pop(base.id, None)
        self._recent[base.id] = base
        beyond = max(len(self._recent) - MOST_OPEN, 0)
        for number in list(islice(self._recent, min(beyond, LOOKED_AT))):
            oldest = self._recent.pop(number)
            if oldest is base or _has_work_to_come(oldest):
                self._recent[number] = oldest
            else:
                oldest.views.clear()  # they have the base at hand, too

    # ── what other processes have changed ────────────────────────────────────────────────────────

    async def follow(self, base: OpenBase) -> OpenBase | None:
        """The base with its settings as they are in the records now; None if it is to be opened anew, if at all."""
        state = await read(base, lambda tx, number: bases.settings_state(tx, number))
        if state == self._states.get(base.id):
            return base

        async def followed() -> OpenBase | None:
            if self._open.get(base.id) is not base:
                return self._open.get(base.id)
            try:
                about = await self.records.read(lambda tx: bases.get(tx, base.id, tenant=base.about.tenant))
            except NotFound:  # deleted, or another tenant's now
                await self._close(base.id)
                return None
            base.terms.forget()
            if about == base.about or await self._apply_settings(base, about):
                self._states[base.id] = state
            return base

        return await self._alone(base.id, followed)

    async def seen(self, knowledge_base: int, tenant: str, principal: Principal | None) -> OpenBase:
        """`get`, as a principal sees it."""
        base = await self.get(knowledge_base, tenant)
        return base if principal is None else await view_for(base, principal)

    async def again_if_moved(self, base: OpenBase, search: Callable[[], Awaitable[Result]]) -> Result:
        """``search``, and once more where it failed because another process has put another index in place."""
        if base.view is not None:  # what is seen of a base is made anew for every request
            return await search()
        serving = base.serving
        try:
            return await search()
        except RecallFailed:
            if not self.has_others:
                raise
            await self.follow(base)
            if base.serving is serving:
                raise
        return await search()

    async def _apply_settings(self, base: OpenBase, about: KnowledgeBase) -> bool:
        """Takes over what another process has changed. False while that still builds the index for it: searches use
        the old one until then."""
        config = about.config
        model = base.model
        if (about.embedding_model, about.dimension) != (base.about.embedding_model, base.about.dimension):
            model = await asyncio.to_thread(self._model, about)
        analyser = await asyncio.to_thread(Analyser, config.get("dictionary", ()))
        stamp = stamp_for(about, model, analyser)
        known = base.index.stamp
        if (stamp.model, stamp.dimension, stamp.analysis) != (known.model, known.dimension, known.analysis):
            try:
                index = await self.backend.open(about.id, stamp)
            except IndexUnusable as error:
                log.info("base %s: the index for its new settings is not there yet: %s", base.id, error)
                return False
            old, base.serving = base.serving, Serving(index, model)
            self._retiring.add(task := asyncio.create_task(old.retire()))
            task.add_done_callback(self._retiring.discard)
        base.about, base.analyser = about, analyser
        base.splitter = ChunkSplitter(config["chunk_size"], config["chunk_overlap"])
        base.by_meaning = bool(config.get("by_meaning")) and model is not None
        base.curves = self.embeddings.curves(about.embedding_model)
        return True

    @asynccontextmanager
    async def opened(
        self, knowledge_base: int, tenant: str, principal: Principal | None = None
    ) -> AsyncIterator[OpenBase]:
        """`seen` and `using` together."""
        base = await self.seen(knowledge_base, tenant, principal)
        with self.using(base):
            yield base

    @contextmanager
    def using(self, base: OpenBase) -> Iterator[None]:
        """Raises NotFound if the base is deleted meanwhile: work on it may then fail in any way, or find nothing."""
        try:
            yield
        except asyncio.CancelledError:
            self.wake()  # what was accepted by then is still to be indexed
            raise
        except Exception as error:  # raised again, or in its place why
            self.wake()
            if self._open.get(base.id) is not whole_base(base):
                raise bases.missing(base.id) from error
            raise
        if self._open.get(base.id) is not whole_base(base):
            raise bases.missing(base.id)

    async def create(self, about: KnowledgeBase) -> None:
        """The first index of a new base, unless the base was opened or deleted before it came to that.

        If it cannot be made the base is deleted again: after a failure its name is free.
        """
        own = self.records_of(about.id, about.tenant)
        model = self._model(about)

        async def make() -> None:
            if about.id in self._open or not await own.is_there():
                return
            try:
                await self._make_index(about, model)
            except LeaseLost:  # another process has opened the base, and made its index
                return
            except (QianxunError, OSError):
                await own.write(lambda tx: bases.remove(tx, about.id, tenant=own.tenant))
                raise

        await self._alone(about.id, make)

    async def _make_index(self, about: KnowledgeBase, model: EmbeddingModel | None) -> None:
        async with self._lease(about.id).turn() as turn:
            if turn is None:
                raise LeaseLost(f"另一个进程正在建知识库 {about.id} 的索引")
            analyser = Analyser(about.config.get("dictionary", ()))
            built = await self.backend.build(about.id, stamp_for(about, model, analyser))
            if turn.fence:
                await built.apply(IndexBatch(0, fence=turn.fence))
            await self.backend.switch(about.id, built)
            await built.close()

    def _lease(self, knowledge_base: int) -> LeaseKeeper:
        return LeaseKeeper(self.records, outbox_lease(knowledge_base), self.lease_seconds)

    async def delete(self, knowledge_base: int, tenant: str) -> None:
        """The base with everything in it, its index last. Raises NotFound."""
        own = self.records_of(knowledge_base, tenant)
        await own.read(nothing)  # another tenant's base fails fast

        async def remove() -> None:
            # The records first: whatever works on the base fails with its next transaction.
            await own.write(lambda tx: bases.remove(tx, knowledge_base, tenant=tenant))
            await self._close(knowledge_base)
            await self.backend.drop(knowledge_base)
            if (folder := self._graph_folder(knowledge_base)) is not None:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

        await self._alone(knowledge_base, remove)

    async def move(self, knowledge_base: int, tenant: str, to: str) -> KnowledgeBase:
        """Hands the base over to the tenant ``to``; it serves there when this returns.

        Raises NotFound, AlreadyThere for a name that is taken there, BadInput for a base with models of its tenant.
        """
        own = self.records_of(knowledge_base, tenant)
        about = await own.read(lambda tx: bases.get(tx, knowledge_base, tenant=tenant))
        if registered := registered_models(about):
            raise BadInput(
                f"知识库“{about.name}”用着租户“{tenant}”登记的模型（{'、'.join(registered)}），别的租户用不了",
                hint="先换成不是登记的模型：qianxun kb set；向量模型用 qianxun rebuild --model",
            )

        async def hand_over() -> KnowledgeBase:
            moved = await own.write(lambda tx: bases.move(tx, knowledge_base, to, tenant=tenant))
            await self._close(knowledge_base)
            return moved

        moved = await self._alone(knowledge_base, hand_over)
        await self.get(knowledge_base, to)
        return moved

    async def _close(self, knowledge_base: int) -> None:
        """Ends what is under way on an opened base: it raises NotFound."""
        self._failed.pop(knowledge_base, None)
        self._states.pop(knowledge_base, None)
        self.repairs.forget(knowledge_base)
        self._recent.pop(knowledge_base, None)
        base = self._open.pop(knowledge_base, None)
        if base is not None:
            async with base.indexing:
                await base.serving.retire()

    async def close(self, *, finish: bool = False) -> None:
        """With ``finish`` repairs that are under way are waited for."""
        settling = [task for base in self.every() if (task := base.graph.settling) is not None]
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, return_exceptions=True)
        await self.repairs.close(finish=finish)
        while self._moving:
            await asyncio.wait(self._moving.values())
        if self._retiring:
            await asyncio.wait(self._retiring)
        for base in self.every():
            await base.serving.retire()

    async def _alone(self, knowledge_base: int, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Does ``work`` while no other task opens, creates or deletes this base; other bases are not waited for.

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
            done.exception()  # raised to those who wait for it; a caller that was cancelled need not

    def _model(self, about: KnowledgeBase) -> EmbeddingModel | None:
        return self.embeddings.get(about.embedding_model, about.dimension, self.registered.of(about.tenant))

    async def _get(self, knowledge_base: int, tenant: str) -> OpenBase:
        found = self._open.get(knowledge_base)  # held from here on: it might go otherwise
        if found is None:

            def stored(tx: Connection) -> tuple[KnowledgeBase, tuple[Any, ...]]:
                about = bases.get(tx, knowledge_base, tenant=tenant)
                return about, bases.settings_state(tx, knowledge_base)

            about, self._states[knowledge_base] = await self.records.read(stored)
            try:
                found = await self._opened(about)
            except (QianxunError, OSError) as error:
                self._failed[knowledge_base] = str(error)
                raise
            self._open[knowledge_base] = self._recent[knowledge_base] = found
            self._failed.pop(knowledge_base, None)
        return found

    async def _opened(self, about: KnowledgeBase) -> OpenBase:
        """The base with its index, which is sound and up to date with the records when this returns."""
        config, model = about.config, self._model(about)
        if "chunk_size" not in config or "chunk_overlap" not in config:
            raise BadSettings(f"知识库“{about.name}”存下的设置已损坏", hint="从备份恢复 qianxun.db")
        analyser = Analyser(config.get("dictionary", ()))
        stamp = stamp_for(about, model, analyser)
        unusable = ""
        try:
            index = await self.backend.open(about.id, stamp)
        except IndexUnusable as error:
            if self.is_reader:
                raise
            unusable = str(error)
            index = await self.backend.build(about.id, stamp)
        base = self._base(about, Serving(index, model), analyser)
        if not self.is_reader:
            await self._bring_up_to_date(base, unusable)
        return base

    def _base(self, about: KnowledgeBase, serving: Serving, analyser: Analyser) -> OpenBase:
        def owner() -> str:  # as it is now, not as it was on opening; the base itself would never be let go of
            current = self._open.get(about.id)
            return str((current.about if current else about).config.get("user_id", ""))

        config = about.config
        return OpenBase(
            about=about,
            records=self.records_of(about.id, about.tenant),
            backend=self.backend,
            serving=serving,
            splitter=ChunkSplitter(config["chunk_size"], config["chunk_overlap"]),
            analyser=analyser,
            parsers=self.parsers,
            lease=self._lease(about.id),
            in_memory=self.in_memory,
            committing=self.committing,
            lexicon=self.lexicon,
            by_meaning=bool(config.get("by_meaning")) and serving.model is not None,
            models=BaseModels(self.catalog, self.registered.of(about.tenant), owner),
            curves=self.embeddings.curves(about.embedding_model),
            graph=GraphCache(self._graph_folder(about.id), about.identity),
            rerank_cache=RerankCache(shared=self.scores, origin=about.identity),
            model_threads=self.model_threads,
            indexed=self.indexed,
            rebuilding=self.rebuilding,
            chunks=ChunkCache(self.chunk_memory),
            damaged=self._report if self.is_reader else self.repairs.begin,
        )

    async def _bring_up_to_date(self, base: OpenBase, unusable: str) -> None:
        """``unusable`` says why the index that was there cannot be opened; "": it is open."""
        try:
            if unusable:
                log.warning("index of base %s is rebuilt from the records: %s", base.id, unusable)
                await rebuild_unless(base, lambda: self._is_made(base))
            await catch_up(base)
        except BaseException:
            await base.serving.retire()
            raise

    def _report(self, base: OpenBase, reason: str) -> None:
        log.error("index of base %s is damaged; the process that writes to it repairs it: %s", base.id, reason)

    async def _is_made(self, base: OpenBase) -> bool:
        """Opens the index that another process has made meanwhile, if it has."""
        try:
            index = await self.backend.open(base.id, stamp_for(base.about, base.model, base.analyser))
        except IndexUnusable:
            return False
        unmade, base.serving = base.serving, Serving(index, base.model)
        await unmade.retire()
        return True


def _has_work_to_come(base: OpenBase) -> bool:
    """Whether the background, which looks at open bases, has still to learn its words or to read it for its graph."""
    is_graph_due = is_graph_enabled(base) and (base.graph.is_due(0.0) or bool(base.about.config.get("graph_model")))
    return is_graph_due or (base.model is not None and base.terms.is_due(0.0))
