"""Recall by words: BM25 over the whole base."""

from __future__ import annotations

from dataclasses import dataclass

from qianxun.ports import Index
from qianxun.types import Query, Ranking


@dataclass(frozen=True, slots=True)
class KeywordRetriever:
    """BM25 as a share of the best score that the query could have reached: the same meaning for every query."""

    index: Index
    name: str = "keyword"

    async def search(self, query: Query, limit: int) -> Ranking:
        if not query.terms.words and not query.terms.grams:
            return Ranking((), 1.0)
        matched = await self.index.match(query.terms, limit, query.where)
        if not matched.ceiling:
            return Ranking((), 1.0)
        share = 1.0 / matched.ceiling
        return Ranking.of(((hit.key, min(hit.score * share, 1.0)) for hit in matched.hits), 1.0)
