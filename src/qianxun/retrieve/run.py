"""The way out: rewrite → recall in parallel → fuse → rerank → tiers → join with the records → explain.

A hit is a key and a score; text comes from the records. What is not in the records any more can therefore never be
returned, even while the index lags behind.

Scores keep four promises, in every mode (docs/decisions/0007-scores.md): results are sorted by the score they show, a
higher threshold returns a subset, a shorter list is the beginning of a longer one, and the same search on the same
state gives the same bytes. Nothing before the last step may therefore depend on ``top_k`` or on the threshold.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.bases.base import OpenBase, Serving, read
from qianxun.core.codec.search_params import params_of
from qianxun.core.errors import IndexUnusable, RetrieverUnavailable
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.log_types import new_trace_id
from qianxun.core.options import ARMS, RecallOptions, check
from qianxun.core.ports import Cache
from qianxun.core.types import Degraded, Found, Generation, Ranking, Recall, Scores, StepTime
from qianxun.rank.fuse import FUSIONS, fitting_weights, weighted
from qianxun.rank.tiers import FUZZY
from qianxun.records import bases
from qianxun.retrieve.candidate_pool import CandidatePool, unknown_keys
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query, with_guess
from qianxun.retrieve.recall_cache import cache_key, get_cached, put_cached
from qianxun.retrieve.rerank_and_tiers import Order, rerank_and_tiers, sides_of
from qianxun.retrieve.run_arms import ArmResults, completed, run_arms, together
from qianxun.retrieve.search_log import Journal
from qianxun.retrieve.timings import Steps

DEPTH: Final = 200  # candidates per arm: above every top_k, so that a shorter list is a prefix of a longer one
DEEPEST: Final = 12_800  # as far as a search goes on when the first candidates are not of record any more
UNSURE_WORDS: Final = 0.2  # a share, chosen by eye: the best hit of a well-worded question mostly has more
TRIES: Final = 5  # under writes without a pause a search may have to look again


async def cached_recall(
    base: OpenBase,
    text: str,
    options: RecallOptions,
    cache: Cache,
    journal: Journal,
    seconds: float,
    trace_id: str = "",
) -> Recall:
    """`recall`, or the same answer as long as nothing it depends on has changed; either way it is logged, under the
    ``trace_id`` of the request that asked, or one of its own."""
    check_text(text)
    started = time.perf_counter()
    params = params_of(options)
    with base.serving.borrow() as serving:
        generation = await current_generation(base, serving)
    key = cache_key(base.id, text, params, generation)
    # What a language model would say this time nobody knows, nor whether another has taken its name.
    is_repeatable = not base.about.config.get("rewrite_model")
    kept = await get_cached(cache, key, text) if is_repeatable else None
    if kept is not None:
        await asyncio.sleep(0)  # nothing else is waited for here, and others must have their turn
        answer = replace(
            kept,
            trace_id=trace_id or new_trace_id(),
            seconds=time.perf_counter() - started,
            steps=tuple(replace(step, seconds=0.0, start=0.0) for step in kept.steps),  # what they gave, at no time
            from_cache=True,
        )
    else:
        answer = await recall(base, text, options, generation)
        # Under the state it was made from, which may be a later one than that of the question.
        if is_repeatable and answer.generation is not None:
            if answer.generation != generation:
                key = cache_key(base.id, text, params, answer.generation)
            await put_cached(cache, key, answer, seconds)
        answer = replace(answer, trace_id=trace_id) if trace_id else answer
    journal.note(base.about, answer, params)
    return answer


async def recall(base: OpenBase, text: str, options: RecallOptions, generation: Generation | None = None) -> Recall:
    """The best chunks for a query, best first, each with its score and where that comes from.

    ``generation`` is the state of the base, where it has just been read.
    """
    check_text(text)
    check(options)
    started = time.perf_counter()
    for _ in range(TRIES):
        with base.serving.borrow() as serving:
            traced = await trace(base, serving, text, options, generation=generation)
        generation = None
        if traced.is_settled or time.perf_counter() - started > options.arm_seconds:
            break
    return to_recall(text, options, traced, time.perf_counter() - started)


def newest_only(found: Sequence[Found]) -> list[Found]:
    """The results without those of a version that another result of the same document has replaced.

    Both are of record until the index is known to have let go of the old one; and an index just made anew may hold
    both, until it has caught up with what was written meanwhile.
    """
    newest: dict[str, int] = {}
    for each in found:
        newest[each.chunk.doc_id] = max(each.chunk.generation, newest.get(each.chunk.doc_id, 0))
    return [each for each in found if each.chunk.generation == newest[each.chunk.doc_id]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the arms found to so great a depth, put into one ranking."""

    asked: QueryPlan
    heard: ArmResults
    fused: Ranking
    pool: CandidatePool
    depth: int

    @property
    def is_all(self) -> bool:
        """No arm has more to give."""
        return all(len(ranking) < self.depth for ranking in self.heard.rankings.values())


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Everything a search did, for the answer and for those who ask why."""

    options: RecallOptions  # with their weights
    asked: QueryPlan
    candidates: Candidates
    order: Order
    found: tuple[Found, ...]
    degraded: tuple[Degraded, ...]
    steps: tuple[StepTime, ...]
    generation: Generation
    # False: the index has moved since it was asked, and a hit was of record no more, or two versions of a document
    # were found, because its arms are asked one after another. The version that took the place is there to be found.
    is_settled: bool


def to_recall(text: str, options: RecallOptions, traced: SearchTrace, seconds: float = 0.0) -> Recall:
    return Recall(
        query=text,
        mode=options.mode,
        found=traced.found,
        degraded=traced.degraded,
        trace_id=new_trace_id(),
        queries=traced.asked.texts,
        steps=traced.steps,
        generation=traced.generation,
        seconds=seconds,
    )


async def trace(
    base: OpenBase,
    serving: Serving,
    text: str,
    options: RecallOptions,
    rewritings: Sequence[str] | None = None,
    generation: Generation | None = None,
) -> SearchTrace:
    """One search, step by step. Given its ``rewritings``, no model is asked for them; given the ``generation``, as
    read just before, the records are not asked for it again."""
    steps = Steps()
    options = await with_weights(serving, options)
    if generation is None or not _is_of(generation, serving):
        generation = await current_generation(base, serving)
    with steps.timed("rewrite"):
        asked = await plan_query(base, text, options, rewritings)
    depth, arms = DEPTH, ARMS[options.mode]
    told: list[Degraded] = []
    while True:
        candidates = await gather(base, serving, asked, options, depth, steps, arms)
        asked, heard, pool = candidates.asked, candidates.heard, candidates.pool
        judged, order = await rerank_and_tiers(base, serving, asked, heard, pool, options, steps)
        told += heard.degraded
        # Not by top_k or threshold: another depth may give other scores.
        if not pool.dropped or candidates.is_all or depth >= DEEPEST or await pool.of_record() >= TOP_K_LIMIT:
            break
        depth *= 4
        arms = tuple(heard.rankings)  # who failed or was late would be so again
    unknown = await asyncio.to_thread(unknown_keys, base, pool) if pool.dropped else []
    # Read last: where nothing waited for the index a moment ago, and it has not moved since, it has nothing left to
    # take. The other way round, what it took between the two questions was told as damage.
    has_moved = serving is not base.serving or generation.index != await serving.index.watermark()
    found = newest_only(judged)
    degraded = [*asked.degraded, *told, *order.degraded, *([] if has_moved else unknown)]
    return SearchTrace(
        options=options,
        asked=asked,
        candidates=candidates,
        order=order,
        found=tuple(found),
        degraded=tuple(dict.fromkeys(degraded)),
        steps=(*heard.steps, *steps.done),
        generation=generation,
        is_settled=not (has_moved and (pool.dropped or len(found) < len(judged))),
    )


async def gather(
    base: OpenBase,
    serving: Serving,
    asked: QueryPlan,
    options: RecallOptions,
    depth: int,
    steps: Steps,
    arms: Sequence[str] = (),
) -> Candidates:
    """The candidates of these arms, or of every one, fused. ``options`` have their weights.

    Where nothing sure is found, a word may have been typed by its sound: the query is asked again as it may have been
    meant. Only then, because most such guesses are wrong where the query is right.
    """
    arms = arms or ARMS[options.mode]
    heard = await run_arms(base, serving, asked, arms, depth, options.arm_seconds)
    with steps.timed("fuse"):
        heard = await completed(serving, heard)
        sides = heard.scores()
        fused = FUSIONS[options.fusion](sides, options.weights)
        best = (fused if options.fusion == "weighted" else weighted(sides, options.weights)).scores[:1]
    if options.fuzzy and not asked.corrected and is_unsure(base, heard, best, options):
        with steps.timed("guess"):
            guessed = await with_guess(base, serving, asked)
        if guessed.corrected:
            meant = replace(guessed, queries=guessed.queries[-guessed.corrected :])
            heard = together(heard, await run_arms(base, serving, meant, arms, depth, options.arm_seconds))
            asked, heard = guessed, await completed(serving, heard)
            fused = FUSIONS[options.fusion](heard.scores(), options.weights)
    return Candidates(asked, heard, fused, CandidatePool(base, asked, heard, fused), depth)


def is_unsure(base: OpenBase, heard: ArmResults, best: Scores, options: RecallOptions) -> bool:
    """Whether the best candidate would not even be a fuzzy result; by words alone, whether it has few of them."""
    if len(best) == 0:
        return True
    if "vector" not in heard.sides:
        return bool(best[0] < UNSURE_WORDS)
    return bool(base.curves.fused(sides_of(heard, options))(best)[0] < FUZZY)


async def current_generation(base: OpenBase, serving: Serving) -> Generation:
    stamp = serving.index.stamp
    records = await read(base, bases.generation)
    return Generation(records, await serving.index.watermark(), stamp.model, stamp.analysis)


def _is_of(generation: Generation, serving: Serving) -> bool:
    """False where another index has taken the place of the one that was asked."""
    stamp = serving.index.stamp
    return (generation.model, generation.analysis) == (stamp.model, stamp.analysis)


async def with_weights(serving: Serving, options: RecallOptions) -> RecallOptions:
    """The options with their weights: the user's own, or those that fit the base."""
    if options.mode != "hybrid":
        return replace(options, weights={"vector": 1.0, "keyword": 1.0})
    if options.weights:
        return options
    try:
        likeness = await serving.index.likeness()
    except (IndexUnusable, RetrieverUnavailable):  # damaged, or away: the vector arm will say so
        likeness = 0.0
    return replace(options, weights=fitting_weights(likeness))
