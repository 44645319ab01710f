"""`qianxun search --explain` and `--why`: where scores come from, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from qianxun.doors.cli.i18n import print_folded, tr
from qianxun.doors.cli.views.drawing import arm_label, bars, label, labelled, milliseconds, padded, place_of

if TYPE_CHECKING:
    from qianxun.core.explanation import Explained, Explanation, Sum
    from qianxun.core.types import ArmScore, Found, Recall, StepTime

COLOURS = {"vector": "cyan", "keyword": "yellow", "qa": "magenta", "rerank": "blue"}


# ── a search ─────────────────────────────────────────────────────────────────────────────────────


def show_query(console: Console, answer: Recall) -> None:
    """What was searched for, and how long each step took."""
    first, *others = answer.queries or (answer.query,)
    query = Text(tr("搜索 ", "Searched for ") + first, style="bold")
    if others:
        query.append(tr("　也按这样的说法：", "; also as: ") + tr("；", "; ").join(others), style="not bold")
    print_folded(console, query, 0)
    times = Text(tr(f"用时 {milliseconds(answer.seconds)} 毫秒", f"{milliseconds(answer.seconds)} ms"), style="dim")
    if answer.from_cache:
        times.append(tr("（来自缓存）", " (from the cache)"))
    elif answer.steps:
        times.append(tr("：", ": ") + " · ".join(map(_step, sorted(answer.steps, key=_order))))
    print_folded(console, times, 0)
    console.print()


def _order(step: StepTime) -> int:
    known = ("rewrite", "recall", "fuse", "rerank", "judge")
    name = step.name.partition(".")[0]
    return known.index(name) if name in known else len(known)


def _step(step: StepTime) -> str:
    kind, _, arm = step.name.partition(".")
    name = arm_label(arm) if kind == "recall" else label("steps", step.name)
    count = tr(f"（{step.count} 个）", f" ({step.count} found)") if step.count else ""
    return f"{name} {milliseconds(step.seconds)}{count}"


def show_hit(console: Console, hit: Found, figures: Sum | None) -> None:
    """Below a result's title: its arms as bars, the sum in figures, its tier and the words it holds."""
    labelled(console, tr("编号", "id"), hit.chunk.chunk_id)
    _bars(console, hit.arms, hit.rerank)
    if figures is not None:
        labelled(console, tr("得分", "score"), formula(figures))
    labelled(console, tr("层级", "tier"), _tier(hit.tier, hit.matched, hit.coverage, _similarity(hit.arms)))


def _bars(console: Console, arms: Mapping[str, ArmScore], rerank: float | None) -> None:
    rows = [(arm_label(arm), by.score, _place(arm, by), COLOURS.get(arm, "white")) for arm, by in arms.items()]
    if rerank is not None:
        rows.append((tr("重排", "rerank"), rerank, "", COLOURS["rerank"]))
    bars(console, rows)


def _place(arm: str, by: ArmScore) -> str:
    rank = tr(f"第 {by.rank} 名", f"rank {by.rank}") if by.rank else tr("候选之外", "not found")
    return f"{padded(rank, 9)} {arm_label(arm, 'unit')} {by.raw:.{2 if arm == 'keyword' else 3}f}"


def formula(figures: Sum) -> str:
    """The sum in figures, a line for each step: what a reader can check with a pocket calculator."""
    total = sum(vote.weight for vote in figures.votes.values()) or 1.0
    counted = [(side, vote) for side, vote in figures.votes.items() if vote.weight > 0.0]
    terms = [f"{arm_label(side)} {vote.weight / total:.2f}×{vote.score:.3f}" for side, vote in counted]
    lines = [f"{label('fusions', figures.fusion)}  {' + '.join(terms)} = {figures.fused:.3f}"]
    if figures.rerank is not None:
        read = f"{1.0 - figures.share:.2f}×{figures.fused:.3f} + {figures.share:.2f}×{figures.rerank:.3f}"
        lines.append(f"{tr('重排', 'reranked')}  {read} = {figures.total:.3f}")
    elif figures.share:
        unread = tr("没有读到，排在读过的之后", "not read; behind what was")
        lines.append(f"{tr('重排', 'reranked')}  {unread}：≤ {1.0 - figures.share:.2f}×{figures.fused:.3f}")
    if abs(figures.shown - figures.total) > 5e-4:
        lines.append(f"{tr('校准', 'calibrated')}  {figures.total:.3f} → {figures.shown:.3f}")
    return "\n".join(lines)


def _tier(tier: str | None, matched: Sequence[str], coverage: float, similarity: float | None) -> str:
    text = label("tiers", tier) if tier else tr("没有一层接纳", "let in by none")
    if not matched:
        text += tr("，没有共同的词", ", no word in common")
    else:
        words = tr("、", ", ").join(matched)
        text += tr(f"，命中 {words}（占问题的 {coverage:.0%}）", f", matches {words} ({coverage:.0%} of the query)")
    return text + (_short_of_strict(similarity, coverage) if tier == "fuzzy" else "")


def _short_of_strict(similarity: float | None, coverage: float) -> str:
    """Why a result is fuzzy, however high its score: that adds up meaning and words, the tier needs both."""
    from qianxun.engine.display import COVERED, STRICT

    reasons = []
    if similarity is not None and similarity <= STRICT:
        reasons.append(
            tr(f"语义相似 {similarity:.3f}，未过 {STRICT:g}", f"similarity {similarity:.3f} is not above {STRICT:g}")
        )
    if coverage <= COVERED:
        reasons.append(tr("命中的词未过半", "no more than half of the query matched"))
    reason = tr("，", ", ").join(reasons)
    return tr(f"；不算严格：{reason}", f"; not strict: {reason}") if reasons else ""


def _similarity(arms: Mapping[str, ArmScore]) -> float | None:
    """As the tier has it: the best of the arms that go by meaning; None where none took part."""
    from qianxun.engine.display import find_arm

    known = ((find_arm(name), by.score) for name, by in arms.items())
    return max((score for arm, score in known if arm and "vector" in (arm.name, arm.signal)), default=None)


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


def show_why(console: Console, why: Explanation, command: str) -> None:
    """One chunk: what became of it, its figures, and the command that returns it."""
    title = Text(why.chunk_id, style="bold")
    if why.chunk is not None:
        title.append("  ").append_text(place_of(why.chunk))
    print_folded(console, title, 0)
    mark = ("✓", "green") if why.is_returned else ("✗", "red")
    print_folded(console, Text.assemble(mark, " " + tr(why.reason, _english(why))), 2, hanging=2)
    _bars(console, why.arms, why.sum.rerank if why.sum else None)
    if why.sum is not None:
        labelled(console, tr("得分", "score"), formula(why.sum))
    if why.tier is not None or why.matched:
        labelled(console, tr("层级", "tier"), _tier(why.tier, why.matched, why.coverage, why.similarity))
    if command:
        print_folded(console, Text(tr("→ 这样会返回它：", "→ This returns it: ") + _changes(why)), 2, hanging=2)
        console.print(f"  {command}", style="green", markup=False, soft_wrap=True)
    elif why.hint:
        print_folded(console, Text(f"→ {why.hint}"), 2, hanging=2)


def _changes(why: Explanation) -> str:
    if why.chunk is not None and why.changes.get("doc_ids") == (why.chunk.doc_id,):
        name = why.chunk.doc_name or why.chunk.doc_id
        alone = tr(f"只在它的文档“{name}”里找", f"only in its document “{name}”")
        others = [_change(*one) for one in why.changes.items() if one[0] != "doc_ids"]
        return tr("；", "; ").join([alone, *others])
    return tr("；", "; ").join(_change(*one) for one in why.changes.items())


def _change(name: str, value: Any) -> str:
    from qianxun.core.types import EVERYTHING
    from qianxun.engine.display import filter_text

    match name:
        case "top_k":
            return tr(f"至少要 {value} 条", f"at least {value} results")
        case "threshold":
            return tr(f"阈值不高于 {value:.4f}", f"a threshold of at most {value:.4f}")
        case "fuzzy":
            return tr("允许模糊匹配", "fuzzy matches allowed")
        case "where":
            if value == EVERYTHING:
                return tr("去掉过滤条件", "no filter")
            return tr(f"过滤条件放宽为 {filter_text(value)}", f"the filter loosened to {filter_text(value)}")
        case "doc_ids":
            return tr(f"在这些文档里找：{'、'.join(value)}", f"in these documents: {', '.join(value)}")
        case "rerank":
            return tr("不重排", "no reranker")
        case "mode":
            return tr("两路一起找", "both ways of searching")
    return tr(f"{name} 改为 {value}", f"{name} = {value}")


def _english(why: Explanation) -> str:
    return {
        "returned": f"returned, place {why.rank}",
        "records": f"not of record: {why.status}　{why.reason}",
        "index": "of record, but not in the index",
        "filter": f"kept out by the filter　{why.reason}",
        "recall": "not among the candidates of any arm",
        "fuse": "found by an arm that counts for nothing here: its fused score is zero",
        "threshold": f"its score of {why.score or 0:.4f} is below the threshold",
        "tier": f"not let in: {why.coverage:.0%} of the query matched" + _alike(why),
        "rerank": f"place {why.rank_before} before the reranker, {why.rank} after it",
        "top_k": f"place {why.rank}, behind the results asked for",
    }[why.step]


def _alike(why: Explanation) -> str:
    return "" if why.similarity is None else f", similarity {why.similarity:.2f}"


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def described_why(why: Explanation, command: str) -> dict[str, Any]:
    from qianxun.core.codec.wire import written_explanation
    from qianxun.core.filters import filter_to_log

    document = written_explanation(why)
    explain, _, _ = (document.pop(name) for name in ("sum", "degraded", "chunk"))
    changes = {name: filter_to_log(value) if name == "where" else value for name, value in why.changes.items()}
    failing = [filter_to_log(part) for part in why.failing]
    reason = tr(why.reason, _english(why))
    return {
        **document,
        "reason": reason,
        "explain": explain,
        "failing": failing,
        "changes": changes,
        "command": command,
    }


def sums_of(explained: Explained) -> dict[str, Sum]:
    """By chunk id: the results that are shown come from another search than those that are explained."""
    hits = explained.answer.results
    return {hit.chunk.chunk_id: figures for hit, figures in zip(hits, explained.sums, strict=True)}
