"""Why a chunk was returned, or which step dropped it and the smallest change that would return it.

An explanation takes the same steps as the search (`gather`, `ranking_order`) without a cut-off. A change
is suggested only after a search with it has returned the chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from qianxun.bases.base import OpenBase, Serving
from qianxun.core.errors import NotFound, RecallFailed
from qianxun.core.explanation import Explained, Explanation, Sum, Vote
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.options import RecallOptions, check
from qianxun.core.types import (
    EVERYTHING,
    And,
    ArmScore,
    Attributes,
    Chunk,
    Eq,
    Everything,
    Filter,
    Found,
    In,
    Or,
    all_of,
    matches,
)
from qianxun.rank.fuse import VOTES, fitting_weights
from qianxun.records import chunks, documents, listing, outbox
from qianxun.retrieve.drop_reasons import hint_for, reason_for, why_not_of_record
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.rerank_and_tiers import (
    Order,
    Relevance,
    is_admitted,
    is_below_threshold,
    ranking_order,
    tier_criteria,
)
from qianxun.retrieve.run import (
    DEEPEST,
    DEPTH,
    TRIES,
    Candidates,
    SearchTrace,
    current_generation,
    gather,
    to_recall,
    trace,
    with_weights,
)
from qianxun.retrieve.timings import Steps


async def explain(base: OpenBase, text: str, options: RecallOptions, chunk_id: str) -> Explanation:
    """Why this chunk is, or is not, among the results. Raises NotFound for a chunk that never was."""
    explanation = (await explained(base, text, options, chunk_id)).chunk
    assert explanation is not None
    return explanation


async def explained(base: OpenBase, text: str, options: RecallOptions, chunk_id: str = "") -> Explained:
    """A search with its sums; and, where a chunk is named, what became of that."""
    check_text(text)
    check(options)
    for _ in range(TRIES):
        with base.serving.borrow() as serving:
            traced = await trace(base, serving, text, options)
            case = _Case(base, serving, text, options, traced)
            chunk = await _explanation(case, chunk_id) if chunk_id else None
            with base.serving.borrow() as current:
                if traced.generation == await current_generation(base, current):
                    break
    sums = tuple(_sum(traced.candidates, traced.order, traced.options, each) for each in traced.found)
    return Explained(to_recall(text, options, traced), traced.options.weights, sums, chunk)


# ── where a chunk stands when nothing is cut off ─────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Case:
    """The search that is explained."""

    base: OpenBase
    serving: Serving
    text: str
    options: RecallOptions
    traced: SearchTrace

    async def asked(self, options: RecallOptions) -> QueryPlan:
        """As `trace` would ask, with the rewritings that it had."""
        rewritings = self.traced.asked.rewritings
        return await plan_query(self.base, self.text, options, rewritings)

    async def returns(self, chunk: Chunk, options: RecallOptions) -> bool:
        traced = await trace(self.base, self.serving, self.text, options, self.traced.asked.rewritings)
        return any(each.chunk.key == chunk.key for each in traced.found)


@dataclass(frozen=True, slots=True)
class _Place:
    found: Found
    verdict: Relevance
    rank: int  # among those that are let in; of one that is not, where it would stand
    sum: Sum


async def _place(case: _Case, asked: QueryPlan, options: RecallOptions, chunk: Chunk, depth: int) -> _Place | None:
    """Where the chunk stands among the candidates, in the order in which they are judged; None: it is not one."""
    options = await with_weights(case.serving, options)
    candidates = await gather(case.base, case.serving, asked, options, depth, Steps())
    asked, heard, pool = candidates.asked, candidates.heard, candidates.pool
    bench = await tier_criteria(case.base, case.serving, asked, heard, pool)
    order = await ranking_order(case.base, case.serving, asked, heard, pool, options, Steps())
    before = 0
    async with aclosing(order.walk(pool, TOP_K_LIMIT)) as walk:
        async for candidate, shown in walk:
            verdict = bench.verdict(candidate)
            if candidate.chunk.key == chunk.key:
                result = bench.result(candidate, shown, verdict)
                return _Place(result, verdict, before + 1, _sum(candidates, order, options, result))
            before += is_admitted(verdict.tier, options)
    return None


def _sum(candidates: Candidates, order: Order, options: RecallOptions, found: Found) -> Sum:
    votes = {}
    for side, ranking in candidates.heard.scores().items():
        at = np.flatnonzero(ranking.keys == found.chunk.key)
        score = float(VOTES[options.fusion](ranking)[at[0]]) if len(at) else 0.0
        votes[side] = Vote(options.weights.get(side, 0.0), score)
    total = (1.0 - order.share) * found.fused + order.share * (found.rerank or 0.0)
    if found.rerank is None and order.share:  # behind what was read again
        total = min(total, order.first[-1].score)
    return Sum(options.fusion, votes, found.fused, order.share, found.rerank, total, found.score)


# ── the step that dropped it ─────────────────────────────────────────────────────────────────────


async def _explanation(case: _Case, chunk_id: str) -> Explanation:
    chunk, status, told = await asyncio.to_thread(_of_record, case.base, chunk_id)
    if chunk is None:
        return Explanation(
            chunk_id, "records", told, hint_for("records", status), status=status, degraded=case.traced.degraded
        )
    known = await _dropped(case, chunk)
    if known.step not in ("returned", "index"):
        known = replace(known, changes=await _smallest(case, chunk, known))
    known = replace(known, chunk=chunk, degraded=case.traced.degraded)
    return replace(known, reason=reason_for(known, case.options, chunk), hint=hint_for(known.step, "", known.changes))


def _of_record(base: OpenBase, chunk_id: str) -> tuple[Chunk | None, str, str]:
    """The chunk; or None, with the state of its document and why the chunk is not of record."""
    prefix, (head, _, position) = f"c_{base.id}_", chunk_id.rpartition("_")
    doc_id = head.removeprefix(prefix)
    unknown = NotFound(f"没有片段“{chunk_id}”", hint="检索结果里有片段的编号（--json 的 chunk_id）")
    if not head.startswith(prefix) or not (position.isascii() and position.isdigit() and len(position) < 10):
        raise unknown
    with base.records.reading() as tx:
        known = documents.heads(tx, base.id, [doc_id]).get(doc_id)
        if known is None:
            raise unknown
        if known.status == "deleted":
            return None, "deleted", why_not_of_record(doc_id, "deleted")
        state = listing.state(tx, base.id, doc_id)
        served = chunks.of_document(tx, base.id, doc_id)
    chunk = next((each for each in served if each.index == int(position)), None)
    if chunk is not None:
        return chunk, state.status, ""
    status = "superseded" if served else state.status
    return None, status, why_not_of_record(state.name or doc_id, status, state.reason, len(served))


async def _dropped(case: _Case, chunk: Chunk) -> Explanation:
    """What became of a chunk that is of record, without words yet."""
    traced = case.traced
    failing = _failing(case, chunk)
    if failing:
        return await _alone(case, chunk, Explanation(chunk.chunk_id, "filter", "", failing=failing))
    place = await _place(case, traced.asked, case.options, chunk, traced.candidates.depth)
    if place is not None:
        return await _cut(case, place)
    if arms := _arms(case, chunk):
        known = await _alone(case, chunk, Explanation(chunk.chunk_id, "fuse", ""))
        return replace(known, arms=arms)
    return await _alone(case, chunk, Explanation(chunk.chunk_id, "recall", ""))


def _arms(case: _Case, chunk: Chunk) -> dict[str, ArmScore]:
    """What the arms said of a candidate that came to nothing."""
    found: dict[str, ArmScore] = {}
    for arm, ranking in case.traced.candidates.heard.rankings.items():
        raw = ranking.scores if ranking.raw is None else ranking.raw
        for at in np.flatnonzero(ranking.keys == chunk.key).tolist():
            found[arm] = ArmScore(at + 1, float(raw[at]), float(ranking.scores[at]))
    return found


def _failing(case: _Case, chunk: Chunk) -> tuple[Filter, ...]:
    _, failing = loosened(case.options.where, chunk.attributes)
    named = case.traced.asked.named
    if named and chunk.doc_id not in named:
        failing += (In("doc_id", tuple(sorted(named))),)
    return failing


async def _cut(case: _Case, place: _Place) -> Explanation:
    """Of a candidate: its own verdict, or those before it."""
    options, asked = case.options, case.traced.asked
    known = _facts(Explanation(place.found.chunk.chunk_id, "returned", ""), place)
    if is_below_threshold(place.found.score, asked, options):
        return replace(known, step="threshold")
    if not is_admitted(place.verdict.tier, options):
        return replace(known, step="tier")
    known = replace(known, rank=place.rank)
    if options.rerank:
        unread = replace(options, rerank="")
        before = await _place(case, asked, unread, place.found.chunk, case.traced.candidates.depth)
        known = replace(known, rank_before=before.rank if before is not None else None)
    if place.rank <= options.top_k:
        return known
    pushed = known.rank_before is not None and known.rank_before <= options.top_k
    return replace(known, step="rerank" if pushed else "top_k")


def _facts(known: Explanation, place: _Place) -> Explanation:
    verdict = place.verdict
    return replace(
        known,
        score=place.found.score,
        rank=place.rank,
        tier=verdict.tier,
        similarity=verdict.similarity,
        coverage=verdict.coverage,
        matched=verdict.matched,
        arms=place.found.arms,
        sum=place.sum,
    )


async def _alone(case: _Case, chunk: Chunk, known: Explanation) -> Explanation:
    """What the arms say of a chunk that did not come so far, found by a search in its document alone.

    Its ranks there mean nothing; nor does a score that depends on the other candidates.
    """
    own = tuple(replace(query, where=Eq("doc_id", chunk.doc_id)) for query in case.traced.asked.queries)
    asked = replace(case.traced.asked, queries=own)
    plain = replace(case.options, rerank="", fusion="weighted")
    place = await _place(case, asked, plain, chunk, DEEPEST)
    if place is None:
        return await _unfound(case, chunk, known)
    arms = {arm: replace(by, rank=0) for arm, by in place.found.arms.items()}
    known = replace(_facts(known, place), rank=None, arms=arms)
    if case.options.fusion != "weighted" or case.options.rerank:
        known = replace(known, score=None, sum=None)
    return known


async def _unfound(case: _Case, chunk: Chunk, known: Explanation) -> Explanation:
    """No arm finds it even there: it is not in the index, or has nothing in common with the query."""
    inventory = await case.serving.index.inventory()
    if chunk.key in inventory.keywords or known.step != "recall":
        return known
    waiting = await asyncio.to_thread(_waiting, case.base)
    return replace(known, step="index", status="waiting" if waiting else "missing")


def _waiting(base: OpenBase) -> int:
    with base.records.reading() as tx:
        return outbox.depth(tx, base.id)


# ── the smallest change ──────────────────────────────────────────────────────────────────────────


def loosened(where: Filter, attributes: Attributes) -> tuple[Filter, tuple[Filter, ...]]:
    """The filter without the parts that keep this out, and those parts: as few as will do."""
    if matches(where, attributes):
        return where, ()
    if isinstance(where, And):
        parts = [loosened(part, attributes) for part in where.parts]
        return all_of(*(kept for kept, _ in parts)), tuple(one for _, failing in parts for one in failing)
    if isinstance(where, Or) and where.parts:
        parts = [loosened(part, attributes) for part in where.parts]
        best = min(range(len(parts)), key=lambda at: (len(parts[at][1]), at))
        kept, failing = parts[best]
        if not isinstance(kept, Everything):
            return Or((*where.parts[:best], kept, *where.parts[best + 1 :])), failing
    return EVERYTHING, (where,)


async def _smallest(case: _Case, chunk: Chunk, known: Explanation) -> dict[str, Any]:
    """The fewest changes that return the chunk. To look in its document alone is the last resort: it nearly always
    does, and answers another question."""
    required = await _required(case, chunk)
    swaps = await _swaps(case)
    found = await _fewest(case, chunk, required, swaps)
    if found is None and (narrowed := _narrowed(case, chunk)):
        found = await _fewest(case, chunk, required | narrowed, swaps)
    return found or {}


async def _required(case: _Case, chunk: Chunk) -> dict[str, Any]:
    """Without these no other change helps."""
    changes: dict[str, Any] = {}
    where, failing = loosened(case.options.where, chunk.attributes)
    if failing:
        changes["where"] = where
    # One more document; or it alone, where the text names others. A filter decides which of those it may name.
    for doc_ids in ((*case.options.doc_ids, chunk.doc_id), (chunk.doc_id,)):
        named = (await case.asked(replace(case.options, **changes))).named
        if named and chunk.doc_id not in named:
            changes["doc_ids"] = doc_ids
    return changes


def _narrowed(case: _Case, chunk: Chunk) -> dict[str, Any]:
    alone = (chunk.doc_id,)
    return {} if case.options.doc_ids == alone else {"doc_ids": alone}


async def _swaps(case: _Case) -> dict[str, Any]:
    """What else could be chosen, in the order of preference."""
    options = case.options
    changes: dict[str, Any] = {}
    if not options.fuzzy:
        changes["fuzzy"] = True
    if options.rerank:
        changes["rerank"] = ""
    if options.mode != "hybrid" and case.serving.model is not None:
        changes["mode"] = "hybrid"
    if options.fusion != "weighted":
        changes["fusion"] = "weighted"
    if options.weights:  # they count in hybrid only, which may be one of the changes
        changes["weights"] = fitting_weights(await case.serving.index.likeness())
    return changes


def _sets(swaps: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for size in range(len(swaps) + 1):
        yield from (dict(chosen) for chosen in combinations(swaps.items(), size))


async def _fewest(
    case: _Case, chunk: Chunk, required: Mapping[str, Any], swaps: Mapping[str, Any]
) -> dict[str, Any] | None:
    best: dict[str, Any] | None = None
    for chosen in _sets(swaps):
        if best is not None and len(required) + len(chosen) >= len(best):
            break
        changes = await _completed(case, chunk, {**required, **chosen})
        is_better = changes is not None and (best is None or len(changes) < len(best))
        if changes is not None and is_better and await case.returns(chunk, replace(case.options, **changes)):
            best = changes
    return best


async def _completed(case: _Case, chunk: Chunk, changes: dict[str, Any]) -> dict[str, Any] | None:
    """The changes with the threshold and top_k that they still need; None where the chunk stays out."""
    options = replace(case.options, **changes)
    try:
        asked = await case.asked(options)
        place = await _place(case, asked, options, chunk, DEPTH)
    except RecallFailed:
        return None
    if place is None or not is_admitted(place.verdict.tier, options):
        return None
    if is_below_threshold(place.found.score, asked, options):
        changes = {**changes, "threshold": place.found.score}
    if place.rank > options.top_k:
        changes = {**changes, "top_k": place.rank}
    return changes if place.rank <= TOP_K_LIMIT else None
