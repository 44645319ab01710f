"""Embedding models: `SentenceTransformer`, LangChain's `Embeddings`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadModelReply
from qianxun.core.foreign.about import failed, name_of, unusable
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vector, Vectors
from qianxun.core.unicode import sound_text
from qianxun.core.vectors import unit_rows


def embedding_model(given: Any, name: str = "") -> EmbeddingModel:
    """``name``: what a model is called that does not say so itself."""
    if hasattr(given, "embed_passages"):
        return cast(EmbeddingModel, given)
    name = name or name_of(given)
    if callable(getattr(given, "encode", None)) and not isinstance(given, str):
        return ForeignEmbedding(name, given.encode, getattr(given, "encode_query", given.encode))
    if callable(getattr(given, "embed_documents", None)):
        return ForeignEmbedding(name, given.embed_documents, lambda texts: [given.embed_query(*texts)])
    raise unusable(given, "向量模型", "SentenceTransformer、LangChain 的 Embeddings 或 EmbeddingEngine")


class ForeignEmbedding:
    """An EmbeddingModel over a method that encodes a list of texts. Vectors are brought to unit length."""

    def __init__(
        self, name: str, encode: Callable[..., Any], encode_query: Callable[..., Any], *, batch_size: int = 0
    ) -> None:
        self._name = name
        self._encode, self._encode_query = encode, encode_query
        self._options = {"batch_size": batch_size} if batch_size else {}
        self._dimension = int(self._rows(["千寻"], encode).shape[1])

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return unit_rows(self._rows(texts, self._encode), len(texts), self.dimension, self.name)

    def embed_query(self, text: str) -> Vector:
        row: Vector = unit_rows(self._rows([text], self._encode_query), 1, self.dimension, self.name)[0]
        return row

    def _rows(self, texts: Sequence[str], encode: Callable[..., Any]) -> NDArray[Any]:
        try:
            rows = np.asarray(encode([sound_text(text) for text in texts], **self._options))
        except Exception as error:  # whatever its library raises
            raise failed(self.name, error) from error
        if rows.dtype == object or rows.ndim not in (1, 2):
            raise BadModelReply(f"模型 {self.name} 没有给出向量", hint="它的 encode 应为每段文字给出一个向量")
        return rows.reshape(1, -1) if len(texts) == 1 else rows
