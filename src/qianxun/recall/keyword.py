"""Recall by words: BM25 over the whole base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qianxun.ports import Index
from qianxun.types import NOTHING, Query, Ranking


@dataclass(frozen=True, slots=True)
class KeywordRetriever:
    """BM25 as a share of the best score that the query could have reached: the same meaning for every query."""

    index: Index
    name: str = "keyword"

    async def search(self, query: Query, limit: int) -> Ranking:
        if not query.terms.words and not query.terms.grams:
            return NOTHING
        matched = await self.index.match(query.terms, limit, query.where)
        if not matched.ceiling:
            return NOTHING
        return Ranking(matched.keys, np.minimum(matched.scores / matched.ceiling, 1.0), 1.0, matched.scores)
