"""Several rankings to one. Each a pure function of the rankings and of how much each arm counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from qianxun.core.types import NOTHING, Keys, Ranking, Scores

RRF_K: Final = 60  # Cormack, Clarke and Büttcher (SIGIR 2009)

FIRST_PLACES: Final = 3  # in which the first of every signal is found

# The weight of meaning beside words, fitted set by set on the others (docs/decisions/0024-weights-and-chances.md).
# Where all chunks are on one matter their vectors lie close together and distinguish less than where they are on many;
# a table is found by the words of its headings and cells, whatever it is about.
MOST_VECTOR: Final = 0.75
LEAST_VECTOR: Final = 0.45
MIXED: Final = 0.36  # the mean cosine from which on meaning counts less …
LOSS: Final = 1.67  # … by so much for each 1.0 of mean cosine beyond
TABLE_VECTOR: Final = 0.2  # among tables
# The share of a question that the best match by words must have for words to count in full beside meaning. Below it
# all they have in common with anything is coincidence: a question in other words than its answer's.
ENOUGH_WORDS: Final = 0.15


def weighted(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Ranking:
    """Σ weight · score ÷ Σ weight, over the signals there are. One that did not find a chunk gives it zero."""
    return _summed({name: (ranking.keys, ranking.scores) for name, ranking in rankings.items()}, weights)


def min_max(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Ranking:
    """`weighted`, after each signal's scores are stretched so that its best is 1 and its last 0; equal ones are all 1.

    How well it matched is lost: a signal that found nothing good still votes with its best for 1.
    """
    return _summed({arm: (ranking.keys, stretched(ranking)) for arm, ranking in rankings.items()}, weights)


def rrf(rankings: Mapping[str, Ranking], weights: Mapping[str, float], k: int = RRF_K) -> Ranking:
    """Σ weight · (k + 1) ÷ (k + rank) ÷ Σ weight, ranks from 1: first everywhere scores 1 (Cormack et al. 2009)."""
    return _summed({arm: (ranking.keys, reciprocal(ranking, k)) for arm, ranking in rankings.items()}, weights)


def promote_firsts(fused: Ranking, firsts: Sequence[int]) -> Ranking:
    """With these keys among the first few: what one signal alone is sure of is not lost behind the many that another
    puts a little nearer. One that comes later is raised to just above the place it needs."""
    is_first = np.isin(fused.keys, firsts)
    others = fused.scores[~is_first]
    ahead = max(FIRST_PLACES - int(np.count_nonzero(is_first)), 1)
    if len(others) <= ahead:
        return fused
    bar = np.nextafter(others[ahead], 2.0)
    return Ranking.ordered(fused.keys, np.where(is_first, np.maximum(fused.scores, bar), fused.scores), fused.ceiling)


def fitting_weights(likeness: float, tables: float = 0.0) -> dict[str, float]:
    """The weights of meaning and words in a base whose chunks have this mean cosine, and so many tables among them."""
    prose = min(max(MOST_VECTOR - LOSS * (likeness - MIXED), LEAST_VECTOR), MOST_VECTOR)
    vector = round((1.0 - tables) * prose + tables * TABLE_VECTOR, 2)
    return {"vector": vector, "keyword": round(1.0 - vector, 2)}


def beside_meaning(words: Ranking) -> Ranking:
    """The ranking by words as it counts beside meaning: less, where even its best has little of the question."""
    best = float(words.scores[0]) if len(words) else ENOUGH_WORDS
    if best >= ENOUGH_WORDS:
        return words
    return replace(words, scores=words.scores * (best / ENOUGH_WORDS))


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
# What the rows of a ranking count for in each.
VOTES = {"weighted": lambda ranking: ranking.scores, "min_max": stretched, "rrf": reciprocal}


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
    """`best_of` where no chunk is in two of the rankings, which may be in any order."""
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
