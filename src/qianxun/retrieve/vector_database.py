"""Search in a vector database of the caller's own: by meaning there, by words among what that finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qianxun.core.ports import VectorDatabase, Vectorizer
from qianxun.core.types import Ranking
from qianxun.examples.keywords import KeywordIndex, terms
from qianxun.rank.fuse import FUSIONS
from qianxun.retrieve.rerank_and_tiers import highlights
from qianxun.text.chinese import words

CANDIDATES: Final = 10  # for each result that is wanted: words count among these alone, there is no other index of them


@dataclass(frozen=True, slots=True)
class DatabaseHit:
    chunk_id: str
    score: float
    metadata: Mapping[str, Any]
    highlights: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return str(self.metadata.get("chunk_text", ""))


@dataclass(frozen=True, slots=True)
class DatabaseSearch:
    """``weights``: of meaning ("vector") and words ("keyword"). Blocking."""

    vectorizer: Vectorizer
    database: VectorDatabase
    fusion: str
    weights: Mapping[str, float]

    def search(self, query: str, top_k: int, filters: Mapping[str, Any], *, by_words: bool) -> list[DatabaseHit]:
        """The cosines as the database gives them; ``by_words`` fused by rank or score with those of BM25."""
        vector = [float(number) for number in self.vectorizer.encode_query(query)]
        wanted = top_k * CANDIDATES if by_words else top_k
        nearest = [DatabaseHit(*hit) for hit in self.database.search(vector, top_k=wanted, filters=dict(filters))]
        if by_words:
            nearest = self._fused(query, nearest)
        own = [word for word in words(query) if len(word) > 1] or words(query)
        return [
            DatabaseHit(hit.chunk_id, hit.score, hit.metadata, highlights(hit.text, own)) for hit in nearest[:top_k]
        ]

    def _fused(self, query: str, nearest: Sequence[DatabaseHit]) -> list[DatabaseHit]:
        by_words = KeywordIndex.of(range(len(nearest)), [hit.text for hit in nearest]).match(query, len(nearest))
        rankings = {
            "vector": Ranking.of((at, max(hit.score, 0.0)) for at, hit in enumerate(nearest)),
            "keyword": Ranking.of(by_words),
        }
        # A question of stop words alone says nothing by them.
        weights = self.weights if terms(query) else {"vector": 1.0}
        fused = FUSIONS[self.fusion](rankings, weights)
        return [
            DatabaseHit(nearest[at].chunk_id, score, nearest[at].metadata)
            for at, score in zip(fused.keys.tolist(), fused.scores.tolist(), strict=True)
        ]
