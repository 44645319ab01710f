"""The graph of a base: facts extracted from its chunks where they are missing, and the graph derived from all facts.

    chunks ──► facts, chunk by chunk ──► records ──► columns in memory ──► KnowledgeGraph

A graph is derived from the facts of the served chunks alone: it covers what a search would find, and nothing of a
deleted document.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, read
from qianxun.bases.graph_cache import MOST_RECENT, ReadUpTo, RecentWrites
from qianxun.bases.principal_view import whole_base
from qianxun.core.errors import NotFound, QianxunError
from qianxun.core.graph_types import ExtractionProgress, Facts, GraphBuilt
from qianxun.core.ports import nothing
from qianxun.core.system.gc_pause import paused_collection
from qianxun.core.types import EVERYTHING, Everything, Filter, Keys, Population
from qianxun.graph.stored_graph import keep_graph, restore_graph
from qianxun.records import graph as facts
from qianxun.records.graph import ExtractedFacts, ReadableChunk

if TYPE_CHECKING:
    from qianxun.graph.network.knowledge_graph import KnowledgeGraph

log = logging.getLogger(__name__)

PAGE: Final = 500  # chunks that are extracted and stored together
QUIET_SECONDS: Final = 2.0  # without a write, before new chunks are extracted
POLL_SECONDS: Final = 1.0
USE_SECONDS: Final = 900.0  # for which a graph is kept up to date after its last use
ROUNDS: Final = 3
SETTLE_SHARE: Final = 0.01  # of a large graph's chunks: so many writes, and it is derived again
SETTLE_SECONDS: Final = 600.0  # after the first of fewer writes

Watch: TypeAlias = Callable[[ExtractionProgress], None]


async def graph_of(base: OpenBase, where: Filter = EVERYTHING) -> KnowledgeGraph:
    """The graph of what `retrieve` would search, under the same filter. Raises NotFound if the base has been deleted.

    A caller that is cancelled cancels nothing: the threads finish what they began. What a principal sees of a base has
    the graph of its documents alone.
    """
    within = base.view.population if base.view is not None else None
    base = whole_base(base)
    base.graph.note_use()
    await _update(base)
    if isinstance(where, Everything) and within is None:
        return base.graph.latest

    async def restricted() -> KnowledgeGraph:
        async with base.graph.stepping:
            return await asyncio.to_thread(_restricted, base, where, within)

    return await asyncio.shield(restricted())


@dataclass(frozen=True, slots=True, eq=False)
class CurrentGraph:
    """The graph for one question: as it was last derived, and what was written since, where deriving it takes long."""

    whole: KnowledgeGraph
    recent: RecentWrites | None = None

    @property
    def note(self) -> str:
        """What of it is not up to date; "": nothing."""
        if self.recent is None:
            return ""
        rest = "" if self.recent.is_whole else "，新写入的片段太多，图谱还没有读到"
        return f"图谱的关联、重要程度与社区还没有算上最近的 {len(self.recent)} 个片段的增删，正在后台更新{rest}"


async def current_graph(base: OpenBase, where: Filter = EVERYTHING) -> CurrentGraph:
    """`graph_of` that makes no question wait for a large graph to be derived again: what was written since stands
    beside it. Under a filter, and for what a principal sees, it is exact, as it is for a graph that is not large."""
    if base.view is not None or not isinstance(where, Everything):
        return CurrentGraph(await graph_of(base, where))
    base.graph.note_use()
    await restore_graph(base)
    state = await read(base, facts.state)
    if state != base.graph.followed and not (base.graph.is_large and await asyncio.shield(_followed(base))):
        await asyncio.shield(_catch_up(base))
        keep_soon(base)
    if _is_due(base):
        _begin(base, _settle(base))
    return CurrentGraph(base.graph.latest, base.graph.recent)


async def _update(base: OpenBase) -> None:
    await restore_graph(base)
    if await read(base, facts.state) != base.graph.state:
        await asyncio.shield(_catch_up(base))


async def _catch_up(base: OpenBase) -> None:
    """Under continuous writes there may always be chunks without facts; then the next caller goes on."""
    async with base.graph.stepping:
        for _ in range(ROUNDS):
            await _extract_missing(base, nothing)
            if await asyncio.to_thread(_step, base):
                return


async def build(base: OpenBase, watch: Watch = nothing) -> GraphBuilt:
    """Extracts missing facts without a model and derives the graph."""
    started = time.perf_counter()
    read = await extract_missing_facts(base, watch)
    graph = await graph_of(base)
    await keep_graph(base)
    return GraphBuilt(len(graph.chunks), read, len(graph), len(graph.relations), time.perf_counter() - started)


def is_graph_enabled(base: OpenBase) -> bool:
    """Whether facts are extracted in the background; otherwise on the first use of the graph."""
    return bool(base.about.config.get("graph", True))


# ── facts ────────────────────────────────────────────────────────────────────────────────────────


async def extract_missing_facts(base: OpenBase, watch: Watch = nothing) -> int:
    """Extracts statistical facts from the served chunks that have none; returns their number. Raises NotFound."""
    async with base.graph.stepping:
        return await _extract_missing(base, watch)


async def _extract_missing(base: OpenBase, watch: Watch) -> int:
    """Page by page, each durable when it is done: an interrupted run is continued."""
    from qianxun.graph.extract.chunk import facts_origin  # its patterns take a while to compile

    base.graph.begin()
    origin = facts_origin(base.analyser, base.lexicon)
    after = first = await asyncio.to_thread(_read_up_to, base, origin)
    total = await base.records.read(lambda tx: facts.unread_count(tx, base.id, origin, after))
    done = 0
    while done < total and (page := await unread_page(base, origin, after, PAGE)):
        await asyncio.to_thread(_extract_page, base, origin, page)
        done += len(page)
        after = page[-1].key
        watch(ExtractionProgress(done, max(done, total)))
    if done >= total:
        await asyncio.to_thread(_note_read, base, origin, first)
    return done


def _read_up_to(base: OpenBase, origin: str) -> int:
    """The key up to which every chunk has been read, unless facts were removed, or read by another, since."""
    known = base.graph.read_up_to
    with base.records.reading() as tx:
        return known.key if known is not None and known.is_from(origin, facts.revision(tx, base.id)) else 0


def _note_read(base: OpenBase, origin: str, after: int) -> None:
    """A write must not look at every chunk of the base again."""
    with base.records.reading() as tx:
        if not facts.unread_count(tx, base.id, origin, after):
            key = facts.last_settled_key(tx, base.id, after)
            base.graph.read_up_to = ReadUpTo(key, origin, facts.revision(tx, base.id))


async def unread_page(base: OpenBase, origin: str, after: int, limit: int) -> list[ReadableChunk]:
    """The next chunks after a key without facts of this origin."""
    return await base.records.read(lambda tx: facts.unread(tx, base.id, origin, after, limit))


def _extract_page(base: OpenBase, origin: str, page: list[ReadableChunk]) -> None:
    with paused_collection():
        read = [ExtractedFacts(row.key, row.document_key, origin, row.digest, _facts(base, row)) for row in page]
    with base.records.writing() as tx:
        facts.write_facts(tx, base.id, read)


def _facts(base: OpenBase, row: ReadableChunk) -> Facts:
    from qianxun.graph.extract.chunk import extract_facts

    return extract_facts(row.text, kind=row.kind, doc_name=row.doc_name, analyser=base.analyser, lexicon=base.lexicon)


# ── the graph in memory ──────────────────────────────────────────────────────────────────────────


def graph_state(base: OpenBase) -> tuple[int, int]:
    """Changes whenever there may be new chunks."""
    with base.records.reading() as tx:
        return facts.state(tx, base.id)


def _step(base: OpenBase) -> bool:
    """Updates the graph from the records in one transaction; returns whether every chunk has facts."""
    from qianxun.graph.extract.chunk import facts_origin

    with base.graph.changing, base.records.reading() as tx:
        is_whole = not facts.unread_count(tx, base.id, facts_origin(base.analyser, base.lexicon))
        state = facts.state(tx, base.id) if is_whole else None
        current = facts.graph_chunks(tx, base.id)
        fresh, removed = base.graph.changed(current)
        read = facts.facts_of(tx, base.id, fresh)
        given = facts.aliases(tx, base.id)
        floor = facts.last_settled_key(tx, base.id) if is_whole else -1
        count = facts.chunk_count(tx, base.id, floor)
        base.graph.step(state, current, read, removed, given, floor, count)
    return is_whole


def _restricted(base: OpenBase, where: Filter, within: Population | None) -> KnowledgeGraph:
    with base.graph.changing:
        cached = base.graph.restricted(where, within)
        if cached is not None:
            return cached
        with base.records.reading() as tx:
            attributes = facts.attributes(tx, base.id, base.graph.unknown_versions())
        return base.graph.restrict(where, attributes, within)


# ── a large graph ────────────────────────────────────────────────────────────────────────────────


async def _followed(base: OpenBase) -> bool:
    """Takes up what was written since a large graph was derived. Returns False if that is more than documents that came
    or went: then it has to be derived again."""
    async with base.graph.stepping:
        return not base.about.config.get("graph_model") and await asyncio.to_thread(_follow, base)


def _follow(base: OpenBase) -> bool:
    from qianxun.graph.extract.chunk import facts_origin

    cache = base.graph
    origin = facts_origin(base.analyser, base.lexicon)
    with base.records.reading() as tx:
        pages = facts.unread(tx, base.id, origin, cache.floor, MOST_RECENT)
    for at in range(0, len(pages), PAGE):
        _extract_page(base, origin, pages[at : at + PAGE])
    with cache.changing, base.records.reading() as tx:
        state = facts.state(tx, base.id)
        if tuple(facts.aliases(tx, base.id)) != cache.given:
            return False
        removed = _removed(tx, base)
        current = facts.served_keys(tx, base.id, cache.floor)
        current = current[~np.isin(current, cache.latest.chunks)]
        known = cache.known_recent()
        unread = [key for key in current.tolist() if key not in known] if len(current) <= MOST_RECENT else []
        cache.follow(state, facts.facts_of(tx, base.id, unread), current, removed)
    return True


def _removed(tx: Connection, base: OpenBase) -> Keys:
    """The chunks of the graph that have been deleted since. Only where their number changed are all keys compared."""
    cache = base.graph
    before = np.empty(0, dtype=np.int64) if cache.recent is None else cache.recent.removed
    count = facts.chunk_count(tx, base.id, cache.floor)
    if count == cache.count:
        return before
    cache.count = count
    return np.setdiff1d(cache.latest.chunks, facts.chunk_keys(tx, base.id, cache.floor), assume_unique=True)


def keep_soon(base: OpenBase) -> None:
    """Keeps a large graph on disk in the background, as it is by then."""
    if base.graph.folder is not None and base.graph.is_large:
        _begin(base, keep_graph(base))


def _begin(base: OpenBase, work: Coroutine[Any, Any, None]) -> None:
    """One such task at a time: what another would do is done by the next."""
    running = base.graph.settling
    if running is not None and not running.done():
        work.close()
    else:
        base.graph.settling = asyncio.create_task(work)


def _is_due(base: OpenBase) -> bool:
    recent = base.graph.recent
    if recent is None:
        return False
    is_much = not recent.is_whole or len(recent) > SETTLE_SHARE * len(base.graph.latest.chunks)
    return is_much or time.monotonic() - recent.began > SETTLE_SECONDS


async def _settle(base: OpenBase) -> None:
    before = base.graph.latest
    try:
        await _catch_up(base)
        await asyncio.to_thread(base.graph.latest.warm_up, before)
        await keep_graph(base)
    except QianxunError as error:
        log.info("the graph of base %s is not derived again now: %s", base.id, error)
    except Exception:  # derived from documents of any content; the next question tries again
        log.exception("the graph of base %s is not derived again after an unexpected failure", base.id)


# ── in the background ────────────────────────────────────────────────────────────────────────────


async def extract_in_background(base: OpenBase) -> None:
    """`extract_missing_facts` that logs failures: the next use of the graph tries again."""
    try:
        await extract_missing_facts(base)
    except NotFound:
        log.info("base %s has been deleted, and the extraction of its facts with it", base.id)
    except QianxunError as error:
        log.warning("the facts of base %s are not extracted now: %s", base.id, error)
    except Exception:  # unexpected texts must not fail the caller
        log.exception("the facts of base %s are not extracted after an unexpected failure", base.id)


async def refresh_graph(base: OpenBase) -> None:
    """Updates a graph in use, with whatever was computed of the last one, so that the next query need not wait. A large
    one takes seconds to derive: it takes up what was written, and is derived again once that is due."""
    if not base.graph.is_in_use(USE_SECONDS):
        return
    before = base.graph.latest
    try:
        if base.graph.is_large:
            await current_graph(base)
            return
        await _update(base)
        await asyncio.to_thread(base.graph.latest.warm_up, before)
        await keep_graph(base)
    except QianxunError as error:
        log.info("the graph of base %s is not refreshed: %s", base.id, error)
    except Exception:  # must not end the loop that serves all bases; queries raise it
        log.exception("the graph of base %s is not refreshed after an unexpected failure", base.id)


async def run_graph_updates(open_bases: Callable[[], Iterable[OpenBase]]) -> None:
    """Extracts facts of new chunks, one base at a time, once a base has not been written to for a moment."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        for base in open_bases():
            if is_graph_enabled(base) and base.graph.is_due(QUIET_SECONDS):
                if base.graph.is_large and base.graph.is_in_use(USE_SECONDS):
                    base.graph.begin()  # what was written is read on the way
                else:
                    await extract_in_background(base)
                await refresh_graph(base)
