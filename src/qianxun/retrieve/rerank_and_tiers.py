"""Which candidates become results: read again by a reranker, let in by their tier, cut by the threshold."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, in_model_thread
from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.options import RecallOptions
from qianxun.core.types import Degraded, Found, Ranking, Tier
from qianxun.rank.calibrate import Curve, clipped
from qianxun.rank.rerank import reranked
from qianxun.rank.tiers import coverage, matched_in, matched_under, rarity, tier_of
from qianxun.retrieve.arm_results import WITH_VECTOR
from qianxun.retrieve.candidate_pool import CandidatePool, ScoresByKey
from qianxun.retrieve.highlight import highlights
from qianxun.retrieve.query_plan import QueryPlan, counted
from qianxun.retrieve.run_arms import ArmResults
from qianxun.retrieve.timings import Steps
from qianxun.text.chinese import fold

log = logging.getLogger(__name__)

RERANK_DEPTH: Final = 50  # the first so many are read again
PAGE: Final = 50
NEAREST: Final = 3  # by the vector arm: related, however little the cosine


async def rerank_and_tiers(
    base: OpenBase,
    serving: Serving,
    asked: QueryPlan,
    heard: ArmResults,
    pool: CandidatePool,
    options: RecallOptions,
    steps: Steps,
) -> tuple[list[Found], Order]:
    """The results, best first, at most ``top_k``; and the order in which they were judged."""
    bench = await tier_criteria(base, serving, asked, heard, pool)
    order = await ranking_order(base, serving, asked, heard, pool, options, steps)
    results: list[Found] = []
    with steps.timed("judge"):
        async with aclosing(order.walk(pool, options.top_k)) as candidates:
            async for candidate, shown in candidates:
                if is_below_threshold(shown, asked, options):
                    break
                verdict = bench.verdict(candidate)
                if is_admitted(verdict.tier, options):
                    results.append(bench.result(candidate, shown, verdict))
                    if len(results) == options.top_k:
                        break
    return results, order


def is_below_threshold(shown: float, asked: QueryPlan, options: RecallOptions) -> bool:
    """Below the threshold, which does not hold for documents that the user named."""
    return shown < options.threshold and not asked.named


def is_admitted(tier: Tier | None, options: RecallOptions) -> bool:
    return tier is not None and (tier != "fuzzy" or options.fuzzy)


def curve_of(base: OpenBase, heard: ArmResults, options: RecallOptions) -> Curve:
    """What brings a fused score to the one that is shown. All of them keep the order."""
    return base.curves.fused(sides_of(heard, options)) if options.fusion == "weighted" else clipped


def sides_of(heard: ArmResults, options: RecallOptions) -> dict[str, float]:
    """The weights of the sides that answered, the largest as 1."""
    held = {side: options.weights.get(side, 0.0) for side in heard.sides}
    largest = max(held.values()) or 1.0
    return {side: weight / largest for side, weight in held.items()}


@dataclass(frozen=True, slots=True)
class Order:
    """In which order candidates are judged, and what brings their scores to those that are shown."""

    curve: Curve
    first: Sequence[Found] = ()  # what was read again
    share: float = 0.0  # of the reranker
    degraded: tuple[Degraded, ...] = ()

    async def walk(self, pool: CandidatePool, page: int) -> AsyncGenerator[tuple[Found, float], None]:
        """Every candidate with the score it shows, best first, ties by key: two scores may show as one."""
        scores = self._scores(pool.candidates)
        shown = Ranking.ordered(scores.keys, self.curve(scores.scores))
        again = {each.chunk.key: each for each in self.first}
        before = ScoresByKey(scores) if self.first else None
        size = min(page, PAGE)
        for at in range(0, len(shown), size):
            after = {hit.key: hit.score for hit in shown.hits_between(at, at + size)}
            for each in await pool.found(list(after)):
                key = each.chunk.key
                if before is not None:
                    each = again.get(key) or replace(each, score=before.score(key))
                yield each, after[key]

    def _scores(self, fused: Ranking) -> Ranking:
        """What was read again, then the rest behind it, whose scores may not rise above those before them."""
        if not self.first:
            return fused
        read = Ranking.of((each.chunk.key, each.score) for each in self.first)
        is_rest = ~np.isin(fused.keys, read.keys)
        rest = np.minimum((1.0 - self.share) * fused.scores[is_rest], read.scores[-1])
        return Ranking(np.concatenate([read.keys, fused.keys[is_rest]]), np.concatenate([read.scores, rest]))


async def ranking_order(
    base: OpenBase,
    serving: Serving,
    asked: QueryPlan,
    heard: ArmResults,
    pool: CandidatePool,
    options: RecallOptions,
    steps: Steps,
) -> Order:
    curve = curve_of(base, heard, options)
    if not options.rerank:
        return Order(curve)
    with steps.timed("rerank"):
        first = await pool.first(RERANK_DEPTH)
        model, failed = await rerank(base, serving, asked, first, options)
    if model is None:
        return Order(curve, first, 0.0, tuple(failed))
    if options.fusion == "weighted":  # the curves speak of weighted sums
        curve = base.curves.reranked(sides_of(heard, options), model.share)
    return Order(curve, model.results, model.share, tuple(failed))


# ── reading again ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Reranked:
    results: list[Found]
    share: float


async def rerank(
    base: OpenBase, serving: Serving, asked: QueryPlan, first: Sequence[Found], options: RecallOptions
) -> tuple[Reranked | None, list[Degraded]]:
    """The first candidates in the reranker's order; the fused order stands where it fails or takes too long."""
    late = time.monotonic() + options.rerank_seconds
    query = asked.queries[0].text
    chunks = [each.chunk for each in first]

    def scored() -> tuple[list[float], float]:
        if base.models is None:
            raise ModelUnavailable(f"没有名为“{options.rerank}”的重排模型", hint="在设置中登记它，或不重排")
        model = base.models.rerank(options.rerank, serving.model)
        return base.rerank_cache.scores(model, query, chunks, lambda: time.monotonic() > late), model.share

    try:
        reading = in_model_thread(base, "rerank", options.rerank, scored)
        scores, share = await asyncio.wait_for(reading, options.rerank_seconds)
        return Reranked(reranked(first, scores, share), share), []
    except TimeoutError:
        return None, [Degraded("rerank", f"{options.rerank_seconds:g} 秒内没有重排完，按融合的次序返回")]
    except NotFound:
        raise
    except QianxunError as error:
        return None, [Degraded("rerank", f"按融合的次序返回：{error}")]
    except Exception as error:  # the door of a model, which may be anybody's
        log.exception("rerank model %s failed", options.rerank)
        return None, [Degraded("rerank", f"出错，按融合的次序返回：{type(error).__name__}: {error}")]


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Relevance:
    """What a candidate's tier was decided by."""

    tier: Tier | None  # None: it has nothing to do with the query
    similarity: float | None  # None where no vector took part
    matched: tuple[str, ...]
    coverage: float
    folded: str  # the text, as words were looked for in it


@dataclass(frozen=True, slots=True)
class TierCriteria:
    """What results are judged by: the words of the user's own queries, and how alike they are to those."""

    words: tuple[str, ...]
    grams: frozenset[str]
    weights: tuple[Mapping[str, float], ...]  # of the words of each query: one that is met is enough
    alike: tuple[ScoresByKey, ...]  # cosines, calibrated; none where no vector took part
    unlike: float  # what a cosine of zero means: no other means less
    named: frozenset[str]

    def verdict(self, candidate: Found) -> Relevance:
        chunk = candidate.chunk
        folded = fold(chunk.text)
        held = matched_under(folded, chunk.headings, self.words)
        covered = max((coverage([word for word in held if word in each], each) for each in self.weights), default=0.0)
        alike = max([self.unlike, *(each.score(chunk.key) for each in self.alike)]) if self.alike else None
        meets = bool(held) or "keyword" in candidate.arms or _is_near(candidate) or not self.grams.isdisjoint(folded)
        tier = tier_of(alike, covered, is_named=chunk.doc_id in self.named, meets=meets)
        return Relevance(tier, alike, held, covered, folded)

    def result(self, candidate: Found, shown: float, verdict: Relevance) -> Found:
        """The candidate with its tier and all that explains it."""
        return Found(
            candidate.chunk,
            shown,
            candidate.source,
            candidate.arms,
            verdict.tier or "fuzzy",
            verdict.matched,
            verdict.coverage,
            candidate.fused,
            candidate.rerank,
            highlights(candidate.chunk.text, matched_in(verdict.folded, verdict.matched), folded=verdict.folded),
        )


def _is_near(candidate: Found) -> bool:
    """Among the nearest of all: what is asked in quite other words has no more to show than that."""
    return "vector" in candidate.arms and 1 <= candidate.arms["vector"].rank <= NEAREST


async def tier_criteria(
    base: OpenBase, serving: Serving, asked: QueryPlan, heard: ArmResults, pool: CandidatePool
) -> TierCriteria:
    words = tuple(dict.fromkeys(word for query in asked.own for word in query.terms.words))
    rare = rarity(await counted(serving, words))
    calibrate = base.curves.vector
    alike = [
        pool.arms[arm] if own is heard.rankings[arm] else ScoresByKey(own, calibrate)
        for arm, own in heard.own.items()
        if arm in WITH_VECTOR
    ]
    alike += [pool.behind] if alike else []
    return TierCriteria(
        words=words,
        grams=frozenset(gram for query in asked.own for gram in query.terms.grams if len(gram) == 1),
        weights=tuple({word: rare[word] for word in query.terms.words} for query in asked.own),
        alike=tuple(alike),
        unlike=float(calibrate(np.zeros(1))[0]),
        named=asked.named,
    )
