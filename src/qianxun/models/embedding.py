"""Checked vectors of any embedding model, and a model that is opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vector, Vectors
from qianxun.core.vectors import embed, unit_rows
from qianxun.models.cards import ModelCard
from qianxun.models.local.maxsim import with_tokens
from qianxun.models.open_model import open_embedding
from qianxun.models.remote.endpoints import RemoteEndpoint


class EmbeddingEngine:
    """Embeds texts in batches of similar length and checks each reply.

    The result has the right count and dimension, only numbers and unit length; otherwise BadModelReply is raised.
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
        return embed(texts, self._model, batch_size=self._batch_size, by_length=True)

    def encode_query(self, text: str) -> Vector:
        """The unit vector of a query, with the model's prefix."""
        reply = np.asarray(self._model.embed_query(text)).reshape(1, -1)
        row: Vector = unit_rows(reply, 1, self.dimension, self.name)[0]
        return row


class LazyEmbedding:
    """Opens a model on first use, so that a search by words need not load it; a failure is tried again."""

    def __init__(self, name: str, dimension: int, open_model: Callable[[], EmbeddingModel]) -> None:
        self._name = name
        self._dimension = dimension
        self._open_model = open_model
        self._model: EmbeddingModel | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def is_quick(self) -> bool:
        """Whether the open model says so; opening it may take long."""
        return bool(getattr(self._model, "is_quick", False))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._opened().embed_passages(texts)

    def embed_query(self, text: str) -> Vector:
        return self._opened().embed_query(text)

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """Raises ModelUnavailable for a model without token vectors."""
        return with_tokens(self._opened()).token_vectors(texts)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return with_tokens(self._opened()).token_spans(text)

    def _opened(self) -> EmbeddingModel:
        with self._lock:
            if self._model is None:
                model = self._open_model()
                if model.dimension != self._dimension:
                    raise BadModelReply(
                        f"模型 {self._name} 的维度是 {model.dimension}，而知识库记录的是 {self._dimension}",
                        hint="换回原来的模型，或用 qianxun rebuild --model 重建",
                    )
                self._model = model
            return self._model

    def close(self) -> None:
        """Closes the open model if it has a `close`."""
        with self._lock:
            model, self._model = self._model, None
        close = getattr(model, "close", None)
        if close is not None:
            close()
