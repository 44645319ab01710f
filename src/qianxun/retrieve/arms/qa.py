"""Retrieval by questions: the chunks whose attached questions are nearest to the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import NOTHING, Keys, Query, Ranking, Vector
from qianxun.rank.calibrate import clipped
from qianxun.retrieve.arms.vector import required_vector

# Two questions on one matter lie nearer to each other than a question to the passage that answers it: the curve of a
# query–query set has its middle at .735 (kuake_qtr), those of query–passage sets at .557 and .588 (cmrc2018,
# dureader_robust). The lead is a cautious part of that.
QUESTION_LEAD: Final = 0.1
MORE: Final = 4  # how many times as many questions are read when too many belong to the same chunks
DEEPEST: Final = 12_800
TRIES: Final = 3  # under writes without a pause


class QuestionArm(RetrieverArm):
    """A chunk scores as its best question does: the cosine with the query's vector less `QUESTION_LEAD`."""

    name = "qa"
    label = ("问答", "questions")
    unit = ("余弦", "cosine")
    signal = "vector"  # a question counts for the chunk that answers it
    needs_vector = True

    def is_local(self, context: ArmContext) -> bool:
        return context.is_local

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        vector = required_vector(query)
        if limit <= 0:
            return NOTHING
        depth = limit
        for _ in range(TRIES):
            before = await context.index.watermark()
            found, was_deleted, depth = await _search(query, vector, limit, depth, context)
            # The version that replaced a deleted question is there to be found.
            if not was_deleted or before == await context.index.watermark():
                break
        return found.head(limit)


async def _search(
    query: Query, vector: Vector, limit: int, depth: int, context: ArmContext
) -> tuple[Ranking, bool, int]:
    """The best chunks, whether a question has been deleted, and how many questions were read."""
    chunk_of: dict[int, int] = {}
    seen: Keys = NOTHING.keys
    while True:
        nearest = await context.index.nearest(vector, depth, query.where, "question")
        if not len(nearest):
            return NOTHING, False, depth
        unseen = nearest.keys[~np.isin(nearest.keys, seen)] if len(seen) else nearest.keys
        chunk_of |= await context.chunks_of_questions(unseen.tolist())
        seen = nearest.keys
        found = _best(nearest, chunk_of)
        if len(found) >= limit or len(nearest) < depth or depth >= DEEPEST:
            return found, len(chunk_of) < len(nearest), depth
        depth = min(depth * MORE, DEEPEST)


def _best(nearest: Ranking, chunk_of: Mapping[int, int]) -> Ranking:
    """Each chunk once, with the score of its nearest question."""
    chunks = np.array([chunk_of.get(key, 0) for key in nearest.keys.tolist()], dtype=np.int64)
    distinct, first = np.unique(chunks, return_index=True)
    first = first[distinct > 0]
    raw = nearest.scores[first]
    return Ranking.ordered(chunks[first], clipped(raw - QUESTION_LEAD), 1.0, raw)
