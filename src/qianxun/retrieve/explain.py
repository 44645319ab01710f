"""Why a chunk was returned, or which step dropped it and the smallest change that would return it.

`explained` is the function to read first. It takes the same steps as the search (`gather`, `ranking_order`), without a
cut-off. A change is suggested only after a search with it has returned the chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving
from qianxun.core.errors import NotFound, RecallFailed
from qianxun.core.explanation import Decisions, Explained, Explanation, Sum, Vote
from qianxun.core.governance.corrections import Corrected
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.options import SearchOptions, check
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
    Not,
    Or,
    Range,
    Spelled,
    all_of,
    matches,
)
from qianxun.rank.fuse import VOTES
from qianxun.rank.tiers import FUZZY, STRICT
from qianxun.records import chunks, document_heads, listing, outbox
from qianxun.records.governance import corrections, decisions
from qianxun.retrieve.candidate_pool import ScoresByKey
from qianxun.retrieve.fuse import DEEPEST, DEPTH, Candidates, base_weights, gather, with_weights
from qianxun.retrieve.query_plan import QueryPlan, check_text, plan_query
from qianxun.retrieve.rerank_and_tiers import (
    Order,
    Relevance,
    is_admitted,
    is_below_threshold,
    ranking_order,
    result_of,
    tier_criteria,
)
from qianxun.retrieve.run import TRIES, SearchTrace, current_generation, trace
from qianxun.retrieve.timings import Steps


async def explained(base: OpenBase, text: str, options: SearchOptions, chunk_id: str = "") -> Explained:
    """A search with its sums; and, where a chunk is named, why it is or is not among the results.

    Raises NotFound for a chunk that never existed.
    """
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
    sums = tuple(_sum(traced.candidates, traced.order, traced.options, found) for found in traced.found)
    shown = [(found.chunk.doc_id, found.chunk.chunk_id, found.chunk.corrected) for found in traced.found]
    decided = tuple(await asyncio.to_thread(_decisions, base, shown))
    return Explained(traced.recall(text), traced.options.weights, sums, decided, chunk)


def _decisions(base: OpenBase, shown: Sequence[tuple[str, str, Corrected | None]]) -> list[Decisions]:
    with base.records.reading() as tx:
        return decisions.decisions_on(tx, base.id, shown)


# ── the place of a chunk when nothing is cut off ─────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Case:
    """The search that is explained."""

    base: OpenBase
    serving: Serving
    text: str
    options: SearchOptions
    traced: SearchTrace

    async def plan(self, options: SearchOptions) -> QueryPlan:
        """As `trace` would plan, with the rewritings that it had."""
        return await plan_query(self.base, self.text, options, self.traced.plan.rewritings)

    async def returns(self, chunk: Chunk, options: SearchOptions) -> bool:
        traced = await trace(self.base, self.serving, self.text, options, self.traced.plan.rewritings)
        return any(found.chunk.key == chunk.key for found in traced.found)


@dataclass(frozen=True, slots=True)
class _Place:
    found: Found
    relevance: Relevance
    rank: int  # among those that are admitted; of one that is not, where it would be
    sum: Sum


async def _place(case: _Case, plan: QueryPlan, options: SearchOptions, chunk: Chunk, depth: int) -> _Place | None:
    """The place of the chunk among the candidates, in the order in which they are looked at; None: it is not one."""
    options = await with_weights(case.base, case.serving, options)
    candidates = await gather(case.base, case.serving, plan, options, depth, Steps())
    criteria = await tier_criteria(case.base, case.serving, candidates)
    order = await ranking_order(case.base, case.serving, candidates, options, Steps())
    pinned = {found.chunk.key for found in await candidates.pool.pinned(list(candidates.rules.pinned))}
    before = len(pinned - {chunk.key})
    async with aclosing(order.walk(candidates.pool, TOP_K_LIMIT)) as walk:
        async for candidate, shown in walk:
            if candidate.chunk.key in pinned and candidate.chunk.key != chunk.key:
                continue
            relevance = criteria.assess(candidate, order.verdict(candidate, shown), order.is_first(candidate))
            if candidate.chunk.key == chunk.key:
                result = result_of(candidate, shown, relevance)
                return _Place(result, relevance, before + 1, _sum(candidates, order, options, result))
            before += is_admitted(relevance.tier, options)
    return None


def _sum(candidates: Candidates, order: Order, options: SearchOptions, found: Found) -> Sum:
    votes = {}
    for signal, ranking in candidates.signals.items():
        at = np.flatnonzero(ranking.keys == found.chunk.key)
        score = float(VOTES[options.fusion](ranking)[at[0]]) if len(at) else 0.0
        votes[signal] = Vote(options.weights.get(signal, 0.0), score)
    total = (1.0 - order.share) * found.fused + order.share * (found.rerank or 0.0)
    if found.rerank is None and order.share:  # after what was reranked
        total = min(total, order.first[-1].score)
    return Sum(options.fusion, votes, found.fused, order.share, found.rerank, total, found.score)


# ── the step that dropped it ─────────────────────────────────────────────────────────────────────


async def _explanation(case: _Case, chunk_id: str) -> Explanation:
    known = await _step(case, chunk_id)
    corrected = None if known.chunk is None else known.chunk.corrected
    shown = [(_document_of(case.base, chunk_id), chunk_id, corrected)]
    (decided,) = await asyncio.to_thread(_decisions, case.base, shown)
    return replace(known, decisions=decided)


async def _step(case: _Case, chunk_id: str) -> Explanation:
    chunk, status, reason = await asyncio.to_thread(_recorded, case.base, chunk_id)
    degraded = case.traced.degraded
    if chunk is None:
        return Explanation(chunk_id, "records", reason, hint_for("records", status), status=status, degraded=degraded)
    known = _ruled(case.traced, chunk) or await _dropped(case, chunk)
    if known.step not in ("returned", "index", "rule"):
        known = replace(known, changes=await _smallest(case, chunk))
    known = replace(known, chunk=chunk, degraded=degraded)
    return replace(known, reason=reason_for(known, case.options), hint=hint_for(known.step, "", known.changes))


def _ruled(traced: SearchTrace, chunk: Chunk) -> Explanation | None:
    """A chunk that people put first for this question, or never want for it."""
    rules = traced.candidates.rules
    if rule := rules.excluded.get(chunk.key, 0):
        return Explanation(chunk.chunk_id, "rule", "", rule=rule)
    for rank, found in enumerate(traced.found, start=1):
        if found.chunk.key == chunk.key and found.pinned:
            figures = _sum(traced.candidates, traced.order, traced.options, found)
            known = Explanation(chunk.chunk_id, "returned", "", rank=rank, score=found.score, tier=found.tier)
            known = replace(known, coverage=found.coverage, matched=found.matched)
            return replace(known, arms=found.arms, sum=figures, rule=found.pinned)
    return None


def _recorded(base: OpenBase, chunk_id: str) -> tuple[Chunk | None, str, str]:
    """The chunk; or None, with the state of its document and why the chunk is not in the records."""
    doc_id, (head, _, position) = _document_of(base, chunk_id), chunk_id.rpartition("_")
    unknown = NotFound(f"没有片段“{chunk_id}”", hint="检索结果里有片段的编号（--json 的 chunk_id）")
    if not head.startswith(f"c_{base.id}_") or not (position.isascii() and position.isdigit() and len(position) < 10):
        raise unknown
    with base.records.reading() as tx:
        known = document_heads.heads(tx, base.id, [doc_id]).get(doc_id)
        if known is None:
            raise unknown
        if known.status == "deleted":
            return None, "deleted", why_not_recorded(doc_id, "deleted")
        state = listing.state(tx, base.id, doc_id)
        served = chunks.document_chunks(tx, base.id, doc_id)
        disabling = corrections.disabling(tx, base.id, doc_id, chunk_id)
    chunk = next((chunk for chunk in served if chunk.index == int(position)), None)
    if chunk is not None:
        return chunk, state.status, ""
    if disabling is not None:
        whole = disabling.kind == "disable_document"
        words = f"文档“{state.name or doc_id}”" if whole else "这个片段"
        return None, "disabled", f"{words}已被停用：更正 {disabling.id}，{disabling.author}"
    status = "superseded" if served else state.status
    return None, status, why_not_recorded(state.name or doc_id, status, state.reason, len(served))


def _document_of(base: OpenBase, chunk_id: str) -> str:
    return chunk_id.rpartition("_")[0].removeprefix(f"c_{base.id}_")


async def _dropped(case: _Case, chunk: Chunk) -> Explanation:
    """The step that dropped a chunk of the records, without words yet."""
    traced = case.traced
    if (as_of := traced.plan.as_of) is not None and chunk.doc_id not in traced.plan.named:
        period = case.base.periods.periods.get(chunk.doc_id)
        if period is not None and (outdated := period.outdated(as_of)):
            reason = f"文档“{chunk.doc_name}”在 {as_of.day} 无效：{outdated}"
            return await _alone(case, chunk, Explanation(chunk.chunk_id, "validity", reason))
    _, failing = loosened(case.options.where, chunk.attributes)
    if (named := traced.plan.named) and chunk.doc_id not in named:
        failing += (In("doc_id", tuple(sorted(named))),)
    if failing:
        return await _alone(case, chunk, Explanation(chunk.chunk_id, "filter", "", failing=failing))
    place = await _place(case, traced.plan, case.options, chunk, traced.candidates.depth)
    if place is not None:
        return await _cut(case, place)
    if chunk.key not in traced.candidates.pool and (arms := _arm_scores(traced.candidates, chunk)):
        return replace(await _alone(case, chunk, Explanation(chunk.chunk_id, "fuse", "")), arms=arms)
    return await _alone(case, chunk, Explanation(chunk.chunk_id, "recall", ""))


def _arm_scores(candidates: Candidates, chunk: Chunk) -> dict[str, ArmScore]:
    """The scores of a chunk that some arms found and the fusion left at zero."""
    rankings = {arm: ScoresByKey(ranking) for arm, ranking in candidates.results.rankings.items()}
    return {arm: scores.of(chunk.key) for arm, scores in rankings.items() if chunk.key in scores}


async def _cut(case: _Case, place: _Place) -> Explanation:
    """Why a candidate was not returned: its own relevance, or those before it."""
    options, plan = case.options, case.traced.plan
    known = _with_place(Explanation(place.found.chunk.chunk_id, "returned", ""), place)
    if is_below_threshold(place.found.score, plan, options):
        return replace(known, step="threshold")
    if not is_admitted(place.relevance.tier, options):
        return replace(known, step="tier")
    if options.rerank:
        unread = replace(options, rerank="")
        before = await _place(case, plan, unread, place.found.chunk, case.traced.candidates.depth)
        known = replace(known, rank_before=before.rank if before is not None else None)
    if place.rank <= options.top_k:
        return known
    pushed = known.rank_before is not None and known.rank_before <= options.top_k
    return replace(known, step="rerank" if pushed else "top_k")


def _with_place(known: Explanation, place: _Place) -> Explanation:
    facts = {name: getattr(place.relevance, name) for name in ("tier", "similarity", "coverage", "matched")}
    return replace(known, score=place.found.score, rank=place.rank, arms=place.found.arms, sum=place.sum, **facts)


async def _alone(case: _Case, chunk: Chunk, known: Explanation) -> Explanation:
    """With the scores of a chunk that did not come so far, found by a search in its document alone.

    Its ranks there mean nothing; nor does a score that depends on the other candidates.
    """
    own = tuple(replace(query, where=Eq("doc_id", chunk.doc_id)) for query in case.traced.plan.queries)
    plain = replace(case.options, rerank="", fusion="weighted")
    place = await _place(case, replace(case.traced.plan, queries=own), plain, chunk, DEEPEST)
    if place is None:
        return await _unfound(case, chunk, known)
    arms = {arm: replace(score, rank=0) for arm, score in place.found.arms.items()}
    known = replace(_with_place(known, place), rank=None, arms=arms)
    if case.options.fusion != "weighted" or case.options.rerank:
        known = replace(known, score=None, sum=None)
    return known


async def _unfound(case: _Case, chunk: Chunk, known: Explanation) -> Explanation:
    """No arm finds it even there: it is not in the index, or has nothing in common with the query."""
    inventory = await case.serving.index.inventory()
    if chunk.key in inventory.keywords or known.step != "recall":
        return known

    def pending() -> int:
        with case.base.records.reading() as tx:
            return outbox.depth(tx, case.base.id)

    return replace(known, step="index", status="waiting" if await asyncio.to_thread(pending) else "missing")


# ── the smallest change ──────────────────────────────────────────────────────────────────────────


def loosened(where: Filter, attributes: Attributes) -> tuple[Filter, tuple[Filter, ...]]:
    """The filter without the parts that exclude these attributes, and those parts: as few as will do."""
    if matches(where, attributes):
        return where, ()
    if isinstance(where, And):
        parts = [loosened(part, attributes) for part in where.parts]
        return all_of(*(rest for rest, _ in parts)), tuple(one for _, failing in parts for one in failing)
    if isinstance(where, Or) and where.parts:
        parts = [loosened(part, attributes) for part in where.parts]
        best = min(range(len(parts)), key=lambda at: (len(parts[at][1]), at))
        rest, failing = parts[best]
        if not isinstance(rest, Everything):
            return Or((*where.parts[:best], rest, *where.parts[best + 1 :])), failing
    return EVERYTHING, (where,)


async def _smallest(case: _Case, chunk: Chunk) -> dict[str, Any]:
    """The fewest changes that return the chunk. To look in its document alone is the last resort: it nearly always
    does, and answers another question."""
    required = await _required(case, chunk)
    swaps = await _swaps(case)
    found = await _fewest(case, chunk, required, swaps)
    if found is None and case.options.doc_ids != (chunk.doc_id,):
        found = await _fewest(case, chunk, {**required, "doc_ids": (chunk.doc_id,)}, swaps)
    return found or {}


async def _required(case: _Case, chunk: Chunk) -> dict[str, Any]:
    """Without these no other change helps."""
    changes: dict[str, Any] = {}
    as_of, period = case.traced.plan.as_of, case.base.periods.periods.get(chunk.doc_id)
    if as_of is not None and period is not None and period.outdated(as_of):
        changes["as_of"] = period.day_in_force()
    where, failing = loosened(case.options.where, chunk.attributes)
    if failing:
        changes["where"] = where
    # One more document; or it alone, where the text names others. A filter decides which of those it may name.
    for doc_ids in ((*case.options.doc_ids, chunk.doc_id), (chunk.doc_id,)):
        named = (await case.plan(replace(case.options, **changes))).named
        if named and chunk.doc_id not in named:
            changes["doc_ids"] = doc_ids
    return changes


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
        changes["weights"] = await base_weights(case.base, case.serving)
    return changes


async def _fewest(
    case: _Case, chunk: Chunk, required: Mapping[str, Any], swaps: Mapping[str, Any]
) -> dict[str, Any] | None:
    best: dict[str, Any] | None = None
    sets = (chosen for size in range(len(swaps) + 1) for chosen in combinations(swaps.items(), size))
    for chosen in sets:
        if best is not None and len(required) + len(chosen) >= len(best):
            break
        changes = await _completed(case, chunk, {**required, **dict(chosen)})
        is_better = changes is not None and (best is None or len(changes) < len(best))
        if changes is not None and is_better and await case.returns(chunk, replace(case.options, **changes)):
            best = changes
    return best


async def _completed(case: _Case, chunk: Chunk, changes: dict[str, Any]) -> dict[str, Any] | None:
    """The changes with the threshold and top_k that they still need; None if the chunk is not returned even then."""
    options = replace(case.options, **changes)
    try:
        plan = await case.plan(options)
        place = await _place(case, plan, options, chunk, DEPTH)
    except RecallFailed:
        return None
    if place is None or not is_admitted(place.relevance.tier, options) or place.rank > TOP_K_LIMIT:
        return None
    if is_below_threshold(place.found.score, plan, options):
        changes = {**changes, "threshold": place.found.score}
    return {**changes, "top_k": place.rank} if place.rank > options.top_k else changes


# ── in words ─────────────────────────────────────────────────────────────────────────────────────


_SIGNS: Final = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_SPELT: Final = {"starts": "开头是", "contains": "含有", "ends": "结尾是"}


def filter_text(where: Filter) -> str:
    """A filter as people read it."""
    match where:
        case Everything():
            return "全部"
        case Eq(name, value):
            return f"{name} = {value}"
        case In(name, values):
            return f"{name} ∈ {{{'、'.join(map(str, values))}}}"
        case Range():
            return "、".join(f"{where.field} {_SIGNS[name]} {bound}" for name, bound in where.bounds()) or where.field
        case Spelled():
            return "、".join(f"{where.field} {_SPELT[name]}“{part}”" for name, part in where.parts()) or where.field
        case And(parts):
            return "（" + " 且 ".join(map(filter_text, parts)) + "）"
        case Or(parts):
            return "（" + " 或 ".join(map(filter_text, parts)) + "）"
        case Not(part):
            return f"非 {filter_text(part)}"


def why_not_recorded(name: str, status: str, reason: str = "", served: int = 0) -> str:
    if status == "superseded":
        return f"文档“{name}”现在的版本只有 {served} 个片段，没有这一个"
    words = {
        "deleted": f"文档“{name}”已删除",
        "pending": f"文档“{name}”还在等待入库",
        "retrying": f"文档“{name}”入库失败，稍后重试",
        "quarantined": f"文档“{name}”入库失败，已隔离",
        "failed": f"文档“{name}”的文件读不了",
    }.get(status, f"文档“{name}”没有片段")
    return f"{words}：{reason}" if reason else words


def hint_for(step: str, status: str, changes: Mapping[str, Any] | None = None) -> str:
    """What to do where no option of a search helps."""
    if step == "records":
        return {
            "deleted": "要找它，就把文档再加进来：qianxun add",
            "disabled": "要找它，就撤销那条更正：qianxun corrections undo",
            "superseded": "用 --json 检索，看现在的片段编号",
            "pending": "稍候再试；命令行每次打开数据目录都会继续入库",
            "retrying": "按原因处理后等待重试，或再加一次：qianxun add",
            "quarantined": "按原因处理后再加一次：qianxun add",
            "failed": "改好文件后再加一次：qianxun add",
        }.get(status, "用 qianxun kb show 查看这个文档")
    if step == "index":
        return "运行 qianxun verify 核对，qianxun rebuild 重建索引"
    if step == "rule":
        return "要找它，就撤销这条规则：qianxun corrections undo"
    if step != "returned" and not changes:
        return "它与问题几乎没有相同之处，改选项没有用：换用它原文里的说法来问"
    return ""


def reason_for(known: Explanation, options: SearchOptions) -> str:
    match known.step:
        case "returned":
            ruled = f"：规则 {known.rule} 让这个问题先给它" if known.rule else ""
            return f"已返回，第 {known.rank} 条{ruled}"
        case "rule":
            return f"规则 {known.rule} 让这个问题不给它"
        case "index":
            cause = "还有变更等待进入索引" if known.status == "waiting" else "索引里缺了它"
            return f"记录里有这个片段，索引里没有：{cause}"
        case "validity":
            return known.reason
        case "filter":
            is_named = not options.doc_ids and any(
                isinstance(part, In) and part.field == "doc_id" for part in known.failing
            )
            cause = "问题点名了别的文档，只在其中检索" if is_named else "被过滤条件排除"
            return f"{cause}：" + "；".join(map(filter_text, known.failing))
        case "recall":
            return "没有一路检索把它排进候选" + ("" if known.arms else "：与问题没有共同的词语或字")
        case "fuse":
            return "融合后的分数是零，不算找到：找到它的那一路权重为零，或自己就给了零分"
        case "threshold":
            return f"分数 {known.score:.4f} 低于阈值 {options.threshold:g}"
        case "tier":
            return _tier_reason(known)
        case "rerank":
            return f"重排前第 {known.rank_before}，重排后第 {known.rank}，在前 {options.top_k} 条之后"
    return f"排在第 {known.rank}，只要了前 {options.top_k} 条"


def _tier_reason(known: Explanation) -> str:
    alike = "" if known.similarity is None else f"相似度 {known.similarity:.2f}，"
    if known.sum is not None and known.sum.rerank is not None:
        alike += f"重排 {known.sum.rerank:.2f}，"
    if known.tier is None:
        return f"没有一层接纳它：{alike}与问题没有共同的字（模糊匹配要相似度或重排达到 {FUZZY:g}，或有共同的字）"
    facts = f"{alike}覆盖问题的 {known.coverage:.0%}"
    return f"只够模糊匹配，而这次不许模糊：{facts}（严格匹配要相似度高于 {STRICT:g}、覆盖过半，或重排高于 {STRICT:g}）"
