"""Embedding on this machine: ONNX weights and a fast tokenizer, no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.types import Vector, Vectors
from qianxun.core.unicode import sound_text
from qianxun.core.vectors import unit_rows
from qianxun.models.cards import ModelCard, card
from qianxun.models.local.onnx import OnnxModel
from qianxun.text.chinese import simplified

if TYPE_CHECKING:
    from qianxun.models.local.onnx import Encoding

# Measured in docs/decisions/0004-embedding-models.md: each core runs one text at a time. For passages nothing is
# faster, and no vector depends on other texts, as it would in a batch of quantised weights.
BATCH_SIZE = 1
BATCH_TOKENS = 512
WINDOW = 2048  # texts tokenised and sorted together: bounds memory

Result = TypeVar("Result")
Batch: TypeAlias = "tuple[NDArray[np.intp], list[Encoding]]"  # positions in the input, tokens


class LocalEmbedding:
    """An EmbeddingModel over a card's ONNX weights. Thread-safe.

    By default a vector depends on its text alone. With ``batch_size`` above 1, texts of similar length run together, at
    most ``batch_tokens`` at once: faster for very short texts, but weights quantised to int8 share their scales across
    a batch, which moves vectors (cosines of .96 to .99 with the text's own).
    """

    def __init__(
        self,
        name: str | ModelCard,
        folder: Path,
        *,
        threads: int = 0,
        device: str = "cpu",
        batch_size: int = BATCH_SIZE,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Checks and loads the weights in ``folder``; ``threads=0`` means all cores."""
        if batch_size < 1 or batch_tokens < 1:
            raise BadInput("batch_size、batch_tokens 必须大于零", hint="请改正，或使用默认值")
        self._card = card(name)
        self._onnx = OnnxModel(self._card, folder, threads=threads, device=device)
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens

    @property
    def name(self) -> str:
        return self._card.name

    @property
    def dimension(self) -> int:
        return self._card.dimension

    @property
    def device(self) -> str:
        return self._onnx.device

    @property
    def card(self) -> ModelCard:
        return self._card

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._card.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        row: Vector = self._embed([self._card.query_prefix + text])[0]
        return row

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """One unit vector per token of each text without special tokens, for MaxSim."""
        found = [np.empty((0, self.dimension), np.float32)] * len(texts)
        for positions, token_rows in self._over_batches(texts, self._token_rows):
            for position, rows in zip(positions, token_rows, strict=True):
                found[position] = unit_rows(rows, len(rows), self.dimension, self.name)
        return found

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each of the `token_vectors`."""
        return self._onnx.spans(self._read(text))

    def _read(self, text: str) -> str:
        """The text as the model reads it best. Characters stand for characters, so that spans hold for both."""
        return simplified(sound_text(text)) if self._card.reads_simplified else text

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self.dimension), np.float32)
        for positions, pooled in self._over_batches(texts, self._pooled):
            rows[positions] = pooled
        return unit_rows(rows, len(texts), self.dimension, self.name)

    def _over_batches(
        self, texts: Sequence[str], run: Callable[[Sequence[Encoding]], Result]
    ) -> Iterator[tuple[NDArray[np.intp], Result]]:
        """The results of ``run`` for each batch, several in parallel. A single one runs in the caller's thread."""
        for start in range(0, len(texts), WINDOW):
            batches = self._batches(texts[start : start + WINDOW])
            results = self._onnx.in_parallel(run, [encodings for _, encodings in batches])
            for (positions, _), result in zip(batches, results, strict=True):
                yield positions + start, result

    def _batches(self, texts: Sequence[str]) -> list[Batch]:
        """Texts of similar length together, longest first, so that no core ends with a long one."""
        encodings = self._onnx.encode([self._read(text) for text in texts])
        lengths = np.array([len(encoding) for encoding in encodings])
        order = np.argsort(-lengths, kind="stable")
        cuts = _cut(order, lengths, self._batch_size, self._batch_tokens)
        return [(batch, [encodings[position] for position in batch]) for batch in cuts]

    def _hidden(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """The last layer for one batch: (texts, tokens, dimension), padded."""
        hidden = self._onnx.run(encodings)
        if hidden.ndim != 3 or hidden.shape[2] != self.dimension:
            raise BadModelReply(
                f"模型 {self.name} 的输出形状是 {hidden.shape}，卡片写的是每个词元 {self.dimension} 维",
                hint="请核对模型卡片与权重文件是否相配",
            )
        return hidden

    def _pooled(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        hidden = self._hidden(encodings)
        if self._card.pooling == "cls":
            return hidden[:, 0].copy()  # a view would refer to the whole layer
        return np.stack([rows[: len(encoding)].mean(axis=0) for rows, encoding in zip(hidden, encodings, strict=True)])

    def _token_rows(self, encodings: Sequence[Encoding]) -> list[NDArray[np.float32]]:
        owns = (np.flatnonzero(np.asarray(encoding.special_tokens_mask) == 0) for encoding in encodings)
        return [rows[own] for rows, own in zip(self._hidden(encodings), owns, strict=True)]


def _cut(
    order: NDArray[np.intp], lengths: NDArray[np.intp], batch_size: int, batch_tokens: int
) -> Iterator[NDArray[np.intp]]:
    """Consecutive batches of at most ``batch_size`` texts and ``batch_tokens`` padded tokens; one text always fits."""
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        size = max(1, min(batch_size, batch_tokens // longest))
        yield order[start : start + size]
        start += size
