"""A base's graph in a graph server, and what local search takes from there.

    records ──► KnowledgeGraph ──mirror──► server
                     ▲                        │
                     └── joined back ◄── neighbourhood of what a question names

The server only says what lies around: which chunks a search may still return, and what they say, the records decide.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from qianxun.bases.base import OpenBase, in_model_thread
from qianxun.core.errors import NotFound, QianxunError, ServiceUnavailable
from qianxun.core.graph_types import Entity, GraphContext, Relation
from qianxun.doors.frameworks.neo4j import Mirrored
from qianxun.engine.engine import Engine
from qianxun.graph.build import graph_of
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.records import bases, listing

log = logging.getLogger(__name__)

HOPS: Final = (
    3  # 2 found 82 % of the two- and three-step questions of a sample whole, 3 all that a walk of the whole finds
)
WAIT_SECONDS: Final = 10.0  # that a question waits for the server; what takes longer goes on behind its back
Result = TypeVar("Result")


class GraphMirror(Protocol):
    """What is asked of an adapter such as `Neo4jAdapter`; both may block, and raise a QianxunError."""

    def mirror(
        self,
        kb: str,
        entities: Iterable[Entity],
        relations: Iterable[Relation],
        chunk_ids: Mapping[int, str] | None = None,
    ) -> Mirrored: ...

    def neighbourhood(
        self, kb: str, names: Sequence[str], hops: int = 1, *, allowed: Collection[int] | None = None
    ) -> GraphContext: ...


async def mirror(engine: Engine, knowledge_base: int, adapter: GraphMirror) -> Mirrored:
    """Makes the server's copy of a base's graph equal to what the records say now. Raises what the adapter does."""
    return await mirror_base(await engine.base(knowledge_base), adapter)


async def mirror_base(base: OpenBase, adapter: GraphMirror) -> Mirrored:
    return await _mirror(base, await name_of(base), await graph_of(base), adapter)


async def _mirror(base: OpenBase, name: str, graph: KnowledgeGraph, adapter: GraphMirror) -> Mirrored:
    ids = await base.records.read(lambda tx: listing.chunk_ids(tx, base.id))
    return await _off_the_loop(base, lambda: adapter.mirror(name, graph.entities, _relations(graph), ids))


async def name_of(base: OpenBase) -> str:
    """The name of a base on a server: that of no other base, whatever folder or tenant it belongs to."""
    return await base.records.read(lambda tx: bases.identity(tx, base.id))


class MirroredSurroundings:
    """The part of a graph that lies around a question, as a server has it. Brings the server up to date first.

    Raises ServiceUnavailable where the server does not help within ``seconds``, for whatever reason; then the graph of
    the records is what there is.
    """

    def __init__(self, adapter: GraphMirror, *, hops: int = HOPS, seconds: float = WAIT_SECONDS) -> None:
        self._adapter, self._hops, self._seconds = adapter, hops, seconds
        self._mirrored: dict[str, weakref.ref[KnowledgeGraph]] = {}  # by the base's name there
        self._mirroring: dict[str, asyncio.Task[None]] = {}

    async def around(self, base: OpenBase, graph: KnowledgeGraph, question: str) -> KnowledgeGraph:
        """What the chunks within reach tell of ``graph``, which is the base's as a filter lets it be seen."""
        rows = await asyncio.to_thread(lambda: [match.entity for match in graph.find(question)])
        if not rows:
            return graph
        try:
            async with asyncio.timeout(self._seconds):
                context = await self._neighbourhood(base, graph, _as_mirrored(graph, rows, await graph_of(base)))
        except TimeoutError as late:
            reason = f"图服务 {self._seconds:.0f} 秒内没有答复，已改用自带的图谱"
            raise ServiceUnavailable(reason, hint="首次同步较久，可先用 mirror 同步") from late
        except NotFound:
            raise  # the base is gone
        except QianxunError as error:
            raise ServiceUnavailable(f"{error.message}；已改用自带的图谱", hint=error.hint) from error
        reached = [each.chunk for relation in context.relations for each in relation.evidence]
        own = graph.chunks_of(str(graph.ids[row]) for row in rows)
        return await asyncio.to_thread(graph.restricted, np.union1d(np.array(reached, dtype=np.int64), own))

    async def _neighbourhood(self, base: OpenBase, graph: KnowledgeGraph, seeds: Sequence[str]) -> GraphContext:
        name = await name_of(base)
        allowed = frozenset(graph.chunks.tolist())
        for _ in range(2):  # somebody may have emptied the server since it was in step
            await self._in_step(base, name)
            context = await _off_the_loop(
                base, lambda: self._adapter.neighbourhood(name, seeds, self._hops, allowed=allowed)
            )
            if set(seeds) <= {entity.id for entity in context.entities}:
                return context
            self._mirrored.pop(name, None)
        raise ServiceUnavailable("图服务里的副本不完整", hint="请检查是否有别的程序在改动它")

    async def _in_step(self, base: OpenBase, name: str) -> None:
        """Waits until the server holds the graph of now; the bringing goes on when nobody waits for it any more."""
        while (held := self._mirrored.get(name)) is None or held() is not await graph_of(base):
            task = self._mirroring.get(name)
            if task is None or task.done():
                task = self._mirroring[name] = asyncio.create_task(self._bring(base, name))
                task.add_done_callback(_heard)
            await asyncio.shield(task)

    async def _bring(self, base: OpenBase, name: str) -> None:
        graph = await graph_of(base)
        await _mirror(base, name, graph, self._adapter)
        self._mirrored[name] = weakref.ref(graph)


def _as_mirrored(graph: KnowledgeGraph, rows: Sequence[int], whole: KnowledgeGraph) -> list[str]:
    """What these entities are on the server, which holds the whole graph: a filter may hide why names are one."""
    forms = [whole.names.forms.get(graph.name(row), -1) for row in rows]
    found = (int(whole.entity_of[form]) for form in forms if 0 <= form < len(whole.entity_of))
    return list(dict.fromkeys(str(whole.ids[row]) for row in found if row >= 0))


def _heard(task: asyncio.Task[None]) -> None:
    """Whoever still waits is told; where nobody does, the log is."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the graph was not mirrored: %s", error)


def _relations(graph: KnowledgeGraph) -> Iterator[Relation]:
    return map(graph.relation, range(len(graph.relations)))


async def _off_the_loop(base: OpenBase, work: Callable[[], Result]) -> Result:
    """In threads of their own: a server that hangs takes none from the index or the records."""
    done: Result = await in_model_thread(base, "graph-server", "", work)
    return done
