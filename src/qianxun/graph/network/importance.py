"""How central each entity is: PageRank over all ties (Page, Brin, Motwani and Winograd 1999)."""

from __future__ import annotations

from typing import Final

import numpy as np

from qianxun.core.types import Scores
from qianxun.graph.network.ties import TOGETHER, Ties

DAMPING: Final = 0.85
ROUNDS: Final = 30
MERELY_TOGETHER: Final = 0.5  # a sentence shared says less than a relation stated


def importance(count: int, ties: Ties) -> Scores:
    """By entity, in [0, 1]; the largest is 1. Ties count both ways, and often stated ones a little more."""
    if not count:
        return np.empty(0, dtype=np.float64)
    weight = tie_weights(ties)
    source, target = np.concatenate([ties.source, ties.target]), np.concatenate([ties.target, ties.source])
    weight = np.concatenate([weight, weight])
    out = np.bincount(source, weights=weight, minlength=count)
    share = weight / out[source]
    rank = np.full(count, 1.0 / count)
    for _ in range(ROUNDS):
        rank = (1.0 - DAMPING) / count + DAMPING * np.bincount(target, weights=rank[source] * share, minlength=count)
    largest: Scores = rank / rank.max()
    return largest


def tie_weights(ties: Ties) -> Scores:
    weights: Scores = np.log2(1.0 + ties.weight) * np.where(ties.type == TOGETHER, MERELY_TOGETHER, 1.0)
    return weights
