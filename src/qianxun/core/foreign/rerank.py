"""Rerankers: a `CrossEncoder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from qianxun.core.errors import BadModelReply
from qianxun.core.foreign.about import failed, name_of, unusable
from qianxun.core.ports import RerankModel, never
from qianxun.core.vectors import sigmoid


def rerank_model(given: Any, name: str = "") -> RerankModel:
    if hasattr(given, "score") and hasattr(given, "share"):
        return cast(RerankModel, given)
    for method in ("predict", "score"):
        if callable(getattr(given, method, None)):
            return ForeignReranker(name or name_of(given), getattr(given, method))
    raise unusable(given, "重排模型", "CrossEncoder，或 Reranker(模型名)")


@dataclass(frozen=True, slots=True)
class ForeignReranker:
    """A RerankModel over a method that scores (query, passage) pairs, as a `CrossEncoder` does."""

    name: str
    score_pairs: Callable[[list[tuple[str, str]]], Any]
    share: float = 1.0

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        """In [0, 1]: scores beyond that are logits, and go through the logistic curve."""
        if not passages:
            return []
        try:
            scores = np.asarray(self.score_pairs([(query, passage) for passage in passages]), np.float64)
        except Exception as error:
            raise failed(self.name, error) from error
        if scores.size != len(passages) or not np.isfinite(scores).all():
            raise BadModelReply(
                f"重排模型 {self.name} 应给出 {len(passages)} 个数，实际形状 {scores.shape}，或含有非数",
                hint="需要每对文字一个分数的交叉编码器",
            )
        scores = scores.reshape(-1)
        inside = bool(scores.min() >= 0.0 and scores.max() <= 1.0)
        return list((scores if inside else sigmoid(scores)).tolist())
