"""`qianxun eval`, drawn for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from qianxun.doors.cli.i18n import out, print_plain, tr

if TYPE_CHECKING:
    from qianxun.engine.admin.evaluate import Built, Comparison, Dataset, Report, Run

HEADLINE = "hybrid"  # the mode that a comparison shows first
SHOWN_MOVED = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """The runs of one configuration over one index."""

    label: str
    folder: str
    built: Built
    is_reused: bool
    runs: dict[str, Run]  # by mode


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def described(dataset: Dataset, trials: Sequence[Trial], comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "documents": len(dataset.documents),
        "queries": len(dataset.queries),
        "index_seconds": round(sum({trial.folder: trial.built.seconds for trial in trials}.values()), 3),
        "runs": [_described_run(run) for trial in trials for run in trial.runs.values()],
        "comparison": _described_comparisons(comparisons),
    }


def _described_run(run: Run) -> dict[str, Any]:
    scores = {metric: round(value, 6) for metric, value in run.mean_scores.items()}
    return {"name": run.name, **scores, "p50_ms": round(run.p50_ms, 3), "p95_ms": round(run.p95_ms, 3)}


def _described_comparisons(comparisons: Mapping[str, Comparison]) -> dict[str, Any] | None:
    """The headline mode's comparison, with those of every mode beside it."""
    if not comparisons:
        return None
    every = {mode: {"mode": mode, **_described_comparison(one)} for mode, one in comparisons.items()}
    headline = HEADLINE if HEADLINE in every else next(iter(every))
    return {**every[headline], "modes": list(every.values())}


def _described_comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "metric": comparison.metric,
        "a": {"name": comparison.names[0], "mean": round(comparison.mean_scores[0], 6)},
        "b": {"name": comparison.names[1], "mean": round(comparison.mean_scores[1], 6)},
        "difference": round(comparison.difference, 6),
        "p_value": round(comparison.p_value, 6),
        "significant": comparison.is_significant,
        "queries": comparison.queries,
        "moved": [
            {"query_id": one.query, "text": one.text, "a": round(one.before, 6), "b": round(one.after, 6)}
            for one in comparison.moved
        ],
    }


def described_calibration(model: str, datasets: Sequence[Dataset], report: Report) -> dict[str, Any]:
    return {
        "model": model,
        "datasets": [dataset.name for dataset in datasets],
        "queries": report.queries,
        "candidates": report.candidates,
        "relevant": report.relevant,
        "midpoint": round(report.curve.midpoint, 6),
        "slope": round(report.curve.slope, 6),
        "ece": {"before": round(report.errors[0], 6), "after": round(report.errors[1], 6)},
        "held_out_ece": {
            "before": round(report.validation_errors[0], 6),
            "after": round(report.validation_errors[1], 6),
        },
    }


# ── for people ───────────────────────────────────────────────────────────────────────────────────


def show(dataset: Dataset, trials: Sequence[Trial], comparisons: Mapping[str, Comparison]) -> None:
    console = out()
    print_plain(console, _heading(dataset))
    for trial in trials:
        print_plain(console, _index(trial), "dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(tr("方式", "run"), no_wrap=True)
    for title in ("nDCG@10", "MRR@10", tr("召回@10", "recall@10"), tr("召回@100", "recall@100")):
        table.add_column(title, justify="right", no_wrap=True)
    for title in (tr("首条命中", "hit@1"), "p50 ms", "p95 ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for run in (run for trial in trials for run in trial.runs.values()):
        scores = [f"{value:.3f}" for value in run.mean_scores.values()]
        table.add_row(escape(run.name), *scores, f"{run.p50_ms:.1f}", f"{run.p95_ms:.1f}")
    console.print(table)
    for comparison in comparisons.values():
        _show_comparison(comparison)


def _heading(dataset: Dataset) -> str:
    name, documents, queries, labelled = dataset.name, len(dataset.documents), len(dataset.queries), dataset.labelled
    zh, en = f"{name}：{documents} 个文档，{queries} 个查询", f"{name}: {documents} documents, {queries} queries"
    if queries < labelled:
        zh += f"（从 {labelled} 个有标注的查询中按固定种子抽取）"
        en += f" (drawn from {labelled} labelled ones with a fixed seed)"
    return tr(zh, en)


def _index(trial: Trial) -> str:
    built = trial.built
    label = f"[{trial.label}] " if trial.label else ""
    model = built.model or tr("无模型", "no model")
    reused = tr("，沿用已建好的", ", used again") if trial.is_reused else ""
    return label + tr(
        f"索引：{built.chunks} 块，{model}，建索引 {built.seconds:.1f} 秒{reused}",
        f"index: {built.chunks} chunks, {model}, built in {built.seconds:.1f} s{reused}",
    )


def _show_comparison(comparison: Comparison) -> None:
    console = out()
    first, second = comparison.names
    verdict = tr("显著", "significant") if comparison.is_significant else tr("不显著", "not significant")
    scores = f"{comparison.metric} {comparison.mean_scores[0]:.4f} → {comparison.mean_scores[1]:.4f}"
    difference, p_value = f"{comparison.difference:+.4f}", f"p={comparison.p_value:.4f}"
    summary = tr(
        f"\n{first} → {second}：{scores}（{difference}）；差异在 p<.05 下{verdict}（{p_value}，"
        f"{comparison.queries} 个查询，配对随机化检验）",
        f"\n{first} → {second}: {scores} ({difference}); {verdict} at p<.05 ({p_value}, "
        f"{comparison.queries} queries, paired randomisation test)",
    )
    print_plain(console, summary)
    for one in comparison.moved[:SHOWN_MOVED]:
        line = f"  {one.before:.2f} → {one.after:.2f}  {' '.join(one.text.split())[:60]}  ({one.query})"
        print_plain(console, line, "dim")


def show_calibration(model: str, datasets: Sequence[Dataset], report: Report) -> None:
    console = out()
    names = "、".join(dataset.name for dataset in datasets)
    queries, candidates, relevant = report.queries, report.candidates, report.relevant
    heading = tr(
        f"{model}：{names} 的 {queries} 个查询，{candidates} 个候选，其中相关 {relevant} 个",
        f"{model}: {queries} queries of {names}, {candidates} candidates, {relevant} relevant",
    )
    print_plain(console, heading)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", tr("截断余弦", "clipped cosine"), tr("校准后", "calibrated")):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    rows = (
        (tr("ECE 全部", "ECE, all"), report.errors),
        (tr("ECE 留出的一半", "ECE, held-out half"), report.validation_errors),
    )
    for title, errors in rows:
        table.add_row(title, *(f"{error:.3f}" for error in errors))
    console.print(table)
    console.print(tr("\n写进设置文件：", "\nPut these into the settings file:"))
    curve = f"calibration_midpoint: {report.curve.midpoint:.4f}, calibration_slope: {report.curve.slope:.3f}"
    print_plain(console, f"  vectorization: {{{curve}}}", "bold")
