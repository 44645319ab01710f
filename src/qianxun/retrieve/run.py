"""A search: plan → run arms → fuse → join with the records → rerank and tiers → results. `recall` is read first.

A hit is a key and a score; text comes from the records. What is not in the records any more can therefore never be
returned, even while the index lags behind.

Scores keep four promises, in every mode (docs/decisions/0007-scores.md): results are sorted by the score they show, a
higher threshold returns a subset, a shorter list is the beginning of a longer one, and the same search on the same
state gives the same bytes. Nothing before the last step may therefore depend on ``top_k`` or on the threshold.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, read
from qianxun.bases.principal_view import cache_scope, requester_of
from qianxun.core.codec.options import params_of
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import SearchOptions, check
from qianxun.core.ports import Cache
from qianxun.core.types import Degraded, Found, Generation, Ranking, Recall, StepTime
from qianxun.records import bases
from qianxun.retrieve.as_of import resolve_as_of, with_outdated
from qianxun.retrieve.candidate_pool import unknown_keys
from qianxun.retrieve.fuse import DEEPEST, DEPTH, Candidates, gather, with_weights, without
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.recall_cache import Lifetimes, cache_key, get_cached, put_cached
from qianxun.retrieve.rerank_and_tiers import (
    Complete,
    Order,
    TierCriteria,
    completed,
    ranking_order,
    rerank_and_tiers,
    tier_criteria,
)
from qianxun.retrieve.search_log import Journal
from qianxun.retrieve.timings import Steps

TRIES: Final = 5  # under writes without a pause a search may have to look again


async def cached_recall(
    base: OpenBase,
    text: str,
    options: SearchOptions,
    cache: Cache,
    journal: Journal,
    lifetimes: Lifetimes,
    trace_id: str = "",
) -> Recall:
    """`recall`, or the same answer as long as nothing it depends on has changed. Either is logged, under the
    ``trace_id`` of the request or one of its own."""
    check(options)
    check_text(text)
    started = time.perf_counter()
    origin = base.about.identity
    with base.serving.borrow() as serving:
        generation = await current_generation(base, serving)
    await _drop_outdated(base, cache, generation.records)
    day = await resolve_as_of(base, text, options.as_of, generation)
    params = params_of(options if day is None else replace(options, as_of=day.day))

    async def key_of(state: Generation) -> str:
        scope = cache_scope(base)
        own = (origin, await cache.epoch(origin, state.records), *([scope] if scope else []))
        return cache_key(base.id, text, params, state, *own)

    key = await key_of(generation)
    # A language model may reply otherwise the next time, and another may have taken its name.
    is_repeatable = not base.about.config.get("rewrite_model")
    cached = await get_cached(cache, key, text) if is_repeatable else None
    if cached is not None:
        await asyncio.sleep(0)  # nothing else is awaited here, and other tasks must have their turn
        answer = replace(
            cached,
            trace_id=trace_id or new_trace_id(),
            seconds=time.perf_counter() - started,
            steps=tuple(replace(step, seconds=0.0, start=0.0) for step in cached.steps),
            from_cache=True,
        )
    else:
        answer, _ = await _searched(base, text, options, generation)
        # Under the state it was made from, which may be later than the one read above.
        if is_repeatable and answer.generation is not None:
            if answer.generation != generation:
                key = await key_of(answer.generation)
            await put_cached(cache, key, answer, lifetimes.seconds(base.id, answer.generation.records))
        answer = replace(answer, trace_id=trace_id) if trace_id else answer
    journal.note(base.about, answer, params, requester_of(base))
    return answer


async def _drop_outdated(base: OpenBase, cache: Cache, records: int) -> None:
    """With the first search after a write: no later one looks for answers from before it."""
    if base.answers_at != records:
        base.answers_at = records
        await cache.outdate(base.id, records)


async def recall(
    base: OpenBase,
    text: str,
    options: SearchOptions,
    generation: Generation | None = None,
) -> Recall:
    """The best chunks for a query, best first, each with its score and where that comes from.

    ``generation`` is the state of the base, where it has just been read.
    """
    check_text(text)
    check(options)
    return (await _searched(base, text, options, generation))[0]


async def brief_recall(
    base: OpenBase, text: str, options: SearchOptions, generation: Generation | None = None
) -> tuple[Recall, Complete]:
    """`recall` for callers that show few of many results: these have their chunk and score alone, until they are
    completed."""
    check_text(text)
    check(options)
    return await _searched(base, text, options, generation, brief=True)


@dataclass(frozen=True, slots=True)
class UnreadRecall:
    """The candidates of a search by the score they show, before any of them has been read."""

    base: OpenBase
    serving: Serving
    generation: Generation
    candidates: Candidates
    criteria: TierCriteria
    ranking: Ranking
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]

    def complete(self, found: Found) -> Found:
        return completed(self.candidates.pool, self.criteria, found)

    async def page(self, rank: Callable[[Ranking], Ranking], size: int) -> tuple[Ranking, list[Found]] | None:
        """The first ``size`` of what ``rank`` makes of the results, and those of them that are candidates, to be
        completed. None where all have to be read: the base has changed, or the last of the results may be on the page,
        and whether it is one is not known.

        What turns out to be no result is left out, and ranked again without it.
        """
        pool, refused = self.candidates.pool, set[int]()
        found_related = self.criteria.found_related(pool)
        while True:
            left = without(self.ranking, refused)
            certain = np.cumsum([key in found_related for key in left.keys.tolist()])
            results = left.head(int(np.searchsorted(certain, TOP_K_LIMIT)) + 1)  # none after these is among the first
            page = rank(results).head(size)
            scores = dict(zip(results.keys.tolist(), results.scores.tolist(), strict=True))
            shown = [key for key in page.keys.tolist() if key in scores]
            if not set(results.keys[TOP_K_LIMIT:].tolist()).isdisjoint(shown):
                return None
            wanted = list(dict.fromkeys((*results.keys[:1].tolist(), *shown)))  # the others are measured by the best
            chunks = await pool.chunks(wanted)
            if len(chunks) < len(wanted) or await self._has_moved():
                return None
            more = {chunk.key for chunk in chunks if not self.criteria.admits(chunk, found_related)}
            if not more:
                own = set(shown)
                found = (Found(chunk, scores[chunk.key], "", {}) for chunk in chunks if chunk.key in own)
                return page, with_outdated(self.base, found)
            refused |= more

    async def _has_moved(self) -> bool:
        """Whether the index is another, or has taken up a write, since the candidates were found."""
        return self.serving is not self.base.serving or self.generation.index != await self.serving.index.watermark()


async def unread_recall(
    base: OpenBase, text: str, options: SearchOptions, generation: Generation | None = None
) -> UnreadRecall | None:
    """`brief_recall` for callers that show a page alone, in another order: hundreds of candidates need not be read for
    it. None where they have to be, because of a reranker or because the index has not taken up yet what was written.
    Not for questions with rules of people, nor for those that name documents."""
    check_text(text)
    check(options)
    if options.rerank or not options.fuzzy or not await read(base, bases.is_indexed):
        return None
    steps = Steps()
    with base.serving.borrow() as serving:
        stamp = serving.index.stamp
        if generation is None or (generation.model, generation.analysis) != (stamp.model, stamp.analysis):
            generation = await current_generation(base, serving)
        options = await with_weights(base, serving, options, generation.records)
        with steps.timed("rewrite"):
            plan = await plan_query(base, text, options, generation=generation)
        candidates = await gather(base, serving, plan, options, DEPTH, steps)
        criteria = await tier_criteria(base, serving, candidates)
        order = await ranking_order(base, serving, candidates, options, steps)
        shown = await order.shown(candidates.pool)
    degraded = (*candidates.plan.degraded, *candidates.results.degraded)
    done = (*candidates.results.steps, *steps.done)
    return UnreadRecall(base, serving, generation, candidates, criteria, shown, degraded, done)


async def _searched(
    base: OpenBase, text: str, options: SearchOptions, generation: Generation | None = None, *, brief: bool = False
) -> tuple[Recall, Complete]:
    started = time.perf_counter()
    for _ in range(TRIES):
        with base.serving.borrow() as serving:
            traced = await trace(base, serving, text, options, generation=generation, brief=brief)
        generation = None
        if traced.is_settled or time.perf_counter() - started > options.arm_seconds:
            break
    return traced.recall(text, time.perf_counter() - started), traced.complete


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Everything a search did, for its answer and for explanations."""

    options: SearchOptions  # with their weights
    candidates: Candidates
    order: Order
    found: tuple[Found, ...]
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]
    generation: Generation
    # False: the index has changed since it was read, and a hit has been deleted or two versions of a document were
    # found, because the arms run one after another. The version that replaced it is there to be found.
    is_settled: bool
    complete: Complete  # a result of a brief search

    @property
    def plan(self) -> QueryPlan:
        return self.candidates.plan

    def recall(self, text: str, seconds: float = 0.0) -> Recall:
        return Recall(
            query=text,
            mode=self.options.mode,
            results=self.found,
            degraded=self.degraded,
            trace_id=new_trace_id(),
            queries=self.plan.texts,
            steps=self.steps,
            generation=self.generation,
            seconds=seconds,
            as_of=self.plan.as_of,
        )


async def trace(
    base: OpenBase,
    serving: Serving,
    text: str,
    options: SearchOptions,
    rewritings: Sequence[str] | None = None,
    generation: Generation | None = None,
    *,
    brief: bool = False,
) -> SearchTrace:
    """One search, step by step. With ``rewritings`` given, no language model is called; with the ``generation`` given,
    as read just before, it is not read again. ``brief``: see `rerank_and_tiers`."""
    steps = Steps()
    stamp = serving.index.stamp
    if generation is None or (generation.model, generation.analysis) != (stamp.model, stamp.analysis):
        generation = await current_generation(base, serving)
    options = await with_weights(base, serving, options, generation.records)
    with steps.timed("rewrite"):
        plan = await plan_query(base, text, options, rewritings, generation)
    depth, arms = DEPTH, tuple[str, ...]()
    failed: list[Degraded] = []
    while True:
        candidates = await gather(base, serving, plan, options, depth, steps, arms)
        plan, pool = candidates.plan, candidates.pool
        admitted, order, complete = await rerank_and_tiers(base, serving, candidates, options, steps, brief=brief)
        failed += candidates.results.degraded
        # Not by top_k or threshold: another depth may give other scores.
        if not pool.dropped or candidates.is_all or depth >= DEEPEST or await pool.count() >= TOP_K_LIMIT:
            break
        depth *= 4
        arms = tuple(candidates.results.rankings)  # an arm that failed or was late would be so again
    unknown = await asyncio.to_thread(unknown_keys, base, pool, generation.records) if pool.dropped else []
    # Read last: where the index had nothing to catch up with a moment ago, and has not changed since, unknown keys are
    # damage. The other way round, what it took in between would be reported as damage. Where a later row went first
    # its watermark stays; then the state of the records is another.
    has_moved = serving is not base.serving or generation.index != await serving.index.watermark()
    found = with_outdated(base, newest_only(admitted))
    degraded = [*plan.degraded, *failed, *order.degraded, *([] if has_moved else unknown)]
    return SearchTrace(
        options=options,
        candidates=candidates,
        order=order,
        found=tuple(found),
        degraded=tuple(dict.fromkeys(degraded)),
        steps=(*candidates.results.steps, *steps.done),
        generation=generation,
        is_settled=not (has_moved and (pool.dropped or len(found) < len(admitted))),
        complete=complete,
    )


def newest_only(found: Sequence[Found]) -> list[Found]:
    """The results without those of a version that another result of the same document has replaced.

    Both are in the records until the index is known to have dropped the old one; and an index just rebuilt may hold
    both, until it has caught up with what was written meanwhile.
    """
    newest: dict[str, int] = {}
    for result in found:
        newest[result.chunk.doc_id] = max(result.chunk.generation, newest.get(result.chunk.doc_id, 0))
    return [result for result in found if result.chunk.generation == newest[result.chunk.doc_id]]


async def current_generation(base: OpenBase, serving: Serving) -> Generation:
    stamp = serving.index.stamp
    records = await read(base, bases.generation)
    base.chunks = base.chunks.for_state(records)
    return Generation(records, await serving.index.watermark(), stamp.model, stamp.analysis)
