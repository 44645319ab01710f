"""What the arms say of a question over one kind of chunk: heard once, looked at by every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.bases.base import OpenBase, Serving
from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.options import RecallOptions
from qianxun.core.types import NOTHING, ChunkKind, Found, Ranking
from qianxun.retrieve.candidate_pool import ScoresByKey
from qianxun.retrieve.query_plan import QueryPlan
from qianxun.retrieve.rerank_and_tiers import Relevance, TierCriteria, curve_of, tier_criteria
from qianxun.retrieve.run import DEPTH, Candidates, gather
from qianxun.retrieve.timings import Steps

UNRELATED: Final = 0.1
UNRELATED_BY_WORDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Evidence:
    """The candidates with their scores, each brought to [0, 1] so that it means the same for every question."""

    candidates: Candidates
    bench: TierCriteria
    fused: Ranking  # words and meaning together, as `retrieve` shows them
    meaning: Ranking
    words: Ranking
    failed: Mapping[str, str]  # arm → why it did not answer
    _fused: ScoresByKey
    _meaning: ScoresByKey
    _words: ScoresByKey

    def expect(self, arm: str) -> None:
        """Raises RetrieverUnavailable where the arm did not answer."""
        if arm in self.failed:
            raise RetrieverUnavailable(self.failed[arm])

    @property
    def has_vectors(self) -> bool:
        return "vector" in self.candidates.heard.sides

    @property
    def unrelated(self) -> float:
        """A score below it: such a result has nothing to do with the question. A share of words is small soon."""
        return UNRELATED if self.has_vectors else UNRELATED_BY_WORDS

    def score(self, key: int) -> float:
        return self._fused.score(key)

    def similarity(self, key: int) -> float | None:
        """None where nothing is known of the chunk's meaning."""
        return self._meaning.score(key) if key in self._meaning else None

    def share(self, key: int) -> float:
        """Of the question's words."""
        return self._words.score(key)

    async def found(self, keys: Sequence[int]) -> list[Found]:
        """Those of these candidates that are of record."""
        return await self.first(keys, len(keys))

    async def first(self, keys: Sequence[int], count: int) -> list[Found]:
        """So many of these candidates that are of record, in this order, or as many as there are."""
        known = set(self.candidates.pool.candidates.keys.tolist())
        left = [key for key in keys if key in known]
        found: list[Found] = []
        while left and len(found) < count:
            wanted = count - len(found)
            found += await self.candidates.pool.found(left[:wanted])
            left = left[wanted:]
        return found

    def verdict(self, found: Found) -> Relevance:
        return self.bench.verdict(found)


async def listen(
    base: OpenBase,
    serving: Serving,
    asked: QueryPlan,
    options: RecallOptions,
    kind: ChunkKind,
    depth: int = DEPTH,
    before: Evidence | None = None,
) -> Evidence:
    """Asks every arm that answered ``before``: who failed or was late would be so again. ``options`` have their
    weights. Raises RecallFailed when none answers."""
    arms = tuple(before.candidates.heard.rankings) if before is not None else ()
    candidates = await gather(base, serving, asked, options, depth, Steps(), arms)
    heard = candidates.heard
    bench = await tier_criteria(base, serving, candidates.asked, heard, candidates.pool)
    held = candidates.pool.candidates
    fused = Ranking.ordered(held.keys, curve_of(base, heard, options)(held.scores))
    sides = heard.scores()
    meaning = sides.get("vector", NOTHING)
    calibrate = base.curves.table_vector if kind == "table" else base.curves.vector
    meaning = replace(meaning, scores=calibrate(meaning.scores))
    words = sides.get("keyword", NOTHING)
    failed = {each.part: each.reason for each in heard.degraded if each.part not in heard.rankings}
    failed |= before.failed if before is not None else {}
    return Evidence(
        candidates, bench, fused, meaning, words, failed, ScoresByKey(fused), ScoresByKey(meaning), ScoresByKey(words)
    )
