"""The composition root: settings to an engine, and what runs in its background. Parts are wired here alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput
from qianxun.core.foreign import model_of_any_kind
from qianxun.core.governance.actor import BACKGROUND, set_actor
from qianxun.core.ingest_types import EventOutcome
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.limits import MIB
from qianxun.core.log_types import IndexRebuild, IndexTime, Recalled
from qianxun.core.ports import IndexBackend, nothing
from qianxun.core.types import LOCAL_TENANT
from qianxun.engine.embedding_models import Embeddings, model_folders
from qianxun.engine.model_catalog import ModelCatalog, open_registry
from qianxun.engine.open_bases import OpenBases
from qianxun.engine.settings import EventSettings, Parsing, Settings
from qianxun.engine.storage import (
    acknowledged_file,
    connection_options,
    database_url,
    graph_folder,
    index_backend,
    is_shared,
    open_cache,
    reader_backend,
)
from qianxun.indexing.inbox import Inbox, Upload, run_inbox
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.jobs.background import run_indexer
from qianxun.jobs.operations import Operations
from qianxun.models.registry import Registry
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.retrieve.recall_cache import Lifetimes
from qianxun.retrieve.search_log import Journal

if TYPE_CHECKING:
    from qianxun.indexing.events import RAGIndexEventHandler
    from qianxun.indexing.outbox_indexer import Drained

Made = TypeVar("Made")
PRELOADED: Final = (
    "answer.question_log", "answer.run", "graph.curate", "graph.modes", "indexing.add", "indexing.events",
    "indexing.files", "indexing.knowledge_base", "retrieve.explain", "retrieve.layered.tables",
    "retrieve.layered.texts",
)  # fmt: skip


@dataclass
class Hooks:
    """Callbacks for metrics, spans and tests: one value for all tenants, called in the task of the work itself."""

    recalled: Callable[[Recalled], None] = nothing  # after every search
    layered: Callable[[LayeredRecall], None] = nothing  # after every layered one
    indexed: Callable[[IndexTime], None] = nothing  # after every batch of index work
    rebuilding: Callable[[IndexRebuild], None] = nothing  # before an index that cannot be used is rebuilt


def wire(make: Callable[..., Made], settings: Settings, models: Mapping[str, Any], *, reader: bool = False) -> Made:
    """An engine: ``make`` is given its parts by name. A ``reader`` searches beside the process that writes."""
    together = is_shared(settings)
    records = Records.open(
        database_url(settings),
        connection_options(settings),
        alone=not together,
        together=together,
        acknowledged=None if reader else acknowledged_file(settings),
    )
    try:
        brought = {name: model_of_any_kind(model, name) for name, model in models.items()}
        backend = reader_backend(settings) if reader else index_backend(settings, records.identity)
        return make(**_parts(settings, brought, records, backend, reader=reader))
    except BaseException:
        records.close()  # a database on a server would seem to be in use
        raise


def _parts(
    settings: Settings, models: Mapping[str, Any], records: Records, backend: IndexBackend, *, reader: bool
) -> dict[str, Any]:
    if settings.graph.lexicon:
        from qianxun.graph.extract.domain import load_domain

        load_domain(settings.graph.lexicon)  # a file that cannot be read is reported now, not by the first graph
    threads, work, hooks = ModelThreads(), asyncio.Event(), Hooks()
    cache, scores = open_cache(settings)
    shared: dict[str, Any] = {  # by the engine and its open bases
        "records": records,
        "backend": backend,
        "parsers": ParserPool(settings.parsing.workers, _limits(settings.parsing)),
        "embeddings": Embeddings(settings, models),
        "catalog": ModelCatalog(settings, model_folders(settings), models),
        "registered": open_registry(settings, records, threads),
        "model_threads": threads,
    }
    open_bases = OpenBases(
        **shared,
        scores=scores,
        indexed=lambda done: hooks.indexed(done),
        rebuilding=lambda begun: hooks.rebuilding(begun),
        wake=work.set,
        lexicon=settings.graph.lexicon,
        lease_seconds=settings.index.lease_seconds,
        is_reader=reader,
        graph_folder=None if reader else graph_folder(settings, records.identity),
    )
    return {
        **shared,
        "settings": settings,
        "cache": cache,
        "lifetimes": Lifetimes(settings.search.cache_seconds, settings.cache.most_seconds),
        "journal": Journal(records, settings.log.keep_days, settings.log.keep_rows),
        "hooks": hooks,
        "operations": Operations(),
        "inbox": Inbox(settings.folder / "inbox"),
        "_bases": open_bases,
        "_work": work,
    }


def _limits(parsing: Parsing) -> ParseLimits:
    return ParseLimits(
        file_bytes=parsing.file_megabytes * MIB,
        characters=parsing.characters,
        seconds=parsing.seconds,
        ocr=parsing.ocr,
    )


# ── what runs in the background ──────────────────────────────────────────────────────────────────


class TenantWork(Protocol):
    """What the background does for one tenant: an engine."""

    async def drain(self, knowledge_base: int) -> Drained: ...
    async def events(self, knowledge_base: int) -> RAGIndexEventHandler: ...
    async def base(self, knowledge_base: int) -> OpenBase: ...
    @property
    def registered(self) -> Registry: ...


@asynccontextmanager
async def run_alongside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """These until the block ends."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def run_background(
    of: Callable[[str], TenantWork],
    records: Records,
    work: asyncio.Event,
    open_bases: Callable[[], Sequence[OpenBase]],
    source: EventSettings,
    inbox: Inbox,
    *,
    follow: bool = False,
) -> None:
    """Indexes, retries, reads uploads that were cut off, learns words, builds graphs and takes events from a stream,
    until it is cancelled.

    With ``follow`` also the bases that other processes write to are learnt from.
    """
    from qianxun.graph.build import run_graph_updates
    from qianxun.jobs.graph_worker import run_graph_models
    from qianxun.retrieve.terms.learn import keep_learning

    set_actor(BACKGROUND)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_indexer(records, work, lambda tenant, base: of(tenant).drain(base)))
        tasks.create_task(_read_uploads(of, inbox, work))
        tasks.create_task(keep_learning(open_bases))
        tasks.create_task(run_graph_updates(open_bases))
        tasks.create_task(run_graph_models(open_bases))
        if follow and records.process:
            from qianxun.jobs.follow_writes import follow_writes

            tasks.create_task(follow_writes(records, lambda tenant, base: of(tenant).base(base)))
        if source.url:
            tasks.create_task(_take_events(of, source))
        tasks.create_task(_deliver_webhooks(of(LOCAL_TENANT)))


async def _deliver_webhooks(engine: TenantWork) -> None:
    from qianxun.jobs.webhooks import run_webhooks

    registered = engine.registered
    await run_webhooks(registered.records, registered.sealing, registered.policy)


async def _read_uploads(of: Callable[[str], TenantWork], inbox: Inbox, work: asyncio.Event) -> None:
    async def read(upload: Upload, path: Path) -> None:
        from qianxun.indexing.files import read_again

        await read_again(await of(upload.tenant).base(upload.knowledge_base), upload, path)
        work.set()

    async def give_up(upload: Upload, path: Path) -> None:
        from qianxun.indexing.files import give_up

        await give_up(await of(upload.tenant).base(upload.knowledge_base), upload, path)

    await run_inbox(inbox, read, give_up)


async def _take_events(of: Callable[[str], TenantWork], source: EventSettings) -> None:
    from qianxun.jobs.redis_events import EventStream, run_event_stream

    async def handle(event: Mapping[str, Any]) -> EventOutcome:
        base = event.get("knowledge_base_id")
        if not isinstance(base, int):
            raise BadInput("事件缺少 knowledge_base_id，或它不是整数", hint="写上知识库的编号")
        handler = await of(str(event.get("tenant") or LOCAL_TENANT)).events(base)
        return await handler.handle(event)

    await run_event_stream(EventStream(source.url, source.stream, source.group), handle)


def preload() -> None:
    """Imports what the methods of `Engine` import on first use.

    For a service: the first question of a kind would else hold up all others while the code for it is loaded.
    """
    for name in PRELOADED:
        import_module(f"qianxun.{name}")
