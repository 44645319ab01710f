"""An embedding model that is opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from qianxun.core.errors import BadModelReply
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vector, Vectors
from qianxun.models.local.maxsim import with_tokens


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

    @property
    def is_open(self) -> bool:
        return self._model is not None

    def open(self) -> None:
        """Raises ModelUnavailable if it cannot be opened."""
        self._opened()

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
