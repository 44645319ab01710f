"""The ladders of layered retrieval, as data, and the run over one: what `search_texts` and `search_tables` share.

A layer admits results; it starts only while those before it have admitted too few. Which layer admitted a result says
how it was found. The order of results is decided by one score for all layers. Read `run_ladder` first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.layered_options import TableEngine, TextEngine
from qianxun.core.layered_types import LayeredRecall, LayerRun
from qianxun.core.types import Degraded

log = logging.getLogger(__name__)
layer_log = logging.getLogger("qianxun.retrieve.layered.log")  # the name that operators filter by

ALWAYS: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Layer:
    number: int
    strategy: str
    below: float  # it starts while fewer than this share of the target has been admitted
    threshold: float
    is_on: bool = True


@dataclass(frozen=True, slots=True)
class Ladder:
    layers: tuple[Layer, ...]
    cap: int  # results at the most

    def target(self, top_k: int | None) -> int:
        return min(top_k or self.cap, self.cap)


def text_ladder(chosen: TextEngine) -> Ladder:
    layers = (
        Layer(1, "vector", ALWAYS, chosen.similarity_threshold, chosen.enabled),
        Layer(2, "keyword", 0.8, chosen.keyword_threshold, chosen.enabled and chosen.use_keyword_search),
        Layer(3, "expansion", 0.7, chosen.expansion_score, chosen.enabled and chosen.use_expansion_search),
    )
    return Ladder(layers, chosen.max_results)


def table_ladder(chosen: TableEngine) -> Ladder:
    layers = (
        Layer(1, "structure", ALWAYS, chosen.similarity_threshold, chosen.enabled),
        Layer(2, "semantic", 0.8, chosen.semantic_threshold, chosen.enabled and chosen.use_semantic_search),
        Layer(3, "keyword", 0.7, chosen.keyword_threshold, chosen.enabled and chosen.use_keyword_search),
        Layer(4, "expansion", 0.6, chosen.expansion_score, chosen.enabled and chosen.use_expansion_search),
    )
    return Ladder(layers, chosen.max_results)


@dataclass(frozen=True, slots=True)
class Admission:
    """What a layer admits: the score that all layers share, and what the layer found in it."""

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A result: the layer that admitted it first, its best score and what every layer found in it."""

    layer: Layer
    score: float
    details: Mapping[str, Any]


Step: TypeAlias = Callable[[Layer], Awaitable[Mapping[int, Admission]]]  # by the id of a chunk or a table


@dataclass(frozen=True, slots=True)
class LadderResult:
    admitted: Mapping[int, Admitted]
    runs: tuple[LayerRun, ...]
    degraded: tuple[Degraded, ...]

    def best(self, count: int) -> list[tuple[int, Admitted]]:
        """Best first, ties by id."""
        return sorted(self.admitted.items(), key=lambda item: (-item[1].score, item[0]))[:count]


async def run_ladder(ladder: Ladder, steps: Mapping[str, Step], target: int) -> LadderResult:
    """Layer after layer until the target is met. One that fails gives way to the next, and is named."""
    admitted: dict[int, Admitted] = {}
    runs: list[LayerRun] = []
    degraded: list[Degraded] = []
    for layer in ladder.layers:
        if not layer.is_on or len(admitted) >= layer.below * target:
            enough = f"已有 {len(admitted)} 条，达到目标 {target} 条的 {layer.below:.0%}"
            runs.append(LayerRun(layer.number, layer.strategy, False, enough if layer.is_on else "设置中关闭"))
            continue
        started = time.perf_counter()
        run = LayerRun(layer.number, layer.strategy, True, start=started)
        found: Mapping[int, Admission] = {}
        try:
            found = await steps[layer.strategy](layer)
        except BadInput:
            raise  # the request's own fault: no other layer can help
        except Exception as error:  # a layer may raise anything: it must not take the others down
            run = replace(run, reason=_reason(layer, error))
            degraded.append(Degraded(layer.strategy, run.reason))
        fresh = [one.score for id_, one in found.items() if id_ not in admitted]
        for id_, one in found.items():
            first = admitted.get(id_) or Admitted(layer, one.score, {})
            admitted[id_] = Admitted(first.layer, max(first.score, one.score), {**one.details, **first.details})
        seconds = time.perf_counter() - started
        runs.append(replace(run, count=len(fresh), best=max(fresh, default=0.0), seconds=seconds))
    return LadderResult(admitted, tuple(runs), tuple(degraded))


def _reason(layer: Layer, error: Exception) -> str:
    if isinstance(error, QianxunError):
        return str(error)  # `log_layers` warns of it, once for the whole ladder
    log.error("layer %d (%s) failed", layer.number, layer.strategy, exc_info=error)
    return f"出错：{type(error).__name__}: {error}"


# ── the operators' log ───────────────────────────────────────────────────────────────────────────


def log_layers(recall: LayeredRecall) -> None:
    """INFO; WARNING if a layer failed and another took its place; ERROR if all that ran failed. Numbers and names only:
    the query is in the log of searches (`qianxun logs`) under the same trace, and a reason may quote a document."""
    ran = [run for run in recall.layers if run.ran]
    failed = [run for run in ran if run.failed]
    level = logging.ERROR if failed and len(failed) == len(ran) else logging.WARNING if failed else logging.INFO
    if not layer_log.isEnabledFor(level):
        return
    about = {
        "engine": recall.kind,
        "wanted": recall.wanted,
        "results": len(recall.results),
        "ms": round(recall.seconds * 1000, 1),
        "degraded": sorted({missing.part for missing in recall.degraded}),
        "answered": recall.answer.sure if recall.answer is not None else None,
        "layers": [
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
        ],
    }
    outcomes = "; ".join(f"layer {run.layer} {run.strategy} {_outcome(run)}" for run in recall.layers)
    message = "search_%ss: %s results, %s wanted; %s"
    layer_log.log(level, message, recall.kind, len(recall.results), recall.wanted, outcomes, extra={"about": about})


def _outcome(run: LayerRun) -> str:
    return "failed" if run.failed else f"let in {run.count}" if run.ran else "did not run"
