"""A graph beside a search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.types import NOTHING, Ranking
from qianxun.rank.mix import ABOVE, DISCOUNT, FLOOR, OUTSIDE, TRUST, either, mixed, scores_of, supported

SEARCH = Ranking.of([(1, 0.8), (2, 0.4), (3, 0.1)])
GRAPH = Ranking.of([(3, 1.0), (4, 0.5)])


def test_a_graph_raises_towards_a_little_above_the_searchs_best() -> None:
    assert ABOVE * 0.8 == 1.0
    found = dict(mixed(GRAPH, SEARCH).hits)
    left = 1.0 - DISCOUNT
    assert found == pytest.approx({1: left * 0.8, 2: left * 0.4, 3: 0.1 + TRUST * 0.9, 4: TRUST * 0.5})


def test_beside_an_unsure_graph_the_search_loses_little() -> None:
    found = dict(mixed(Ranking.of([(4, 0.1)]), SEARCH).hits)
    assert found[1] == pytest.approx((1.0 - DISCOUNT * 0.1) * 0.8)


def test_a_graph_that_knows_nothing_leaves_the_search_as_it_is() -> None:
    assert mixed(NOTHING, SEARCH) == SEARCH
    assert supported(NOTHING, SEARCH) == SEARCH


def test_a_search_that_found_nothing_leaves_the_graphs_order() -> None:
    found = mixed(GRAPH, NOTHING)
    assert found.keys.tolist() == [3, 4]
    assert found.scores[0] == pytest.approx(TRUST * ABOVE * FLOOR)


def test_where_the_graph_leads_what_it_does_not_know_counts_less() -> None:
    found = dict(supported(GRAPH, SEARCH).hits)
    assert found[1] == pytest.approx(OUTSIDE * 0.8)
    assert found[3] == dict(mixed(GRAPH, SEARCH).hits)[3]


def test_either_takes_the_better_score() -> None:
    assert either(SEARCH, GRAPH).hits == Ranking.of([(1, 0.8), (2, 0.4), (3, 1.0), (4, 0.5)]).hits


_RANKINGS = st.dictionaries(st.integers(1, 20), st.floats(0.001, 1.0), max_size=10).map(
    lambda held: Ranking.of(held.items())
)


@given(_RANKINGS, _RANKINGS)
def test_scores_stay_within_bounds_and_nothing_that_both_know_is_lowered(graph: Ranking, search: Ranking) -> None:
    found = mixed(graph, search)
    assert set(found.keys.tolist()) == {*graph.keys.tolist(), *search.keys.tolist()}
    assert ((found.scores > 0.0) & (found.scores <= 1.0)).all()
    both = np.intersect1d(graph.keys, search.keys)
    assert (scores_of(found, both) >= scores_of(search, both) - 1e-12).all()
    assert np.array_equal(found.scores, np.sort(found.scores)[::-1])
