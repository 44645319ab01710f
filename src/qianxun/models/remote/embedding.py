"""Embedding by an OpenAI-compatible service: POST {base_url}/embeddings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.types import Vector, Vectors
from qianxun.core.unicode import sound_text
from qianxun.core.vectors import unit_rows
from qianxun.models.remote.endpoints import RemoteEndpoint
from qianxun.models.remote.http import RemoteModel

BYTES_PER_NUMBER = 32  # of one float in JSON, at most
SPARE_BYTES = 1 << 20
LARGEST_VECTOR = 4 << 20  # bytes of a reply with one vector of any dimension


class RemoteEmbedding(RemoteModel):
    """An EmbeddingModel over HTTP. Thread-safe; close it when done."""

    def __init__(self, endpoint: RemoteEndpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if endpoint.batch_size < 1 or endpoint.dimension < 1:
            raise BadInput("batch_size 和 dimension 必须大于零", hint="请改正模型设置")
        self._endpoint = endpoint
        super().__init__(endpoint, sleep)

    @property
    def dimension(self) -> int:
        return self._endpoint.dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._endpoint.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        row: Vector = self._embed([self._endpoint.query_prefix + text])[0]
        return row

    def measured(self, text: str) -> int:
        """The dimension of the vector that the service returns for a text."""
        body = self._service.post("embeddings", _payload(self._endpoint, [text]), LARGEST_VECTOR)
        rows = _read_rows(body, self.name)
        dimension = rows.shape[1] if rows.ndim == 2 else self.dimension
        return int(unit_rows(rows, 1, dimension, self.name).shape[1])

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self.dimension), np.float32)
        size = self._endpoint.batch_size
        for start in range(0, len(texts), size):
            batch = texts[start : start + size]
            limit = len(batch) * self.dimension * BYTES_PER_NUMBER + SPARE_BYTES
            body = self._service.post("embeddings", _payload(self._endpoint, batch), limit)
            rows[start : start + size] = unit_rows(_read_rows(body, self.name), len(batch), self.dimension, self.name)
        return rows


def _payload(endpoint: RemoteEndpoint, texts: Sequence[str]) -> dict[str, Any]:
    return {
        "model": endpoint.model,
        "input": [sound_text(text) or " " for text in texts],  # services refuse an empty string
        "encoding_format": "float",
        **({"dimensions": endpoint.dimension} if endpoint.ask_dimension else {}),
    }


def _read_rows(body: bytes, model: str) -> NDArray[Any]:
    """The vectors of a reply in the order of their ``index``. Raises BadModelReply."""
    try:
        items = json.loads(body)["data"]
        by_index = {item.get("index", position): item["embedding"] for position, item in enumerate(items)}
        rows = np.array([by_index[position] for position in range(len(items))])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadModelReply(
            f"模型服务 {model} 的回复不是 OpenAI 格式的向量（{type(error).__name__}）",
            hint="请检查 base_url 指向的是 /embeddings 接口；没有写入任何内容",
        ) from error
    if rows.dtype.kind not in "iuf" and len(items):
        raise BadModelReply(f"模型服务 {model} 的向量里有不是数字的值", hint="没有写入任何内容；请检查模型服务")
    return rows.reshape(0, 0) if not len(items) else rows
