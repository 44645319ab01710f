"""A base's graph in a graph server, and what local search takes from there.

    records ──► KnowledgeGraph ──mirror──► server
                     ▲                        │
                     └── joined back ◄── neighbourhood of what a question names

The server only gives what lies around: which chunks a search may still return, and their text, the records decide.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from qianxun.bases.base import OpenBase, in_model_thread
from qianxun.core.errors import NotFound, QianxunError, ServiceUnavailable, Unauthorized
from qianxun.core.filters import EVERYTHING, Filter
from qianxun.core.graph_types import Entity, GraphContext, Mirrored, Relation
from qianxun.engine.engine import Engine
from qianxun.graph.build import graph_of
from qianxun.graph.context import BUDGET, ranked_context
from qianxun.graph.network.knowledge_graph import KnowledgeGraph, entity_id
from qianxun.models.remote.breaker import Breaker, Outage, Paused
from qianxun.models.threads import Lane
from qianxun.records import bases, listing
from qianxun.text.chinese import fold

# Some for those who write an adapter to a server: its calls run in a lane, behind a breaker, on folded names.
__all__ = [
    "BUDGET",
    "Breaker",
    "GraphMirror",
    "Lane",
    "MirroredSurroundings",
    "Outage",
    "Paused",
    "entity_context",
    "fold",
    "mirror",
    "name_of",
]

log = logging.getLogger(__name__)

HOPS: Final = 3  # 2 found 82 % of a sample's two- and three-step questions, 3 as many as a walk of the whole graph
WAIT_SECONDS: Final = 10.0  # that a question waits for the server; what takes longer goes on in the background
RELATIONS: Final = 500  # that are looked at for a context, the heaviest first
PLACES: Final = 8  # of each relation that are shown
NEIGHBOUR: Final = 0.5  # what an entity counts that is related to a requested one
Result = TypeVar("Result")


class GraphMirror(Protocol):
    """An adapter such as `Neo4jAdapter`; both methods may block, and raise a QianxunError."""

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
    """Makes the server's copy of a base's graph equal to the records now. Raises what the adapter raises."""
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
        """The part of ``graph``, which is the base's under a filter, that the chunks within reach state."""
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
            raise  # the base has been deleted
        except QianxunError as error:
            raise ServiceUnavailable(f"{error.message}；已改用自带的图谱", hint=error.hint) from error
        reached = [place.chunk for relation in context.relations for place in relation.evidence]
        own = graph.chunks_of(str(graph.ids[row]) for row in rows)
        return await asyncio.to_thread(graph.restricted, np.union1d(np.array(reached, dtype=np.int64), own))

    async def _neighbourhood(self, base: OpenBase, graph: KnowledgeGraph, seeds: Sequence[str]) -> GraphContext:
        name = await name_of(base)
        allowed = frozenset(graph.chunks.tolist())
        for _ in range(2):  # the server may have been emptied since it was in step
            await self._in_step(base, name)
            context = await _off_the_loop(
                base, lambda: self._adapter.neighbourhood(name, seeds, self._hops, allowed=allowed)
            )
            if set(seeds) <= {entity.id for entity in context.entities}:
                return context
            self._mirrored.pop(name, None)
        raise ServiceUnavailable("图服务里的副本不完整", hint="请检查是否有别的程序在改动它")

    async def _in_step(self, base: OpenBase, name: str) -> None:
        """Waits until the server has the current graph; the copying goes on when no caller waits for it any more."""
        while (copied := self._mirrored.get(name)) is None or copied() is not await graph_of(base):
            task = self._mirroring.get(name)
            if task is None or task.done():
                task = self._mirroring[name] = asyncio.create_task(self._copy(base, name))
                task.add_done_callback(_log_failure)
            await asyncio.shield(task)

    async def _copy(self, base: OpenBase, name: str) -> None:
        graph = await graph_of(base)
        await _mirror(base, name, graph, self._adapter)
        self._mirrored[name] = weakref.ref(graph)


def _as_mirrored(graph: KnowledgeGraph, rows: Sequence[int], whole: KnowledgeGraph) -> list[str]:
    """The ids of these entities on the server, which has the whole graph: a filter may hide why names were merged."""
    forms = [whole.names.forms.get(graph.name(row), -1) for row in rows]
    found = (int(whole.entity_of[form]) for form in forms if 0 <= form < len(whole.entity_of))
    return list(dict.fromkeys(str(whole.ids[row]) for row in found if row >= 0))


def _log_failure(task: asyncio.Task[None]) -> None:
    """Callers that still wait get the error itself."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the graph was not mirrored: %s", error)


def _relations(graph: KnowledgeGraph) -> Iterator[Relation]:
    return map(graph.relation, range(len(graph.relations)))


async def _off_the_loop(base: OpenBase, work: Callable[[], Result]) -> Result:
    """In threads of their own: a server that hangs takes none from the index or the records."""
    done: Result = await in_model_thread(base, "graph-server", "", work)
    return done


# ── what lies around entities ────────────────────────────────────────────────────────────────────


async def entity_context(
    engine: Engine,
    knowledge_base: int,
    nodes: Sequence[str],
    *,
    query: str = "",
    where: Filter = EVERYTHING,
    budget: int = BUDGET,
    surroundings: MirroredSurroundings | None = None,
) -> GraphContext:
    """The entities of these ids or names, and those that the query names, with what is related to them.

    With ``surroundings`` that is read from the server; from the records where it does not answer.
    """
    graph = await engine.graph(knowledge_base, where=where)
    requested = await asyncio.to_thread(_requested, graph, nodes, query)
    near, names = graph, [graph.name(row) for row in requested]
    if surroundings is not None and names:
        try:
            near = await surroundings.around(await engine.base(knowledge_base), graph, "、".join(names))
        except (ServiceUnavailable, Unauthorized) as error:
            log.warning("the context is made from the records: %s", error)
    there = {near.row(str(graph.ids[row])): weight for row, weight in requested.items()}
    rows = {row: weight for row, weight in there.items() if row is not None}
    return await asyncio.to_thread(_related, near, rows, budget)


def _requested(graph: KnowledgeGraph, nodes: Sequence[str], query: str) -> dict[int, float]:
    """The rows of the requested entities, each with its weight."""
    found = {row: 1.0 for node in nodes for row in _rows(graph, node)}
    for match in graph.find(query) if query else ():
        found[match.entity] = max(found.get(match.entity, 0.0), match.weight)
    return found


def _rows(graph: KnowledgeGraph, node: str) -> list[int]:
    """By id, or by a name or alias."""
    found = graph.rows((node, entity_id(node)))
    whole = len(fold(node))
    return found or [match.entity for match in graph.find(node) if (match.start, match.end) == (0, whole)]


def _related(graph: KnowledgeGraph, requested: Mapping[int, float], budget: int) -> GraphContext:
    """What one relation leads to."""
    relations = graph.relation_rows(sorted(requested))
    relations = relations[np.lexsort((relations, -graph.relations.weight[relations]))][:RELATIONS]
    ends = np.unique(np.concatenate([graph.relations.source[relations], graph.relations.target[relations]])).tolist()
    relevance = dict.fromkeys(ends, NEIGHBOUR) | dict(requested)
    return ranked_context(
        map(graph.entity_at, sorted(relevance)),
        (graph.relation(row, PLACES) for row in relations.tolist()),
        relevance={str(graph.ids[row]): weight for row, weight in relevance.items()},
        budget=budget,
    )
