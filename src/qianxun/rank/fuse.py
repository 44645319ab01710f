"""Several rankings to one. Each a pure function of the rankings and of how much each arm counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qianxun.core.types import NOTHING, Keys, Ranking, Scores

RRF_K = 60


def weighted(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Ranking:
    """Σ weight · score ÷ Σ weight, over the arms that answered. An arm that did not find a chunk gives it zero."""
    return _summed({arm: (ranking.keys, bounded(ranking)) for arm, ranking in rankings.items()}, weights)


def min_max(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Ranking:
    """`weighted`, after each arm's scores are stretched so that its best is 1 and its last 0; equal ones are all 1.

    How well an arm matched is lost: an arm that found nothing good still votes with its best for 1.
    """
    return _summed({arm: (ranking.keys, stretched(ranking)) for arm, ranking in rankings.items()}, weights)


def rrf(rankings: Mapping[str, Ranking], weights: Mapping[str, float], k: int = RRF_K) -> Ranking:
    """Σ weight · (k + 1) ÷ (k + rank) ÷ Σ weight, ranks from 1: first everywhere scores 1 (Cormack et al. 2009)."""
    return _summed({arm: (ranking.keys, reciprocal(ranking, k)) for arm, ranking in rankings.items()}, weights)


def fitting_weights(likeness: float) -> dict[str, float]:
    """How much meaning counts beside words in a base whose chunks are so alike.

    Where all chunks speak of one matter (tables of annual reports) their vectors lie close together and tell less
    apart than words do; where they speak of many the reverse holds. Measured over ten sets in docs/quality.md.
    """
    vector = round(min(max(0.7 - 2.1 * (likeness - 0.36), 0.34), 0.7), 2)
    return {"vector": vector, "keyword": round(1.0 - vector, 2)}


def bounded(ranking: Ranking) -> Scores:
    return ranking.scores


def stretched(ranking: Ranking) -> Scores:
    scores = ranking.scores
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    spread: Scores = np.ones_like(scores) if high == low else (scores - low) / (high - low)
    return spread


def reciprocal(ranking: Ranking, k: int = RRF_K) -> Scores:
    ranks: Scores = np.arange(1.0, len(ranking) + 1.0)
    return (k + 1) / (k + ranks)


FUSIONS = {"weighted": weighted, "min_max": min_max, "rrf": rrf}
VOTES = {"weighted": bounded, "min_max": stretched, "rrf": reciprocal}  # what a ranking's rows count for in each


def best_of(rankings: Iterable[Ranking]) -> Ranking:
    """Each chunk with the best score that any of the rankings gives it."""
    several = [ranking for ranking in rankings if len(ranking)]
    if len(several) < 2:
        return several[0] if several else NOTHING
    whole = _concatenated(several)
    order = np.lexsort((-whole.scores, whole.keys))
    ordered = whole.keys[order]
    first = order[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    assert whole.raw is not None
    return Ranking.ordered(whole.keys[first], whole.scores[first], whole.ceiling, whole.raw[first])


def joined(rankings: Iterable[Ranking]) -> Ranking:
    """`best_of` where no chunk is in two of the rankings, which may stand in any order."""
    several = [ranking for ranking in rankings if len(ranking)]
    if not several:
        return NOTHING
    whole = several[0] if len(several) == 1 else _concatenated(several)
    return Ranking.ordered(whole.keys, whole.scores, whole.ceiling, whole.raw)


def _concatenated(several: Sequence[Ranking]) -> Ranking:
    """One behind the other, in no order."""
    return Ranking(
        np.concatenate([ranking.keys for ranking in several]),
        np.concatenate([ranking.scores for ranking in several]),
        max(ranking.ceiling or 0.0 for ranking in several),
        np.concatenate([ranking.scores if ranking.raw is None else ranking.raw for ranking in several]),
    )


def _summed(columns: Mapping[str, tuple[Keys, Scores]], weights: Mapping[str, float]) -> Ranking:
    arms = sorted(arm for arm in columns if weights.get(arm, 0.0) > 0.0)
    if not arms:
        return NOTHING
    largest = max(weights[arm] for arm in arms)  # huge weights must not add up to infinity
    total = sum(weights[arm] / largest for arm in arms)
    keys, places = np.unique(np.concatenate([columns[arm][0] for arm in arms]), return_inverse=True)
    votes = np.concatenate([columns[arm][1] * (weights[arm] / largest / total) for arm in arms])
    summed = np.bincount(places, votes, len(keys)).astype(np.float64)
    return Ranking.ordered(keys, np.minimum(summed, 1.0), 1.0)  # thirds may add up to a bit more than one
