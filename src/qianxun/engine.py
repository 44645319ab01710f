"""The composition root: settings to an engine. The only place where parts are wired."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qianxun.cache.memory import MemoryCache
from qianxun.chinese import Analyser
from qianxun.errors import BadSettings, IndexUnusable, ModelUnavailable, RecallFailed
from qianxun.folder import owned
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.limits import MIB, ParseLimits
from qianxun.ingest.sandbox import ParserPool
from qianxun.models import CARDS, SENTENCE_PREFIX, RemoteEndpoint, card, find_local, open_embedding
from qianxun.models.lazy import LazyEmbedding
from qianxun.pipelines.base import IndexTime, OpenBase, Serving, stamp_for
from qianxun.pipelines.configuring import MODEL_KEYS, changed, configure, flat
from qianxun.pipelines.events import RAGIndexEventHandler
from qianxun.pipelines.explain import explained
from qianxun.pipelines.explanation import Explained
from qianxun.pipelines.hybrid_search import HybridSearchEngine
from qianxun.pipelines.indexer import keep_indexing
from qianxun.pipelines.indexing import Drained, retry_due
from qianxun.pipelines.ingest import Labels, Report, Watch, accept, submission, take, take_file, take_files
from qianxun.pipelines.journal import Journal
from qianxun.pipelines.knowledge_base import KnowledgeBaseManager
from qianxun.pipelines.model_registry import RegisteredEmbedding, Registry, is_ref
from qianxun.pipelines.model_threads import ModelThreads
from qianxun.pipelines.open_bases import OpenBases
from qianxun.pipelines.options import FusionName, Mode, RecallOptions, check, search_options
from qianxun.pipelines.recall import recall_kept
from qianxun.pipelines.steps import Recalled
from qianxun.pipelines.upkeep import Verdict, catch_up, keep_up, rebuild, verify
from qianxun.ports import Cache, EmbeddingModel, IndexBackend
from qianxun.rank.calibrate import UNCALIBRATED, Curves
from qianxun.records import Records, bases, chunks, listing, logs, outbox
from qianxun.records.bases import LOCAL_TENANT
from qianxun.records.database import sqlite_url
from qianxun.records.logs import Feedback, LogEntry
from qianxun.records.tenancy import BaseRecords
from qianxun.registry import create_index_backend
from qianxun.settings import Settings, load
from qianxun.shelf import OwnShelf, Shelf, open_registry
from qianxun.types import (
    EVERYTHING,
    Accepted,
    Chunk,
    Document,
    DocumentState,
    Filter,
    KnowledgeBase,
    Recall,
)

log = logging.getLogger(__name__)

NO_MODEL = "none"


def _unwatched(_: Any) -> None:
    return None


@dataclass
class _Hooks:
    """Who wants to know. One value for all tenants, so that a hook set late, or on one of them, hears of all."""

    recalled: Callable[[Recalled], None] = _unwatched
    indexed: Callable[[IndexTime], None] = _unwatched


@dataclass
class Engine:
    """Qianxun over one data folder, as one tenant sees it. Open it with ``async with Engine.open(folder) as engine``.

    `of` gives the same engine as another tenant sees it. What belongs to another tenant is not there: NotFound.
    """

    settings: Settings
    records: Records
    backend: IndexBackend
    parsers: ParserPool
    models: Mapping[str, Any]  # beside the cards: embedding, rerank and chat models that the caller brings along
    shelf: Shelf
    registered: Registry  # models of users; `registry` has this tenant's
    cache: Cache
    journal: Journal
    # Models have threads of their own: one that hangs takes none from the index, the records or another model.
    model_threads: ModelThreads = field(default_factory=ModelThreads, repr=False)
    tenant: str = LOCAL_TENANT
    # Every part is one and the same for all tenants: a field that `of` should not copy by reference has no place here.
    _bases: OpenBases = field(default_factory=OpenBases, repr=False)
    _opened: dict[tuple[str, int], LazyEmbedding] = field(default_factory=dict, repr=False)
    _work: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _hooks: _Hooks = field(default_factory=_Hooks, repr=False)

    @staticmethod
    @asynccontextmanager
    async def open(
        data: str | Path | None = None,
        *,
        settings: Settings | None = None,
        models: Mapping[str, Any] | None = None,
        background: bool = True,
    ) -> AsyncIterator[Engine]:
        """Owns the folder until the block ends.

        With ``background`` an indexer works through the outbox and retries beside the caller; without it, only the
        calls that promise a searchable result do.
        """
        settings = settings or load(arguments={"data": str(data) if data is not None else None})
        folder = settings.folder
        with owned(folder):
            engine = await asyncio.to_thread(_wire, settings, folder, dict(models or {}))
            indexer = asyncio.create_task(engine._keep_indexing()) if background else None
            try:
                yield engine
            finally:
                if indexer is not None:
                    indexer.cancel()
                    with suppress(asyncio.CancelledError):
                        await indexer
                await engine._close()

    async def _close(self) -> None:
        await self.parsers.aclose()
        await self.journal.close()
        await self._bases.close()
        self.model_threads.shutdown()
        self.shelf.close()
        self.registered.clients.close()
        for model in self._opened.values():
            model.close()
        self.records.close()

    # ── tenants and hooks ────────────────────────────────────────────────────────────────────────

    def of(self, tenant: str) -> Engine:
        """The same engine as another tenant sees it: its own bases and logs, every part shared."""
        return self if tenant == self.tenant else replace(self, tenant=bases.check_tenant(tenant))

    @property
    def registry(self) -> Registry:
        """The models that users of this tenant registered."""
        return self.registered.of(self.tenant)

    @property
    def recalled(self) -> Callable[[Recalled], None]:
        """Told of every search that has ended, whosever it was, in its own task."""
        return self._hooks.recalled

    @recalled.setter
    def recalled(self, hook: Callable[[Recalled], None]) -> None:
        self._hooks.recalled = hook

    @property
    def indexed(self) -> Callable[[IndexTime], None]:
        """Told of every piece of index work that is done, whosever it was."""
        return self._hooks.indexed

    @indexed.setter
    def indexed(self, hook: Callable[[IndexTime], None]) -> None:
        self._hooks.indexed = hook

    # ── knowledge bases ──────────────────────────────────────────────────────────────────────────

    async def create_knowledge_base(
        self,
        name: str,
        *,
        model: str | None = None,
        kind: str = "documents",
        config: Mapping[str, Any] | None = None,
        user_id: str = "",
    ) -> KnowledgeBase:
        """A new base. Without ``model`` it takes the one of the settings, or none (words only) where that is absent.

        ``user_id`` is its owner, whose registered models are the base's defaults.
        """
        chosen, dimension = await asyncio.to_thread(self._choose_model, model, user_id)
        chunking = self.settings.chunking
        standard = {
            "chunk_size": chunking.chunk_size,
            "chunk_overlap": chunking.chunk_overlap,
            "by_meaning": chunking.by_meaning,
        }
        kept = changed(standard, {**(config or {}), **({"user_id": user_id} if user_id else {})})
        await asyncio.to_thread(self._check_models, kept, self._model(chosen, dimension))

        told = {"kind": kind, "embedding_model": chosen, "dimension": dimension, "config": kept}
        created: KnowledgeBase = await self._write(bases.create, name, tenant=self.tenant, **told)
        await self._bases.alone(created.id, lambda: self._build(created))
        return created

    async def _build(self, about: KnowledgeBase) -> None:
        """The first index of a new base, unless somebody has opened the base, or removed it, before it came to that."""
        if self._bases.get(about.id) is not None or about.id not in await self._read(bases.tenants, [about.id]):
            return
        analyser = Analyser(about.config.get("dictionary", ()))
        built = await self.backend.build(about.id, stamp_for(self._model_of(about), analyser))
        await self.backend.switch(about.id, built)
        await built.close()

    async def rename(self, knowledge_base: int, name: str) -> KnowledgeBase:
        """Gives the base another name. Raises AlreadyThere when another base of the tenant has it."""
        base = await self.base(knowledge_base)

        def write() -> KnowledgeBase:
            with base.records.writing() as tx:
                base.about = bases.rename(tx, base.id, name, tenant=self.tenant)
                return base.about

        async with base.configuring:
            return await asyncio.to_thread(write)

    async def configure(
        self, knowledge_base: int, changes: Mapping[str, Any], *, watch: Any = _unwatched
    ) -> KnowledgeBase:
        """Changes a base's configuration, at once: ``{"search.fusion": "rrf", "search.weights": None}``.

        None gives the choice back to the settings. Raises BadInput or NotFound, and keeps nothing, for what cannot
        work. A changed dictionary makes the index anew before this returns.
        """
        base = await self.base(knowledge_base)
        await asyncio.to_thread(self._check_models, changes, base.model)
        with self._using(base):
            return await configure(base, changes, watch)

    def _check_models(self, config: Mapping[str, Any], embedding: EmbeddingModel | None) -> None:
        """A name that no model has would make every search fail, or every document go without questions."""
        own = OwnShelf(self.shelf, self.registry)
        for name, value in flat(config).items():
            if name == "search.rerank" and isinstance(value, str):
                own.check_rerank(value, embedding)
            elif name in MODEL_KEYS and isinstance(value, str):
                own.check_chat(value)

    async def knowledge_bases(self, *, limit: int | None = None, after: int = 0) -> tuple[KnowledgeBase, ...]:
        """In the order of their ids; ``after`` is the id at which the last page ended."""
        found: tuple[KnowledgeBase, ...] = await self._read(bases.every, tenant=self.tenant, limit=limit, after=after)
        return found

    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase:
        """By id, or by name."""
        find = bases.get if isinstance(name_or_id, int) else bases.by_name
        found: KnowledgeBase = await self._read(find, name_or_id, tenant=self.tenant)
        return found

    async def delete_knowledge_base(self, knowledge_base: int) -> None:
        """The base with everything in it. Nothing of it can be returned from now on."""
        await self._read(bases.require, knowledge_base, tenant=self.tenant)  # a stranger waits for nothing
        await self._bases.alone(knowledge_base, lambda: self._remove(knowledge_base))

    async def _remove(self, knowledge_base: int) -> None:
        # The records first: whatever works on the base finds it gone with its next transaction, and lets go.
        await self._write(bases.remove, knowledge_base, tenant=self.tenant)
        base = self._bases.get(knowledge_base)
        if base is not None:
            self._bases.forget(knowledge_base)
            async with base.indexing:
                await base.serving.retire()
        await self.backend.drop(knowledge_base)

    async def statistics(self, knowledge_base: int) -> dict[str, int]:
        """How many documents stand in which state, how many chunks and tables there are."""
        found: dict[str, int] = await self._read_base(listing.tally, knowledge_base)
        return found

    # ── documents ────────────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        knowledge_base: int,
        paths: Sequence[str | Path],
        *,
        labels: Labels | None = None,
        watch: Watch = _unwatched,
    ) -> Report:
        """Files and folders in; searchable when it returns. Unchanged files are passed over."""
        base = await self.base(knowledge_base)
        with self._using(base):
            await retry_due(base)
            return await take_files(base, [Path(path) for path in paths], self.parsers, labels or Labels(), watch)

    async def add_file(
        self,
        knowledge_base: int,
        path: Path,
        *,
        name: str,
        doc_id: str = "",
        labels: Labels | None = None,
        wait: bool = True,
    ) -> Accepted:
        """One uploaded file, known by its ``name``, parsed in a child process. Raises Refused, saying why.

        Without a ``doc_id`` the same name replaces what the same user uploaded under it to the same project. With
        ``wait`` it is searchable when this returns, without it durable.
        """
        base = await self.base(knowledge_base)
        with self._using(base):
            taken = await take_file(base, path, self.parsers, labels or Labels(), name=name, doc_id=doc_id, wait=wait)
            if not wait:
                self.wake()
            return taken

    async def add_documents(
        self, knowledge_base: int, batch: Sequence[Document], *, wait: bool = True
    ) -> list[Accepted]:
        """Documents in. With ``wait`` they are searchable when it returns, without it they are durable."""
        base = await self.base(knowledge_base)
        with self._using(base):
            if wait:
                return await take(base, batch)
            offered = await asyncio.to_thread(lambda: [submission(base, document) for document in batch])
            accepted = await accept(base, offered)
            self.wake()
            return accepted

    async def delete_document(self, knowledge_base: int, doc_id: str) -> bool:
        """Answers whether there was such a document. It cannot be returned from now on."""
        base = await self.base(knowledge_base)
        with self._using(base):
            return await KnowledgeBaseManager(base).delete_document(doc_id)

    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState:
        found: DocumentState = await self._read_base(listing.state, knowledge_base, doc_id)
        return found

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
        """In the order of their ids; ``after`` is the id at which the last page ended."""
        found: list[DocumentState] = await self._read_base(listing.states, knowledge_base, limit=limit, after=after)
        return found

    async def chunks(self, knowledge_base: int, doc_id: str) -> list[Chunk]:
        """The chunks that serve, in the order of the text."""
        found: list[Chunk] = await self._read_base(chunks.of_document, knowledge_base, doc_id)
        return found

    async def events(self, knowledge_base: int) -> RAGIndexEventHandler:
        """Takes document events for one base."""
        return RAGIndexEventHandler(await self.base(knowledge_base), self.wake)

    async def manager(self, knowledge_base: int) -> KnowledgeBaseManager:
        return KnowledgeBaseManager(await self.base(knowledge_base))

    # ── recall ───────────────────────────────────────────────────────────────────────────────────

    async def retrieve(
        self,
        knowledge_base: int,
        query: str,
        *,
        top_k: int | None = None,
        mode: Mode = "hybrid",
        threshold: float = 0.0,
        where: Filter = EVERYTHING,
        doc_ids: Sequence[str] = (),
        fusion: FusionName | None = None,
        weights: Mapping[str, float] | None = None,
        rerank: str | None = None,
        fuzzy: bool | None = None,
        trace_id: str = "",
    ) -> Recall:
        """The chunks that answer a query, best first. What is left out is the base's choice, then the settings'.

        The answer bears the ``trace_id`` of the request that asked, or one of its own.
        """
        base = await self.base(knowledge_base)
        if rerank is not None and is_ref(rerank):  # a base's own may be gone meanwhile; one that is asked for is there
            await asyncio.to_thread(self.registry.find, rerank)
        chosen = {"top_k": top_k, "fusion": fusion, "weights": weights, "rerank": rerank, "fuzzy": fuzzy}
        options = search_options(self.settings.search, base.about.config, chosen)
        options = replace(options, mode=mode, threshold=threshold, where=where, doc_ids=tuple(doc_ids))
        check(options)
        return await self._recall(base, query, options, trace_id)

    async def explain(self, knowledge_base: int, query: str, chunk_id: str = "", **options: Any) -> Explained:
        """How each result of `retrieve` with these options came by its score; and why the chunk is, or is not, one."""
        base = await self.base(knowledge_base)
        chosen = search_options(self.settings.search, base.about.config, options)
        with self._using(base):
            return await explained(base, query, replace(chosen, doc_ids=tuple(chosen.doc_ids)), chunk_id)

    async def hybrid_search(
        self,
        knowledge_base: int,
        semantic_weight: float = 0.7,
        keyword_weight: float = 0.3,
        *,
        fusion: FusionName = "rrf",
    ) -> HybridSearchEngine:
        """Searches one base for one user's one project at a time."""
        base = await self.base(knowledge_base)
        options = search_options(self.settings.search, {}, {})
        return HybridSearchEngine(base, semantic_weight, keyword_weight, fusion, self._recall, options)

    async def _recall(self, base: OpenBase, query: str, options: RecallOptions, trace_id: str = "") -> Recall:
        started = time.perf_counter()
        seconds = self.settings.search.cache_seconds
        try:
            with self._using(base):
                answer = await recall_kept(base, query, options, self.cache, self.journal, seconds, trace_id)
        except RecallFailed:
            self.recalled(Recalled(options.mode, started, time.perf_counter() - started, None))
            raise
        self.recalled(Recalled(options.mode, started, time.perf_counter() - started, answer))
        return answer

    # ── the log of recalls ───────────────────────────────────────────────────────────────────────

    async def logs(
        self,
        *,
        knowledge_base: int | None = None,
        zero: bool = False,
        slow_ms: float | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[LogEntry]:
        """What was searched for, the newest first; ``before`` is the id at which the last page ended."""
        await self.journal.flush()  # what was searched for a moment ago is among them
        asked = {"knowledge_base": knowledge_base, "zero": zero, "slow_ms": slow_ms, "limit": limit, "before": before}
        found: list[LogEntry] = await self._read(logs.listed, tenant=self.tenant, **asked)
        return found

    async def log(self, log_id: int) -> LogEntry:
        await self.journal.flush()
        found: LogEntry = await self._read(logs.get, log_id, tenant=self.tenant)
        return found

    async def feedback(self, log_id: int, feedback: Feedback) -> LogEntry:
        """Keeps what a person thinks of an answer, in the place of what was said of it before."""
        await self.journal.flush()
        rated: LogEntry = await self._write(logs.rate, log_id, feedback, tenant=self.tenant)
        return rated

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────

    async def verify(self, knowledge_base: int) -> Verdict:
        base = await self.base(knowledge_base)
        with self._using(base):
            return await verify(base)

    async def rebuild(self, knowledge_base: int, *, model: str | None = None, watch: Any = _unwatched) -> int:
        """Makes the index anew; with ``model``, under another model ("none": without one)."""
        base = await self.base(knowledge_base)
        wanted = base.model
        if model is not None:
            chosen, dimension = await asyncio.to_thread(self._choose_model, model)
            wanted = self._model(chosen, dimension)
        with self._using(base):
            return await rebuild(base, wanted, watch)

    async def drain(self, knowledge_base: int) -> Drained:
        """Works through what is waiting for the index, retries that are due included."""
        base = await self.base(knowledge_base)
        with self._using(base):
            await retry_due(base)
            return await keep_up(base)

    async def queue_depth(self) -> int:
        """How many changes wait for their index, in the bases of all tenants."""
        depth: int = await self._read(outbox.depth_of_all)
        return depth

    def wake(self) -> None:
        """There is work for the indexer."""
        self._work.set()

    async def _keep_indexing(self) -> None:
        await keep_indexing(self.records, self._work, lambda tenant, base: self.of(tenant).drain(base))

    # ── open bases ───────────────────────────────────────────────────────────────────────────────

    async def base(self, knowledge_base: int) -> OpenBase:
        """The base, opened: its index is there, sound, and caught up with what the records hold ready."""
        held = self._bases.get(knowledge_base)
        if held is None:
            await self._read(bases.require, knowledge_base, tenant=self.tenant)  # a stranger waits for nothing
            held = await self._bases.opened(knowledge_base, lambda: self._open_base(knowledge_base))
        if held.about.tenant != self.tenant:
            raise bases.missing(knowledge_base)
        return held

    @contextmanager
    def _using(self, base: OpenBase) -> Iterator[None]:
        """Work on a base that somebody removes meanwhile may fail in any way, or find nothing: the base is gone."""
        try:
            yield
        except asyncio.CancelledError:
            self.wake()  # what was accepted by then is still to be indexed
            raise
        except Exception as error:  # raised again, or in its place why
            self.wake()
            if not self._bases.holds(base):
                raise bases.missing(base.id) from error
            raise
        if not self._bases.holds(base):
            raise bases.missing(base.id)

    async def _open_base(self, knowledge_base: int) -> OpenBase:
        about: KnowledgeBase = await self._read(bases.get, knowledge_base, tenant=self.tenant)
        config = about.config
        analyser = Analyser(config.get("dictionary", ()))
        model = self._model_of(about)
        stamp = stamp_for(model, analyser)
        unusable = ""
        try:
            index = await self.backend.open(about.id, stamp)
        except IndexUnusable as error:
            unusable = str(error)
            index = await self.backend.build(about.id, stamp)
        base = OpenBase(
            about=about,
            records=BaseRecords(self.records, about.id, about.tenant),
            backend=self.backend,
            serving=Serving(index, model),
            splitter=ChunkSplitter(config["chunk_size"], config["chunk_overlap"]),
            analyser=analyser,
            by_meaning=bool(config.get("by_meaning")) and model is not None,
            models=OwnShelf(self.shelf, self.registry, lambda: str(base.about.config.get("user_id", ""))),
            curves=self._curves(about.embedding_model),
            model_threads=self.model_threads,
            indexed=lambda done: self._hooks.indexed(done),
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

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def _choose_model(self, asked: str | None, owner: str = "") -> tuple[str, int]:
        """(name, dimension) for a base; ("", 0) where there is no model. Nothing asked: the owner's default first."""
        if asked is None and owner and (default := self.registry.default(owner, "embedding")) is not None:
            asked = default.ref
        if asked is not None and is_ref(asked):
            return asked, self.registry.embedding(asked).dimension
        vectors = self.settings.vectorization
        name = asked or vectors.model
        if name == NO_MODEL:
            return "", 0
        if name in self.models:
            return name, self.models[name].dimension
        if vectors.base_url and name == vectors.model:
            if vectors.dimension < 1:
                raise BadSettings(
                    "设置了 vectorization.base_url，却没有向量的维度", hint="再设置 vectorization.dimension"
                )
            return name, vectors.dimension
        if name.startswith(SENTENCE_PREFIX):
            return name, open_model(self.settings, name).dimension  # only the model itself knows
        known = card(name)
        if find_local(name, self._model_folders()) is None:
            if asked:
                raise ModelUnavailable(f"模型 {name} 还没有下载", hint=f"先运行 qianxun models pull {name}")
            log.warning("模型 %s 还没有下载，知识库只按词语检索；可运行 qianxun models pull %s", name, name)
            return "", 0
        return known.name, known.dimension

    def _model_of(self, about: KnowledgeBase) -> EmbeddingModel | None:
        return self._model(about.embedding_model, about.dimension)

    def _model(self, name: str, dimension: int) -> EmbeddingModel | None:
        if not name:
            return None
        if is_ref(name):
            return RegisteredEmbedding(self.registry, name, dimension)
        held = self._opened.get((name, dimension))
        if held is None:  # one for all bases: its weights are loaded once
            held = LazyEmbedding(name, dimension, lambda: self.models.get(name) or open_model(self.settings, name))
            self._opened[name, dimension] = held
        return held

    def _curves(self, model: str) -> Curves:
        """What a model's scores mean: as fitted for it by the user, or on its card; else as they are."""
        vectors = self.settings.vectorization
        known = next((row for row in CARDS if row.name == model), None)
        curves = Curves(known.calibration, known.hybrid, known.reranked) if known is not None else UNCALIBRATED
        if vectors.calibration_slope > 0.0 and model == vectors.model:
            return replace(curves, cosine=(vectors.calibration_midpoint, vectors.calibration_slope))
        return curves

    def _model_folders(self) -> list[Path]:
        return model_folders(self.settings)

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    async def _read(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return await asyncio.to_thread(_within, self.records.reading, work, *arguments, **named)

    async def _write(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return await asyncio.to_thread(_within, self.records.writing, work, *arguments, **named)

    async def _read_base(self, work: Callable[..., Any], knowledge_base: int, *arguments: Any, **named: Any) -> Any:
        """``work`` on what is in a base, in a transaction that begins with whose it is."""
        theirs = BaseRecords(self.records, knowledge_base, self.tenant)
        return await asyncio.to_thread(_within, theirs.reading, work, knowledge_base, *arguments, **named)


def _within(transaction: Callable[[], Any], work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    with transaction() as tx:
        return work(tx, *arguments, **named)


def model_folders(settings: Settings) -> list[Path]:
    """Where model files are looked for: the folders of the settings, then where `models pull` puts them."""
    vectors = settings.vectorization
    return [Path(folder).expanduser() for folder in (*vectors.model_folders, vectors.model_home)]


def open_model(settings: Settings, name: str) -> EmbeddingModel:
    """The embedding model that a name means under these settings."""
    vectors = settings.vectorization
    if vectors.base_url and name == vectors.model:
        return open_embedding(
            RemoteEndpoint(
                base_url=vectors.base_url,
                model=name,
                dimension=vectors.dimension,
                api_key=vectors.api_key,
                batch_size=vectors.batch_size,
                timeout_seconds=vectors.timeout_seconds,
            )
        )
    return open_embedding(name, folders=model_folders(settings), threads=vectors.threads, device=vectors.device)


def _wire(settings: Settings, folder: Path, models: Mapping[str, Any]) -> Engine:
    parsing = settings.parsing
    limits = ParseLimits(file_bytes=parsing.file_megabytes * MIB, seconds=parsing.seconds, ocr=parsing.ocr)
    records = Records.open(settings.records.url or sqlite_url(folder / "qianxun.db"))
    threads = ModelThreads()
    return Engine(
        settings=settings,
        records=records,
        backend=create_index_backend(
            settings.index.backend, root=folder / "index", exact_limit=settings.index.exact_limit
        ),
        parsers=ParserPool(parsing.workers, limits),
        models=models,
        shelf=Shelf(settings, model_folders(settings), models),
        registered=open_registry(settings, records, threads),
        model_threads=threads,
        cache=MemoryCache(settings.search.cache_entries),
        journal=Journal(records, settings.log.keep_days, settings.log.keep_rows),
    )
