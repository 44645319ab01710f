"""The facade: what can be done with knowledge bases, documents, searches and questions. `wiring` makes an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import Answer, AnswerEvent, Done, Failed
from qianxun.core.governance.access import Principal, principal_of
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.options import (
    AskChoices,
    AskOptions,
    FusionName,
    QueryMode,
    SearchChoices,
    TablesOptions,
    TextsOptions,
    search_options,
)
from qianxun.core.ports import Cache, EmbeddingModel, IndexBackend, nothing
from qianxun.core.types import (
    EVERYTHING,
    LOCAL_TENANT,
    Accepted,
    Chunk,
    Document,
    DocumentState,
    Filter,
    KnowledgeBase,
    Recall,
)
from qianxun.engine.embedding_models import Embeddings
from qianxun.engine.facades import Admin, Contents, Logs, Searches
from qianxun.engine.folder_lock import owned
from qianxun.engine.governance.facade import Governance
from qianxun.engine.governance.proposals import propose_rules
from qianxun.engine.model_catalog import BaseModels, ModelCatalog, chosen_for
from qianxun.engine.open_bases import OpenBases
from qianxun.engine.settings import Settings, load
from qianxun.engine.storage import is_shared
from qianxun.engine.wiring import Hooks, run_alongside, run_background, wire
from qianxun.indexing.inbox import Inbox
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.jobs.operations import Operations
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.records import Records, bases, chunks, listing
from qianxun.records.tenancy import BaseRecords, read_only
from qianxun.retrieve.recall_cache import Lifetimes
from qianxun.retrieve.search_log import Journal

if TYPE_CHECKING:
    from qianxun.answer.state import Answering
    from qianxun.core.explanation import Explained
    from qianxun.core.ingest_types import Labels, Report, Watch
    from qianxun.engine.multi_base_search import MultiBaseRecall
    from qianxun.examples.store import ExampleStore
    from qianxun.graph.curate import GraphCurator
    from qianxun.graph.modes import ModeRecall, Surroundings
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph
    from qianxun.indexing.events import RAGIndexEventHandler
    from qianxun.indexing.knowledge_base import KnowledgeBaseManager
    from qianxun.indexing.outbox_indexer import Drained
    from qianxun.retrieve.hybrid_search import HybridSearchEngine

# A process that only searches loads only what a search needs: ingest, answers and the graph are three quarters of the
# code, and each is imported by the methods that use it (docs/decisions/0006-recall-speed.md). The types of questions
# and answers are here all the same: frameworks that make an agent's tool of such a method evaluate its annotations.


@dataclass
class Engine:
    """Qianxun over one data folder, as one tenant sees it. Open it with ``async with Engine.open(folder) as engine``.

    Knowledge bases are named by their ids. Every call raises NotFound for a base that the tenant does not have.
    """

    settings: Settings
    records: Records
    backend: IndexBackend
    parsers: ParserPool
    embeddings: Embeddings
    catalog: ModelCatalog  # rerank and chat models
    registered: Registry  # models of users; `registry` has this tenant's
    cache: Cache
    lifetimes: Lifetimes
    journal: Journal
    hooks: Hooks = field(repr=False)
    operations: Operations = field(repr=False)  # of all tenants
    # Models have threads of their own: one that hangs takes none from the index, the records or another model.
    model_threads: ModelThreads = field(repr=False)
    inbox: Inbox = field(repr=False)  # uploads that are not read yet
    _bases: OpenBases = field(repr=False)
    _work: asyncio.Event = field(repr=False)
    # Every other part is shared by all tenants: a field that `of` should not copy by reference has no place here.
    tenant: str = LOCAL_TENANT
    principal: Principal | None = None  # on whose behalf it reads; None: as the owner, who sees everything

    @staticmethod
    @asynccontextmanager
    async def open(
        data: str | Path | None = None,
        *,
        settings: Settings | None = None,
        models: Mapping[str, Any] | None = None,
        background: bool | Literal["worker"] = True,
        reader: bool = False,
    ) -> AsyncIterator[Engine]:
        """Opens a data folder and owns it until the block ends; with records and index on servers it is one of any
        number of engines on them.

        Without ``settings`` they are read from file and environment. ``models`` are the caller's own, by name: ours, or
        those of sentence-transformers and LangChain. With ``background`` tasks index, retry, learn words and build
        graphs, as "worker" also after the writes of other processes; without it, calls that wait for their result index
        what they add. A ``reader`` only searches, beside the process that owns the folder. Raises FolderInUse,
        BadSettings or RecordsUnavailable.
        """
        settings = settings or load(arguments={"data": str(data) if data is not None else None})
        with nullcontext() if reader else owned(settings.folder, shared=is_shared(settings)):
            engine = await asyncio.to_thread(wire, Engine, settings, dict(models or {}), reader=reader)
            try:
                async with run_alongside(*engine._works(background if not reader else False)):
                    yield engine
            finally:
                await engine._close(finish=not background)

    def _works(self, background: bool | Literal["worker"]) -> Iterator[Coroutine[Any, Any, None]]:
        """What goes on beside the calls; also without ``background``, what others purge leaves this memory, too."""
        if background:
            parts = (self.of, self.records, self._work, self._bases.every, self.settings.events, self.inbox)
            yield run_background(*parts, follow=background == "worker")
        if self._bases.has_others:
            from qianxun.bases.forget import forget_documents
            from qianxun.jobs.follow_writes import follow_purges

            yield follow_purges(self.records, lambda: forget_documents(self._bases.every(), self.cache))

    async def _close(self, *, finish: bool) -> None:
        await self.operations.close()
        await self.parsers.aclose()
        await self.journal.close()
        await self._bases.close(finish=finish)
        await self.cache.aclose()
        self.model_threads.shutdown()
        self.catalog.close()
        self.registered.clients.close()
        self.embeddings.close()
        self.records.close()

    # ── tenants ──────────────────────────────────────────────────────────────────────────────────

    def of(self, tenant: str) -> Engine:
        """The same engine as another tenant sees it. Raises BadInput for what cannot be a tenant's name."""
        return self if tenant == self.tenant else replace(self, tenant=bases.check_tenant(tenant))

    def as_principal(self, *labels: str, name: str = "") -> Engine:
        """The same engine as one with these labels (``user:alice``, ``group:财务``) sees it: it can only read, and what
        it may not see is not there; without labels, as anybody sees it. Raises BadInput for what is no label."""
        return replace(self, principal=principal_of(labels, name))

    def on_behalf_of(self, principal: Principal | None) -> Engine:
        """The same for a principal that was made out already; None: the owner, who sees everything."""
        return self if principal == self.principal else replace(self, principal=principal)

    @property
    def registry(self) -> Registry:
        """The models that users of this tenant registered."""
        return self.registered.of(self.tenant)

    @cached_property
    def examples(self) -> ExampleStore:
        """The example library of all tenants, in the records' database; `ExampleStore.prepare` makes its tables."""
        from qianxun.engine.example_library import example_store

        return example_store(self.settings, self.records, self.embeddings, self.registered)

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
        """Creates a base. Without ``model`` it has that of the settings, or none (words only) if its files are missing.

        ``user_id`` is its owner, whose registered models are the base's defaults. Raises AlreadyThere for a name that
        is taken, BadInput, NotFound or ModelUnavailable for a configuration or model that cannot be used.
        """
        self._require_owner()
        changes = {**(config or {}), **({"user_id": user_id} if user_id else {})}
        chosen = await chosen_for(self.embeddings, self._models, self.settings.chunking, model, changes)
        created = await self.records.write(lambda tx: bases.create(tx, name, tenant=self.tenant, kind=kind, **chosen))
        await self._bases.create(created)
        return created

    async def rename(self, knowledge_base: int, name: str) -> KnowledgeBase:
        """Renames a base. Raises AlreadyThere if another base of the tenant has the name."""
        from qianxun.engine.configure import rename

        self._require_owner()
        return await rename(await self.base(knowledge_base), name)

    async def configure(
        self, knowledge_base: int, changes: Mapping[str, Any], *, watch: Any = nothing
    ) -> KnowledgeBase:
        """Changes a base's configuration: ``{"search.fusion": "rrf", "search.weights": None}``.

        None leaves the choice to the settings. A changed dictionary rebuilds the index before this returns. Raises
        BadInput, NotFound or ModelUnavailable, and changes nothing, for a value that cannot be used.
        """
        from qianxun.engine.configure import configure

        async with self._changing(knowledge_base) as base:
            await asyncio.to_thread(self._models.check, changes, base.model)
            return await configure(base, changes, watch)

    @property
    def _models(self) -> BaseModels:
        return BaseModels(self.catalog, self.registry)

    async def knowledge_bases(self, *, limit: int | None = None, after: int = 0) -> tuple[KnowledgeBase, ...]:
        """The tenant's bases by id; ``after`` is the id at which the last page ended."""
        return await self.records.read(lambda tx: bases.every(tx, tenant=self.tenant, limit=limit, after=after))

    async def knowledge_base(self, name_or_id: str | int) -> KnowledgeBase:
        """A base by its id or name; of a text that is both, the id counts. Raises NotFound."""
        if isinstance(name_or_id, int):
            return await self.records.read(lambda tx: bases.get(tx, name_or_id, tenant=self.tenant))
        return await self.records.read(lambda tx: bases.find(tx, name_or_id, tenant=self.tenant))

    async def base_id(self, name_or_id: str) -> int:
        """The id of the base that `knowledge_base` finds; without a look at the records for that of an open base."""
        number = int(name_or_id) if name_or_id.isascii() and name_or_id.isdigit() and len(name_or_id) < 19 else 0
        return number if self._bases.is_open(number, self.tenant) else (await self.knowledge_base(name_or_id)).id

    async def delete_knowledge_base(self, knowledge_base: int) -> None:
        """Deletes a base with everything in it."""
        self._require_owner()
        await self._bases.delete(knowledge_base, self.tenant)

    async def statistics(self, knowledge_base: int) -> dict[str, int]:
        """The number of documents in each state, of chunks and of tables."""
        return await self._records_of(knowledge_base).read(lambda tx: listing.tally(tx, knowledge_base))

    # ── documents ────────────────────────────────────────────────────────────────────────────────

    async def add(
        self,
        knowledge_base: int,
        paths: Sequence[str | Path],
        *,
        labels: Labels | None = None,
        watch: Watch = nothing,
        exclude: Sequence[str] = (),
        restore: bool = True,
    ) -> Report:
        """Adds files and folders; they are searchable when it returns. Unchanged files are skipped.

        ``labels`` are given to every document; what an earlier call gave stays where they say nothing else. Returns
        what was added, skipped and refused: a file that cannot be read is refused with its reason and raises nothing.
        ``exclude`` has patterns, as in an ignore file, of files that are left out; without ``restore`` a document that
        people deleted stays deleted.
        """
        from qianxun.core.ingest_types import Labels
        from qianxun.indexing.files import add_files

        async with self._changing(knowledge_base) as base:
            return await add_files(
                base,
                [Path(path) for path in paths],
                labels or Labels(),
                watch,
                exclude=exclude,
                restore=restore,
            )

    async def add_file(
        self,
        knowledge_base: int,
        path: Path,
        *,
        name: str,
        source: str = "",
        relative_path: str = "",
        doc_id: str = "",
        labels: Labels | None = None,
        keep_labels: bool = False,
        restore: bool = True,
        wait: bool = True,
        on_accepted: Callable[[], None] = nothing,
    ) -> Accepted:
        """Adds one uploaded file that users know by its ``name``; it is parsed in a child process.

        ``source`` says where it came from, ``relative_path`` where it is in its folder. Without a ``doc_id`` the same
        name replaces what the same user uploaded under it to the same project. With ``keep_labels`` what was given with
        it earlier stays where ``labels`` say nothing else; without ``restore`` a document that people deleted stays
        deleted. With ``wait`` it is searchable when this returns, without it stored; ``on_accepted`` is called once it
        is stored. Raises Refused with the reason, MissingExtra or BadInput.
        """
        from qianxun.core.ingest_types import Labels
        from qianxun.indexing.files import add_file

        async with self._changing(knowledge_base) as base:
            accepted = await add_file(
                base,
                path,
                labels or Labels(),
                name=name,
                source=source,
                relative_path=relative_path,
                doc_id=doc_id,
                keep_labels=keep_labels,
                restore=restore,
                wait=wait,
                on_accepted=on_accepted,
                inbox=self.inbox,
            )
        if not wait:
            self.wake()
        return accepted

    async def add_documents(
        self,
        knowledge_base: int,
        batch: Sequence[Document],
        *,
        wait: bool = True,
        watch: Watch = nothing,
        on_accepted: Callable[[], None] = nothing,
    ) -> list[Accepted]:
        """Adds documents. With ``wait`` they are searchable when it returns, without it stored.

        They are stored first in either case: whatever happens after ``on_accepted``, they become searchable. Returns
        one `Accepted` per document, in order. Raises BadInput or Refused, and stores nothing, for a document that
        cannot be read or stored.
        """
        from qianxun.indexing.add import add_documents, store_documents

        async with self._changing(knowledge_base) as base:
            if wait:
                return await add_documents(base, batch, watch, on_accepted)
            accepted = await store_documents(base, batch)
        self.wake()
        return accepted

    async def delete_document(self, knowledge_base: int, doc_id: str, *, file_missing: bool = False) -> bool:
        """Deletes a document: no search finds it any more when this returns. Returns True if it existed.

        With ``file_missing`` it goes because its file does: a folder that is followed brings it back with the file.
        """
        from qianxun.indexing.knowledge_base import KnowledgeBaseManager

        async with self._changing(knowledge_base) as base:
            return await KnowledgeBaseManager(base).delete_document(doc_id, file_missing=file_missing)

    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState:
        """Raises NotFound."""
        return await self._records_of(knowledge_base).read(lambda tx: listing.state(tx, knowledge_base, doc_id))

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]:
        """In the order of their ids; ``after`` is the id at which the last page ended."""
        own = self._records_of(knowledge_base)
        return await own.read(lambda tx: listing.states(tx, knowledge_base, limit=limit, after=after))

    async def chunks(self, knowledge_base: int, doc_id: str) -> list[Chunk]:
        """The searchable chunks of a document, in the order of the text. Raises NotFound."""
        return await self._records_of(knowledge_base).read(
            lambda tx: chunks.document_chunks(tx, knowledge_base, doc_id)
        )

    async def events(self, knowledge_base: int) -> RAGIndexEventHandler:
        """Handles document events of another system (created, updated, deleted) for one base."""
        from qianxun.indexing.events import RAGIndexEventHandler

        return RAGIndexEventHandler(await self.manager(knowledge_base))

    async def manager(self, knowledge_base: int) -> KnowledgeBaseManager:
        """Indexes and deletes documents of one base one by one or in batches."""
        from qianxun.indexing.knowledge_base import KnowledgeBaseManager

        self._require_owner()
        return KnowledgeBaseManager(await self.base(knowledge_base), wake=self.wake)

    # ── recall ───────────────────────────────────────────────────────────────────────────────────

    async def retrieve(
        self, knowledge_base: int, query: str, *, trace_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Recall:
        """The chunks that answer a query, best first.

        ``choices`` are fields of `SearchOptions`: top_k, mode, threshold, where, doc_ids, fusion, weights, rerank,
        fuzzy. What is left out is the base's choice, then the settings'. The result carries the ``trace_id`` of the
        request, or one of its own. Raises BadQuery, BadFilter or NotFound.
        """
        base = await self.base(knowledge_base)
        options = await self._searches.options(base, choices)
        return await self._searches.recall(base, query, options, trace_id)

    async def retrieve_many(
        self,
        knowledge_bases: Sequence[int] | Mapping[int, Filter],
        query: str,
        *,
        trace_id: str = "",
        **choices: Unpack[SearchChoices],
    ) -> MultiBaseRecall:
        """The best chunks of several bases together, at most ``top_k``; every result says which base it is in.

        A mapping gives each base a filter of its own: a user's own base under user and project, the platform's under
        none. ``choices`` hold for all, ``where`` beside those filters. A base that cannot answer is in ``degraded``;
        an unknown one raises NotFound, as does one of another tenant.
        """
        from qianxun.engine.multi_base_search import search_bases

        for knowledge_base in knowledge_bases:
            await self.base(knowledge_base)
        recall = await search_bases(self, knowledge_bases, query, trace_id=trace_id, **choices)
        return replace(recall, results=recall.results[: choices.get("top_k") or self.settings.search.top_k])

    @property
    def _searches(self) -> Searches:
        parts = (self.settings, self.registry, self.cache, self.lifetimes, self.journal, self.hooks, self._bases)
        return Searches(*parts)

    async def search_texts(
        self,
        knowledge_base: int,
        query: str,
        top_k: int | None = None,
        *,
        where: Filter = EVERYTHING,
        as_of: str = "",
        trace_id: str = "",
    ) -> LayeredRecall:
        """Searches prose layer by layer: by vector, by keywords, by related terms (docs/operations/searching.md)."""
        base, options = await self.base(knowledge_base), TextsOptions(top_k, where, as_of)
        return await self._searches.texts(base, query, options, trace_id)

    async def search_tables(
        self,
        knowledge_base: int,
        query: str,
        top_k: int | None = None,
        *,
        where: Filter = EVERYTHING,
        as_of: str = "",
        answer: bool = True,
        trace_id: str = "",
    ) -> LayeredRecall:
        """Searches tables layer by layer: by structure, meaning, keywords, related terms; with ``answer`` also answers
        from their cells."""
        base, options = await self.base(knowledge_base), TablesOptions(top_k, where, as_of, answer)
        return await self._searches.tables(base, query, options, trace_id)

    async def explain(
        self, knowledge_base: int, query: str, chunk_id: str = "", **choices: Unpack[SearchChoices]
    ) -> Explained:
        """How each result of `retrieve` with these choices got its score; and why the chunk is, or is not, one."""
        return await self._searches.explain(await self.base(knowledge_base), query, choices, chunk_id)

    async def hybrid_search(
        self,
        knowledge_base: int,
        semantic_weight: float = 0.7,
        keyword_weight: float = 0.3,
        *,
        fusion: FusionName = "rrf",
        platform: int | None = None,
        platform_where: Filter = EVERYTHING,
    ) -> HybridSearchEngine:
        """A search engine that searches one base for one user's one project at a time; and with it the base
        ``platform``, which is for all users, under ``platform_where``.

        Scores fused by rank ("rrf") cannot be compared between questions, and a name that only words find comes late;
        "weighted" is what `retrieve` does (docs/decisions/0007-scores.md).
        """
        from qianxun.retrieve.hybrid_search import HybridSearchEngine

        return HybridSearchEngine(
            await self.base(knowledge_base),
            semantic_weight=semantic_weight,
            keyword_weight=keyword_weight,
            fusion=fusion,
            search_with=self._searches.recall,
            options=search_options(self.settings.search, {}, {}),
            platform=None if platform is None else await self.base(platform),
            platform_where=platform_where,
        )

    async def gather(
        self,
        knowledge_base: int,
        query: str,
        *,
        mode: QueryMode = "mix",
        top_k: int | None = None,
        where: Filter = EVERYTHING,
        doc_ids: Sequence[str] = (),
        as_of: str = "",
        surroundings: Surroundings | None = None,
        trace_id: str = "",
    ) -> ModeRecall:
        """The chunks that one query mode finds, best first, and the context that the base's graph gives to the question
        (docs/decisions/0013-knowledge-graph.md). With ``surroundings``, `local` walks what a graph server with a copy
        finds there."""
        choices: SearchChoices = {"top_k": top_k, "where": where, "doc_ids": doc_ids, "as_of": as_of}
        base = await self.base(knowledge_base)
        return await self._searches.gather(base, query, mode, choices, surroundings, trace_id)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self, knowledge_base: int, question: str, *, trace_id: str = "", **choices: Unpack[AskChoices]
    ) -> Answer:
        """Answers a question from a base, every sentence with its sources; or says that the sources have no answer.

        ``choices`` are fields of `AskOptions`: mode (None: as fits the question), top_k, where, history (the turns
        before the question, ``{"role", "content"}``, the latest last), multimodal_content. Where a base has no language
        model, the answer is made of the sources' own sentences.
        """
        from qianxun.answer.run import answer_question

        options = AskOptions(**choices)
        answering = await self.answering(knowledge_base, options, question)
        with self._bases.using(answering.base):
            return await answer_question(answering, question, options, trace_id=trace_id)

    async def ask_stream(
        self,
        knowledge_base: int,
        question: str,
        *,
        checked: bool = False,
        trace_id: str = "",
        **choices: Unpack[AskChoices],
    ) -> AsyncGenerator[AnswerEvent, None]:
        """`ask` as a stream: `SourcesFound`, `Token`, `SentenceCited`, and at the end `Done` or `Failed`.

        With ``checked`` the text comes a sentence at a time, once it has been verified against its sources: nothing
        that `Done` is without, for callers who cannot take text back. Closing the generator, or cancelling the task,
        ends the model's call.
        """
        from qianxun.answer.run import answer_stream

        options = AskOptions(**choices)
        answering = replace(await self.answering(knowledge_base, options, question), only_checked=checked)
        with self._bases.using(answering.base):
            events = answer_stream(answering, question, options, trace_id=trace_id)
            last: AnswerEvent | None = None  # sent once it is sure that the base still exists
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Done | Failed):
                        last = event
                    else:
                        yield event
        if last is not None:
            yield last

    async def answering(self, knowledge_base: int, options: AskOptions | None = None, question: str = "") -> Answering:
        """What the steps of `qianxun.answer` work with, for callers who take them one by one. A ``question`` may choose
        the day as of which it is answered."""
        from qianxun.engine.answer_steps import answering

        base = await self.base(knowledge_base)
        return await answering(base, options or AskOptions(), question, self.settings, self.parsers, self.journal)

    # ── the graph ────────────────────────────────────────────────────────────────────────────────

    async def graph(self, knowledge_base: int, *, where: Filter = EVERYTHING) -> KnowledgeGraph:
        """The knowledge graph of a base, up to date with its documents: entities, relations and their evidence.

        Under a filter it is the graph of the chunks that pass it.
        """
        from qianxun.graph.build import graph_of

        async with self._bases.opened(knowledge_base, self.tenant, self.principal) as base:
            return await graph_of(base, where)

    async def graph_keeper(self, knowledge_base: int) -> GraphCurator:
        """Shows one base's graph, has its model read for it, merges and splits entities."""
        from qianxun.graph.curate import GraphCurator

        return GraphCurator(await self.base(knowledge_base))

    # ── maintenance ──────────────────────────────────────────────────────────────────────────────

    @property
    def admin(self) -> Admin:
        """Maintenance: verify, rebuild, learn, build and curate the graph, queue depth; bases of all tenants."""

        def embedding(name: str) -> EmbeddingModel | None:
            return self.embeddings.get(*self.embeddings.choose(name, self.registry), self.registry)

        return Admin(self.records, self._changing, embedding, lambda base, to: self._bases.move(base, self.tenant, to))

    @property
    def contents(self) -> Contents:
        """The documents of a base as people look through them: pages, one in full, fields and values, previews."""
        return Contents(self._records_of, self._changing, self.wake)

    @property
    def logs(self) -> Logs:
        """The log of searches and questions."""
        owner = self if self.principal is None else replace(self, principal=None)
        return Logs(self.records, self.journal, self.tenant, lambda one: propose_rules(owner, one), self.principal)

    @property
    def governance(self) -> Governance:
        """What the tenant has to account for: who changed what."""
        return Governance(self)

    async def drain(self, knowledge_base: int) -> Drained:
        """Indexes what is pending and retries what is due: what was added without ``wait`` is searchable then."""
        from qianxun.indexing.maintenance import keep_up
        from qianxun.indexing.outbox_indexer import retry_due

        async with self._changing(knowledge_base) as base:
            await retry_due(base)
            return await keep_up(base)

    def wake(self) -> None:
        """Tells the background indexer that there is work."""
        self._work.set()

    @property
    def is_one_of_many(self) -> bool:
        """Whether other engines may work on the same records at the same time."""
        return self.records.process != 0

    def unusable_bases(self) -> dict[int, str]:
        """Of all tenants: base → why it cannot be opened, or not be searched in full, right now."""
        return self._bases.unusable()

    async def base(self, knowledge_base: int) -> OpenBase:
        """The opened base, for the parts of this package that work on one."""
        return await self._bases.seen(knowledge_base, self.tenant, self.principal)

    def _changing(self, knowledge_base: int) -> AbstractAsyncContextManager[OpenBase]:
        self._require_owner()
        return self._bases.opened(knowledge_base, self.tenant)

    def _require_owner(self) -> None:
        """Raises Forbidden for an engine that reads on behalf of a principal; also where nothing has labels."""
        if self.principal is not None:
            raise read_only(self.principal)

    def _records_of(self, knowledge_base: int) -> BaseRecords:
        return self._bases.records_of(knowledge_base, self.tenant, self.principal)
