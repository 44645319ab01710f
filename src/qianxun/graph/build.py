"""The graph of a base: the facts of its chunks read where they lack, and what follows from all of them.

    chunks of record ──► facts, chunk by chunk ──► records ──► columns in memory ──► KnowledgeGraph

A graph is derived from the facts of the chunks that serve and from nothing else: whoever asks for it sees what a search
would, and of a document that is gone nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import NotFound, QianxunError
from qianxun.core.gc_pause import paused_collection
from qianxun.core.graph_types import Facts
from qianxun.core.ports import nothing
from qianxun.core.types import EVERYTHING, Everything, Filter
from qianxun.records import graph as facts
from qianxun.records.graph import Read, Readable

if TYPE_CHECKING:
    from qianxun.graph.network.network import KnowledgeGraph

log = logging.getLogger(__name__)

PAGE: Final = 500  # chunks that are read and kept together
QUIET_SECONDS: Final = 2.0  # without a write, before what was written is read
LOOK_SECONDS: Final = 1.0
USE_SECONDS: Final = 900.0  # for which a graph that was asked for is kept ready after writes
ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the reading of facts has come."""

    done: int  # chunks
    total: int


Watch: TypeAlias = Callable[[Reading], None]


@dataclass(frozen=True, slots=True)
class GraphBuilt:
    """What one go at a base's graph did."""

    chunks: int  # that the graph is made of
    read: int  # whose facts were read for it now
    entities: int
    relations: int
    seconds: float


async def graph_of(base: OpenBase, where: Filter = EVERYTHING) -> KnowledgeGraph:
    """The graph of what `retrieve` would search, under the same filter. Raises NotFound where the base is gone.

    Whoever stops waiting for it ends nothing: a thread cannot be stopped, and what it changes is nobody else's until
    it is done.
    """
    base.graph.note_use()
    await _bring_into_step(base)
    return base.graph.whole if isinstance(where, Everything) else await asyncio.shield(_seen_by(base, where))


async def _bring_into_step(base: OpenBase) -> None:
    if await asyncio.to_thread(_state, base) != base.graph.state:
        await asyncio.shield(_catch_up(base))


async def _seen_by(base: OpenBase, where: Filter) -> KnowledgeGraph:
    async with base.graph.stepping:
        return await asyncio.to_thread(_restricted, base, where)


async def _catch_up(base: OpenBase) -> None:
    """Under writes without a pause there may be no moment at which nothing is unread; then the next one goes on."""
    async with base.graph.stepping:
        for _ in range(ROUNDS):
            await _read_unread(base, nothing)
            if await asyncio.to_thread(_step, base):
                return


async def build(base: OpenBase, watch: Watch = nothing) -> GraphBuilt:
    """Reads the chunks that have no facts, and derives the graph."""
    started = time.perf_counter()
    async with base.graph.stepping:
        read = await _read_unread(base, watch)
    graph = await graph_of(base)
    return GraphBuilt(len(graph.chunks), read, len(graph), len(graph.ties), time.perf_counter() - started)


def is_wanted(base: OpenBase) -> bool:
    """Whether facts are read as soon as documents come; otherwise when somebody asks for the graph."""
    return bool(base.about.config.get("graph", True))


# ── facts ────────────────────────────────────────────────────────────────────────────────────────


async def read_unread(base: OpenBase, watch: Watch = nothing) -> int:
    """Makes the statistical facts of the served chunks that have none; answers how many. Raises NotFound."""
    async with base.graph.stepping:
        return await _read_unread(base, watch)


async def _read_unread(base: OpenBase, watch: Watch) -> int:
    """A page at a time, each durable when it is done: what is interrupted goes on where it was."""
    from qianxun.graph.extract.chunk import reader  # its patterns take a while to compile

    base.graph.begin()
    origin = reader(base.analyser)
    total = await asyncio.to_thread(_unread_count, base, origin)
    done = after = 0
    while done < total and (page := await asyncio.to_thread(_page, base, origin, after)):
        await asyncio.to_thread(_keep, base, origin, page)
        done += len(page)
        after = page[-1].key
        watch(Reading(done, max(done, total)))
    return done


def _unread_count(base: OpenBase, origin: str) -> int:
    with base.records.reading() as tx:
        return facts.unread_count(tx, base.id, origin)


def _page(base: OpenBase, origin: str, after: int) -> list[Readable]:
    with base.records.reading() as tx:
        return facts.unread(tx, base.id, origin, after, PAGE)


def _keep(base: OpenBase, origin: str, page: list[Readable]) -> None:
    with paused_collection():
        read = [Read(each.key, each.document_key, origin, each.digest, _facts(base, each)) for each in page]
    with base.records.writing() as tx:
        facts.write_facts(tx, base.id, read)


def _facts(base: OpenBase, each: Readable) -> Facts:
    from qianxun.graph.extract.chunk import read_facts

    return read_facts(each.text, kind=each.kind, headings=each.headings, doc_name=each.doc_name, analyser=base.analyser)


# ── the graph in memory ──────────────────────────────────────────────────────────────────────────


def _state(base: OpenBase) -> tuple[int, int]:
    with base.records.reading() as tx:
        return facts.state(tx, base.id)


def _step(base: OpenBase) -> bool:
    """Brings what is held into step with the records, as they are in one transaction; answers whether nothing lacks."""
    from qianxun.graph.extract.chunk import reader

    with base.graph.changing, base.records.reading() as tx:
        is_whole = not facts.unread_count(tx, base.id, reader(base.analyser))
        state = facts.state(tx, base.id) if is_whole else None
        held = facts.graph_chunks(tx, base.id)
        fresh, gone = base.graph.changed(held)
        read = facts.facts_of(tx, base.id, fresh)
        given = facts.aliases(tx, base.id)
        base.graph.step(state, held, read, gone, given)
    return is_whole


def _restricted(base: OpenBase, where: Filter) -> KnowledgeGraph:
    with base.graph.changing:
        kept = base.graph.kept(where)
        if kept is not None:
            return kept
        with base.records.reading() as tx:
            told = facts.attributes(tx, base.id, base.graph.unknown_versions())
        return base.graph.restrict(where, told)


# ── behind everybody's back ──────────────────────────────────────────────────────────────────────


async def read_quietly(base: OpenBase) -> None:
    """`read_unread` for those who have something else to do: what fails is logged, and done when the graph is asked
    for."""
    try:
        await read_unread(base)
    except NotFound:
        log.info("base %s is gone, and the reading of its facts with it", base.id)
    except QianxunError as error:
        log.warning("the facts of base %s are not read now: %s", base.id, error)
    except Exception:  # of a text that nobody thought of, for callers whom this must not fail
        log.exception("the facts of base %s are not read after an unexpected failure", base.id)


async def make_ready(base: OpenBase) -> None:
    """A graph that people use is made anew before the next of them has to wait for it, with all that they made of the
    last one: of a hundred thousand chunks that takes seconds."""
    if not base.graph.is_in_use(USE_SECONDS):
        return
    before = base.graph.whole
    try:
        await _bring_into_step(base)
        await asyncio.to_thread(base.graph.whole.made_ready, before)
    except QianxunError as error:
        log.info("the graph of base %s is not made ahead: %s", base.id, error)
    except Exception:  # whoever asks for the graph is told; the loop that serves all bases must not end
        log.exception("the graph of base %s is not made ahead after an unexpected failure", base.id)


async def keep_graphing(open_bases: Callable[[], Iterable[OpenBase]]) -> None:
    """Reads the facts of what was written, one base at a time, once each has been left alone for a moment."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for base in open_bases():
            if is_wanted(base) and base.graph.is_due(QUIET_SECONDS):
                await read_quietly(base)
                await make_ready(base)
