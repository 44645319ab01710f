"""What a graph found beside what a search found: one ranking of both, scores in [0, 1]."""

from __future__ import annotations

from typing import Final

import numpy as np

from qianxun.core.types import Keys, Ranking, Scores

TRUST: Final = 0.8  # how much of the way to the top a graph can raise what a search scores
ABOVE: Final = 1.25  # the top, beside the best that the search found
FLOOR: Final = 0.2  # … or beside this, where the search found nothing good
OUTSIDE: Final = 0.5  # what is left of the score of a chunk that a graph does not know, where the graph leads
DISCOUNT: Final = 0.3  # … and what such a chunk loses beside a graph that is sure, where both count


def either(first: Ranking, second: Ranking) -> Ranking:
    """Everything in one of them, with its better score."""
    keys = np.union1d(first.keys, second.keys)
    return Ranking.ordered(keys, np.maximum(scores_of(first, keys), scores_of(second, keys)))


def supported(graph: Ranking, search: Ranking) -> Ranking:
    """`mixed`, but the graph leads: what it does not know counts half. Where it knows nothing, the search's own."""
    return _together(graph, search, OUTSIDE)


def mixed(graph: Ranking, search: Ranking) -> Ranking:
    """Everything in one of them; what the graph knows is raised towards a little above the search's best, and what it
    does not know goes back a little, the more the surer the graph is.

    Where the graph knows nothing this is the search's own ranking. The measure is the search's best and not 1: by words
    alone a search scores low, and whatever a graph knows would come before all that it found.
    """
    return _together(graph, search, 1.0 - DISCOUNT * _best(graph))


def _together(graph: Ranking, search: Ranking, outside: float) -> Ranking:
    if not len(graph):
        return search
    keys = np.union1d(graph.keys, search.keys)
    known, found = scores_of(graph, keys), scores_of(search, keys)
    return Ranking.ordered(keys, np.where(known > 0.0, _raised(known, found, _best(search)), outside * found))


def _best(ranking: Ranking) -> float:
    return float(ranking.scores.max(initial=0.0))


def _raised(known: Scores, found: Scores, best: float) -> Scores:
    top = min(1.0, ABOVE * max(best, FLOOR))
    raised: Scores = found + TRUST * known * np.maximum(top - found, 0.0)
    return raised


def scores_of(ranking: Ranking, keys: Keys) -> Scores:
    """The scores of these keys in a ranking; zero for one that it does not name."""
    order = np.argsort(ranking.keys, kind="stable")
    known = ranking.keys[order]
    at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    scores: Scores = np.zeros(len(keys))
    if len(known):
        is_there = known[at] == keys
        scores[is_there] = ranking.scores[order][at[is_there]]
    return scores
