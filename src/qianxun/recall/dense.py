"""Recall by meaning: the nearest chunk vectors."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.errors import RetrieverUnavailable
from qianxun.ports import Index
from qianxun.types import Query, Ranking


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """Cosine with the query's vector. Below zero means unrelated, and counts as zero."""

    index: Index
    name: str = "vector"

    async def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            raise RetrieverUnavailable("这个知识库没有向量模型", hint="用 qianxun rebuild --model 为它加上模型")
        nearest = await self.index.nearest(query.vector, limit, query.where)
        return Ranking.of((hit.key, min(max(hit.score, 0.0), 1.0)) for hit in nearest.hits)
