"""Reranking on this machine by a cross-encoder, which gives one logit for query and passage together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.ports import never
from qianxun.core.vectors import sigmoid
from qianxun.models.cards import RerankCard, rerank_card
from qianxun.models.local.onnx import OnnxModel

if TYPE_CHECKING:
    from qianxun.models.local.onnx import Encoding

PAIRS_PER_CORE = 2  # between two calls of ``stop``


class CrossEncoder:
    """A RerankModel over a card's ONNX weights. Thread-safe.

    The score is the sigmoid of the logit. Each pair runs alone, one per core: in a batch of quantised weights, a score
    would depend on the other passages. A blank query or passage scores 0.
    """

    share = 1.0

    def __init__(self, name: str | RerankCard, folder: Path, *, threads: int = 0, device: str = "cpu") -> None:
        self._card = rerank_card(name)
        self._onnx = OnnxModel(self._card, folder, threads=threads, device=device)

    @property
    def name(self) -> str:
        return self._card.name

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        scores = np.zeros(len(passages))
        filled = [place for place, passage in enumerate(passages) if passage.strip()] if query.strip() else []
        size = PAIRS_PER_CORE * self._onnx.threads
        for start in range(0, len(filled), size):
            if stop():
                raise ModelUnavailable(f"重排模型 {self.name} 到了时限，没有做完", hint="请放宽时限，或减少重排的条数")
            places = filled[start : start + size]
            pairs = self._onnx.encode_pairs(query, [passages[place] for place in places])
            scores[places] = sigmoid(np.array(self._onnx.in_parallel(self._logit, pairs)))
        found: list[float] = scores.tolist()
        return found

    def _logit(self, pair: Encoding) -> float:
        output = self._onnx.run([pair])
        if output.size != 1 or not np.isfinite(output).all():
            raise BadModelReply(
                f"重排模型 {self.name} 应给出一个数，实际输出形状 {output.shape}，或含有非数",
                hint="请核对权重文件：需要单输出的交叉编码器",
            )
        return float(output.reshape(-1)[0])
