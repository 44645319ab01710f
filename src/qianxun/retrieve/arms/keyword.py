"""Retrieval by words: BM25 over the whole base."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import NOTHING, Query, Ranking, Scores

# The share that two texts reach by chance, through characters in common. A question that shares no word with its answer
# would else be drawn to whatever shares characters with it: of 96 such questions 59 instead of 53 find theirs first, at
# .0006 of nDCG on average over the ten sets of docs/quality.md.
CHANCE: Final = 0.05
# A term that stands once in an entry of average length has 1 ÷ (1 + k1) of what it could score. Shares are brought to
# those of this k1, whatever is searched by: weights, curves and thresholds are for them.
SHARES_K1: Final = 1.2


class KeywordArm(RetrieverArm):
    """BM25 as a share of the best score that the query could have reached, less what chance gives."""

    name = "keyword"
    label = ("词语", "keyword")
    unit = ("BM25", "BM25")

    def is_local(self, context: ArmContext) -> bool:
        return context.index.is_here

    async def search(self, query: Query, limit: int, context: ArmContext) -> Ranking:
        if not query.terms.words and not query.terms.grams:
            return NOTHING
        found = await context.index.match(query.terms, limit, query.where, bm25=context.bm25)
        if not found.ceiling:
            return NOTHING
        return replace(found, ceiling=found.ceiling * (1.0 + SHARES_K1) / (1.0 + context.bm25.k1))

    def calibrate(self, found: Ranking) -> Scores:
        return beyond_chance(np.minimum(found.scores / found.ceiling, 1.0)) if found.ceiling else found.scores


def beyond_chance(shares: Scores) -> Scores:
    """A share s as s² (1 + c) ÷ (s + c): nearly nothing below chance, s − c above it, 0 and 1 where they are."""
    scores: Scores = shares * shares * (1.0 + CHANCE) / (shares + CHANCE)
    return scores
