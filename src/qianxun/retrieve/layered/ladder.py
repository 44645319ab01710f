"""The ladders of layered recall, as data, and the climbing of one: what `search_texts` and `search_tables` share.

A layer lets results in; it begins only while those before it have let in too few. Which layer let a result in says how
it was found. In what order results stand is decided by one score for all layers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from qianxun.core.errors import BadInput, QianxunError
from qianxun.core.layered_types import LayerRun
from qianxun.core.types import Degraded

log = logging.getLogger(__name__)

ALWAYS: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Layer:
    number: int
    strategy: str
    below: float  # it begins while fewer than this share of the target has been let in
    threshold: float
    is_on: bool = True


@dataclass(frozen=True, slots=True)
class Ladder:
    layers: tuple[Layer, ...]
    cap: int  # results at the most

    def target(self, top_k: int | None) -> int:
        return min(top_k or self.cap, self.cap)


class LayerChoices(Protocol):
    """What both sections of the settings say, with what the base says otherwise."""

    @property
    def enabled(self) -> bool: ...
    @property
    def max_results(self) -> int: ...
    @property
    def similarity_threshold(self) -> float: ...
    @property
    def use_keyword_search(self) -> bool: ...
    @property
    def keyword_threshold(self) -> float: ...
    @property
    def use_expansion_search(self) -> bool: ...
    @property
    def expansion_score(self) -> float: ...


class TextChoices(LayerChoices, Protocol):
    """The section ``text_engine``."""

    @property
    def search_k_multiplier(self) -> float: ...


class TableChoices(LayerChoices, Protocol):
    """The section ``table_engine``."""

    @property
    def structure_weight(self) -> float: ...
    @property
    def use_semantic_search(self) -> bool: ...
    @property
    def semantic_threshold(self) -> float: ...


def text_ladder(chosen: TextChoices) -> Ladder:
    layers = (
        Layer(1, "vector", ALWAYS, chosen.similarity_threshold, chosen.enabled),
        Layer(2, "keyword", 0.8, chosen.keyword_threshold, chosen.enabled and chosen.use_keyword_search),
        Layer(3, "expansion", 0.7, chosen.expansion_score, chosen.enabled and chosen.use_expansion_search),
    )
    return Ladder(layers, chosen.max_results)


def table_ladder(chosen: TableChoices) -> Ladder:
    layers = (
        Layer(1, "structure", ALWAYS, chosen.similarity_threshold, chosen.enabled),
        Layer(2, "semantic", 0.8, chosen.semantic_threshold, chosen.enabled and chosen.use_semantic_search),
        Layer(3, "keyword", 0.7, chosen.keyword_threshold, chosen.enabled and chosen.use_keyword_search),
        Layer(4, "expansion", 0.6, chosen.expansion_score, chosen.enabled and chosen.use_expansion_search),
    )
    return Ladder(layers, chosen.max_results)


# ── climbing ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Admission:
    """What a layer lets in, with the score that all layers share and what the layer saw."""

    score: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admitted:
    """What was let in: by which layer first, with its best score and what every layer saw in it."""

    layer: Layer
    score: float
    details: Mapping[str, Any]


Step: TypeAlias = Callable[[Layer], Awaitable[Mapping[int, Admission]]]  # by the id of what is let in: a chunk, a table


@dataclass(frozen=True, slots=True)
class LadderResult:
    held: Mapping[int, Admitted]
    runs: tuple[LayerRun, ...]
    degraded: tuple[Degraded, ...]

    def best(self, count: int) -> list[tuple[int, Admitted]]:
        """Best first, ties by id."""
        return sorted(self.held.items(), key=lambda item: (-item[1].score, item[0]))[:count]


async def run_ladder(ladder: Ladder, steps: Mapping[str, Step], target: int) -> LadderResult:
    """Layer after layer, as far as the target wants. One that fails gives way to the next, and is named."""
    held: dict[int, Admitted] = {}
    runs: list[LayerRun] = []
    degraded: list[Degraded] = []
    for layer in ladder.layers:
        if not layer.is_on or len(held) >= layer.below * target:
            reason = f"已有 {len(held)} 条，达到目标 {target} 条的 {layer.below:.0%}" if layer.is_on else "设置中关闭"
            runs.append(LayerRun(layer.number, layer.strategy, False, reason))
            continue
        started = time.perf_counter()
        run = LayerRun(layer.number, layer.strategy, True, start=started)
        try:
            let = await steps[layer.strategy](layer)
        except BadInput:
            raise  # the request's own fault, which no other layer can mend
        except Exception as error:  # the door of a layer: whatever it raises must not take the others down
            reason = _reason(layer, error)
            degraded.append(Degraded(layer.strategy, reason))
            let, run = {}, replace(run, reason=reason)
        fresh = [each.score for id_, each in let.items() if id_ not in held]
        for id_, each in let.items():
            held[id_] = _with(held.get(id_), layer, each)
        seconds = time.perf_counter() - started
        runs.append(replace(run, count=len(fresh), best=max(fresh, default=0.0), seconds=seconds))
    return LadderResult(held, tuple(runs), tuple(degraded))


def _with(before: Admitted | None, layer: Layer, let: Admission) -> Admitted:
    if before is None:
        return Admitted(layer, let.score, let.details)
    return Admitted(before.layer, max(before.score, let.score), {**let.details, **before.details})


def _reason(layer: Layer, error: Exception) -> str:
    if isinstance(error, QianxunError):
        return str(error)  # `layer_log` warns of it, once for the whole run_ladder
    log.error("layer %d (%s) failed", layer.number, layer.strategy, exc_info=error)
    return f"出错：{type(error).__name__}: {error}"
