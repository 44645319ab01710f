"""What an engine offers beside adding, finding, asking and deleting: `Engine.contents`, `admin` and `logs`; and how its
search methods search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias, Unpack

from sqlalchemy import Connection

from qianxun.bases.base import OpenBase
from qianxun.bases.in_force import in_force
from qianxun.bases.principal_view import requester_of
from qianxun.core.codec.options import params_of
from qianxun.core.errors import BadInput, RecallFailed
from qianxun.core.governance.access import Principal
from qianxun.core.governance.validity import ANY_TIME, AsOf, checked_as_of
from qianxun.core.ingest_types import DocumentContent, DocumentListing, DocumentQuery, Facet
from qianxun.core.layered_options import with_base_config
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.limits import SLOW_MS
from qianxun.core.log_types import Feedback, LogChoices, LogCount, LogEntry, LogFilter, Recalled
from qianxun.core.model_types import is_ref
from qianxun.core.options import QueryMode, SearchChoices, SearchOptions, TablesOptions, TextsOptions, search_options
from qianxun.core.ports import Cache, EmbeddingModel, nothing
from qianxun.core.types import KnowledgeBase, Piece, Recall, Text, all_of
from qianxun.engine.open_bases import OpenBases
from qianxun.engine.settings import Settings
from qianxun.engine.wiring import Hooks
from qianxun.models.registry import Registry
from qianxun.records import Records, bases, browse, document_heads, documents, logs, outbox
from qianxun.records.tenancy import BaseRecords
from qianxun.retrieve.recall_cache import Lifetimes
from qianxun.retrieve.run import cached_recall
from qianxun.retrieve.search_log import Journal

if TYPE_CHECKING:
    from qianxun.core.explanation import Explained
    from qianxun.core.graph_types import Entity, GraphBuilt
    from qianxun.core.ingest_types import Verdict, Watch
    from qianxun.graph.build import Watch as GraphWatch
    from qianxun.graph.modes import ModeRecall, Surroundings
    from qianxun.retrieve.terms.learn import Learnt

EVERY_DOCUMENT = DocumentQuery()
MOST_STRETCHES = 400  # of time, that one count tells apart

Opened: TypeAlias = Callable[[int], AbstractAsyncContextManager[OpenBase]]


@dataclass(frozen=True, slots=True)
class Admin:
    """Maintenance of knowledge bases. Raises NotFound for the id of a base that the tenant does not have."""

    records: Records
    opened: Opened
    embedding: Callable[[str], EmbeddingModel | None]  # by name; "none": None
    hand_over: Callable[[int, str], Awaitable[KnowledgeBase]]  # a base of this tenant to another one

    async def knowledge_bases(self) -> tuple[KnowledgeBase, ...]:
        """The bases of all tenants, by id: for operators, never for a request."""
        return await self.records.read(bases.across_tenants)

    async def move(self, knowledge_base: int, tenant: str) -> KnowledgeBase:
        """Hands a base over to another tenant with everything in it: from then on it is there alone.

        Its index is rebuilt from the records, without embedding anything again. Searches that were logged stay in the
        log of the tenant that searched. Raises AlreadyThere for a name that is taken there, BadInput for a name that
        no tenant can have and for a base with models that users of its tenant registered.
        """
        return await self.hand_over(knowledge_base, tenant)

    async def verify(self, knowledge_base: int) -> Verdict:
        """Compares the index with the records. Returns what disagrees; nothing is changed."""
        from qianxun.indexing.maintenance import verify

        async with self.opened(knowledge_base) as base:
            return await verify(base)

    async def rebuild(
        self, knowledge_base: int, *, model: str | None = None, watch: Callable[[int], None] = nothing
    ) -> int:
        """Rebuilds the index from the records, with ``model`` under another embedding model ("none": without one).

        Searches use the old index until it is done. Returns the number of chunks. Raises NotFound, ModelUnavailable or
        BadModelReply for a model that cannot be used.
        """
        from qianxun.indexing.maintenance import rebuild

        async with self.opened(knowledge_base) as base:
            chosen = base.model if model is None else await asyncio.to_thread(self.embedding, model)
            return await rebuild(base, chosen, watch)

    async def learn_terms(self, knowledge_base: int, *, seconds: float | None = None) -> Learnt:
        """Learns the base's own words, for the related terms of queries, now instead of in the background."""
        from qianxun.retrieve.terms.learn import SECONDS, learn

        async with self.opened(knowledge_base) as base:
            return await learn(base, SECONDS if seconds is None else seconds)

    async def run_background_work(self, knowledge_base: int, *, seconds: float = 0.0, watch: Watch = nothing) -> str:
        """Does now what the background does after writes: for a process that has none, or that is about to end.

        Retries documents that are due, learns words (for a tenth of ``seconds``, the time that the writes took) and
        reads facts for the graph, with the base's graph model if it has one. Returns a warning for people, or "".
        """
        from qianxun.graph.build import extract_in_background, is_graph_enabled
        from qianxun.graph.llm_build import as_ingest_steps, extract_with_model_in_background
        from qianxun.indexing.maintenance import keep_up
        from qianxun.indexing.outbox_indexer import retry_due
        from qianxun.retrieve.terms.learn import learn_after

        async with self.opened(knowledge_base) as base:
            if await retry_due(base):
                await keep_up(base)
            await learn_after(base, seconds)
            if is_graph_enabled(base):
                await extract_in_background(base)
            return await extract_with_model_in_background(base, as_ingest_steps(watch))

    async def build_graph(self, knowledge_base: int, *, watch: GraphWatch = nothing) -> GraphBuilt:
        """Builds the graph without a model, now instead of in the background or with the next graph question."""
        from qianxun.graph.build import build

        async with self.opened(knowledge_base) as base:
            return await build(base, watch)

    async def merge_entities(self, knowledge_base: int, name: str, alias: str) -> Entity:
        """Makes two entities of the graph one, called ``name``, until `split_entities`. Raises NotFound."""
        from qianxun.graph.curate import GraphCurator

        async with self.opened(knowledge_base) as base:
            return await GraphCurator(base).merge(name, alias)

    async def split_entities(self, knowledge_base: int, name: str) -> tuple[str, ...]:
        """Undoes a merge, or parts a name from aliases that texts give it. Returns the names that are separate now."""
        from qianxun.graph.curate import GraphCurator

        async with self.opened(knowledge_base) as base:
            return await GraphCurator(base).split(name)

    async def queue_depth(self) -> int:
        """The number of changes that wait for their index, in the bases of all tenants."""
        return await self.records.read(outbox.depth_of_all)


@dataclass(frozen=True, slots=True)
class Contents:
    """The documents of bases as people look through them. Raises NotFound for a base that the tenant does not have."""

    records_of: Callable[[int], BaseRecords]
    opened: Opened
    wake: Callable[[], None]

    async def page(
        self,
        knowledge_base: int,
        query: DocumentQuery = EVERY_DOCUMENT,
        *,
        limit: int = 50,
        after: str = "",
        counted: bool = False,
    ) -> DocumentListing:
        """Documents a page at a time; ``after`` is what the last page gave as ``next``. With ``counted`` the listing
        has the number of all pages together. Raises BadInput for a day or a place that is none."""

        def read(tx: Connection) -> DocumentListing:
            wanted = _in_force_on(tx, knowledge_base, query)
            return browse.page(tx, knowledge_base, wanted, limit=limit, after=after, counted=counted)

        return await self.records_of(knowledge_base).read(read)

    async def facets(self, knowledge_base: int) -> tuple[Facet, ...]:
        """The fields that filters know and the values that the newest documents have there."""
        return await self.records_of(knowledge_base).read(lambda tx: browse.facets(tx, knowledge_base))

    async def document(self, knowledge_base: int, doc_id: str) -> DocumentContent:
        """A document with its text, chunks, questions and names. Raises NotFound."""
        return await self.records_of(knowledge_base).read(lambda tx: browse.content(tx, knowledge_base, doc_id))

    async def preview(self, text: Text, chunk_size: int, chunk_overlap: int) -> tuple[Piece, ...]:
        """How a text would be cut with other sizes; nothing is changed. Raises BadInput for sizes that cannot be."""
        from qianxun.ingest.chunk import ChunkSplitter

        return await asyncio.to_thread(ChunkSplitter(chunk_size, chunk_overlap).pieces, text)

    async def retry(self, knowledge_base: int, doc_ids: Sequence[str]) -> int:
        """Tries documents again that wait for their next attempt, or were given up. Returns how many."""
        found = await self.records_of(knowledge_base).write(lambda tx: browse.retry(tx, knowledge_base, doc_ids))
        self.wake()
        return found

    async def delete(self, knowledge_base: int, doc_ids: Sequence[str]) -> int:
        """Deletes documents: no search finds them any more when this returns. Returns how many there were."""
        from qianxun.indexing.maintenance import keep_up

        def remove(tx: Connection) -> int:
            gone = (documents.remove(tx, knowledge_base, doc_id, reason=document_heads.WITHDRAWN) for doc_id in doc_ids)
            return sum(gone)

        async with self.opened(knowledge_base) as base:
            removed = await self.records_of(knowledge_base).write(remove)
            await keep_up(base, preparing=False)
        return removed


def _in_force_on(tx: Connection, knowledge_base: int, query: DocumentQuery) -> DocumentQuery:
    """With the filter that a search as of its day has: a document ends where one that replaces it begins."""
    day = checked_as_of(query.valid_on)
    if not day or day == ANY_TIME:
        return query
    return replace(query, where=all_of(query.where, in_force(tx, knowledge_base).where(AsOf(day, "request"))))


@dataclass(frozen=True, slots=True)
class Logs:
    """The searches and questions of one tenant."""

    records: Records
    journal: Journal
    tenant: str
    propose: Callable[[LogEntry], Awaitable[object]]  # what a rating suggests
    principal: Principal | None = None  # who sees, of bases with access labels, its own searches alone

    async def list(self, *, limit: int = 50, before: int | None = None, **chosen: Unpack[LogChoices]) -> list[LogEntry]:
        """The newest first; ``chosen`` are fields of `LogFilter`. ``before`` is the id at which the last page ended."""
        await self.journal.flush()
        wanted = LogFilter(**chosen)
        return await self.records.read(
            lambda tx: logs.listed(tx, wanted, tenant=self.tenant, limit=limit, before=before, principal=self.principal)
        )

    async def counts(
        self, starts: Sequence[datetime], *, slow_at_ms: float = SLOW_MS, **chosen: Unpack[LogChoices]
    ) -> tuple[LogCount, ...]:
        """How many searches there were from each moment to the next, how many of them found nothing, were slow or
        degraded. ``starts`` are in order; the last stretch ends with ``until``, or now."""
        if not starts or len(starts) > MOST_STRETCHES or sorted(starts) != [*starts]:
            raise BadInput(f"要 1–{MOST_STRETCHES} 个从早到晚的时刻", hint="减少段数，或核对次序")
        await self.journal.flush()
        wanted = LogFilter(**chosen)
        found = await self.records.read(
            lambda tx: logs.counts(tx, wanted, starts, slow_at_ms, tenant=self.tenant, principal=self.principal)
        )
        return tuple(found)

    async def get(self, log_id: int) -> LogEntry:
        """Raises NotFound."""
        await self.journal.flush()
        return await self.records.read(lambda tx: logs.get(tx, log_id, tenant=self.tenant, principal=self.principal))

    async def rate(self, log_id: int, feedback: Feedback) -> LogEntry:
        """Stores a person's feedback on an answer, in place of the earlier one; of the chunks that it names rules
        for the question are proposed. Raises NotFound."""
        await self.journal.flush()
        entry = await self.records.write(
            lambda tx: logs.rate(tx, log_id, feedback, tenant=self.tenant, principal=self.principal)
        )
        await self.propose(entry)
        return entry


@dataclass(frozen=True, slots=True)
class Searches:
    """Searches of opened bases, each logged and counted: what the search methods of `Engine` do."""

    settings: Settings
    registry: Registry  # of the tenant
    cache: Cache
    lifetimes: Lifetimes
    journal: Journal
    hooks: Hooks
    bases: OpenBases

    async def options(self, base: OpenBase, choices: SearchChoices) -> SearchOptions:
        """Raises NotFound for a registered reranker that the caller names and that does not exist. One that the base
        names may have been removed: the search goes on without it."""
        rerank = choices.get("rerank")
        if rerank is not None and is_ref(rerank):
            await asyncio.to_thread(self.registry.expect, rerank, ("rerank",))
        return self._chosen(base, choices)

    def _chosen(self, base: OpenBase, choices: SearchChoices) -> SearchOptions:
        return search_options(self.settings.search, base.about.config, choices)

    async def recall(self, base: OpenBase, query: str, options: SearchOptions, trace_id: str = "") -> Recall:
        def search() -> Awaitable[Recall]:
            return cached_recall(base, query, options, self.cache, self.journal, self.lifetimes, trace_id)

        started = time.perf_counter()
        found = None
        try:
            with self.bases.using(base):
                found = await self.bases.again_if_moved(base, search)
        except RecallFailed:
            self.hooks.recalled(Recalled(options.mode, started, time.perf_counter() - started, None))
            raise
        self.hooks.recalled(Recalled(options.mode, started, time.perf_counter() - started, found))
        return found

    async def explain(self, base: OpenBase, query: str, choices: SearchChoices, chunk_id: str) -> Explained:
        from qianxun.retrieve.explain import explained

        options = await self.options(base, choices)
        with self.bases.using(base):
            return await explained(base, query, options, chunk_id)

    async def gather(
        self,
        base: OpenBase,
        query: str,
        mode: QueryMode,
        choices: SearchChoices,
        surroundings: Surroundings | None,
        trace_id: str,
    ) -> ModeRecall:
        from qianxun.answer.question_log import gather_entry
        from qianxun.graph.modes import gather

        options = self._chosen(base, choices)
        with self.bases.using(base):
            recall = await gather(base, query, mode, options, surroundings=surroundings, trace_id=trace_id)
        entry = gather_entry(base.about, options, recall, elsewhere=surroundings is not None)
        self.journal.note_entry(entry, requester_of(base))
        return recall

    async def texts(self, base: OpenBase, query: str, options: TextsOptions, trace_id: str) -> LayeredRecall:
        from qianxun.retrieve.layered.texts import search_texts

        chosen = with_base_config(self.settings.text_engine, base.about.config, "text_engine")
        search = self._layer_options(base, options)
        return await self._layered(base, options, search_texts(base, query, chosen, search, options.top_k, trace_id))

    async def tables(self, base: OpenBase, query: str, options: TablesOptions, trace_id: str) -> LayeredRecall:
        from qianxun.retrieve.layered.tables import search_tables

        chosen = with_base_config(self.settings.table_engine, base.about.config, "table_engine")
        given = (base, query, chosen, self._layer_options(base, options), options.top_k)
        return await self._layered(base, options, search_tables(*given, answer=options.answer, trace_id=trace_id))

    def _layer_options(self, base: OpenBase, options: TextsOptions | TablesOptions) -> SearchOptions:
        return self._chosen(base, {"top_k": options.top_k, "where": options.where, "as_of": options.as_of})

    async def _layered(
        self, base: OpenBase, options: TextsOptions | TablesOptions, searching: Awaitable[LayeredRecall]
    ) -> LayeredRecall:
        from qianxun.retrieve.layered.ladder import log_layers

        with self.bases.using(base):
            recall = await searching
        self.journal.note(base.about, recall, params_of(options), requester_of(base))
        log_layers(recall)
        self.hooks.layered(recall)
        return recall
