"""An open knowledge base: the parts that searches, indexing and graphs work with, chosen by `engine`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from qianxun.bases.chunk_cache import ChunkCache
from qianxun.bases.document_names import DocumentNames
from qianxun.bases.graph_cache import GraphCache, GraphReader
from qianxun.bases.in_force import NOTHING_KNOWN, InForce
from qianxun.bases.known_terms import KnownTerms
from qianxun.bases.lease import LeaseKeeper
from qianxun.bases.table_cache import TableCache
from qianxun.core.governance.access import Principal
from qianxun.core.governance.corrections import QuestionRule
from qianxun.core.log_types import IndexRebuild, IndexTime
from qianxun.core.ports import ChatKind, ChatModel, EmbeddingModel, Index, IndexBackend, Models, RetrieverArm, nothing
from qianxun.core.system.cache import LRUCache
from qianxun.core.system.fair_slots import FairSlots
from qianxun.core.types import Chunk, IndexStamp, KnowledgeBase, Population
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.models.registry import is_registered
from qianxun.models.threads import ModelThreads
from qianxun.rank.calibrate import UNCALIBRATED, Curves
from qianxun.rank.rerank import RerankCache
from qianxun.records.tenancy import BaseRecords
from qianxun.text.chinese import Analyser

Result = TypeVar("Result")
VIEWS: Final = 200  # principals whose view of a base is kept
FEW_UNREAD: Final = 20  # chunks: a page of results
Version: TypeAlias = tuple[int, int]  # (document, generation)


@dataclass(frozen=True, slots=True)
class ArmTime:
    """How long an arm worked the last time, and for how many words and grams."""

    seconds: float
    terms: int


@dataclass
class Serving:
    """An index and the model it was built by: a search takes both or neither."""

    index: Index
    model: EmbeddingModel | None
    searches: int = 0  # under way right now
    idle: asyncio.Event = field(default_factory=asyncio.Event)  # set when no search uses it
    is_retired: bool = False
    arm_times: dict[tuple[str, bool], ArmTime] = field(default_factory=dict)  # by name, and whether under a filter
    # The state of the records, and the share of tables among their chunks then.
    tables: tuple[int, float] | None = None

    @contextmanager
    def borrow(self) -> Iterator[Serving]:
        self.searches += 1
        try:
            yield self
        finally:
            self.searches -= 1
            if not self.searches:
                self.idle.set()

    async def retire(self) -> None:
        """Closes the index once the last search is done with it."""
        self.is_retired = True
        while self.searches:
            self.idle.clear()
            await self.idle.wait()
        await self.index.close()


class Claims:
    """Stored versions that a task is chunking and embedding: the indexer leaves them to it."""

    def __init__(self) -> None:
        self._done: dict[Version, asyncio.Event | None] = {}  # that somebody waits for, if anybody does

    def __contains__(self, version: Version) -> bool:
        return version in self._done

    def take(self, versions: Iterable[Version]) -> None:
        self._done.update(dict.fromkeys(versions))

    def release(self, versions: Iterable[Version]) -> None:
        for version in versions:
            if (done := self._done.pop(version, None)) is not None:
                done.set()

    async def released(self, versions: Iterable[Version]) -> None:
        """Waits until none of these is claimed."""
        for version in [version for version in versions if version in self._done]:
            if version in self._done:  # still, after the others
                done = self._done[version] = self._done[version] or asyncio.Event()
                await done.wait()


@dataclass
class OpenBase:
    """One knowledge base, opened. A rebuild puts another `Serving` in place under running searches."""

    about: KnowledgeBase
    records: BaseRecords  # as the base's tenant sees it
    backend: IndexBackend
    serving: Serving
    splitter: ChunkSplitter
    analyser: Analyser
    parsers: ParserPool  # processes that read documents
    lease: LeaseKeeper  # on its outbox and its index, where several processes work on them
    # Calls whose documents stay in memory from their acceptance until they are in the index; others wait in the outbox.
    in_memory: FairSlots
    # Fewer than there are threads for records and index, so that searches find one while documents come in.
    committing: FairSlots
    lexicon: str = ""  # the file of a domain's words, by which the graph is typed; "": the shipped one
    by_meaning: bool = False  # chunk boundaries set by the embedding model
    models: Models | None = None  # rerank and chat models, by name
    curves: Curves = UNCALIBRATED
    rerank_cache: RerankCache = field(default_factory=RerankCache)
    terms: KnownTerms = field(default_factory=KnownTerms)  # synonyms and learnt words
    graph: GraphCache = field(default_factory=GraphCache)
    chunks: ChunkCache = field(default_factory=ChunkCache)  # as read at one state of the records
    answers_at: int | None = None  # the state of the records whose answers may be cached
    tables: TableCache = field(default_factory=TableCache)  # stored tables, as read at one state of the records
    names: DocumentNames = field(default_factory=DocumentNames)  # of its documents, as read at one state
    periods: InForce = NOTHING_KNOWN  # when documents are in force, as read at the state ``periods_at``
    periods_at: tuple[int, int] | None = None
    rules: tuple[QuestionRule, ...] = ()  # for questions, as read at the state ``rules_at`` under that model
    rules_at: tuple[int, str] | None = None
    reader: GraphReader = field(default_factory=GraphReader)  # how far a model has read the base for its graph
    view: View | None = None  # set on what a principal sees of a base (`bases.principal_view`)
    views: LRUCache[Principal, OpenBase] = field(default_factory=lambda: LRUCache(VIEWS))  # of the whole base
    model_threads: ModelThreads | None = None  # None: those of the event loop
    arms: Sequence[RetrieverArm] | None = None  # None: the standard ones
    indexed: Callable[[IndexTime], None] = nothing  # after every batch of index work
    rebuilding: Callable[[IndexRebuild], None] = nothing  # before an unusable index is rebuilt
    damaged: Callable[[OpenBase, str], None] = nothing  # when a search finds the index unusable: (base, reason)
    claims: Claims = field(default_factory=Claims)
    # One indexer at a time in this process; searches do not take it.
    indexing: asyncio.Lock = field(default_factory=asyncio.Lock)
    configuring: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def id(self) -> int:
        return self.about.id

    @property
    def index(self) -> Index:
        return self.serving.index

    @property
    def model(self) -> EmbeddingModel | None:
        return self.serving.model

    @property
    def model_name(self) -> str:
        return self.model.name if self.model else ""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Of which base, at which state of its records, a base is what one principal sees."""

    whole: OpenBase
    principal: Principal
    state: int
    population: Population


def stamp_for(about: KnowledgeBase, model: EmbeddingModel | None, analyser: Analyser) -> IndexStamp:
    return IndexStamp(
        model=model.name if model else "",
        dimension=model.dimension if model else 0,
        analysis=analyser.version,
        origin=about.identity,
    )


async def read(base: OpenBase, work: Callable[..., Result], *arguments: Any) -> Result:
    """``work(tx, base id, …)``: a short read of the records in the course of a search, in one statement."""

    def reading() -> Result:
        with base.records.single_statement() as tx:
            return work(tx, base.id, *arguments)

    return reading() if base.records.is_here else await asyncio.to_thread(reading)


async def chunks_by_keys(base: OpenBase, keys: Sequence[int]) -> dict[int, Chunk]:
    """`records.chunks.by_keys`; of those that were read before, only that they are still there is looked up. Where
    these are the fewer, all are read: another statement costs more than they do."""
    cache = base.chunks  # taken before the records are read: no later state is ever older
    known = {key: chunk for key in keys if (chunk := cache.get(key)) is not None}
    unread = [key for key in keys if key not in known]
    if len(known) < len(unread) <= FEW_UNREAD:
        known, unread = {}, list(keys)
    found = {key: known[key] for key in await read(base, cache.existing, list(known))} if known else {}
    return found | await read(base, cache.read, unread) if unread else found


async def in_model_thread(base: OpenBase, kind: str, model: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Runs ``work`` in the threads of its kind of model, or of a registered model: one that hangs blocks no other."""
    lane = None
    if base.model_threads is not None:
        key = (base.about.tenant, base.about.config.get("user_id", ""), model)
        registered = repr(key) if is_registered(model) else ""
        lane = base.model_threads.lane(kind, registered, base.about.tenant if kind == "prepare" else "")
    return await asyncio.get_running_loop().run_in_executor(lane, work, *arguments)


async def in_preparing_thread(base: OpenBase, work: Callable[..., Any], *arguments: Any) -> Any:
    """For chunking, embedding and the making of questions, which may wait long for a service."""
    names = (base.model_name, str(base.about.config.get("qa_model") or ""))
    return await in_model_thread(base, "prepare", next(filter(is_registered, names), ""), work, *arguments)


def chat_model(base: OpenBase, kind: ChatKind = "chat") -> ChatModel | None:
    """The chat model that this base, or else the settings, names for such work; None if neither names one.

    Looked up for every request. Raises NotFound or ModelUnavailable.
    """
    if base.models is None:
        return None
    named = str(base.about.config.get(f"{kind}_model") or "") or base.models.configured(kind)
    return base.models.chat(named, kind) if named else None
