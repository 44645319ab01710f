"""How to search: everything a request may choose, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from qianxun.core.errors import BadQuery
from qianxun.core.filters import not_a_filter
from qianxun.core.limits import TOP_K_LIMIT
from qianxun.core.types import EVERYTHING, Filter

Mode: TypeAlias = Literal["hybrid", "vector", "fulltext"]
FusionName: TypeAlias = Literal["weighted", "min_max", "rrf"]
FUSIONS: Final[tuple[FusionName, ...]] = ("weighted", "min_max", "rrf")

MODES: Final[tuple[Mode, ...]] = ("hybrid", "vector", "fulltext")


@dataclass(frozen=True, slots=True)
class RecallOptions:
    mode: Mode = "hybrid"
    top_k: int = 10
    threshold: float = 0.0
    where: Filter = EVERYTHING
    doc_ids: tuple[str, ...] = ()
    fusion: FusionName = "weighted"
    weights: Mapping[str, float] = field(default_factory=dict)  # {}: as fits the base
    rerank: str = ""  # a rerank model's name; "": none
    fuzzy: bool = True
    arms: tuple[str, ...] = ()  # arms of other packages that take part; "-qa": without this one of ours
    arm_seconds: float = 10.0
    rerank_seconds: float = 10.0
    rewrite_seconds: float = 10.0


def check(options: RecallOptions) -> None:
    """Raises BadQuery, or BadFilter. The values may come from a configuration: of what type they are is asked too."""
    if not isinstance(options.mode, str) or options.mode not in MODES:
        raise BadQuery(f"没有检索模式 {options.mode}", hint="可用：hybrid、vector、fulltext")
    if not isinstance(options.fusion, str) or options.fusion not in FUSIONS:
        raise BadQuery(f"没有融合方式 {options.fusion}", hint="可用：weighted、min_max、rrf")
    if not _is_number(options.top_k, int) or not 1 <= options.top_k <= TOP_K_LIMIT:
        raise BadQuery(f"top_k 为 {options.top_k!r}，应为 1–{TOP_K_LIMIT} 的整数", hint="改用范围内的数")
    if not _is_number(options.threshold, int, float) or not 0.0 <= options.threshold <= 1.0:
        raise BadQuery(f"阈值为 {options.threshold!r}，应在 0–1 之间", hint="改用范围内的数")
    if not isinstance(options.rerank, str) or not isinstance(options.fuzzy, bool):
        raise BadQuery(
            f"rerank 为 {options.rerank!r}，fuzzy 为 {options.fuzzy!r}",
            hint="rerank 应为模型名，fuzzy 应为 true 或 false",
        )
    if not isinstance(options.arms, tuple) or not all(isinstance(arm, str) and arm.strip("-") for arm in options.arms):
        raise BadQuery(f"arms 为 {options.arms!r}", hint='应为名字的列表，例如 ["exact_phrase", "-qa"]')
    _check_weights(options.weights, options.arms)
    if not all(isinstance(doc_id, str) for doc_id in options.doc_ids):
        raise BadQuery(f"doc_ids 为 {options.doc_ids!r}", hint="应为文档编号的列表")
    if not isinstance(options.where, Filter):
        raise not_a_filter(options.where)


def _check_weights(weights: Any, arms: tuple[str, ...]) -> None:
    if not isinstance(weights, Mapping):
        raise BadQuery(f"权重 {weights!r} 不对", hint='写成 {"vector": 0.6, "keyword": 0.4}')
    if unknown := sorted(str(name) for name in weights if name not in ("vector", "keyword", *arms)):
        raise BadQuery(f"没有名为 {'、'.join(unknown)} 的一路", hint="权重只有 vector 与 keyword")
    told = list(weights.values())
    is_sound = all(_is_number(weight, int, float) and 0.0 <= weight < float("inf") for weight in told)
    if not is_sound or (told and not any(told)):
        raise BadQuery(f"权重 {dict(weights)} 不对", hint="权重不能为负，且至少有一路大于零")


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


class Defaults(Protocol):
    """The search section of the settings: what holds where neither the request nor the base says otherwise."""

    @property
    def top_k(self) -> int: ...
    @property
    def semantic_weight(self) -> float: ...
    @property
    def keyword_weight(self) -> float: ...
    @property
    def fusion(self) -> str: ...
    @property
    def rerank(self) -> str: ...
    @property
    def fuzzy(self) -> bool: ...
    @property
    def arms(self) -> tuple[str, ...]: ...
    @property
    def arm_seconds(self) -> float: ...
    @property
    def rerank_seconds(self) -> float: ...
    @property
    def rewrite_seconds(self) -> float: ...


def search_options(defaults: Defaults, config: Mapping[str, Any], chosen: Mapping[str, Any]) -> RecallOptions:
    """The request's choice, then that of the base (its config's ``search``), then the settings'."""
    of_base = config.get("search") or {}
    if not isinstance(of_base, Mapping):
        raise BadQuery(f"知识库的 search 配置是 {of_base!r}", hint='应为键值对，例如 {"fusion": "rrf"}')
    settings: dict[str, Any] = {
        "top_k": defaults.top_k,
        "fusion": defaults.fusion,
        "weights": {"vector": defaults.semantic_weight, "keyword": defaults.keyword_weight}
        if defaults.semantic_weight or defaults.keyword_weight
        else {},
        "rerank": defaults.rerank,
        "fuzzy": defaults.fuzzy,
        "arms": defaults.arms,
    }
    if unknown := sorted(str(name) for name in of_base if name not in settings):
        raise BadQuery(f"知识库的 search 配置里没有 {'、'.join(unknown)}", hint=f"可用：{'、'.join(settings)}")
    settings |= of_base
    if isinstance(settings["arms"], list):  # of a configuration in JSON
        settings["arms"] = tuple(settings["arms"])
    settings |= {name: value for name, value in chosen.items() if value is not None}
    return RecallOptions(
        **settings,
        arm_seconds=defaults.arm_seconds,
        rerank_seconds=defaults.rerank_seconds,
        rewrite_seconds=defaults.rewrite_seconds,
    )
