"""The query modes: what the graph of a base, its vectors, or both have to say to a question.

    naive    vectors alone                        local   what lies around the things that the question names
    global   communities and kinds of relations   hybrid  local and global, read again
    mix      the graph and the base's own search  bypass  nothing

A graph that fails or knows nothing leaves what the base's own search finds. Nothing here depends on ``top_k`` but where
the list ends: a shorter list is the beginning of a longer one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

import numpy as np

from qianxun.bases.base import OpenBase
from qianxun.core.answer_types import QUERY_MODES, QueryMode
from qianxun.core.errors import BadQuery, NotFound, QianxunError, RecallFailed
from qianxun.core.graph_types import NO_CONTEXT, AskedTie, GraphContext
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import Mode, RecallOptions, check
from qianxun.core.types import NOTHING, Degraded, Found, Ranking, Recall, StepTime
from qianxun.graph.build import graph_of
from qianxun.graph.mode_context import context_of
from qianxun.graph.mode_results import UNRELATED, Results
from qianxun.graph.network.global_search import NO_OVERVIEW, Overview, overview
from qianxun.graph.network.local_search import NOWHERE, Around, around
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.question.graph_query import GraphQuery
from qianxun.question.question import read
from qianxun.rank.mix import either, mixed, supported
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.rerank_and_tiers import RERANK_DEPTH, rerank
from qianxun.retrieve.run import current_generation, newest_only, recall
from qianxun.retrieve.timings import Steps

log = logging.getLogger(__name__)

GRAPH_SECONDS: Final = 30.0  # for a graph that has still to be made, or made anew
RERANKER: Final = "maxsim"  # reads again what a base with a model finds in `hybrid`
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class ModeRecall:
    """What one mode found: chunks, best first, scores in (0, 1]; and what the graph says of the question."""

    query: str
    mode: QueryMode
    found: tuple[Found, ...] = ()
    context: GraphContext = NO_CONTEXT
    tie: AskedTie | None = None  # that the question asks for
    degraded: tuple[Degraded, ...] = ()
    steps: tuple[StepTime, ...] = ()
    seconds: float = 0.0
    trace_id: str = ""
    generation: str = ""  # the state of the base that was searched; "" where none was


class Surroundings(Protocol):
    """Somebody else who holds the graph, and says what of it `local` is to walk."""

    async def around(self, base: OpenBase, graph: KnowledgeGraph, question: str) -> KnowledgeGraph:
        """The part of ``graph`` around what the question names. Raises a QianxunError: then all of it is walked."""


async def gather(
    base: OpenBase,
    query: str,
    mode: QueryMode = "mix",
    options: RecallOptions = RecallOptions(),  # noqa: B008 - frozen
    *,
    surroundings: Surroundings | None = None,
    trace_id: str = "",
) -> ModeRecall:
    """The best ``top_k`` chunks that one mode finds, or as many as the base has; their neighbourhood in the graph.

    Of ``options``, mode and threshold do not count. Raises BadQuery; RecallFailed where nothing at all can answer.
    """
    check_text(query)
    check(options)
    if mode not in QUERY_MODES:
        raise BadQuery(f"没有查询方式 {mode}", hint=f"可用：{'、'.join(QUERY_MODES)}")
    started = time.perf_counter()
    trace_id = trace_id or new_trace_id()
    if mode == "bypass":
        return ModeRecall(query, mode, trace_id=trace_id)
    looking = await _begun(base, query, options)
    looking.elsewhere = surroundings
    found, context = await _SEARCHES[mode](looking)
    return ModeRecall(
        query=query,
        mode=mode,
        found=tuple(found),
        context=context,
        tie=looking.tie,
        degraded=tuple(dict.fromkeys(looking.degraded)),
        steps=tuple(looking.steps.done),
        seconds=time.perf_counter() - started,
        trace_id=trace_id,
        generation=looking.generation,
    )


# ── what a mode draws on ─────────────────────────────────────────────────────────────────────────


@dataclass
class Looking:
    """One question on its way through one mode."""

    base: OpenBase
    query: str
    asked: QueryPlan  # without its rewritings
    question: GraphQuery
    options: RecallOptions
    steps: Steps = field(default_factory=Steps)
    degraded: list[Degraded] = field(default_factory=list)
    held: KnowledgeGraph | None = None
    tie: AskedTie | None = None
    has_graph: bool = False  # it was asked for
    failed: RecallFailed | None = None  # why the base's own search did not answer
    elsewhere: Surroundings | None = None
    generation: str = ""

    async def recalled(self, mode: Mode = "hybrid") -> Recall | None:
        """What the base's own search finds, as deep as it goes; None where no arm of it answers, which is said."""
        options = replace(self.options, mode=mode, top_k=TOP_K_LIMIT, threshold=0.0)
        try:
            found = await recall(self.base, self.query, options)
        except RecallFailed as error:
            self.degraded.append(Degraded("recall", str(error)))
            self.failed = error
            return None
        self.steps.done.extend(found.steps)
        self.degraded.extend(found.degraded)
        return found

    async def graph(self) -> KnowledgeGraph | None:
        """As the filter lets it be seen; None where it fails, which is said."""
        if not self.has_graph:
            self.has_graph = True
            with self.steps.timed("graph"):
                waiting = asyncio.wait_for(graph_of(self.base, self.asked.queries[0].where), GRAPH_SECONDS)
                self.held = await self._tried(waiting)
        return self.held

    async def surroundings(self, graph: KnowledgeGraph | None) -> KnowledgeGraph | None:
        """Of the graph what another one who holds it finds around the question; all of it where that one fails."""
        if graph is None or self.elsewhere is None:
            return graph
        with self.steps.timed("graph.surroundings"):
            return await self._tried(self.elsewhere.around(self.base, graph, self.question.folded)) or graph

    async def near(self, graph: KnowledgeGraph | None) -> Around:
        if graph is None:
            return NOWHERE
        found = await self._walked(lambda: around(graph, self.question)) or NOWHERE
        self.tie = found.asked
        return found

    async def overview(self, graph: KnowledgeGraph | None) -> Overview:
        if graph is None:
            return NO_OVERVIEW
        found = await self._walked(lambda: overview(graph, self.question))
        return found or NO_OVERVIEW

    async def _walked(self, look: Callable[[], Made]) -> Made | None:
        with self.steps.timed("graph.walk"):
            return await self._tried(asyncio.to_thread(look))

    async def context(self, graph: KnowledgeGraph | None, near: Around, seen: Overview) -> GraphContext:
        if graph is None:
            return NO_CONTEXT
        with self.steps.timed("graph.context"):
            return await self._tried(context_of(self.base, graph, near, seen)) or NO_CONTEXT

    async def reranked(self, ranking: Ranking) -> Ranking:
        """The first results in the order of a second reading, where the base has a model for it."""
        if self.base.model is None or self.base.models is None or not len(ranking):
            return ranking
        first = Results(self.base, self.asked, RERANK_DEPTH, (), NOTHING)
        await first.take(ranking)
        options = replace(self.options, rerank=self.options.rerank or RERANKER)
        with self.steps.timed("rerank"), self.base.serving.borrow() as serving:
            model, failed = await rerank(self.base, serving, self.asked, first.found, options)
        self.degraded.extend(failed)
        if model is None:
            return ranking
        read = Ranking.of((each.chunk.key, max(each.score, UNRELATED)) for each in model.results)
        rest = ~np.isin(ranking.keys, read.keys)
        behind = np.minimum(ranking.scores[rest], read.scores[-1])
        return Ranking(np.concatenate([read.keys, ranking.keys[rest]]), np.concatenate([read.scores, behind]))

    async def _tried(self, work: Awaitable[Made]) -> Made | None:
        try:
            return await work
        except NotFound:
            raise  # the base is gone
        except TimeoutError:
            told = f"{GRAPH_SECONDS:g} 秒内没有建好，本次未用图谱；它在后台继续建立"
            self.degraded.append(Degraded("graph", told))
        except QianxunError as error:
            self.degraded.append(Degraded("graph", str(error)))
        except Exception as error:  # the door of the graph: a search goes on without it
            log.exception("the graph of base %s failed", self.base.id)
            self.degraded.append(Degraded("graph", f"出错，未用图谱：{type(error).__name__}: {error}"))
        return None

    async def finished(
        self, ranking: Ranking, known: Ranking, recalled: Recall | None, graph: KnowledgeGraph | None
    ) -> list[Found]:
        """The results of a ranking, then of the base's own search, then whatever there is; ``known`` is what the graph
        itself said."""
        if self.failed is not None and graph is None:
            raise self.failed
        search = _ranking(recalled)
        found = () if recalled is None else recalled.found
        results = Results(self.base, self.asked, self.options.top_k, found, known)
        with self.steps.timed("join"):
            await results.take(ranking)
            results.found = newest_only(results.found)
            await results.take(search)
        if results.lacking:
            graph = await self.graph()
            await results.fill(NOTHING.keys if graph is None else graph.chunks)
        return results.found


async def _begun(base: OpenBase, query: str, options: RecallOptions) -> Looking:
    with base.serving.borrow() as serving:
        generation = str(await current_generation(base, serving))
        asked = await plan_query(base, query, options, rewritings=())
    own = base.terms.own(base.about.config)
    question = read(asked.queries[0].text).for_graph(base.analyser, own)
    return Looking(base, query, asked, question, options, generation=generation)


def _ranking(recalled: Recall | None) -> Ranking:
    return NOTHING if recalled is None else Ranking.of((each.chunk.key, each.score) for each in recalled.found)


# ── the modes ────────────────────────────────────────────────────────────────────────────────────


async def _naive(looking: Looking) -> tuple[list[Found], GraphContext]:
    recalled = await looking.recalled("vector") if looking.base.model is not None else None
    if recalled is None:
        if looking.base.model is None:
            looking.degraded.append(Degraded("vector", "这个知识库没有向量模型，按词语检索"))
        looking.failed = None
        recalled = await looking.recalled("fulltext")
    return await looking.finished(_ranking(recalled), NOTHING, recalled, None), NO_CONTEXT


async def _local(looking: Looking) -> tuple[list[Found], GraphContext]:
    recalled, graph = await looking.recalled(), await looking.graph()
    walked = await looking.surroundings(graph)
    near = await looking.near(walked)
    ranking = supported(near.chunks, _ranking(recalled))
    found = await looking.finished(ranking, near.chunks, recalled, graph)
    return found, await looking.context(walked, near, NO_OVERVIEW)


async def _global(looking: Looking) -> tuple[list[Found], GraphContext]:
    recalled, graph = await looking.recalled(), await looking.graph()
    seen = await looking.overview(graph)
    ranking = supported(seen.chunks, _ranking(recalled))
    found = await looking.finished(ranking, seen.chunks, recalled, graph)
    return found, await looking.context(graph, NOWHERE, seen)


async def _hybrid(looking: Looking) -> tuple[list[Found], GraphContext]:
    recalled, graph = await looking.recalled(), await looking.graph()
    near, seen = await looking.near(graph), await looking.overview(graph)
    known = either(near.chunks, seen.chunks)
    ranking = await looking.reranked(supported(known, _ranking(recalled)))
    found = await looking.finished(ranking, known, recalled, graph)
    return found, await looking.context(graph, near, seen)


async def _mix(looking: Looking) -> tuple[list[Found], GraphContext]:
    recalled, graph = await looking.recalled(), await looking.graph()
    near = await looking.near(graph)
    ranking = mixed(near.chunks, _ranking(recalled))
    found = await looking.finished(ranking, near.chunks, recalled, graph)
    return found, await looking.context(graph, near, NO_OVERVIEW)


_SEARCHES: Final[Mapping[str, Callable[[Looking], Awaitable[tuple[list[Found], GraphContext]]]]] = {
    "naive": _naive,
    "local": _local,
    "global": _global,
    "hybrid": _hybrid,
    "mix": _mix,
}
