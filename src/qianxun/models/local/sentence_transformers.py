"""Embedding by sentence-transformers, for users who have torch anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qianxun.core.errors import MissingExtra, ModelUnavailable
from qianxun.core.types import Vector, Vectors
from qianxun.core.unicode import sound_text
from qianxun.core.vectors import unit_rows


class SentenceEmbedding:
    """An EmbeddingModel over a sentence-transformers model, by hub name or folder. Runs no code from the model."""

    def __init__(
        self,
        model: str,
        *,
        device: str = "cpu",
        batch_size: int = 32,
        query_prefix: str = "",
        passage_prefix: str = "",
        local_files_only: bool = False,
    ) -> None:
        self._name = model
        self._model = _load(model, device, local_files_only)
        self._batch_size = batch_size
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._dimension = len(self._encode([""])[0])

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        rows = self._encode([self._passage_prefix + text for text in texts])
        return unit_rows(rows, len(texts), self.dimension, self.name)

    def embed_query(self, text: str) -> Vector:
        row: Vector = unit_rows(self._encode([self._query_prefix + text]), 1, self.dimension, self.name)[0]
        return row

    def _encode(self, texts: Sequence[str]) -> Any:
        return self._model.encode(
            [sound_text(text) for text in texts],
            batch_size=self._batch_size,
            convert_to_numpy=True,
            show_progress_bar=False,
        )


def _load(model: str, device: str, local_files_only: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra("sentence-transformers", "sentence-transformers") from error
    try:
        return SentenceTransformer(model, device=device, trust_remote_code=False, local_files_only=local_files_only)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelUnavailable(
            f"sentence-transformers 打不开模型 {model}：{reason}", hint="请检查模型名或文件夹，以及 device"
        ) from error
