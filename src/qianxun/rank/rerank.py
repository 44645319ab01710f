"""A second reading of what was found: a reranker's scores beside the fused ones, then what deserves a place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import md5
from typing import TypeAlias

from qianxun.core.cache import LRUCache
from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.ports import RerankModel, never
from qianxun.core.types import Chunk, Found
from qianxun.rank.diversify import NEAR_DUPLICATE, diversified
from qianxun.rank.freshness import FRESHNESS, HALF_LIFE_DAYS, refreshed
from qianxun.text.headings import read_under_headings

CACHED_SCORES = 100_000

ScoreKey: TypeAlias = tuple[str, bytes, int]  # model, query, chunk


def reranked(fused: Sequence[Found], scores: Sequence[float], share: float) -> list[Found]:
    """(1 − share) · fused + share · rerank, best first, ties by chunk key. Raises BadModelReply.

    What was reranked before starts again from its fused score.
    """
    if not 0.0 < share <= 1.0:
        raise BadInput(f"share 须在 (0, 1] 之内，而不是 {share}", hint="请改正重排模型的设置")
    checked_scores(scores, len(fused))
    combined = [_combined(each, float(score), share) for each, score in zip(fused, scores, strict=True)]
    return sorted(combined, key=_best_first)


def checked_scores(scores: Sequence[float], count: int) -> list[float]:
    """What a model said of so many passages. Raises BadModelReply where it cannot be."""
    if len(scores) != count:
        raise BadModelReply(f"重排应给出 {count} 个分数，实际给出 {len(scores)} 个", hint="请检查重排模型")
    if not all(0.0 <= score <= 1.0 for score in scores):
        raise BadModelReply("重排的分数含有非数，或不在 0 到 1 之间", hint="请检查重排模型")
    return list(scores)


def _combined(found: Found, score: float, share: float) -> Found:
    before = found.score if found.rerank is None else found.fused
    if not math.isfinite(before):
        raise BadInput(f"{found.chunk.chunk_id} 的融合分数不是数", hint="请检查融合的权重")
    return replace(found, score=(1.0 - share) * before + share * score, fused=before, rerank=score)


def _best_first(found: Found) -> tuple[float, int]:
    return (-found.score, found.chunk.key)


class RerankCache:
    """The scores last given, by model, query and chunk. Safe to use from several threads at once.

    A chunk's key is never reused, so a changed document can never be given its old score.
    """

    def __init__(self, most: int = CACHED_SCORES) -> None:
        if most < 0:
            raise BadInput(f"缓存的条数不能为负，而不是 {most}", hint="0 表示不缓存")
        self._scores = LRUCache[ScoreKey, float](most)

    def get(self, model: str, query: str, keys: Sequence[int]) -> list[float | None]:
        return [self._scores.get(key) for key in _score_keys(model, query, keys)]

    def put(self, model: str, query: str, keys: Sequence[int], scores: Sequence[float]) -> None:
        for key, score in zip(_score_keys(model, query, keys), scores, strict=True):
            self._scores.put(key, score)

    def scores(
        self, model: RerankModel, query: str, chunks: Sequence[Chunk], stop: Callable[[], bool] = never
    ) -> list[float]:
        """What the model says of each chunk, in order; it is asked only about those that it was not asked before."""
        keys = [chunk.key for chunk in chunks]
        known = {
            key: score for key, score in zip(keys, self.get(model.name, query, keys), strict=True) if score is not None
        }
        missing = {
            chunk.key: read_under_headings(chunk.text, chunk.headings) for chunk in chunks if chunk.key not in known
        }
        if missing:
            said = model.score(query, list(missing.values()), stop)
            checked_scores(said, len(missing))
            self.put(model.name, query, list(missing), said)
            known.update(zip(missing, said, strict=True))
        return [known[key] for key in keys]


def _score_keys(model: str, query: str, keys: Sequence[int]) -> list[ScoreKey]:
    digest = md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return [(model, digest, key) for key in keys]


class ResultRanker:
    """Reads results again with a model, and decides which of them deserve a place. Blocking."""

    def __init__(self, reranker_model: RerankModel, *, cache: RerankCache | None = None) -> None:
        self._model = reranker_model
        self._cache = cache or RerankCache(0)

    def rerank(
        self, query: str, results: Sequence[Found], top_k: int = 5, stop: Callable[[], bool] = never
    ) -> list[Found]:
        """The best ``top_k`` of the results by `reranked`: every result is read, then the list is cut."""
        _check_top_k(top_k)
        if not results or top_k == 0:
            return []
        scores = self._cache.scores(self._model, query, [found.chunk for found in results], stop)
        return reranked(results, scores, self._model.share)[:top_k]

    def rank_results(
        self,
        results: Sequence[Found],
        *,
        top_k: int | None = None,
        diversity: float = 1.0,
        near_duplicate: float = NEAR_DUPLICATE,
        freshness: float = FRESHNESS,
        half_life_days: float = HALF_LIFE_DAYS,
        now: datetime | None = None,
    ) -> list[Found]:
        """`rank_results`, the function."""
        return rank_results(
            results,
            top_k=top_k,
            diversity=diversity,
            near_duplicate=near_duplicate,
            freshness=freshness,
            half_life_days=half_life_days,
            now=now,
        )


Reranker = ResultRanker  # one thing, known by both names


def rank_results(
    results: Sequence[Found],
    *,
    top_k: int | None = None,
    diversity: float = 1.0,
    near_duplicate: float = NEAR_DUPLICATE,
    freshness: float = FRESHNESS,
    half_life_days: float = HALF_LIFE_DAYS,
    now: datetime | None = None,
) -> list[Found]:
    """Relevance first; what is dated loses up to ``freshness`` of its score with age; repeats go; then `diversified`.

    Sorted by the score shown, ties by chunk key, whatever order the results came in; a smaller ``top_k`` gives a
    prefix. Without dates and with ``diversity=1.0`` scores stay as they are, and ranking twice changes nothing;
    otherwise the scores hold the discounts, so rank once.
    """
    if top_k is not None:
        _check_top_k(top_k)
    if not all(0.0 <= each.score <= 1.0 for each in results):
        raise BadInput("要排序的结果里有不在 0 到 1 之间的分数", hint="请先把分数归到 [0, 1]")
    dated = refreshed(results, weight=freshness, half_life_days=half_life_days, now=now)
    best = sorted(dated, key=_best_first)
    return diversified(best, balance=diversity, near_duplicate=near_duplicate, top_k=top_k)


def _check_top_k(top_k: int) -> None:
    if top_k < 0:
        raise BadInput(f"top_k 不能为负，而不是 {top_k}", hint="请改用正整数，例如 5")
