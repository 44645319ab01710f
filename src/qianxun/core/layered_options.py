"""What the two layered engines may be told, in the settings and in a base's configuration: their keys and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from qianxun.core.errors import BadQuery

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Section = TypeVar("Section", bound="DataclassInstance")

ENGINES: Final = ("text_engine", "table_engine")


@dataclass(frozen=True, slots=True)
class TextEngine:
    """The layers of `search_texts`."""

    enabled: bool = True
    max_results: int = 30
    similarity_threshold: float = 0.7
    search_k_multiplier: float = 2.0  # candidates of the first layer, for each result that is wanted
    use_keyword_search: bool = True
    keyword_threshold: float = 0.5
    use_expansion_search: bool = True
    expansion_score: float = 0.4


@dataclass(frozen=True, slots=True)
class TableEngine:
    """The layers of `search_tables`."""

    enabled: bool = True
    max_results: int = 15
    similarity_threshold: float = 0.65
    structure_weight: float = 0.4  # beside the vector
    use_semantic_search: bool = True
    semantic_threshold: float = 0.4
    use_keyword_search: bool = True
    keyword_threshold: float = 0.5
    use_expansion_search: bool = True
    expansion_score: float = 0.4


@dataclass(frozen=True, slots=True)
class Bounds:
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.least:g}–{self.most:g}"

    def hold(self, value: float) -> bool:
        return self.least <= value <= self.most  # NaN never does


_SHARE: Final = Bounds(0, 1)
_COMMON: Final[Mapping[str, Bounds | None]] = {
    "enabled": None,
    "max_results": Bounds(1, 100),
    "similarity_threshold": _SHARE,
    "search_k_multiplier": Bounds(1, 20),
    "structure_weight": _SHARE,
    "use_semantic_search": None,
    "semantic_threshold": _SHARE,
    "use_keyword_search": None,
    "keyword_threshold": _SHARE,
    "use_expansion_search": None,
    "expansion_score": _SHARE,
}
_OF_TABLES_ALONE: Final = ("structure_weight", "use_semantic_search", "semantic_threshold")
_OF_TEXTS_ALONE: Final = ("search_k_multiplier",)

# Dotted key → its bounds; None: true or false.
CHOICES: Final[Mapping[str, Bounds | None]] = {
    f"{engine}.{key}": bounds
    for engine, without in zip(ENGINES, (_OF_TABLES_ALONE, _OF_TEXTS_ALONE), strict=True)
    for key, bounds in _COMMON.items()
    if key not in without
}


def kind_of(name: str) -> str:
    """How a base's configuration calls the values of this key."""
    if CHOICES[name] is None:
        return "true 或 false"
    return "整数" if name.endswith(".max_results") else "数字"


def with_base_config(section: Section, config: Mapping[str, Any], engine: str) -> Section:
    """A section of the settings (``text_engine``, ``table_engine``) with what the base says otherwise."""
    chosen = config.get(engine) or {}
    known = {declared.name for declared in fields(section)}
    if not isinstance(chosen, Mapping) or (set(chosen) - known):
        raise BadQuery(f"知识库的 {engine} 配置 {chosen!r} 不对", hint=f"可用：{'、'.join(sorted(known))}")
    return replace(section, **chosen)
