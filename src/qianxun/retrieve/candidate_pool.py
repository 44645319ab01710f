"""Candidates become results: keys meet the records. What is not of record, or not allowed, goes no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qianxun.bases.base import OpenBase, read
from qianxun.core.types import ArmScore, Chunk, Degraded, Found, Ranking, matches
from qianxun.rank.calibrate import Curve
from qianxun.records import chunks, outbox
from qianxun.retrieve.arm_results import WITH_VECTOR
from qianxun.retrieve.query_plan import QueryPlan
from qianxun.retrieve.run_arms import ArmResults


class CandidatePool:
    """The fused candidates, joined with the records as far as somebody looks."""

    def __init__(self, base: OpenBase, asked: QueryPlan, heard: ArmResults, fused: Ranking) -> None:
        self._base = base
        self._where = asked.queries[0].where
        self.candidates = fused.head(int(np.count_nonzero(fused.scores > 0.0)))
        self._fused = ScoresByKey(self.candidates)
        vector = base.curves.vector
        self.arms = {
            arm: ScoresByKey(ranking, vector) if arm in WITH_VECTOR else ScoresByKey(ranking)
            for arm, ranking in heard.rankings.items()
        }
        self.behind = ScoresByKey(heard.behind, vector)
        self._read: dict[int, Found | None] = {}
        self.dropped: list[int] = []  # keys that are not of record

    async def found(self, keys: Sequence[int]) -> list[Found]:
        """Those of these candidates that are of record, in this order."""
        unread = [key for key in keys if key not in self._read]
        if unread:
            held = await read(self._base, chunks.by_keys, unread)
            self._read |= {key: self._found(held[key]) if self._is_in(held, key) else None for key in unread}
        return [each for key in keys if (each := self._read[key]) is not None]

    async def first(self, count: int) -> list[Found]:
        """So many candidates that are of record, best first, or as many as there are."""
        keys = self.candidates.keys.tolist()
        found: list[Found] = []
        at = 0
        while len(found) < count and at < len(keys):
            wanted = keys[at : at + count - len(found)]
            found += await self.found(wanted)
            at += len(wanted)
        return found

    async def of_record(self) -> int:
        """How many of the candidates are."""
        return len(await self.found(self.candidates.keys.tolist()))

    def _is_in(self, held: Mapping[int, Chunk], key: int) -> bool:
        is_in = key in held and matches(self._where, held[key].attributes)
        if not is_in:
            self.dropped.append(key)
        return is_in

    def _found(self, chunk: Chunk) -> Found:
        score = self._fused.score(chunk.key)
        arms = {arm: by_key.of(chunk.key) for arm, by_key in self.arms.items() if chunk.key in by_key}
        source = "hybrid" if len(arms) > 1 else next(iter(arms))
        if "vector" not in arms and chunk.key in self.behind:
            arms["vector"] = self.behind.of(chunk.key, rank=0)  # which the arm did not give it
        return Found(chunk, score, source, arms, fused=score)

    def finders(self) -> dict[str, int]:
        """Arm → how many candidates it gave that are not of record."""
        return {arm: sum(key in by_key for key in self.dropped) for arm, by_key in self.arms.items()}


class ScoresByKey:
    """A ranking asked for single chunks: of hundreds of candidates only a page is looked at.

    ``calibrate`` says what its scores mean; without it they are shown as they are.
    """

    def __init__(self, ranking: Ranking, calibrate: Curve | None = None) -> None:
        self._scores = ranking.scores if calibrate is None else calibrate(ranking.scores)
        self._raw = ranking.scores if ranking.raw is None else ranking.raw
        self._rows = dict(zip(ranking.keys.tolist(), range(len(ranking)), strict=True))

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def of(self, key: int, rank: int | None = None) -> ArmScore:
        row = self._rows[key]
        return ArmScore(row + 1 if rank is None else rank, float(self._raw[row]), float(self._scores[row]))

    def score(self, key: int) -> float:
        """Zero for a chunk that it does not name."""
        row = self._rows.get(key)
        return 0.0 if row is None else float(self._scores[row])


def unknown_keys(base: OpenBase, pool: CandidatePool) -> list[Degraded]:
    """Arms that named chunks nobody knows, though the index has nothing left to catch up with."""
    with base.records.reading() as tx:
        if outbox.depth(tx, base.id):
            return []
    return [
        Degraded(arm, f"给出了 {count} 个记录里没有的片段，已略去；可运行 qianxun verify 核对索引")
        for arm, count in pool.finders().items()
        if count
    ]
