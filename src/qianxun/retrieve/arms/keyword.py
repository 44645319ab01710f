"""Recall by words: BM25 over the whole base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.ports import Index
from qianxun.core.types import NOTHING, Query, Ranking, Scores

# The share that two texts reach by chance, through characters in common. A question that shares no word with its answer
# would else be drawn to whatever shares characters with it: of 96 such questions 59 instead of 53 find theirs first, at
# .0006 of nDCG on average over the ten sets of docs/quality.md.
CHANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class KeywordRetriever:
    """BM25 as a share of the best score that the query could have reached, less what chance gives."""

    index: Index
    name: str = "keyword"

    @property
    def is_here(self) -> bool:
        return self.index.is_here

    async def search(self, query: Query, limit: int) -> Ranking:
        if not query.terms.words and not query.terms.grams:
            return NOTHING
        matched = await self.index.match(query.terms, limit, query.where)
        if not matched.ceiling:
            return NOTHING
        shares = np.minimum(matched.scores / matched.ceiling, 1.0)
        return Ranking(matched.keys, beyond_chance(shares), 1.0, matched.scores)


def beyond_chance(shares: Scores) -> Scores:
    """A share s as s² (1 + c) ÷ (s + c): nearly nothing below chance, s − c above it, 0 and 1 where they are."""
    scores: Scores = shares * shares * (1.0 + CHANCE) / (shares + CHANCE)
    return scores
