"""Candidates become results: keys meet the records. What is not of record, or not allowed, goes no further."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from qianxun.pipelines.arms import Heard
from qianxun.pipelines.asking import Asked
from qianxun.pipelines.base import OpenBase
from qianxun.records import chunks, outbox
from qianxun.types import ArmScore, Chunk, Degraded, Found, Ranking, matches


class Pool:
    """The fused candidates, joined with the records a page at a time, as far as somebody looks."""

    def __init__(self, base: OpenBase, asked: Asked, heard: Heard, fused: Ranking) -> None:
        self._base = base
        self._where = asked.queries[0].where
        self._fused = fused
        self._arms = {arm: arm_scores(ranking) for arm, ranking in heard.rankings.items()}
        self._behind = arm_scores(heard.behind, ranked=False)
        self._at, self._end = 0, int(np.count_nonzero(fused.scores > 0.0))
        self.dropped: list[int] = []  # keys that are not of record

    async def page(self, size: int) -> list[Found]:
        """The next candidates that are of record; none when there are no more."""
        found: list[Found] = []
        while self._at < self._end and not found:
            rows = slice(self._at, min(self._at + size, self._end))
            keys, scores = self._fused.keys[rows].tolist(), self._fused.scores[rows].tolist()
            held = await asyncio.to_thread(_chunks, self._base, keys)
            pairs = zip(keys, scores, strict=True)
            found = [self._found(held[key], score) for key, score in pairs if self._is_in(held, key)]
            self._at = rows.stop
        return found

    async def first(self, count: int) -> list[Found]:
        """So many candidates that are of record, or as many as there are."""
        found: list[Found] = []
        while len(found) < count and (more := await self.page(count - len(found))):
            found += more
        return found

    def _is_in(self, held: Mapping[int, Chunk], key: int) -> bool:
        is_in = key in held and matches(self._where, held[key].attributes)
        if not is_in:
            self.dropped.append(key)
        return is_in

    def _found(self, chunk: Chunk, score: float) -> Found:
        arms = {arm: by_key[chunk.key] for arm, by_key in self._arms.items() if chunk.key in by_key}
        source = "hybrid" if len(arms) > 1 else next(iter(arms))
        if "vector" not in arms and chunk.key in self._behind:
            arms["vector"] = self._behind[chunk.key]
        return Found(chunk, score, source, arms, fused=score)

    def finders(self) -> dict[str, int]:
        """Arm → how many candidates it gave that are not of record."""
        return {arm: sum(key in by_key for key in self.dropped) for arm, by_key in self._arms.items()}


def arm_scores(ranking: Ranking, *, ranked: bool = True) -> dict[int, ArmScore]:
    raw = ranking.scores if ranking.raw is None else ranking.raw
    rows = zip(ranking.keys.tolist(), raw.tolist(), ranking.scores.tolist(), strict=True)
    return {key: ArmScore(rank if ranked else 0, before, score) for rank, (key, before, score) in enumerate(rows, 1)}


def _chunks(base: OpenBase, keys: Sequence[int]) -> dict[int, Chunk]:
    with base.records.reading() as tx:
        return chunks.by_keys(tx, base.id, keys)


def strangers(base: OpenBase, pool: Pool) -> list[Degraded]:
    """Arms that named chunks nobody knows, though the index has nothing left to catch up with."""
    with base.records.reading() as tx:
        if outbox.depth(tx, base.id):
            return []
    return [
        Degraded(arm, f"给出了 {count} 个记录里没有的片段，已略去；可运行 qianxun verify 核对索引")
        for arm, count in pool.finders().items()
        if count
    ]
