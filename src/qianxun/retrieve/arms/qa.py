"""Recall by questions: the chunks whose attached questions are nearest to the one asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import Index
from qianxun.core.types import NOTHING, Keys, Query, Ranking, Scores, Vector

ChunkOf: TypeAlias = Callable[[Sequence[int]], Awaitable[Mapping[int, int]]]
"""Questions → the chunks that answer them; a question that is not of record any more has none."""

MORE = 4  # how many times as many questions are asked for when too many belong to the same chunks
DEEPEST = 12_800
TRIES = 3  # under writes without a pause


@dataclass(frozen=True, slots=True)
class QARetriever:
    """A chunk scores as its best question does: cosine with the query's vector, brought to [0, 1] by ``calibrate``."""

    index: Index
    chunk_of: ChunkOf
    calibrate: Callable[[Scores], Scores]
    is_here: bool = False  # neither the index nor ``chunk_of`` waits
    name: str = "qa"

    async def search(self, query: Query, limit: int) -> Ranking:
        if query.vector is None:
            raise RetrieverUnavailable("这个知识库没有向量模型", hint="用 qianxun rebuild --model 为它加上模型")
        if limit <= 0:
            return NOTHING
        depth = limit
        for _ in range(TRIES):
            before = await self.index.watermark()
            found, gone, depth = await self._deep_enough(query, query.vector, limit, depth)
            # The version that took the place of a question that has gone is there to be found.
            if not gone or before == await self.index.watermark():
                break
        return found.head(limit)

    async def _deep_enough(self, query: Query, vector: Vector, limit: int, depth: int) -> tuple[Ranking, bool, int]:
        """The best chunks, whether a question was of record no more, and how many questions it took."""
        chunk_of: dict[int, int] = {}
        unseen: Keys = NOTHING.keys
        while True:
            nearest = await self.index.nearest(vector, depth, query.where, "question")
            if not len(nearest):
                return NOTHING, False, depth
            unseen = nearest.keys[~np.isin(nearest.keys, unseen)] if len(unseen) else nearest.keys
            chunk_of |= await self.chunk_of(unseen.tolist())
            unseen = nearest.keys
            found = self._best(nearest, chunk_of)
            if len(found) >= limit or len(nearest) < depth or depth >= DEEPEST:
                return found, len(chunk_of) < len(nearest), depth
            depth = min(depth * MORE, DEEPEST)

    def _best(self, nearest: Ranking, chunk_of: Mapping[int, int]) -> Ranking:
        """Each chunk once, as its nearest question."""
        chunks = np.array([chunk_of.get(key, 0) for key in nearest.keys.tolist()], dtype=np.int64)
        held, first = np.unique(chunks, return_index=True)
        first = first[held > 0]
        raw = nearest.scores[first]
        return Ranking.ordered(chunks[first], self.calibrate(raw), 1.0, raw)
