"""Opening an embedding model, and asking any model for vectors that can be stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from qianxun.core.errors import BadInput, ModelUnavailable
from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.core.types import Vector, Vectors
from qianxun.models.cards import ModelCard, card
from qianxun.models.checks import unit_rows
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.models.local.sentence_transformers import SentenceEmbedding
from qianxun.models.local.weights import find_local
from qianxun.models.remote.endpoints import RemoteEndpoint

SENTENCE_PREFIX = "sentence-transformers:"
EMBED_SLICE = 64  # texts per call: large enough for good batches, small enough for progress and Ctrl-C


def open_embedding(
    spec: str | ModelCard | RemoteEndpoint, *, folders: Sequence[Path] = (), threads: int = 0, device: str = "cpu"
) -> EmbeddingModel:
    """The model that ``spec`` names: a card or its name, ``sentence-transformers:NAME``, or a remote endpoint.

    A card's files are looked for in ``folders``. Raises NotFound for a name that no card has, ModelUnavailable when
    its files are nowhere, HashMismatch when they are not the right ones.
    """
    if isinstance(spec, RemoteEndpoint):
        from qianxun.models.remote.embedding import RemoteEmbedding  # its HTTP client is slow to import

        return RemoteEmbedding(spec)
    if isinstance(spec, str) and spec.startswith(SENTENCE_PREFIX):
        return SentenceEmbedding(spec.removeprefix(SENTENCE_PREFIX), device=device)
    found = find_local(spec, folders)
    if found is None:
        name = card(spec).name
        looked = "、".join(str(folder) for folder in folders) or "（没有给出文件夹）"
        raise ModelUnavailable(
            f"模型 {name} 还没有下载；找过：{looked}", hint=f"请运行 qianxun models pull {name}，或先不用模型"
        )
    return LocalEmbedding(spec, found, threads=threads, device=device)


def embed(texts: Sequence[str], model: EmbeddingModel, on_embedded: Callable[[int], None] = nothing) -> Vectors:
    """One unit vector per text. Raises BadModelReply for a wrong count or dimension, or a value that is no number."""
    vectors = np.empty((len(texts), model.dimension), dtype=np.float32)
    for start in range(0, len(texts), EMBED_SLICE):
        part = texts[start : start + EMBED_SLICE]
        reply = np.asarray(model.embed_passages(part))
        vectors[start : start + len(part)] = unit_rows(reply, len(part), model.dimension, model.name)
        on_embedded(len(part))
    return vectors


class EmbeddingEngine:
    """Asks a model for vectors, a batch of like-long texts at a time, and checks each reply before passing it on.

    Whatever the model, its own or an extender's: what comes out has the right count, the right dimension, only
    numbers and unit length, or BadModelReply was raised and nothing came out.
    """

    def __init__(
        self,
        model_name: str | ModelCard | RemoteEndpoint = "BAAI/bge-large-zh-v1.5",
        batch_size: int = 32,
        device: str = "cpu",
        *,
        folders: Sequence[Path] = (),
        model: EmbeddingModel | None = None,
    ) -> None:
        """Opens ``model_name`` (see `open_embedding`), unless an open ``model`` is given."""
        if batch_size < 1:
            raise BadInput(f"batch_size 必须大于零，而不是 {batch_size}", hint="请改用正整数，例如 32")
        self._model = model or open_embedding(model_name, folders=folders, device=device)
        self._batch_size = batch_size

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def dimension(self) -> int:
        return self._model.dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text, in order: shape (n, dimension)."""
        if isinstance(texts, str):
            raise BadInput("encode 需要一组文本，而不是单个字符串", hint="单个查询请用 encode_query，或写成 [text]")
        rows = np.empty((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            reply = np.asarray(self._model.embed_passages([texts[position] for position in batch]))
            rows[batch] = unit_rows(reply, len(batch), self.dimension, self.name)
        return rows

    def encode_query(self, text: str) -> Vector:
        """The unit vector that finds passages for this query, with the prefix that the model wants."""
        reply = np.asarray(self._model.embed_query(text)).reshape(1, -1)
        row: Vector = unit_rows(reply, 1, self.dimension, self.name)[0]
        return row
