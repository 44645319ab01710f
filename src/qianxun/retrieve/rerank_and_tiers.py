"""Which candidates become results: read again by a reranker, admitted by their tier, cut off at the threshold.

`rerank_and_tiers` is the function to read first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from qianxun.bases.base import OpenBase, Serving, in_model_thread
from qianxun.core.errors import ModelUnavailable, NotFound, QianxunError
from qianxun.core.options import SearchOptions
from qianxun.core.types import Chunk, Degraded, Found, Ranking, Tier
from qianxun.rank.calibrate import Curve
from qianxun.rank.rerank import reranked
from qianxun.rank.tiers import FUZZY, coverage, matched_in, matched_under, rarity, tier_of
from qianxun.retrieve.candidate_pool import CandidatePool, ScoresByKey
from qianxun.retrieve.fuse import Candidates, shown_curve
from qianxun.retrieve.query_plan import QueryPlan, counted
from qianxun.retrieve.question_rules import PINNED_SCORE
from qianxun.retrieve.timings import Steps
from qianxun.text.matching import Span, spans

log = logging.getLogger(__name__)

RERANK_DEPTH: Final = 50  # so many of the first candidates are reranked
PAGE: Final = 50
NEAREST: Final = 3  # by the vector arm: related, however low the cosine
HIGHLIGHTS: Final = 3
LONGEST_CHAIN: Final = 20  # of documents that each supersede the one before
HIGHLIGHT_WINDOW: Final = 50  # characters


async def rerank_and_tiers(
    base: OpenBase,
    serving: Serving,
    candidates: Candidates,
    options: SearchOptions,
    steps: Steps,
    *,
    brief: bool = False,
) -> tuple[list[Found], Order, Complete]:
    """The results, best first, at most ``top_k``; the order in which candidates were looked at; and what completes a
    result. ``brief``: for callers that show few of many results, each with its chunk and score alone until then."""
    criteria = await tier_criteria(base, serving, candidates)
    order = await ranking_order(base, serving, candidates, options, steps)
    results = await pinned_results(candidates, criteria, options)
    if brief and options.fuzzy and not options.rerank:
        with steps.timed("judge"):
            results += await brief_results(candidates, criteria, order, options, len(results))
        return results, order, partial(completed, candidates.pool, criteria)
    with steps.timed("judge"):
        async with aclosing(order.walk(candidates.pool, options.top_k)) as ranked:
            async for candidate, shown in ranked:
                if is_below_threshold(shown, candidates.plan, options) or len(results) == options.top_k:
                    break
                if candidate.chunk.key in candidates.rules.pinned:
                    continue
                relevance = criteria.assess(candidate, order.verdict(candidate, shown), order.is_first(candidate))
                if is_admitted(relevance.tier, options):
                    results.append(result_of(candidate, shown, relevance))
                    if len(results) == options.top_k:
                        break
    return results, order, unchanged


async def brief_results(
    candidates: Candidates, criteria: TierCriteria, order: Order, options: SearchOptions, taken: int
) -> list[Found]:
    """What a search without a reranker admits, ``taken`` places being taken. Most candidates are admitted by where they
    were found, and their words need not be compared."""
    pool, results = candidates.pool, list[Found]()
    shown = await order.shown(pool)
    found_related = criteria.found_related(pool)
    size = max(options.top_k, PAGE)  # as many as are wanted in one statement: all of them are mostly admitted
    for at in range(0, len(shown), size):
        scores = dict(shown.hits_between(at, at + size))
        for chunk in await pool.chunks(list(scores)):
            score = scores[chunk.key]
            if is_below_threshold(score, candidates.plan, options) or taken + len(results) == options.top_k:
                return results
            if chunk.key not in candidates.rules.pinned and criteria.admits(chunk, found_related):
                results.append(Found(chunk, score, "", {}))
        if taken + len(results) == options.top_k:
            break
    return results


def completed(pool: CandidatePool, criteria: TierCriteria, brief: Found) -> Found:
    """A result of `brief_results` with its tier and all that explains it."""
    if brief.source:  # it is: people put it first
        return brief
    candidate = pool.scored(brief.chunk)
    return replace(result_of(candidate, brief.score, criteria.assess(candidate)), outdated=brief.outdated)


Complete: TypeAlias = Callable[[Found], Found]


def unchanged(found: Found) -> Found:
    return found


async def pinned_results(candidates: Candidates, criteria: TierCriteria, options: SearchOptions) -> list[Found]:
    """What people put first for this question, in the order of their rules: as sure as a result can be."""
    rules = candidates.rules.pinned
    found = await candidates.pool.pinned(list(rules))
    return [
        replace(result_of(one, PINNED_SCORE, replace(criteria.assess(one), tier="strict")), pinned=rules[one.chunk.key])
        for one in found[: options.top_k]
    ]


def is_below_threshold(shown: float, plan: QueryPlan, options: SearchOptions) -> bool:
    """The threshold does not hold for documents that the user named."""
    return shown < options.threshold and not plan.named


def is_admitted(tier: Tier | None, options: SearchOptions) -> bool:
    return tier is not None and (tier != "fuzzy" or options.fuzzy)


# ── order ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Order:
    """In which order candidates are looked at, and what brings their scores to those that are shown."""

    curve: Curve
    first: Sequence[Found] = ()  # what was reranked
    share: float = 0.0  # of the reranker
    degraded: tuple[Degraded, ...] = ()

    def verdict(self, candidate: Found, shown: float) -> float:
        """What the reranker says of a candidate, as far as the score shown agrees; 0 where it has not read it."""
        return 0.0 if candidate.rerank is None else min(candidate.rerank, shown)

    def is_first(self, candidate: Found) -> bool:
        """Whether the reranker put it before all others."""
        return self.share > 0.0 and bool(candidate.rerank) and candidate.chunk.key == self.first[0].chunk.key

    async def walk(self, pool: CandidatePool, page: int) -> AsyncGenerator[tuple[Found, float], None]:
        """Every candidate with the score it shows, best first, ties by key: two scores may show as one."""
        shown = await self.shown(pool)
        first = {found.chunk.key: found for found in self.first}
        before = ScoresByKey(self._scores(pool.candidates)) if self.first else None
        size = min(page, PAGE)
        for at in range(0, len(shown), size):
            after = {hit.key: hit.score for hit in shown.hits_between(at, at + size)}
            for found in await pool.found(list(after)):
                key = found.chunk.key
                if before is not None:
                    found = first.get(key) or replace(found, score=before.score(key))
                yield found, after[key]

    async def shown(self, pool: CandidatePool) -> Ranking:
        """All candidates by the score they show."""
        scores = self._scores(pool.candidates)
        return await behind_successors(pool, Ranking.ordered(scores.keys, self.curve(scores.scores)))

    def _scores(self, fused: Ranking) -> Ranking:
        """What was reranked, then the rest, whose scores may not rise above those before them."""
        if not self.first:
            return fused
        read = Ranking.of((found.chunk.key, found.score) for found in self.first)
        is_rest = ~np.isin(fused.keys, read.keys)
        rest = np.minimum((1.0 - self.share) * fused.scores[is_rest], read.scores[-1])
        return Ranking(np.concatenate([read.keys, fused.keys[is_rest]]), np.concatenate([read.scores, rest]))


async def behind_successors(pool: CandidatePool, shown: Ranking) -> Ranking:
    """The ranking, in which no chunk of a document shows as much as the best of one that supersedes it, where both are
    searched: when history is, too."""
    successors = pool.successors
    if not successors:
        return shown
    document = {found.chunk.key: found.chunk.doc_id for found in await pool.found(shown.keys.tolist())}
    best: dict[str, float] = {}
    for key, score in shown.hits:
        best.setdefault(document.get(key, ""), score)
    caps = {doc_id: _cap(doc_id, successors, best) for doc_id in best}
    capped = [min(score, caps.get(document.get(key, ""), 1.0)) for key, score in shown.hits]
    return Ranking.ordered(shown.keys, np.array(capped), shown.ceiling)


def _cap(doc_id: str, successors: Mapping[str, Sequence[str]], best: Mapping[str, float], depth: int = 0) -> float:
    """The most that a document's chunks may show: less than what takes its place, as far as that was found."""
    least = 1.0
    for after in successors.get(doc_id, ()) if depth < LONGEST_CHAIN else ():
        later = _cap(after, successors, best, depth + 1)
        shown = float(np.nextafter(min(best[after], later), 0.0)) if after in best else later
        least = min(least, shown)
    return least


async def ranking_order(
    base: OpenBase, serving: Serving, candidates: Candidates, options: SearchOptions, steps: Steps
) -> Order:
    if not options.rerank:
        hits = candidates.pool.candidates.hits_between(0, 1)
        best = (hits[0].key, hits[0].score) if hits else None
        return Order(shown_curve(base, candidates, options, best, share=0.0))
    with steps.timed("rerank"):
        first = await candidates.pool.first(RERANK_DEPTH)
        found, share, degraded = await rerank(base, serving, candidates.plan, first, options)
    best = (found[0].chunk.key, found[0].score) if found else None
    return Order(shown_curve(base, candidates, options, best, share=share), found, share, tuple(degraded))


async def rerank(
    base: OpenBase, serving: Serving, plan: QueryPlan, first: Sequence[Found], options: SearchOptions
) -> tuple[Sequence[Found], float, list[Degraded]]:
    """The first candidates in the reranker's order, and its share; as they were, with a share of 0, if it fails or
    takes too long."""
    late = time.monotonic() + options.rerank_seconds
    query = plan.queries[0].text
    chunks = [found.chunk for found in first]

    def scored() -> tuple[list[float], float]:
        if base.models is None:
            raise ModelUnavailable(f"没有名为“{options.rerank}”的重排模型", hint="在设置中登记它，或不重排")
        model = base.models.rerank(options.rerank, serving.model)
        return base.rerank_cache.scores(model, query, chunks, lambda: time.monotonic() > late), model.share

    try:
        reading = in_model_thread(base, "rerank", options.rerank, scored)
        scores, share = await asyncio.wait_for(reading, options.rerank_seconds)
        return reranked(first, scores, share), share, []
    except TimeoutError:
        reason = f"{options.rerank_seconds:g} 秒内没有重排完，按融合的次序返回"
    except NotFound:
        raise
    except QianxunError as error:
        reason = f"按融合的次序返回：{error}"
    except Exception as error:  # any model may raise anything
        log.exception("rerank model %s failed", options.rerank)
        reason = f"出错，按融合的次序返回：{type(error).__name__}: {error}"
    return first, 0.0, [Degraded("rerank", reason)]


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Relevance:
    """What a candidate's tier was decided by."""

    tier: Tier | None  # None: it has nothing to do with the query
    similarity: float | None  # None where no vector took part
    matched: tuple[str, ...]
    coverage: float
    folded: str  # the text in which words were looked for


@dataclass(frozen=True, slots=True)
class TierCriteria:
    """What tiers are decided by: the words of the user's own queries, and how similar candidates are to those."""

    words: tuple[str, ...]
    grams: frozenset[str]
    weights: tuple[Mapping[str, float], ...]  # of the words of each query: one that is matched is enough
    similarities: tuple[ScoresByKey, ...]  # calibrated cosines; none where no vector took part
    least: float  # what a cosine of zero means
    named: frozenset[str]
    lexical: frozenset[str]  # arms that find by what is written: a chunk of theirs has something of the query
    folded: Callable[[Chunk], str]  # a chunk's text as words are looked for in it

    def admits(self, chunk: Chunk, found_related: Set[int]) -> bool:
        """Whether `assess` gives a candidate any tier, where no reranker has read it; see `found_related`."""
        if chunk.key in found_related or chunk.doc_id in self.named:
            return True
        folded = self.folded(chunk)
        return any(gram in folded for gram in self.grams) or bool(matched_under(folded, chunk.headings, self.words))

    def found_related(self, pool: CandidatePool) -> Set[int]:
        """The keys of candidates that have a tier by where they were found, whatever their words."""
        if self.similarities and self.least >= FUZZY:
            return frozenset(pool.candidates.keys.tolist())
        found = set[int]().union(*(by_key.keys.tolist() for arm, by_key in pool.arms.items() if arm in self.lexical))
        if "vector" in pool.arms:
            found.update(pool.arms["vector"].keys[:NEAREST].tolist())
        for scores in self.similarities:
            found.update(scores.keys_from(FUZZY))
        return found

    def _similarity(self, key: int) -> float:
        return max([self.least, *(scores.score(key) for scores in self.similarities)])

    def covered_words(self, chunk: Chunk) -> tuple[tuple[str, ...], float]:
        """The words that a chunk has, and the share that these make of a query."""
        words = matched_under(self.folded(chunk), chunk.headings, self.words)
        return words, max((coverage([word for word in words if word in own], own) for own in self.weights), default=0.0)

    def assess(self, candidate: Found, verdict: float = 0.0, is_first: bool = False) -> Relevance:
        """``verdict`` and ``is_first`` are the reranker's: what it put first is related, whatever words they share."""
        chunk = candidate.chunk
        folded = self.folded(chunk)
        words, covered = self.covered_words(chunk)
        similarity = self._similarity(chunk.key) if self.similarities else None
        is_related = (
            is_first
            or bool(words)
            or not self.lexical.isdisjoint(candidate.arms)
            or ("vector" in candidate.arms and 1 <= candidate.arms["vector"].rank <= NEAREST)
            or not self.grams.isdisjoint(folded)
        )
        tier = tier_of(similarity, covered, is_named=chunk.doc_id in self.named, meets=is_related, verdict=verdict)
        return Relevance(tier, similarity, words, covered, folded)


async def tier_criteria(base: OpenBase, serving: Serving, candidates: Candidates) -> TierCriteria:
    own, results, pool = candidates.plan.unguessed, candidates.results, candidates.pool
    words = tuple(dict.fromkeys(word for query in own for word in query.terms.words))
    rare = rarity(await counted(serving, words))
    calibrate = base.curves.vector
    similarities = [
        pool.arms[arm] if ranking is results.rankings[arm] else ScoresByKey(ranking, calibrate)
        for arm in results.vector_arms()
        if (ranking := results.own.get(arm)) is not None
    ]
    return TierCriteria(
        words=words,
        grams=frozenset(gram for query in own for gram in query.terms.grams if len(gram) == 1),
        weights=tuple({word: rare[word] for word in query.terms.words} for query in own),
        similarities=(*similarities, pool.backfill) if similarities else (),
        least=float(calibrate(np.zeros(1))[0]),
        named=candidates.plan.named,
        lexical=frozenset(name for name, arm in results.arms.items() if not arm.needs_vector),
        folded=base.chunks.folded,
    )


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def result_of(candidate: Found, shown: float, relevance: Relevance) -> Found:
    """The candidate with its tier and all that explains it."""
    folded, text = relevance.folded, candidate.chunk.text
    return Found(
        candidate.chunk,
        shown,
        candidate.source,
        candidate.arms,
        relevance.tier or "fuzzy",
        relevance.matched,
        relevance.coverage,
        candidate.fused,
        candidate.rerank,
        highlights(text, matched_in(folded, relevance.matched), folded=folded),
    )


def highlights(
    text: str,
    words: Sequence[str],
    *,
    most: int = HIGHLIGHTS,
    window: int = HIGHLIGHT_WINDOW,
    folded: str | None = None,
) -> tuple[str, ...]:
    """At most ``most`` excerpts around matched words, in the text's order; those that would overlap are one.

    Of several, those with the most matched characters are taken. ``folded``: the text, where that has been done.
    """
    merged: list[tuple[int, Span]] = []  # with how many matched characters, less than none
    latest = max(0, len(text) - window)  # where an excerpt may begin
    for start, end in spans(text, [word for word in words if len(word) > 1] or words, folded):
        length = end - start
        begin = start - (window - length) // 2 if length < window else start
        begin = 0 if begin < 0 else latest if begin > latest else begin
        close = begin + window
        close = end if close < end else len(text) if close > len(text) else close
        if merged and begin < merged[-1][1][1]:
            weight, (first, last) = merged[-1]
            merged[-1] = (weight - length, (first, close if close > last else last))
        else:
            merged.append((-length, (begin, close)))
    best = sorted(place for _, place in sorted(merged)[:most])
    return tuple([text[first:last] for first, last in best])
