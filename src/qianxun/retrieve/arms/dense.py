"""Recall by meaning: the nearest chunk vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import Index
from qianxun.core.types import Query, Ranking, Scores


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """Cosine with the query's vector, brought to [0, 1] by the model's calibration, which keeps the order."""

    index: Index
    calibrate: Callable[[Scores], Scores]
    name: str = "vector"

    @property
    def is_here(self) -> bool:
        return self.index.is_here

    async def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            raise RetrieverUnavailable("这个知识库没有向量模型", hint="用 qianxun rebuild --model 为它加上模型")
        nearest = await self.index.nearest(query.vector, limit, query.where)
        return Ranking(nearest.keys, self.calibrate(nearest.scores), 1.0, nearest.scores)
