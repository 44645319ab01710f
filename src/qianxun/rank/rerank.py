"""A reranker's scores beside the fused ones (`reranked`), and the ranking of results by relevance, age and variety."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b, md5
from typing import Any, Final, Protocol, TypeVar, cast

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.foreign import rerank_model
from qianxun.core.ports import RerankModel, never
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Chunk, Found
from qianxun.rank.diversify import NEAR_DUPLICATE, diversified
from qianxun.rank.freshness import FRESHNESS, HALF_LIFE_DAYS, refreshed
from qianxun.text.headings import read_under_headings

CACHED_SCORES: Final = 100_000
Result = TypeVar("Result")


def reranked(fused: Sequence[Found], scores: Sequence[float], share: float) -> list[Found]:
    """(1 − share) · fused + share · rerank, best first, ties by chunk key. Raises BadModelReply.

    What was reranked before starts again from its fused score.
    """
    if not 0.0 < share <= 1.0:
        raise BadInput(f"share 须在 (0, 1] 之内，而不是 {share}", hint="请改正重排模型的设置")
    checked_scores(scores, len(fused))
    return sorted(
        (_combined(found, float(score), share) for found, score in zip(fused, scores, strict=True)), key=_order
    )


def checked_scores(scores: Sequence[float], count: int) -> list[float]:
    """A model's scores of so many passages. Raises BadModelReply."""
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


def _order(found: Found) -> tuple[float, int]:
    return (-found.score, found.chunk.key)


class SharedScores(Protocol):
    """Scores that other processes gave, too: field → score under a key. Blocking; what it cannot reach it has not."""

    def get(self, key: str, fields: Sequence[str]) -> Mapping[str, float]: ...

    def put(self, key: str, scores: Mapping[str, float]) -> None: ...


class RerankCache:
    """Scores by model, query and chunk. Safe to use from several threads at once.

    A chunk's key is never reused, so a changed document can never be given its old score. ``shared`` knows texts, and
    models by the names that they have for ``origin``, the base.
    """

    def __init__(self, most: int = CACHED_SCORES, shared: SharedScores | None = None, origin: str = "") -> None:
        if most < 0:
            raise BadInput(f"缓存的条数不能为负，而不是 {most}", hint="0 表示不缓存")
        self._scores = LRUCache[tuple[str, bytes, int], float](most)
        self._shared = shared
        self._origin = origin

    def scores(
        self, model: RerankModel, query: str, chunks: Sequence[Chunk], stop: Callable[[], bool] = never
    ) -> list[float]:
        """The score of each chunk, in order; the model reads only those that have none yet."""
        digest = md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
        known = {chunk.key: self._scores.get((model.name, digest, chunk.key)) for chunk in chunks}
        missing = {
            chunk.key: read_under_headings(chunk.text, chunk.headings) for chunk in chunks if known[chunk.key] is None
        }
        if missing:
            given = self._given(model, query, list(missing.values()), stop)
            for key, new in zip(missing, given, strict=True):
                self._scores.put((model.name, digest, key), new)
                known[key] = new
        return [score for chunk in chunks if (score := known[chunk.key]) is not None]

    def _given(self, model: RerankModel, query: str, texts: Sequence[str], stop: Callable[[], bool]) -> list[float]:
        """The scores of texts: as another process was given them, or by the model."""
        if self._shared is None:
            return checked_scores(model.score(query, texts, stop), len(texts))
        key = f"rag:rerank:{self._origin}:{_digest(model.name)}:{_digest(query)}"
        digests = [_digest(text) for text in texts]
        scores = {field: score for field, score in self._shared.get(key, digests).items() if 0.0 <= score <= 1.0}
        unread = {field: text for field, text in zip(digests, texts, strict=True) if field not in scores}
        if unread:
            given = checked_scores(model.score(query, list(unread.values()), stop), len(unread))
            self._shared.put(key, new := dict(zip(unread, given, strict=True)))
            scores |= new
        return [scores[field] for field in digests]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


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
    if not all(0.0 <= found.score <= 1.0 for found in results):
        raise BadInput("要排序的结果里有不在 0 到 1 之间的分数", hint="请先把分数归到 [0, 1]")
    dated = refreshed(results, weight=freshness, half_life_days=half_life_days, now=now)
    return diversified(sorted(dated, key=_order), balance=diversity, near_duplicate=near_duplicate, top_k=top_k)


def _check_top_k(top_k: int) -> None:
    if top_k < 0:
        raise BadInput(f"top_k 不能为负，而不是 {top_k}", hint="请改用正整数，例如 5")


class ResultRanker:
    """Reranks results with a model, and decides which of them deserve a place (`rank_results`). Blocking.

    ``reranker_model`` is one of ours or a `CrossEncoder`. Results are those of a recall (`Found`), or any dataclasses
    with ``chunk_text`` and ``score``, such as those of `HybridSearchEngine`: these keep their order where scores tie.
    """

    def __init__(self, reranker_model: RerankModel | Any, *, cache: RerankCache | None = None) -> None:
        if isinstance(reranker_model, str):
            raise BadInput("ResultRanker 要一个打开的重排模型", hint=f'按名字打开：Reranker("{reranker_model}")')
        self._model = rerank_model(reranker_model)
        self._cache = cache or RerankCache(0)

    def rerank(
        self, query: str, results: Sequence[Result], top_k: int | None = None, stop: Callable[[], bool] = never
    ) -> list[Result]:
        """The best ``top_k`` of the results by `reranked`, all of them without it: every result is read, then the list
        is cut. The results that were given stay as they are."""
        if top_k is not None:
            _check_top_k(top_k)
        if not results or top_k == 0:
            return []
        found = [result for result in results if isinstance(result, Found)]
        if len(found) == len(results):
            scores = self._cache.scores(self._model, query, [result.chunk for result in found], stop)
            return cast("list[Result]", reranked(found, scores, self._model.share)[:top_k])
        return self._by_text(query, results, stop)[:top_k]

    def _by_text(self, query: str, results: Sequence[Result], stop: Callable[[], bool]) -> list[Result]:
        given: list[Any] = list(results)
        if not all(hasattr(result, "chunk_text") and hasattr(result, "score") for result in given):
            kinds = "、".join(sorted({type(result).__name__ for result in given}))
            raise BadInput(f"不会重排 {kinds}", hint="给出检索的结果：Found 或 SearchResult")
        share = self._model.share
        texts = [result.chunk_text for result in given]
        scores = checked_scores(self._model.score(query, texts, stop), len(given))
        combined = [
            replace(result, score=(1.0 - share) * result.score + share * score)
            for result, score in zip(given, scores, strict=True)
        ]
        return sorted(combined, key=lambda result: -result.score)

    rank_results = staticmethod(rank_results)
