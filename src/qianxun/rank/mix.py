"""What a graph found beside what a search found: one ranking of both, scores in [0, 1]."""

from __future__ import annotations

from typing import Final

import numpy as np

from qianxun.types import Keys, Ranking, Scores

TRUST: Final = 0.8  # how far a graph can raise what a search scores
UNSEEN: Final = 0.5  # what of a graph's score is left where the search did not find the chunk, and goes by words alone


def either(first: Ranking, second: Ranking) -> Ranking:
    """Everything in one of them, with its better score."""
    keys = np.union1d(first.keys, second.keys)
    return Ranking.ordered(keys, np.maximum(scores_of(first, keys), scores_of(second, keys)))


def supported(graph: Ranking, search: Ranking) -> Ranking:
    """What the graph found; of two that it finds as good, the better is the one that the search finds better."""
    scores = graph.scores * (UNSEEN + (1.0 - UNSEEN) * scores_of(search, graph.keys))
    return Ranking.ordered(graph.keys, scores)


def mixed(graph: Ranking, search: Ranking) -> Ranking:
    """Everything in one of them: each graph score takes away a part of what the search's leaves to 1.

    Where the graph knows nothing this is the search's own ranking.
    """
    keys = np.union1d(graph.keys, search.keys)
    known, found = scores_of(graph, keys), scores_of(search, keys)
    return Ranking.ordered(keys, 1.0 - (1.0 - found) * (1.0 - TRUST * known))


def scores_of(ranking: Ranking, keys: Keys) -> Scores:
    """The scores of these keys in a ranking; zero for one that it does not name."""
    order = np.argsort(ranking.keys, kind="stable")
    held = ranking.keys[order]
    at = np.minimum(np.searchsorted(held, keys), max(len(held) - 1, 0))
    scores: Scores = np.zeros(len(keys))
    if len(held):
        is_there = held[at] == keys
        scores[is_there] = ranking.scores[order][at[is_there]]
    return scores
