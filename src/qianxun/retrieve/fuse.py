"""From the arms' rankings to one ranking of candidates: weights, cosines for what only other arms found, fusion, and a
second try with a guessed correction where nothing sure was found. `gather` is the function to read first."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, read
from qianxun.core.errors import IndexUnusable, RetrieverUnavailable
from qianxun.core.options import SearchOptions
from qianxun.core.types import Degraded, Ranking, Scores, Terms
from qianxun.rank.calibrate import Curve, background, clipped
from qianxun.rank.codes import NO_CODES, CodeHolders, codes_in
from qianxun.rank.fuse import FUSIONS, beside_meaning, fitting_weights, promote_firsts, weighted
from qianxun.rank.tiers import FUZZY
from qianxun.records import bases, chunks
from qianxun.retrieve.arms import STANDARD, arms_of, plugin_weights, signal_of
from qianxun.retrieve.candidate_pool import CandidatePool
from qianxun.retrieve.query_plan import QueryPlan, with_guess
from qianxun.retrieve.question_rules import NO_RULES, MatchedRules, matched_rules
from qianxun.retrieve.run_arms import ArmResults, merged, run_arms
from qianxun.retrieve.timings import Steps

DEPTH: Final = 200  # candidates per arm: above every top_k, so that a shorter list is a prefix of a longer one
DEEPEST: Final = 12_800  # how deep a search goes on when the first candidates have been deleted
UNSURE_WORDS: Final = 0.2  # a share, chosen by eye: the best hit of a well-worded question mostly has more


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the arms found to this depth, in one ranking."""

    plan: QueryPlan
    results: ArmResults
    signals: Mapping[str, Ranking]  # what was fused
    pool: CandidatePool
    depth: int
    background: float = 0.0  # the cosine of what has nothing to do with the question
    rules: MatchedRules = NO_RULES  # that people made for this question
    codes: CodeHolders = NO_CODES

    @property
    def is_all(self) -> bool:
        """True if no arm has more to give."""
        return all(len(ranking) < self.depth for ranking in self.results.rankings.values())


async def gather(
    base: OpenBase,
    serving: Serving,
    plan: QueryPlan,
    options: SearchOptions,
    depth: int,
    steps: Steps,
    only: Sequence[str] = (),
) -> Candidates:
    """The fused candidates of the arms of this search, or of those named ``only``. ``options`` have their weights.

    Where nothing sure is found a word may have been typed by its sound: the query is searched again as it may have
    been intended. Only then, because most such guesses are wrong where the query is right.
    """
    arms, failed = arms_of(base, options)
    arms = [arm for arm in arms if (not only or arm.name in only) and arm.applies_to(plan.queries[0])]
    results = await run_arms(base, serving, plan, arms, depth, options.arm_seconds, options.bm25)
    if failed and not only:
        results = replace(results, degraded=(*failed, *results.degraded))
    with steps.timed("fuse"):
        results = await backfilled(serving, results)
        codes = await _code_holders(serving, plan) if "keyword" in results.rankings else NO_CODES
        scores = fused_signals(results, codes)
        fused = _fused(base, scores, options)
        best = (fused if options.fusion == "weighted" else weighted(scores, options.weights)).scores[:1]
    if options.fuzzy and not plan.corrected and _is_unsure(base, results, best, options):
        with steps.timed("guess"):
            guessed = await with_guess(base, serving, plan)
        if guessed.corrected:
            guess = replace(guessed, queries=guessed.queries[-guessed.corrected :])
            more = await run_arms(base, serving, guess, arms, depth, options.arm_seconds, options.bm25)
            plan, results = guessed, await backfilled(serving, merged(results, more))
            scores = fused_signals(results, codes)
            fused = _fused(base, scores, options)
    unrelated = background(scores["vector"].scores, await _likeness(serving)) if "vector" in scores else 0.0
    text, vector = plan.queries[0].text, results.vectors[0] if results.vectors else None
    rules, unruled = await matched_rules(base, serving, plan.rules, text, vector)
    if unruled:
        results = replace(results, degraded=(*results.degraded, *unruled))
    pool = CandidatePool(base, plan, results, without(fused, rules.excluded))
    return Candidates(plan, results, scores, pool, depth, unrelated, rules, codes)


def without(ranking: Ranking, keys: Collection[int]) -> Ranking:
    """The ranking without these chunks."""
    if not keys:
        return ranking
    is_left = ~np.isin(ranking.keys, np.array(sorted(keys), dtype=np.int64))
    return Ranking(ranking.keys[is_left], ranking.scores[is_left], ranking.ceiling)


def fused_signals(results: ArmResults, codes: CodeHolders = NO_CODES) -> dict[str, Ranking]:
    """What is fused: one ranking for each signal, words as they count beside meaning."""
    scores = results.scores()
    if "vector" in scores and "keyword" in scores:
        words = scores["keyword"]
        scores["keyword"] = codes.lifted(words) if codes.is_distinctive else beside_meaning(words)
    return scores


async def _code_holders(serving: Serving, plan: QueryPlan) -> CodeHolders:
    """Which chunks have the codes of the question; a code that is in more than can be looked at is a word like others.
    Nothing is looked up for a question without codes."""
    query = plan.queries[0]
    try:
        found = [
            await serving.index.match(Terms((code,)), DEPTH, query.where, "all") for code in codes_in(query.terms.words)
        ]
    except (IndexUnusable, RetrieverUnavailable):  # the keyword arm reports it
        return NO_CODES
    return CodeHolders(tuple(frozenset(one.keys.tolist()) for one in found if len(one) < DEPTH))


def _fused(base: OpenBase, scores: Mapping[str, Ranking], options: SearchOptions) -> Ranking:
    """By rank, the weight of a signal bounds all that it can say: what only words find, however surely, would come
    behind whatever vectors put at the first thirty places. What a signal is sure of is therefore among the first."""
    fused = FUSIONS[options.fusion](scores, options.weights)
    if options.fusion != "rrf" or len(scores) < 2:
        return fused
    least = {"keyword": UNSURE_WORDS}
    curves = {"vector": base.curves.vector}
    firsts = [
        int(ranking.keys[0])
        for signal, ranking in scores.items()
        if len(ranking) and options.weights.get(signal, 0.0) > 0.0
        if curves.get(signal, clipped)(ranking.scores[:1])[0] >= least.get(signal, FUZZY)
    ]
    return promote_firsts(fused, firsts)


async def backfilled(serving: Serving, results: ArmResults) -> ArmResults:
    """Cosines also for what only other arms found: that an arm's ranking ends before a chunk is not a zero."""
    if "vector" not in results.rankings or len(results.rankings) < 2:
        return results
    others = set[int]().union(*(ranking.keys.tolist() for arm, ranking in results.rankings.items() if arm != "vector"))
    others.difference_update(results.rankings["vector"].keys.tolist())
    unseen = np.array(sorted(others), dtype=np.int64)
    if len(unseen) == 0:
        return results
    try:
        by_query = [await serving.index.cosines(vector, unseen) for vector in results.vectors]
    except (IndexUnusable, RetrieverUnavailable) as error:
        return replace(results, degraded=(*results.degraded, Degraded("vector", str(error))))
    cosines = by_query[0] if len(by_query) == 1 else np.fmax.reduce(by_query)
    unknown = np.isnan(cosines)
    if unknown.any():
        unseen, cosines = unseen[~unknown], cosines[~unknown]
    return replace(results, backfill=Ranking(unseen, clipped(cosines), 1.0, cosines))


def _is_unsure(base: OpenBase, results: ArmResults, best: Scores, options: SearchOptions) -> bool:
    """True if the best candidate would not even be a fuzzy result; by words alone, if it has few of them."""
    if len(best) == 0:
        return True
    if "vector" not in results.signals:
        return bool(best[0] < UNSURE_WORDS)
    return bool(base.curves.fused(signal_weights(results, options))(best)[0] < FUZZY)


# ── weights ──────────────────────────────────────────────────────────────────────────────────────


async def with_weights(
    base: OpenBase, serving: Serving, options: SearchOptions, state: int | None = None
) -> SearchOptions:
    """The options with a weight for every signal: the user's own, or those that fit the base; of arms of other
    packages their own. ``state`` is that of the records, where it has just been read."""
    others = plugin_weights(options.arms)
    if options.mode != "hybrid":
        return replace(options, weights={**dict.fromkeys(map(signal_of, STANDARD), 1.0), **others})
    if options.weights:
        return replace(options, weights={**others, **options.weights}) if others else options
    return replace(options, weights={**await base_weights(base, serving, state), **others})


async def base_weights(base: OpenBase, serving: Serving, state: int | None = None) -> dict[str, float]:
    """The weights that fit the base as it is."""
    if serving.model is None:
        return fitting_weights(0.0)
    if state is None:
        state = await read(base, bases.generation)
    if serving.tables is None or serving.tables[0] != state:
        serving.tables = (state, await asyncio.to_thread(_table_share, base))
    return fitting_weights(await _likeness(serving), serving.tables[1])


async def _likeness(serving: Serving) -> float:
    try:
        return await serving.index.likeness()
    except (IndexUnusable, RetrieverUnavailable):  # damaged or not reachable: the vector arm will report it
        return 0.0


def _table_share(base: OpenBase) -> float:
    with base.records.reading() as tx:
        # A sample by numbers would depend on how many lie between those that are seen.
        return chunks.table_share(tx, base.id) if base.view is None else chunks.exact_table_share(tx, base.id)


def signal_weights(results: ArmResults, options: SearchOptions) -> dict[str, float]:
    """The weights of the signals that take part, the largest as 1."""
    weights = {signal: options.weights.get(signal, 0.0) for signal in results.signals}
    largest = max(weights.values()) or 1.0
    return {signal: weight / largest for signal, weight in weights.items()}


def fused_curve(base: OpenBase, results: ArmResults, options: SearchOptions) -> Curve:
    """What brings a fused score to how related a chunk is, whatever else was found. All curves keep the order."""
    return base.curves.fused(signal_weights(results, options)) if options.fusion == "weighted" else clipped


def shown_curve(
    base: OpenBase, candidates: Candidates, options: SearchOptions, first: tuple[int, float] | None, *, share: float
) -> Curve:
    """What brings the scores of candidates to those that are shown: how likely each is right, where the model has been
    fitted for that, else how related it is. ``first`` is the key of the best and its score, with so much of a
    reranker's in it."""
    weights = signal_weights(candidates.results, options)
    related = base.curves.reranked(weights, share) if share else base.curves.fused(weights)
    if options.fusion != "weighted" or first is None or weights.get("vector", 0.0) == 0.0:
        return related if options.fusion == "weighted" else clipped
    kind = "reranked" if share else "hybrid" if weights.get("keyword", 0.0) else "vector"
    chance = base.curves.chances.get(kind)
    ranking = candidates.signals["vector"]
    at = np.flatnonzero(ranking.keys == first[0])
    if chance is None or not len(at):
        return related
    if others := sum(weight for signal, weight in weights.items() if signal not in ("vector", "keyword")):
        chance = replace(chance, slope=chance.slope * sum(weights.values()) / (sum(weights.values()) - others))
    codes = candidates.codes.share(first[0])
    return chance.curve(first[1], float(ranking.scores[at[0]]), candidates.background, codes)
