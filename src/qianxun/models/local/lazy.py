"""A model that is opened when it is first asked: a search by words need not load it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from qianxun.core.errors import BadModelReply
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Vector, Vectors
from qianxun.models.local.maxsim import with_tokens


class LazyEmbedding:
    """Stands for the model ``name``; a failed opening is tried again at the next call."""

    def __init__(self, name: str, dimension: int, opening: Callable[[], EmbeddingModel]) -> None:
        self._name = name
        self._dimension = dimension
        self._opening = opening
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
        """As the model says of itself, once it is open: to open it may take long."""
        return bool(getattr(self._model, "is_quick", False))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._opened().embed_passages(texts)

    def embed_query(self, text: str) -> Vector:
        return self._opened().embed_query(text)

    def token_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """Raises ModelUnavailable for a model that has none to give."""
        return with_tokens(self._opened()).token_vectors(texts)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        return with_tokens(self._opened()).token_spans(text)

    def _opened(self) -> EmbeddingModel:
        with self._lock:
            if self._model is None:
                model = self._opening()
                if model.dimension != self._dimension:
                    raise BadModelReply(
                        f"模型 {self._name} 的维度是 {model.dimension}，而知识库记录的是 {self._dimension}",
                        hint="换回原来的模型，或用 qianxun rebuild --model 重建",
                    )
                self._model = model
            return self._model

    def close(self) -> None:
        """Lets go of what the opened model holds; models without anything to let go of need no `close`."""
        with self._lock:
            model, self._model = self._model, None
        if isinstance(model, _Closing):
            model.close()


@runtime_checkable
class _Closing(Protocol):
    def close(self) -> None: ...
