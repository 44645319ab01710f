"""Candidates become results: keys meet the records. What has been deleted, or is filtered out, goes no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from qianxun.bases.base import OpenBase, chunks_by_keys
from qianxun.core.types import ArmScore, Chunk, Degraded, Found, Ranking, predicate
from qianxun.rank.calibrate import Curve
from qianxun.records import bases, chunks, outbox
from qianxun.retrieve.query_plan import QueryPlan
from qianxun.retrieve.question_rules import PINNED
from qianxun.retrieve.run_arms import ArmResults


class CandidatePool:
    """The fused candidates, joined with the records page by page."""

    def __init__(self, base: OpenBase, plan: QueryPlan, results: ArmResults, fused: Ranking) -> None:
        self._base = base
        self._is_wanted = predicate(plan.queries[0].where)
        # Where history is searched, too: document → those that take its place.
        self.successors = base.periods.successors() if plan.as_of is None or plan.named else {}
        self.candidates = fused.head(int(np.count_nonzero(fused.scores > 0.0)))
        self._fused = ScoresByKey(self.candidates)
        vector = base.curves.vector
        cosines = results.vector_arms()
        self.arms = {
            arm: ScoresByKey(ranking, vector if arm in cosines else None) for arm, ranking in results.rankings.items()
        }
        self.backfill = ScoresByKey(results.backfill, vector)
        self._read: dict[int, Chunk | None] = {}
        self.dropped: list[int] = []  # keys that are not in the records, or are filtered out there

    def __contains__(self, key: int) -> bool:
        return key in self._fused

    async def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """Those of these candidates that are in the records, in this order."""
        unread = [key for key in keys if key not in self._read]
        if unread:
            known = await chunks_by_keys(self._base, unread)
            self._read |= {key: known[key] if self._passes(known, key) else None for key in unread}
        return [chunk for key in keys if (chunk := self._read[key]) is not None]

    def take_read(self, other: CandidatePool) -> None:
        """What another pool of this very search has read is not read again."""
        self._read |= {key: chunk for key, chunk in other._read.items() if chunk is not None}

    async def found(self, keys: Sequence[int]) -> list[Found]:
        """`chunks`, each with its scores."""
        return list(map(self.scored, await self.chunks(keys)))

    async def first(self, count: int, keys: Sequence[int] | None = None) -> list[Found]:
        """The first ``count`` candidates (of these keys) that are in the records, or as many as there are."""
        left = self.candidates.keys.tolist() if keys is None else [key for key in keys if key in self._fused]
        found: list[Found] = []
        while left and len(found) < count:
            page, left = left[: count - len(found)], left[count - len(found) :]
            found += await self.found(page)
        return found

    async def pinned(self, keys: Sequence[int]) -> list[Found]:
        """Chunks that people put first, found by an arm or not: those that are in the records and pass the filter."""
        known = await chunks_by_keys(self._base, keys) if keys else {}
        return [self.scored(known[key]) for key in keys if key in known and self._is_wanted(known[key].attributes)]

    async def count(self) -> int:
        """How many of the candidates are in the records."""
        return len(await self.chunks(self.candidates.keys.tolist()))

    def _passes(self, known: Mapping[int, Chunk], key: int) -> bool:
        passes = key in known and self._is_wanted(known[key].attributes)
        if not passes:
            self.dropped.append(key)
        return passes

    def scored(self, chunk: Chunk) -> Found:
        """A candidate with its fused score, and what each arm says of it."""
        score = self._fused.score(chunk.key)
        arms = {arm: by_key.of(chunk.key) for arm, by_key in self.arms.items() if chunk.key in by_key}
        source = "hybrid" if len(arms) > 1 else next(iter(arms), PINNED)
        if "vector" not in arms and chunk.key in self.backfill:
            arms["vector"] = self.backfill.of(chunk.key, rank=0)  # not found by the arm itself
        return Found(chunk, score, source, arms, fused=score)


class ScoresByKey:
    """A ranking looked up by chunk: of hundreds of candidates only a page is looked at.

    ``calibrate`` brings its scores to what they mean; without it they are shown as they are.
    """

    def __init__(self, ranking: Ranking, calibrate: Curve | None = None) -> None:
        self.keys = ranking.keys
        self._scores = ranking.scores if calibrate is None else calibrate(ranking.scores)
        self._raw = ranking.scores if ranking.raw is None else ranking.raw

    @cached_property
    def _rows(self) -> Mapping[int, int]:
        """Made where a chunk is looked up: of most rankings none is."""
        return dict(zip(self.keys.tolist(), range(len(self.keys)), strict=True))

    def __contains__(self, key: int) -> bool:
        return key in self._rows

    def of(self, key: int, rank: int | None = None) -> ArmScore:
        row = self._rows[key]
        return ArmScore(row + 1 if rank is None else rank, float(self._raw[row]), float(self._scores[row]))

    def keys_from(self, least: float) -> list[int]:
        """The chunks that have this score at least."""
        found: list[int] = self.keys[self._scores >= least].tolist()
        return found

    def score(self, key: int) -> float:
        """Zero for a chunk that is not in the ranking."""
        row = self._rows.get(key)
        return 0.0 if row is None else float(self._scores[row])


def unknown_keys(base: OpenBase, pool: CandidatePool, generation: int) -> list[Degraded]:
    """Arms that found chunks which are not in the records, though the index has nothing left to catch up with and the
    records are in the state ``generation`` still; and how many chunks were left out because they are not what was
    written."""
    with base.records.reading() as tx:
        damaged = chunks.damaged_keys(tx, pool.dropped)
        is_behind = outbox.depth(tx, base.id) > 0 or bases.generation(tx, base.id) != generation
    reason = f"{len(damaged)} 个片段与存下时的校验和不符，已略去；请运行 qianxun verify"
    left_out = [Degraded("records", reason)] if damaged else []
    if is_behind:
        return left_out
    dropped = set(pool.dropped).difference(damaged)
    counts = {arm: sum(key in by_key for key in dropped) for arm, by_key in pool.arms.items()}
    return left_out + [
        Degraded(arm, f"给出了 {count} 个记录里没有的片段，已略去；可运行 qianxun verify 核对索引")
        for arm, count in counts.items()
        if count
    ]
