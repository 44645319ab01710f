"""Several rankings to one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from qianxun.types import Ranking


def weighted(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Ranking:
    """Σ weight · score over Σ weight of the arms that answered. An arm that did not find a chunk gives it zero."""
    total = sum(weights.get(arm, 0.0) for arm in rankings)
    if total <= 0.0:
        return Ranking(())
    scores: dict[int, float] = defaultdict(float)
    for arm in sorted(rankings):
        share = weights.get(arm, 0.0) / total
        for hit in rankings[arm].hits:
            scores[hit.key] += share * hit.score
    return Ranking.of(scores.items(), 1.0)
