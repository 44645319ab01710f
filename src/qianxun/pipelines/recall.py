"""The way out: analyse → recall in parallel → fuse → join with the records.

A hit is a key and a score; text comes from the records. What is not in the records any more can therefore never be
returned, even while the index lags behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from qianxun.errors import (
    BadQuery,
    IndexUnusable,
    MissingExtra,
    ModelError,
    ModelUnavailable,
    RecallFailed,
    RetrieverUnavailable,
)
from qianxun.pipelines.base import OpenBase, Serving
from qianxun.ports import EmbeddingModel, Retriever
from qianxun.rank.calibrate import clipped
from qianxun.rank.fuse import weighted
from qianxun.recall.dense import DenseRetriever
from qianxun.recall.keyword import KeywordRetriever
from qianxun.records import chunks
from qianxun.types import EVERYTHING, ArmScore, Chunk, Degraded, Filter, Found, Query, Ranking, Recall, Vector, matches

Mode: TypeAlias = Literal["hybrid", "vector", "fulltext"]

ARMS: Mapping[Mode, tuple[str, ...]] = {
    "hybrid": ("vector", "keyword"),
    "vector": ("vector",),
    "fulltext": ("keyword",),
}
QUERY_LIMIT = 2048
TOP_K_LIMIT = 100
DEPTH = 200  # candidates per arm: above every top_k, so that a shorter list is a prefix of a longer one
DEEPEST = 12_800  # as far as a search goes on when the first candidates are not of record any more
TRIES = 5  # under writes without a pause a search may have to look again


@dataclass(frozen=True, slots=True)
class RecallOptions:
    mode: Mode = "hybrid"
    top_k: int = 10
    threshold: float = 0.0
    where: Filter = EVERYTHING
    weights: Mapping[str, float] = field(default_factory=lambda: {"vector": 0.5, "keyword": 0.5})


async def recall(base: OpenBase, text: str, options: RecallOptions) -> Recall:
    """The best chunks for a query, best first, with the arms that found them."""
    _check(text, options)
    started = time.perf_counter()
    for _ in range(TRIES):
        answer = await _answer(base, text, options)
        if answer.is_settled:
            break
    return Recall(text, options.mode, answer.found, answer.degraded, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class _Answer:
    found: tuple[Found, ...]
    degraded: tuple[Degraded, ...]
    # False: a hit was of record no more, and the index has moved since it was asked. The version that took the
    # place of that hit is there to be found.
    is_settled: bool


async def _answer(base: OpenBase, text: str, options: RecallOptions) -> _Answer:
    with base.serving.lent() as serving:
        before = await serving.index.watermark()
        query, degraded = await _analyse(base, serving, text, options)
        if degraded and options.mode == "vector":
            raise _failed(degraded)
        found, failed, dropped = await _search(base, serving, query, options)
        has_moved = serving is not base.serving or before != await serving.index.watermark()
    return _Answer(tuple(found), (*degraded, *failed), not (dropped and has_moved))


def _check(text: str, options: RecallOptions) -> None:
    if not text.strip():
        raise BadQuery("查询为空", hint="写出要找的内容")
    if len(text) > QUERY_LIMIT:
        raise BadQuery(f"查询有 {len(text)} 个字符，超过上限 {QUERY_LIMIT}", hint="缩短查询")
    if options.mode not in ARMS:
        raise BadQuery(f"没有检索模式 {options.mode}", hint="可用：hybrid、vector、fulltext")
    if not 1 <= options.top_k <= TOP_K_LIMIT:
        raise BadQuery(f"top_k 为 {options.top_k}，应在 1–{TOP_K_LIMIT} 之间", hint="改用范围内的数")
    if not 0.0 <= options.threshold <= 1.0:
        raise BadQuery(f"阈值为 {options.threshold}，应在 0–1 之间", hint="改用范围内的数")


async def _analyse(base: OpenBase, serving: Serving, text: str, options: RecallOptions) -> tuple[Query, list[Degraded]]:
    terms = base.analyser.analyse_query(text)
    vector, degraded = None, []
    if "vector" in ARMS[options.mode]:
        try:
            vector = await asyncio.to_thread(_embed, serving.model, text)
        except (ModelError, MissingExtra) as error:
            degraded.append(Degraded("vector", str(error)))
    return Query(text, terms, vector, options.where), degraded


def _embed(model: EmbeddingModel | None, text: str) -> Vector:
    if model is None:
        raise ModelUnavailable("这个知识库没有向量模型，只按词语检索", hint="用 qianxun rebuild --model 为它加上模型")
    return model.embed_query(text)


async def _search(
    base: OpenBase, serving: Serving, query: Query, options: RecallOptions
) -> tuple[list[Found], list[Degraded], int]:
    """Goes deeper while candidates turn out not to be of record any more and there may be others behind them."""
    depth = DEPTH
    while True:
        rankings, failed = await _ask_arms(serving, query, options, depth)
        fused = weighted(rankings, options.weights if options.mode == "hybrid" else dict.fromkeys(rankings, 1.0))
        found, dropped = await _join(base, fused, rankings, options)
        exhausted = all(len(ranking) < depth for ranking in rankings.values())
        if len(found) >= options.top_k or not dropped or exhausted or depth >= DEEPEST:
            return found[: options.top_k], failed, dropped
        depth *= 4


async def _ask_arms(
    serving: Serving, query: Query, options: RecallOptions, depth: int
) -> tuple[dict[str, Ranking], list[Degraded]]:
    arms: Sequence[Retriever] = [arm for arm in _arms(serving) if arm.name in ARMS[options.mode]]
    if options.mode == "hybrid" and query.vector is None:
        arms = [arm for arm in arms if arm.name != "vector"]  # said already, with its reason
    answers = await asyncio.gather(*(arm.search(query, depth) for arm in arms), return_exceptions=True)
    rankings: dict[str, Ranking] = {}
    failed: list[Degraded] = []
    for arm, answer in zip(arms, answers, strict=True):
        if isinstance(answer, (RetrieverUnavailable, IndexUnusable)):
            failed.append(Degraded(arm.name, str(answer)))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            rankings[arm.name] = answer
    if not rankings:
        raise _failed(failed)
    return rankings, failed


def _failed(arms: Sequence[Degraded]) -> RecallFailed:
    return RecallFailed("每一路检索都失败了：" + "；".join(f"{each.part}：{each.reason}" for each in arms))


def _arms(serving: Serving) -> tuple[Retriever, ...]:
    return (DenseRetriever(serving.index, clipped), KeywordRetriever(serving.index))


async def _join(
    base: OpenBase, fused: Ranking, rankings: Mapping[str, Ranking], options: RecallOptions
) -> tuple[list[Found], int]:
    above = [hit for hit in fused.hits if hit.score >= options.threshold and hit.score > 0.0]
    scores = {arm: arm_scores(ranking) for arm, ranking in rankings.items()}
    found: list[Found] = []
    dropped = 0
    for start in range(0, len(above), 50):
        page = above[start : start + 50]
        held = await asyncio.to_thread(_chunks, base, [hit.key for hit in page])
        for hit in page:
            chunk = held.get(hit.key)
            if chunk is None or not matches(options.where, chunk.attributes):
                dropped += 1
            else:
                arms = {arm: by_key[hit.key] for arm, by_key in scores.items() if hit.key in by_key}
                found.append(Found(chunk, hit.score, "hybrid" if len(arms) > 1 else next(iter(arms)), arms))
        if len(found) >= options.top_k:
            break
    return found, dropped


def arm_scores(ranking: Ranking) -> dict[int, ArmScore]:
    raw = ranking.scores if ranking.raw is None else ranking.raw
    rows = zip(ranking.keys.tolist(), raw.tolist(), ranking.scores.tolist(), strict=True)
    return {key: ArmScore(rank, before, score) for rank, (key, before, score) in enumerate(rows, 1)}


def _chunks(base: OpenBase, keys: Sequence[int]) -> dict[int, Chunk]:
    with base.records.reading() as tx:
        return chunks.by_keys(tx, base.id, keys)
