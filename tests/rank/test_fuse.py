"""Each fusion by its formula, written out as arithmetic."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.types import NOTHING, Ranking
from qianxun.rank.fuse import FUSIONS, beside_meaning, best_of, fitting_weights, joined, min_max, rrf, weighted
from tests.hypothesis_settings import examples

VECTOR = Ranking.of([(1, 0.9), (2, 0.6), (3, 0.3)], 1.0)
KEYWORD = Ranking.of([(3, 0.8), (4, 0.4)], 1.0)
BOTH = {"vector": VECTOR, "keyword": KEYWORD}
WEIGHTS = {"vector": 3.0, "keyword": 1.0}


def scores(ranking: Ranking) -> dict[int, float]:
    return dict(ranking.hits)


def test_weighted_is_the_weighted_mean_of_the_scores() -> None:
    assert scores(weighted(BOTH, WEIGHTS)) == pytest.approx(
        {
            1: (3 * 0.9 + 1 * 0.0) / 4,
            2: (3 * 0.6 + 1 * 0.0) / 4,
            3: (3 * 0.3 + 1 * 0.8) / 4,
            4: (3 * 0.0 + 1 * 0.4) / 4,
        }
    )


def test_min_max_stretches_each_arm_from_its_last_to_its_best() -> None:
    assert scores(min_max(BOTH, WEIGHTS)) == pytest.approx(
        {
            1: 3 * (0.9 - 0.3) / (0.9 - 0.3) / 4,
            2: 3 * (0.6 - 0.3) / (0.9 - 0.3) / 4,
            3: (3 * 0.0 + 1 * (0.8 - 0.4) / (0.8 - 0.4)) / 4,
            4: 0.0,
        }
    )


def test_min_max_gives_equal_scores_the_best_one() -> None:
    assert scores(min_max({"keyword": Ranking.of([(1, 0.2), (2, 0.2)])}, {"keyword": 1.0})) == {1: 1.0, 2: 1.0}


def test_rrf_is_one_over_sixty_plus_rank_as_a_share_of_the_first_everywhere() -> None:
    assert scores(rrf(BOTH, WEIGHTS)) == pytest.approx(
        {
            1: 61 * 3 * (1 / (60 + 1)) / 4,
            2: 61 * 3 * (1 / (60 + 2)) / 4,
            3: 61 * (3 * (1 / (60 + 3)) + 1 * (1 / (60 + 1))) / 4,
            4: 61 * 1 * (1 / (60 + 2)) / 4,
        }
    )
    first_everywhere = {arm: Ranking.of([(7, 0.1)]) for arm in ("vector", "keyword")}
    assert scores(rrf(first_everywhere, WEIGHTS)) == {7: 1.0}


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
def test_one_arm_alone_keeps_its_order_and_an_arm_of_weight_zero_has_no_say(fusion: object) -> None:
    fuse = FUSIONS["weighted"] if fusion is weighted else fusion
    alone = fuse({"vector": VECTOR}, {"vector": 0.2})  # type: ignore[operator]
    assert alone.keys.tolist() == [1, 2, 3]
    assert alone.scores[0] == (0.9 if fusion is weighted else 1.0)
    silenced = fuse(BOTH, {"vector": 0.2, "keyword": 0.0})  # type: ignore[operator]
    assert silenced == alone
    unnamed = fuse(BOTH, {"vector": 0.2})  # type: ignore[operator]
    assert unnamed == alone


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
@pytest.mark.parametrize(
    ("rankings", "weights"),
    [
        ({}, {"vector": 1.0}),
        ({"vector": NOTHING, "keyword": NOTHING}, {"vector": 1.0, "keyword": 1.0}),
        (BOTH, {"vector": 0.0, "keyword": 0.0}),
        (BOTH, {}),
    ],
)
def test_nothing_fuses_to_nothing(
    fusion: object, rankings: Mapping[str, Ranking], weights: Mapping[str, float]
) -> None:
    assert len(fusion(rankings, weights)) == 0  # type: ignore[operator]


def test_an_arm_that_did_not_answer_takes_its_weight_with_it() -> None:
    assert scores(weighted({"keyword": KEYWORD}, WEIGHTS)) == {3: 0.8, 4: 0.4}


@st.composite
def rankings(draw: st.DrawFn) -> Ranking:
    keys = draw(st.lists(st.integers(1, 12), unique=True, max_size=12))
    held = st.sampled_from([0.0, 1e-300, 0.25, 0.5, 0.5 + 2**-53, 1 / 3, 1.0]) | st.floats(0.0, 1.0)
    return Ranking.of([(key, draw(held)) for key in keys], 1.0)


@examples(150)
@given(
    vector=rankings(),
    keyword=rankings(),
    by=st.sampled_from(sorted(FUSIONS)),
    weights=st.fixed_dictionaries(
        {arm: st.sampled_from([0.0, 5e-324, 0.1, 0.2, 1.0, 3.0, 1e308]) for arm in ("vector", "keyword")}
    ),
)
def test_every_fusion_is_bounded_sorted_and_breaks_ties_by_key(
    vector: Ranking, keyword: Ranking, by: str, weights: dict[str, float]
) -> None:
    fused = FUSIONS[by]({"vector": vector, "keyword": keyword}, weights)
    assert [(-score, key) for key, score in fused.hits] == sorted((-score, key) for key, score in fused.hits)
    assert all(0.0 <= score <= 1.0 for score in fused.scores)
    asked = {"vector": vector, "keyword": keyword}
    assert set(fused.keys.tolist()) == {
        key for arm, ranking in asked.items() if weights[arm] for key in ranking.keys.tolist()
    }
    assert FUSIONS[by]({"keyword": keyword, "vector": vector}, weights) == fused


def test_thirds_do_not_add_up_to_more_than_one() -> None:
    full = Ranking.of([(1, 1.0)])
    for first in range(1, 40):
        for second in range(1, 40):
            fused = weighted({"vector": full, "keyword": full}, {"vector": first / 10, "keyword": second / 10})
            assert fused.scores[0] <= 1.0


def test_best_of_keeps_the_best_score_of_each_chunk_and_what_it_came_from() -> None:
    one = Ranking(np.array([5, 6]), np.array([0.9, 0.2]), 1.0, np.array([9.0, 2.0]))
    two = Ranking(np.array([6, 7]), np.array([0.5, 0.4]), 2.0, np.array([5.0, 4.0]))
    best = best_of([one, NOTHING, two])
    assert best.hits == ((5, 0.9), (6, 0.5), (7, 0.4))
    assert best.raw is not None
    assert best.raw.tolist() == [9.0, 5.0, 4.0]
    assert best.ceiling == 2.0
    assert best_of([]) == NOTHING
    assert best_of([NOTHING, one]) is one


def test_best_of_loses_no_key_whatever_it_is() -> None:
    odd = [Ranking.of([(-1, 0.5), (0, 0.4)]), Ranking.of([(-1, 0.6), (2**62, 0.1)])]
    assert scores(best_of(odd)) == {-1: 0.6, 0: 0.4, 2**62: 0.1}


@pytest.mark.parametrize(
    ("likeness", "vector"), [(0.0, 0.75), (0.36, 0.75), (0.46, 0.75 - 0.167), (0.6, 0.45), (1.0, 0.45)]
)
def test_the_more_alike_the_chunks_the_less_meaning_counts(likeness: float, vector: float) -> None:
    held = fitting_weights(likeness)
    assert held["vector"] == pytest.approx(vector, abs=0.006)
    assert held["vector"] + held["keyword"] == pytest.approx(1.0)


def test_tables_are_found_by_words() -> None:
    prose, half, tables = (fitting_weights(0.43, share)["vector"] for share in (0.0, 0.5, 1.0))
    assert tables == 0.2
    assert half == pytest.approx((prose + tables) / 2, abs=0.006)


def test_words_that_cover_next_to_nothing_of_a_question_count_less_beside_meaning() -> None:
    found = Ranking.of([(1, 0.06), (2, 0.03)])
    assert scores(beside_meaning(found)) == pytest.approx({1: 0.06 * 0.4, 2: 0.03 * 0.4})
    enough = Ranking.of([(1, 0.15), (2, 0.02)])
    assert beside_meaning(enough) is enough
    assert beside_meaning(NOTHING) is NOTHING


SCORED = st.lists(st.sampled_from([0.0, 0.25, 0.25 + 2**-53, 0.5, 1.0]), max_size=30)


@examples(200)
@given(SCORED, st.randoms(use_true_random=False))
def test_a_ranking_is_best_first_and_ties_stand_by_key(scored: list[float], chance: random.Random) -> None:
    keys = list(range(len(scored)))
    chance.shuffle(keys)
    raw = np.array(keys, dtype=np.float64)
    ranking = Ranking.ordered(np.array(keys, dtype=np.int64), np.array(scored, dtype=np.float64), 1.0, raw)
    assert list(ranking.hits) == sorted(zip(keys, scored, strict=True), key=lambda hit: (-hit[1], hit[0]))
    assert ranking.raw is not None
    assert ranking.raw.tolist() == [float(key) for key, _ in ranking.hits]


@examples(100)
@given(SCORED, SCORED)
def test_what_has_no_chunk_in_common_is_joined_as_by_the_best(one: list[float], other: list[float]) -> None:
    rankings = [Ranking.of(enumerate(one), 1.0), Ranking.of(enumerate(other, 100), 1.0)]
    assert joined(rankings) == best_of(rankings)
