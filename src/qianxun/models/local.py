"""Embedding on this machine: ONNX weights and a fast tokenizer, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qianxun.errors import BadInput, ModelUnavailable
from qianxun.models.cards import ModelCard, card
from qianxun.models.checks import sound_text, unit_rows
from qianxun.models.weights import check_folder
from qianxun.types import Vector, Vectors

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# Measured in docs/decisions/0004-embedding-models.md.
BATCH_SIZE = 16
BATCH_TOKENS = 4096
WINDOW = 2048  # texts tokenised and sorted together: bounds memory, and more would sort no better


class LocalEmbedding:
    """An EmbeddingModel that runs a card's ONNX weights. Safe to call from several threads at once.

    Quantised weights make a text's vector depend a little on what shares its batch; a query is always alone in its
    own, so the same query gives the same vector.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        threads: int = 0,
        device: str = "cpu",
        batch_size: int = BATCH_SIZE,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Loads the weights in ``folder`` once their hashes are right; ``threads=0`` means all cores."""
        if batch_size < 1 or batch_tokens < 1:
            raise BadInput("batch_size 和 batch_tokens 必须大于零", hint="请改用正整数，或使用默认值")
        self._card = card(name)
        check_folder(self._card, folder)
        self._tokenizer = _open_tokenizer(self._card, folder)
        self._session = _open_session(self._card, folder, threads, device)
        self._inputs = {given.name for given in self._session.get_inputs()}
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens

    @property
    def name(self) -> str:
        return self._card.name

    @property
    def dimension(self) -> int:
        return self._card.dimension

    @property
    def card(self) -> ModelCard:
        return self._card

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._card.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        row: Vector = self._embed([self._card.query_prefix + text])[0]
        return row

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """One unit vector per token of each text, special tokens left out: what MaxSim compares."""
        found = [np.empty((0, self.dimension), np.float32)] * len(texts)
        for positions, encodings in self._batches(texts):
            for position, encoding, hidden in zip(positions, encodings, self._hidden(encodings), strict=True):
                own = np.flatnonzero(np.asarray(encoding.special_tokens_mask) == 0)
                found[position] = unit_rows(hidden[own], own.size, self.dimension, self.name)
        return found

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self.dimension), np.float32)
        for positions, encodings in self._batches(texts):
            rows[positions] = _pool(self._card, self._hidden(encodings), encodings)
        return unit_rows(rows, len(texts), self.dimension, self.name)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.intp], list[Encoding]]]:
        """Texts of like length together, as positions and encodings; longest first, so that memory peaks early."""
        for start in range(0, len(texts), WINDOW):
            window = [sound_text(text) for text in texts[start : start + WINDOW]]
            encodings = self._tokenizer.encode_batch_fast(window)
            lengths = np.array([len(encoding) for encoding in encodings])
            order = np.argsort(-lengths, kind="stable")
            for batch in _cut(order, lengths, self._batch_size, self._batch_tokens):
                yield batch + start, [encodings[position] for position in batch]

    def _hidden(self, encodings: Sequence[Encoding]) -> NDArray[np.float32]:
        """The last layer for one batch: (texts, tokens, dimension), padded."""
        feed = {name: array for name, array in _padded(encodings).items() if name in self._inputs}
        hidden: NDArray[np.float32] = self._session.run(None, feed)[0]
        return hidden


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


def _padded(encodings: Sequence[Encoding]) -> dict[str, NDArray[np.int64]]:
    shape = (len(encodings), max(len(encoding) for encoding in encodings))
    ids = np.zeros(shape, np.int64)
    mask = np.zeros(shape, np.int64)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding)] = encoding.ids
        mask[row, : len(encoding)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, np.int64)}


def _pool(model: ModelCard, hidden: NDArray[np.float32], encodings: Sequence[Encoding]) -> NDArray[np.float32]:
    if model.pooling == "cls":
        first: NDArray[np.float32] = hidden[:, 0]
        return first
    return np.stack([rows[: len(encoding)].mean(axis=0) for rows, encoding in zip(hidden, encodings, strict=True)])


def _open_tokenizer(model: ModelCard, folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / model.tokenizer.path))
    tokenizer.enable_truncation(model.max_tokens)
    tokenizer.no_padding()
    return tokenizer


def _open_session(model: ModelCard, folder: Path, threads: int, device: str) -> Any:
    import onnxruntime  # type: ignore[import-untyped]

    providers = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
    if providers.get(device) not in onnxruntime.get_available_providers():
        raise ModelUnavailable(
            f"onnxruntime 不能在设备 {device!r} 上运行", hint="请改用 device='cpu'，或安装 onnxruntime-gpu"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    path = str(folder / model.weights.path)
    return onnxruntime.InferenceSession(path, sess_options=options, providers=[providers[device]])
