"""A layered recall in the operators' log: how many results were wanted, what each layer did. Never the query itself.

The query is in the log of recalls (`qianxun logs`), under the same trace.
"""

from __future__ import annotations

import logging

from qianxun.core.layered_types import LayeredRecall, LayerRun

log = logging.getLogger(__name__)


def log_layers(recall: LayeredRecall) -> None:
    """INFO; WARNING where a layer failed and another took its place; ERROR where all that ran failed."""
    ran = [run for run in recall.layers if run.ran]
    failed = [run for run in ran if run.failed]
    level = logging.ERROR if failed and len(failed) == len(ran) else logging.WARNING if failed else logging.INFO
    if not log.isEnabledFor(level):
        return
    log.log(
        level,
        "search_%ss: %s results, %s wanted; %s",
        recall.kind,
        len(recall.results),
        recall.wanted,
        "; ".join(map(_told, recall.layers)),
        extra={"about": _about(recall)},
    )


def _told(run: LayerRun) -> str:
    name = f"layer {run.layer} {run.strategy}"
    if run.failed:
        return f"{name} failed"
    if not run.ran:
        return f"{name} did not run"
    return f"{name} let in {run.count}"


def _about(recall: LayeredRecall) -> dict[str, object]:
    """Numbers and names alone: a reason may quote what somebody wrote."""
    layers = [
        {
            "layer": run.layer,
            "strategy": run.strategy,
            "ran": run.ran,
            "failed": run.failed,
            "count": run.count,
            "best": round(run.best, 4),
            "ms": round(run.seconds * 1000, 1),
        }
        for run in recall.layers
    ]
    return {
        "engine": recall.kind,
        "wanted": recall.wanted,
        "results": len(recall.results),
        "ms": round(recall.seconds * 1000, 1),
        "degraded": sorted({each.part for each in recall.degraded}),
        "answered": recall.answer.sure if recall.answer is not None else None,
        "layers": layers,
    }
