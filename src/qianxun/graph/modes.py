"""The query modes: what the graph of a base, its vectors, or both find for a question.

    naive    vectors only                          local   the neighbourhood of the entities in the question
    global   communities and relation types        hybrid  local and global, reranked
    mix      the graph and the base's own search   bypass  nothing

All but `local`, which is precise, fill the list up to ``top_k`` with whatever there is.

If the graph fails or finds nothing, the base's own search answers. A shorter list is always the beginning of a longer
one: nothing but the length depends on ``top_k``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import Final, Protocol, TypeVar

import numpy as np

from qianxun.bases.base import OpenBase, chunks_by_keys
from qianxun.bases.graph_cache import RecentWrites
from qianxun.core.errors import BadQuery, NotFound, QianxunError, RecallFailed
from qianxun.core.graph_types import NO_CONTEXT, GraphContext, RequestedRelation
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import QUERY_MODES, Mode, QueryMode, SearchOptions, check
from qianxun.core.system.quick_work import QuickWork
from qianxun.core.types import (
    NOTHING,
    ArmScore,
    Chunk,
    Degraded,
    Found,
    Generation,
    Keys,
    Ranking,
    Recall,
    StepTime,
    matches,
)
from qianxun.graph.build import current_graph, keep_soon
from qianxun.graph.context import context_of
from qianxun.graph.network.global_search import NO_GLOBAL_RESULT, GlobalResult, global_search
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.local_search import NO_LOCAL_RESULT, LocalResult, local_search
from qianxun.question.graph_query import GraphQuery
from qianxun.question.question import read as read_question
from qianxun.rank.mix import either, mixed, supported
from qianxun.rank.tiers import matched_in, matched_under
from qianxun.retrieve.layered.search import UNRELATED as UNRELATED_SCORE
from qianxun.retrieve.layered.search import UNRELATED_BY_WORDS
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.question_rules import NO_RULES, PINNED, PINNED_SCORE, MatchedRules, matched_rules
from qianxun.retrieve.rerank_and_tiers import RERANK_DEPTH, Complete, highlights, rerank, unchanged
from qianxun.retrieve.run import UnreadRecall, brief_recall, current_generation, newest_only, unread_recall
from qianxun.retrieve.timings import Steps

log = logging.getLogger(__name__)

GRAPH_SECONDS: Final = 30.0  # for a graph that has to be built or updated first
RERANKER: Final = "maxsim"  # of `hybrid` in a base with a model
UNLIKELY: Final = 0.01  # a chance to be right
UNRELATED: Final = 1e-6  # the score of results that only fill up the list
FILL: Final = "fill"  # their source: nothing found them
PAGE: Final = 50
_WALKING: Final = QuickWork()
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ModeRecall:
    """What one mode found: chunks, best first, scores in (0, 1], and the graph context of the question."""

    query: str
    mode: QueryMode
    results: tuple[Found, ...] = ()
    context: GraphContext = NO_CONTEXT
    tie: RequestedRelation | None = None  # the relation that the question asks for
    degraded: tuple[Degraded, ...] = ()
    steps: tuple[StepTime, ...] = ()
    seconds: float = 0.0
    trace_id: str = ""
    generation: str = ""  # of the base that was searched; "" if none was

    @property
    def found(self) -> tuple[Found, ...]:
        """The same as ``results``, by its former name."""
        return self.results


class Surroundings(Protocol):
    """A copy of the graph elsewhere that selects the part for `local`."""

    async def around(self, base: OpenBase, graph: KnowledgeGraph, question: str) -> KnowledgeGraph:
        """The part of ``graph`` around the entities of the question. Raises a QianxunError: then all of it is used."""


async def gather(
    base: OpenBase,
    query: str,
    mode: QueryMode = "mix",
    options: SearchOptions = SearchOptions(),  # noqa: B008 - frozen
    *,
    surroundings: Surroundings | None = None,
    trace_id: str = "",
    has_context: bool = True,
) -> ModeRecall:
    """The best ``top_k`` chunks of one mode, or as many as the base has, and their graph context, if it is wanted.

    Ignores the mode and threshold of ``options``. Raises BadQuery; RecallFailed if nothing at all can answer.
    """
    check_text(query)
    check(options)
    if mode not in QUERY_MODES:
        raise BadQuery(f"没有查询方式 {mode}", hint=f"可用：{'、'.join(QUERY_MODES)}")
    started = time.perf_counter()
    trace_id = trace_id or new_trace_id()
    if mode == "bypass":
        return ModeRecall(query, mode, trace_id=trace_id)
    search = await _begin(base, query, options)
    search.surroundings, search.has_context = surroundings, has_context
    found, context = await _SEARCHES[mode](search)
    return ModeRecall(
        query=query,
        mode=mode,
        results=tuple(found),
        context=context,
        tie=search.requested,
        degraded=tuple(dict.fromkeys(search.degraded)),
        steps=tuple(search.steps.done),
        seconds=time.perf_counter() - started,
        trace_id=trace_id,
        generation=str(search.generation),
    )


# ── steps of the modes ───────────────────────────────────────────────────────────────────────────


@dataclass
class ModeSearch:
    """One question on its way through one mode."""

    base: OpenBase
    query: str
    plan: QueryPlan  # without rewritings
    question: GraphQuery
    options: SearchOptions
    steps: Steps = field(default_factory=Steps)
    degraded: list[Degraded] = field(default_factory=list)
    has_graph: bool = False  # it was loaded, or failed
    loaded: KnowledgeGraph | None = None
    recent: RecentWrites | None = None  # that is not in it
    requested: RequestedRelation | None = None
    failed: RecallFailed | None = None  # why the base's own search did not answer
    surroundings: Surroundings | None = None
    has_context: bool = True  # it is wanted
    generation: Generation | None = None
    rules: MatchedRules = NO_RULES  # that people made for this question
    complete: Complete = unchanged  # what the base's own search found

    async def unread(self) -> UnreadRecall | None:
        """What the base's own search found, before any of it is read; None where it has to be, or there is nothing."""
        if self.plan.rules or self.plan.named:
            return None
        options = replace(self.options, mode="hybrid", top_k=TOP_K_LIMIT, threshold=0.0)
        try:
            found = await unread_recall(self.base, self.query, options, self.generation)
        except RecallFailed as error:
            self._note_failed(error)
            return None
        self.degraded += () if found is None else found.degraded
        return found

    def _note_failed(self, error: RecallFailed) -> None:
        self.degraded.append(Degraded("recall", str(error)))
        self.failed = error

    async def recalled(self, mode: Mode = "hybrid") -> Recall | None:
        """The results of the base's own search, as deep as it goes; None, reported as degraded, if no arm answers."""
        options = replace(self.options, mode=mode, top_k=TOP_K_LIMIT, threshold=0.0)
        try:
            found, self.complete = await brief_recall(self.base, self.query, options, self.generation)
        except RecallFailed as error:
            self._note_failed(error)
            return None
        self.steps.done.extend(found.steps)
        self.degraded.extend(one for one in found.degraded if one not in self.degraded)  # `unread` has some
        return found

    async def graph(self) -> KnowledgeGraph | None:
        """The graph under the filter; None, reported as degraded, if it fails."""
        if not self.has_graph:
            self.has_graph = True
            with self.steps.timed("graph"):
                loading = asyncio.wait_for(current_graph(self.base, self.plan.queries[0].where), GRAPH_SECONDS)
                if (current := await self._tried(loading)) is not None:
                    self.loaded, self.recent = current.whole, current.recent
                    self.degraded += [Degraded("graph", current.note)] if current.note else []
        return self.loaded

    async def part_around(self, graph: KnowledgeGraph | None) -> KnowledgeGraph | None:
        """The part that the copy elsewhere selects; all of the graph if that fails."""
        if graph is None or self.surroundings is None:
            return graph
        with self.steps.timed("graph.surroundings"):
            return await self._tried(self.surroundings.around(self.base, graph, self.question.folded)) or graph

    async def local(self, graph: KnowledgeGraph | None) -> LocalResult:
        if graph is None:
            return NO_LOCAL_RESULT
        found = await self._walked(lambda: local_search(graph, self.question)) or NO_LOCAL_RESULT
        self.requested = found.requested
        if self.recent is not None and len(added := self.recent.added):
            also = await self._walked(lambda: local_search(added, self.question)) or NO_LOCAL_RESULT
            self.requested = found.requested or also.requested
            found = replace(found, chunks=either(found.chunks, also.chunks))
        return found

    async def overview(self, graph: KnowledgeGraph | None) -> GlobalResult:
        if graph is None:
            return NO_GLOBAL_RESULT
        is_new = "communities" not in vars(graph)
        found = await self._walked(lambda: global_search(graph, self.question)) or NO_GLOBAL_RESULT
        if is_new and graph is self.base.graph.latest:
            keep_soon(self.base)
        return found

    async def _walked(self, work: Callable[[], Result]) -> Result | None:
        with self.steps.timed("graph.walk"):
            return await self._tried(_WALKING.run(len(self.question.folded), work))

    async def context(self, graph: KnowledgeGraph | None, local: LocalResult, seen: GlobalResult) -> GraphContext:
        if graph is None or not self.has_context:
            return NO_CONTEXT
        with self.steps.timed("graph.context"):
            removed = NOTHING.keys if self.recent is None else self.recent.removed
            return await self._tried(context_of(self.base, graph, local, seen, removed)) or NO_CONTEXT

    async def reranked(self, ranking: Ranking) -> Ranking:
        """The first results reranked, if the base has a model for it."""
        if self.base.model is None or self.base.models is None or not len(ranking):
            return ranking
        first = Results(self.base, self.plan, RERANK_DEPTH, (), NOTHING)
        await first.add(ranking)
        options = replace(self.options, rerank=self.options.rerank or RERANKER)
        with self.steps.timed("rerank"), self.base.serving.borrow() as serving:
            found, share, failed = await rerank(self.base, serving, self.plan, first.found, options)
        self.degraded.extend(failed)
        if not share:
            return ranking
        top = Ranking.of((result.chunk.key, max(result.score, UNRELATED)) for result in found)
        rest = ~np.isin(ranking.keys, top.keys)
        lower = np.minimum(ranking.scores[rest], top.scores[-1])
        return Ranking(np.concatenate([top.keys, ranking.keys[rest]]), np.concatenate([top.scores, lower]))

    async def _tried(self, work: Awaitable[Result]) -> Result | None:
        try:
            return await work
        except NotFound:
            raise  # the base has been deleted
        except TimeoutError:
            reason = f"{GRAPH_SECONDS:g} 秒内没有建好，本次未用图谱；它在后台继续建立"
            self.degraded.append(Degraded("graph", reason))
        except QianxunError as error:
            self.degraded.append(Degraded("graph", str(error)))
        except Exception as error:  # a search goes on without the graph
            log.exception("the graph of base %s failed", self.base.id)
            self.degraded.append(Degraded("graph", f"出错，未用图谱：{type(error).__name__}: {error}"))
        return None

    def related(self, recalled: Recall | None) -> Recall | None:
        """Without what has nothing to do with the question; of documents that the user named, all."""
        if self.base.model is None:
            least = UNRELATED_BY_WORDS
        else:  # what is related may well have no great chance to be the right one
            least = UNLIKELY if self.base.curves.chances else UNRELATED_SCORE
        if recalled is None or self.plan.named:
            return recalled
        return replace(recalled, results=tuple(found for found in recalled.results if found.score >= least))

    async def first_page(self, found: UnreadRecall, from_graph: Ranking) -> list[Found] | None:
        """The results of `mix` where these and nothing else have to be read for them."""
        with self.steps.timed("judge"):
            ranked = await found.page(partial(mixed, from_graph), self.options.top_k)
        if ranked is None:
            return None
        page, own = ranked
        results = Results(self.base, self.plan, self.options.top_k, own, from_graph, complete=found.complete)
        with self.steps.timed("join"):
            await results.add(page)
        results.found = newest_only(results.found)
        if results.missing and len(page) == self.options.top_k:  # what comes after the page takes their places
            return None
        if results.missing:
            graph = await self.graph()
            await results.fill(NOTHING.keys if graph is None else graph.chunks)
        self.steps.done.extend(found.steps)
        return results.found

    async def results(
        self,
        ranking: Ranking,
        from_graph: Ranking,
        recalled: Recall | None,
        graph: KnowledgeGraph | None,
        *,
        fills: bool = True,
    ) -> list[Found]:
        """The chunks of a ranking, then of the base's own search, then any, if it ``fills`` up; ``from_graph`` has the
        graph's scores."""
        if self.failed is not None and graph is None:
            raise self.failed
        found = () if recalled is None else recalled.results
        results = Results(self.base, self.plan, self.options.top_k, found, from_graph, self.rules, self.complete)
        with self.steps.timed("join"):
            await results.add_pinned()
            await results.add(ranking)
            results.found = newest_only(results.found)
            await results.add(_ranking(recalled))
        if results.missing and fills:
            graph = await self.graph()
            await results.fill(NOTHING.keys if graph is None else graph.chunks)
        return results.found


async def _begin(base: OpenBase, query: str, options: SearchOptions) -> ModeSearch:
    with base.serving.borrow() as serving:
        generation = await current_generation(base, serving)
        plan = await plan_query(base, query, options, rewritings=(), generation=generation)
        rules, unruled = await matched_rules(base, serving, plan.rules, plan.queries[0].text)
    own = base.terms.synonyms_of(base.about.config)
    question = read_question(plan.queries[0].text).for_graph(base.analyser, own)
    return ModeSearch(base, query, plan, question, options, degraded=unruled, generation=generation, rules=rules)


def _ranking(recalled: Recall | None) -> Ranking:
    return NOTHING if recalled is None else Ranking.of((row.chunk.key, row.score) for row in recalled.results)


# ── the modes ────────────────────────────────────────────────────────────────────────────────────


async def _naive(search: ModeSearch) -> tuple[list[Found], GraphContext]:
    recalled = await search.recalled("vector") if search.base.model is not None else None
    if recalled is None:
        if search.base.model is None:
            search.degraded.append(Degraded("vector", "这个知识库没有向量模型，按词语检索"))
        search.failed = None
        recalled = await search.recalled("fulltext")
    return await search.results(_ranking(recalled), NOTHING, recalled, None), NO_CONTEXT


async def _local(search: ModeSearch) -> tuple[list[Found], GraphContext]:
    recalled, graph = await search.recalled(), await search.graph()
    part = await search.part_around(graph)
    local = await search.local(part)
    related = search.related(recalled)
    ranking = supported(local.chunks, _ranking(related))
    found = await search.results(ranking, local.chunks, related, graph, fills=bool(search.plan.named))
    return found, await search.context(part, local, NO_GLOBAL_RESULT)


async def _global(search: ModeSearch) -> tuple[list[Found], GraphContext]:
    recalled, graph = await search.recalled(), await search.graph()
    seen = await search.overview(graph)
    found = await search.results(supported(seen.chunks, _ranking(recalled)), seen.chunks, recalled, graph)
    return found, await search.context(graph, NO_LOCAL_RESULT, seen)


async def _hybrid(search: ModeSearch) -> tuple[list[Found], GraphContext]:
    recalled, graph = await search.recalled(), await search.graph()
    local, seen = await search.local(graph), await search.overview(graph)
    from_graph = either(local.chunks, seen.chunks)
    ranking = await search.reranked(supported(from_graph, _ranking(recalled)))
    found = await search.results(ranking, from_graph, recalled, graph)
    return found, await search.context(graph, local, seen)


async def _mix(search: ModeSearch) -> tuple[list[Found], GraphContext]:
    unread, graph = await search.unread(), await search.graph()
    local = await search.local(graph)
    found = None if unread is None else await search.first_page(unread, local.chunks)
    if found is None:
        recalled = None if search.failed is not None else await search.recalled()
        found = await search.results(mixed(local.chunks, _ranking(recalled)), local.chunks, recalled, graph)
    return found, await search.context(graph, local, NO_GLOBAL_RESULT)


_SEARCHES: Final[Mapping[str, Callable[[ModeSearch], Awaitable[tuple[list[Found], GraphContext]]]]] = {
    "naive": _naive,
    "local": _local,
    "global": _global,
    "hybrid": _hybrid,
    "mix": _mix,
}


# ── results ──────────────────────────────────────────────────────────────────────────────────────


class Results:
    """The results of one mode: keys joined with the records, at most ``top_k``, each chunk once."""

    def __init__(
        self,
        base: OpenBase,
        plan: QueryPlan,
        top_k: int,
        recalled: Sequence[Found],
        from_graph: Ranking,
        rules: MatchedRules = NO_RULES,
        complete: Complete = unchanged,
    ) -> None:
        self._complete = complete
        self._base, self._plan, self._top_k, self._rules = base, plan, top_k, rules
        self._recalled = {result.chunk.key: result for result in recalled}
        ranked = zip(count(1), from_graph.scores.tolist(), strict=False)
        self._from_graph = dict(zip(from_graph.keys.tolist(), ranked, strict=False))
        self._added: set[int] = set()
        self.found: list[Found] = []

    @property
    def missing(self) -> int:
        return self._top_k - len(self.found)

    async def add_pinned(self) -> None:
        """What people put first for this question, in the order of their rules."""
        keys = np.array(list(self._rules.pinned), dtype=np.int64)
        await self.add(Ranking(keys, np.full(len(keys), PINNED_SCORE)))

    async def add(self, ranking: Ranking) -> None:
        """Appends results in this order; none scores better than those before it."""
        ceiling = self.found[-1].score if self.found else 1.0
        ranked = zip(ranking.keys.tolist(), ranking.scores.tolist(), strict=True)
        hits = ((key, min(score, ceiling)) for key, score in ranked if key not in self._added and score > 0)
        while self.missing and (page := dict(islice(hits, min(PAGE, self.missing)))):
            allowed = await self._chunks(list(page))
            for key, score in page.items():
                if key in allowed and self.missing:
                    self._added.add(key)
                    self.found.append(self._result(allowed[key], score))

    async def fill(self, keys: Keys) -> None:
        """Fills the list up with any of these chunks."""
        if self.missing:
            order = np.sort(keys)
            await self.add(Ranking(order, np.full(len(order), UNRELATED)))

    async def _chunks(self, keys: Sequence[int]) -> Mapping[int, Chunk]:
        """Those that exist and pass the filter."""
        keys = [key for key in keys if key not in self._rules.excluded]
        allowed = {key: self._recalled[key].chunk for key in keys if key in self._recalled}
        unread = [key for key in keys if key not in allowed]
        where = self._plan.queries[0].where
        if unread:
            stored = await chunks_by_keys(self._base, unread)
            allowed |= {key: chunk for key, chunk in stored.items() if matches(where, chunk.attributes)}
        return allowed

    def _result(self, chunk: Chunk, score: float) -> Found:
        recalled = self._recalled.get(chunk.key)
        rank, by_graph = self._from_graph.get(chunk.key, (0, 0.0))
        arms = {"graph": ArmScore(rank, by_graph, by_graph)} if rank else {}
        pinned = self._rules.pinned.get(chunk.key, 0)
        if recalled is not None:
            own = self._complete(recalled)
            source = "hybrid" if rank else own.source
            return replace(own, score=score, source=source, arms={**own.arms, **arms}, pinned=pinned)
        words = tuple(dict.fromkeys(word for query in self._plan.unguessed for word in query.terms.words))
        folded = self._base.chunks.folded(chunk)
        matched = matched_under(folded, chunk.headings, words)
        excerpts = highlights(chunk.text, matched_in(folded, matched), folded=folded)
        source = "graph" if rank else PINNED if pinned else FILL
        return Found(chunk, score, source, arms, matched=matched, fused=score, highlights=excerpts, pinned=pinned)
