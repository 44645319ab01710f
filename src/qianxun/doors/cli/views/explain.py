"""`qianxun search --explain` and `--why`: where scores come from, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from qianxun.doors.cli.i18n import print_folded, tr
from qianxun.doors.cli.views.drawing import arm_label, bars, label, labelled, location_of, milliseconds, padded

if TYPE_CHECKING:
    from qianxun.core.explanation import Decisions, Explained, Explanation, Sum
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


def show_hit(console: Console, hit: Found, figures: Sum | None, decisions: Decisions) -> None:
    """Below a result's title: its arms as bars, the sum in figures, its tier and words, and what people decided."""
    labelled(console, tr("编号", "id"), hit.chunk.chunk_id)
    _bars(console, hit.arms, hit.rerank)
    if figures is not None:  # the score of a pinned one is people's, and no sum
        labelled(
            console, tr("得分", "score"), formula(replace(figures, shown=figures.total) if hit.pinned else figures)
        )
    if hit.pinned:
        put = f"规则 {hit.pinned}：这个问题先给它，分数记为 1", f"rule {hit.pinned} puts it first: its score is 1"
        labelled(console, tr("规则", "rule"), tr(*put))
    labelled(console, tr("层级", "tier"), _tier(hit.tier, hit.matched, hit.coverage, _similarity(hit.arms)))
    _show_decisions(console, decisions)


def _show_decisions(console: Console, decisions: Decisions) -> None:
    from qianxun.engine.display import decision_texts

    for zh, en in decision_texts(decisions):
        labelled(console, tr("决定", "decided"), tr(zh, en))


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
    from qianxun.engine.display import change_texts, reason_texts

    title = Text(why.chunk_id, style="bold")
    if why.chunk is not None:
        title.append("  ").append_text(location_of(why.chunk))
    print_folded(console, title, 0)
    mark = ("✓", "green") if why.is_returned else ("✗", "red")
    print_folded(console, Text.assemble(mark, " " + tr(*reason_texts(why))), 2, hanging=2)
    _bars(console, why.arms, why.sum.rerank if why.sum else None)
    if why.sum is not None:
        labelled(console, tr("得分", "score"), formula(why.sum))
    if why.tier is not None or why.matched:
        labelled(console, tr("层级", "tier"), _tier(why.tier, why.matched, why.coverage, why.similarity))
    _show_decisions(console, why.decisions)
    if command:
        print_folded(
            console, Text(tr("→ 这样会返回它：", "→ This returns it: ") + tr(*change_texts(why))), 2, hanging=2
        )
        console.print(f"  {command}", style="green", markup=False, soft_wrap=True)
    elif why.hint:
        print_folded(console, Text(f"→ {why.hint}"), 2, hanging=2)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def described_why(why: Explanation, command: str) -> dict[str, Any]:
    from qianxun.core.codec.wire import written_explanation
    from qianxun.core.filters import filter_to_log
    from qianxun.engine.display import reason_texts

    document = written_explanation(why)
    explain, _, _ = (document.pop(name) for name in ("sum", "degraded", "chunk"))
    changes = {name: filter_to_log(value) if name == "where" else value for name, value in why.changes.items()}
    failing = [filter_to_log(part) for part in why.failing]
    reason = tr(*reason_texts(why))
    return {
        **document,
        "reason": reason,
        "explain": explain,
        "failing": failing,
        "changes": changes,
        "command": command,
    }


def figures_of(explained: Explained) -> dict[str, tuple[Sum, Decisions]]:
    """By chunk id: the results that are shown come from another search than those that are explained."""
    known = zip(explained.answer.results, explained.sums, explained.decisions, strict=True)
    return {hit.chunk.chunk_id: (figures, decisions) for hit, figures, decisions in known}
