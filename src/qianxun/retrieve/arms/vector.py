"""Retrieval by meaning: the nearest chunk vectors."""

from __future__ import annotations

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import Query, Ranking, Scores, Vector
from qianxun.rank.calibrate import clipped


class VectorArm(RetrieverArm):
    """Cosines with the query's vector. The base's curves bring them to what they mean, after the fusion."""

    name = "vector"
    label = ("语义", "vector")
    unit = ("余弦", "cosine")
    weight = 0.7
    needs_vector = True

    def is_local(self, context: ArmContext) -> bool:
        return context.index.is_here

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        return await context.index.nearest(required_vector(query), limit, query.where)

    def calibrate(self, found: Ranking) -> Scores:
        return clipped(found.scores)


def required_vector(query: Query) -> Vector:
    if query.vector is None:
        raise RetrieverUnavailable("这个知识库没有向量模型", hint="用 qianxun rebuild --model 为它加上模型")
    return query.vector
