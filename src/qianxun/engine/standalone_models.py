"""Models by name for code that has no engine: an embedding model (`EmbeddingEngine`) and a reranker (`Reranker`), found
where the settings say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qianxun.core.errors import BadInput
from qianxun.core.foreign import embedding_model
from qianxun.core.ports import EmbeddingModel, RerankModel, nothing
from qianxun.core.types import Vector, Vectors
from qianxun.core.vectors import embed, unit_rows
from qianxun.engine.embedding_models import model_folders, open_model
from qianxun.engine.model_catalog import ModelCatalog
from qianxun.engine.settings import load
from qianxun.models import ModelCard, RemoteEndpoint, open_embedding
from qianxun.rank.rerank import ResultRanker

if TYPE_CHECKING:
    from qianxun.rank.rerank import RerankCache


class EmbeddingEngine:
    """Embeds texts in batches of similar length and checks each reply; itself an EmbeddingModel.

    The result has the right count and dimension, only numbers and unit length; otherwise BadModelReply is raised.
    """

    def __init__(
        self,
        model_name: str | ModelCard | RemoteEndpoint = "BAAI/bge-large-zh-v1.5",
        batch_size: int = 32,
        device: str = "cpu",
        *,
        folders: Sequence[Path] | None = None,
        model: Any = None,
    ) -> None:
        """Opens ``model_name`` from the settings' folders, or from ``folders``; unless an open ``model`` is given, ours
        or a `SentenceTransformer`. Without a graphics card "cuda" means "cpu", with a warning.

        Raises NotFound for an unknown name, ModelUnavailable with the command that fetches a model which is not here.
        """
        if batch_size < 1:
            raise BadInput(f"batch_size 必须大于零，而不是 {batch_size}", hint="请改用正整数，例如 32")
        self._model = _opened(model_name, batch_size, device, folders) if model is None else embedding_model(model)
        self.model_name, self.batch_size = self._model.name, batch_size

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def dimension(self) -> int:
        return self._model.dimension

    @property
    def device(self) -> str:
        """Where it runs: that which was asked for, or "cpu"."""
        return str(getattr(self._model, "device", "cpu"))

    def encode(self, texts: Sequence[str], show_progress: bool = False) -> Vectors:
        """One unit vector per text, in order: shape (n, dimension). ``show_progress`` counts on standard error."""
        if isinstance(texts, str):
            raise BadInput("encode 需要一组文本，而不是单个字符串", hint="单个查询请用 encode_query，或写成 [text]")
        report = _Counter(len(texts)) if show_progress else nothing
        return embed(texts, self._model, report, batch_size=self.batch_size, by_length=True)

    def encode_query(self, query: str) -> Vector:
        """The unit vector of a query, with the model's prefix."""
        reply = np.asarray(self._model.embed_query(query)).reshape(1, -1)
        row: Vector = unit_rows(reply, 1, self.dimension, self.name)[0]
        return row

    embed_passages, embed_query = encode, encode_query


def _opened(
    spec: str | ModelCard | RemoteEndpoint, batch_size: int, device: str, folders: Sequence[Path] | None
) -> EmbeddingModel:
    if folders is not None or not isinstance(spec, str):
        return open_embedding(spec, folders=folders or model_folders(load()), device=device)
    settings = load()
    chosen = replace(settings.vectorization, batch_size=batch_size, device=device)
    return open_model(replace(settings, vectorization=chosen), spec)


class _Counter:
    """Progress on one line of standard error."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total

    def __call__(self, count: int) -> None:
        self._done += count
        end = "\n" if self._done >= self._total else ""
        sys.stderr.write(f"\r向量化 {self._done}/{self._total}{end}")
        sys.stderr.flush()


class Reranker(ResultRanker):
    """`ResultRanker` of a model by name: a card whose files are here, the endpoint of the settings, a plug-in."""

    def __init__(
        self, model_name: str | RerankModel | Any = "BAAI/bge-reranker-large", *, cache: RerankCache | None = None
    ) -> None:
        """Raises NotFound for an unknown name, ModelUnavailable with the command that fetches a model."""
        super().__init__(_reranker(model_name) if isinstance(model_name, str) else model_name, cache=cache)


def _reranker(name: str) -> RerankModel:
    settings = load()
    embedding = open_model(settings, settings.vectorization.model) if name == "maxsim" else None
    return ModelCatalog(settings, model_folders(settings), {}).rerank(name, embedding)
