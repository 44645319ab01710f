"""The composition root: settings to an engine. The only place where parts are wired."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qianxun.cache.memory import MemoryCache
from qianxun.chinese import Analyser
from qianxun.errors import BadSettings, IndexUnusable, ModelUnavailable, QianxunError, RecallFailed
from qianxun.folder import owned
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.limits import MIB, ParseLimits
from qianxun.ingest.sandbox import ParserPool
from qianxun.models import CARDS, SENTENCE_PREFIX, RemoteEndpoint, card, find_local, open_embedding
from qianxun.models.lazy import LazyEmbedding
from qianxun.pipelines.base import OpenBase, Serving, stamp_for
from qianxun.pipelines.configuring import MODEL_KEYS, changed, configure, flat
from qianxun.pipelines.events import RAGIndexEventHandler
from qianxun.pipelines.explain import explained
from qianxun.pipelines.explanation import Explained
from qianxun.pipelines.hybrid_search import HybridSearchEngine
from qianxun.pipelines.indexing import Drained, retry_due
from qianxun.pipelines.ingest import Labels, Report, Watch, accept, submission, take, take_files
from qianxun.pipelines.journal import Journal
from qianxun.pipelines.knowledge_base import KnowledgeBaseManager
from qianxun.pipelines.model_threads import ModelThreads
from qianxun.pipelines.options import FusionName, Mode, RecallOptions, check, search_options
from qianxun.pipelines.recall import recall_kept
from qianxun.pipelines.steps import Recalled
from qianxun.pipelines.upkeep import Verdict, catch_up, keep_up, rebuild, verify
from qianxun.ports import Cache, EmbeddingModel, IndexBackend
from qianxun.rank.calibrate import UNCALIBRATED, Curves
from qianxun.records import Records, bases, chunks, documents, listing, outbox
from qianxun.records.database import sqlite_url
from qianxun.registry import create_index_backend
from qianxun.settings import Settings, load
from qianxun.shelf import Shelf
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
IDLE_SECONDS = 30.0  # how long the indexer sleeps when nothing wakes it and no retry is due


def _unwatched(_: Any) -> None:
    return None


@dataclass
class Engine:
    """Qianxun over one data folder. Open it with ``async with Engine.open(folder) as engine``."""

    settings: Settings
    records: Records
    backend: IndexBackend
    parsers: ParserPool
    models: Mapping[str, Any]  # beside the cards: embedding, rerank and chat models that the caller brings along
    shelf: Shelf
    cache: Cache
    journal: Journal
    # Models have threads of their own: one that hangs takes none from the index, the records or another model.
    model_threads: ModelThreads = field(default_factory=ModelThreads, repr=False)
    recalled: Callable[[Recalled], None] = _unwatched  # told of every search that has ended, in its own task
    _bases: dict[int, OpenBase] = field(default_factory=dict, repr=False)
    _opened: dict[tuple[str, int], LazyEmbedding] = field(default_factory=dict, repr=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _work: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

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
        for base in self._bases.values():
            await base.serving.retire()
        self.model_threads.shutdown()
        self.shelf.close()
        for model in self._opened.values():
            model.close()
        self.records.close()

    # ── knowledge bases ──────────────────────────────────────────────────────────────────────────

    async def create_knowledge_base(
        self, name: str, *, model: str | None = None, kind: str = "documents", config: Mapping[str, Any] | None = None
    ) -> KnowledgeBase:
        """A new base. Without ``model`` it takes the one of the settings, or none (words only) where that is absent."""
        chosen, dimension = await asyncio.to_thread(self._choose_model, model)
        chunking = self.settings.chunking
        standard = {
            "chunk_size": chunking.chunk_size,
            "chunk_overlap": chunking.chunk_overlap,
            "by_meaning": chunking.by_meaning,
        }
        kept = changed(standard, config or {})
        await asyncio.to_thread(self._check_models, kept, self._model(chosen, dimension))

        def write() -> KnowledgeBase:
            with self.records.writing() as tx:
                return bases.create(tx, name, kind=kind, embedding_model=chosen, dimension=dimension, config=kept)

        created = await asyncio.to_thread(write)
        stamp = stamp_for(self._model(chosen, dimension), Analyser(kept.get("dictionary", ())))
        built = await self.backend.build(created.id, stamp)
        await self.backend.switch(created.id, built)
        await built.close()
        return created

    async def configure(
        self, knowledge_base: int, changes: Mapping[str, Any], *, watch: Any = _unwatched
    ) -> KnowledgeBase:
        """Changes a base's configuration, at once: ``{"search.fusion": "rrf", "search.weights": None}``.

        None gives the choice back to the settings. Raises BadInput or NotFound, and keeps nothing, for what cannot
        work. A changed dictionary makes the index anew before this returns.
        """
        base = await self.base(knowledge_base)
        await asyncio.to_thread(self._check_models, changes, base.model)
        return await configure(base, changes, watch)

    def _check_models(self, config: Mapping[str, Any], embedding: EmbeddingModel | None) -> None:
        """A name that no model has would make every search fail, or every document go without questions."""
        for name, value in flat(config).items():
            if name in MODEL_KEYS and isinstance(value, str):
                _ = self.shelf.rerank(value, embedding) if name == "search.rerank" else self.shelf.chat(value)

    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]:
        return await asyncio.to_thread(self._read, bases.every)

    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase:
        """By id, or by name."""
        find = bases.get if isinstance(name_or_id, int) else bases.by_name
        return await asyncio.to_thread(self._read, find, name_or_id)

    async def delete_knowledge_base(self, knowledge_base: int) -> None:
        """The base with everything in it."""
        base = await self.base(knowledge_base)
        async with base.indexing:
            await asyncio.to_thread(self._write, bases.remove, knowledge_base)
            del self._bases[knowledge_base]
            await base.serving.retire()
            await self.backend.drop(knowledge_base)

    async def statistics(self, knowledge_base: int) -> dict[str, int]:
        """How many documents stand in which state, how many chunks and tables there are."""
        return await asyncio.to_thread(self._read, listing.tally, knowledge_base)

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
        await retry_due(base)
        return await take_files(base, [Path(path) for path in paths], self.parsers, labels or Labels(), watch)

    async def add_documents(
        self, knowledge_base: int, batch: Sequence[Document], *, wait: bool = True
    ) -> list[Accepted]:
        """Documents in. With ``wait`` they are searchable when it returns, without it they are durable."""
        base = await self.base(knowledge_base)
        if wait:
            return await take(base, batch)
        offered = await asyncio.to_thread(lambda: [submission(base, document) for document in batch])
        accepted = await accept(base, offered)
        self.wake()
        return accepted

    async def delete_document(self, knowledge_base: int, doc_id: str) -> bool:
        """Answers whether there was such a document. It cannot be returned from now on."""
        return await KnowledgeBaseManager(await self.base(knowledge_base)).delete_document(doc_id)

    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState:
        return await asyncio.to_thread(self._read, listing.state, knowledge_base, doc_id)

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
        return await asyncio.to_thread(
            self._read, lambda tx: listing.states(tx, knowledge_base, limit=limit, after=after)
        )

    async def chunks(self, knowledge_base: int, doc_id: str) -> list[Chunk]:
        return await asyncio.to_thread(self._read, chunks.of_document, knowledge_base, doc_id)

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
    ) -> Recall:
        """The chunks that answer a query, best first. What is left out is the base's choice, then the settings'."""
        base = await self.base(knowledge_base)
        chosen = {"top_k": top_k, "fusion": fusion, "weights": weights, "rerank": rerank, "fuzzy": fuzzy}
        options = search_options(self.settings.search, base.about.config, chosen)
        options = replace(options, mode=mode, threshold=threshold, where=where, doc_ids=tuple(doc_ids))
        check(options)
        return await self._recall(base, query, options)

    async def explain(self, knowledge_base: int, query: str, chunk_id: str = "", **options: Any) -> Explained:
        """How each result of `retrieve` with these options came by its score; and why the chunk is, or is not, one."""
        base = await self.base(knowledge_base)
        chosen = search_options(self.settings.search, base.about.config, options)
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

    async def _recall(self, base: OpenBase, query: str, options: RecallOptions) -> Recall:
        started = time.perf_counter()
        try:
            answer = await recall_kept(
                base, query, options, self.cache, self.journal, self.settings.search.cache_seconds
            )
        except RecallFailed:
            self.recalled(Recalled(options.mode, started, time.perf_counter() - started, None))
            raise
        self.recalled(Recalled(options.mode, started, time.perf_counter() - started, answer))
        return answer

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────

    async def verify(self, knowledge_base: int) -> Verdict:
        return await verify(await self.base(knowledge_base))

    async def rebuild(self, knowledge_base: int, *, model: str | None = None, watch: Any = _unwatched) -> int:
        """Makes the index anew; with ``model``, under another model ("none": without one)."""
        base = await self.base(knowledge_base)
        wanted = base.model
        if model is not None:
            chosen, dimension = await asyncio.to_thread(self._choose_model, model)
            wanted = self._model(chosen, dimension)
        return await rebuild(base, wanted, watch)

    async def drain(self, knowledge_base: int) -> Drained:
        """Works through what is waiting for the index, retries that are due included."""
        base = await self.base(knowledge_base)
        await retry_due(base)
        return await keep_up(base)

    def wake(self) -> None:
        """There is work for the indexer."""
        self._work.set()

    async def base(self, knowledge_base: int) -> OpenBase:
        """The base, opened: its index is there, sound, and caught up with what the records hold ready."""
        if knowledge_base in self._bases:  # without waiting for another base that is being opened
            return self._bases[knowledge_base]
        async with self._opening:
            if knowledge_base not in self._bases:
                about = await asyncio.to_thread(self._read, bases.get, knowledge_base)
                self._bases[knowledge_base] = await self._open_base(about)
            return self._bases[knowledge_base]

    async def _open_base(self, about: KnowledgeBase) -> OpenBase:
        config = about.config
        analyser = Analyser(config.get("dictionary", ()))
        model = self._model(about.embedding_model, about.dimension)
        stamp = stamp_for(model, analyser)
        unusable = ""
        try:
            index = await self.backend.open(about.id, stamp)
        except IndexUnusable as error:
            unusable = str(error)
            index = await self.backend.build(about.id, stamp)
        base = OpenBase(
            about=about,
            records=self.records,
            backend=self.backend,
            serving=Serving(index, model),
            splitter=ChunkSplitter(config["chunk_size"], config["chunk_overlap"]),
            analyser=analyser,
            by_meaning=bool(config.get("by_meaning")) and model is not None,
            models=self.shelf,
            curves=self._curves(about.embedding_model),
            model_threads=self.model_threads,
        )
        if unusable:
            log.warning("index of base %s is rebuilt from the records: %s", about.id, unusable)
            await rebuild(base, model)
        await catch_up(base)
        return base

    # ── models ───────────────────────────────────────────────────────────────────────────────────

    def _choose_model(self, asked: str | None) -> tuple[str, int]:
        """(name, dimension) for a base; ("", 0) where there is no model."""
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

    def _model(self, name: str, dimension: int) -> EmbeddingModel | None:
        if not name:
            return None
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

    # ── the indexer ──────────────────────────────────────────────────────────────────────────────

    async def _keep_indexing(self) -> None:
        while True:
            pauses = [await self._index_patiently(about.id) for about in await self.knowledge_bases()]
            with suppress(TimeoutError):
                await asyncio.wait_for(self._work.wait(), min(pauses, default=IDLE_SECONDS))
            self._work.clear()

    async def _index_patiently(self, knowledge_base: int) -> float:
        try:
            return await self._index(knowledge_base)
        except QianxunError as error:
            log.error("the indexer goes on after base %s failed: %s", knowledge_base, error)
        except Exception:  # the outer door of a task that must outlive any one failure, and serve the other bases
            log.exception("the indexer goes on after an unexpected failure of base %s", knowledge_base)
        return IDLE_SECONDS

    async def _index(self, knowledge_base: int) -> float:
        """Does what is due for one base; answers the seconds until something else is."""
        waiting = await asyncio.to_thread(self._read, outbox.depth, knowledge_base)
        due = await asyncio.to_thread(self._read, documents.next_retry, knowledge_base)
        if waiting or due is not None:
            await self.drain(knowledge_base)
            due = await asyncio.to_thread(self._read, documents.next_retry, knowledge_base)
        return IDLE_SECONDS if due is None else max(0.1, (due - datetime.now(UTC)).total_seconds())

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def _read(self, work: Any, *arguments: Any) -> Any:
        with self.records.reading() as tx:
            return work(tx, *arguments)

    def _write(self, work: Any, *arguments: Any) -> Any:
        with self.records.writing() as tx:
            return work(tx, *arguments)


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
    return Engine(
        settings=settings,
        records=records,
        backend=create_index_backend(
            settings.index.backend, root=folder / "index", exact_limit=settings.index.exact_limit
        ),
        parsers=ParserPool(parsing.workers, limits),
        models=models,
        shelf=Shelf(settings, model_folders(settings), models),
        cache=MemoryCache(settings.search.cache_entries),
        journal=Journal(records, settings.log.keep_days, settings.log.keep_rows),
    )
