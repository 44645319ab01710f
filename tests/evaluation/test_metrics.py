"""The numbers against arithmetic on paper, and against trec_eval itself."""

from __future__ import annotations

from math import log2

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from qianxun.evaluation.metrics import METRICS, mean_scores, measure
from tests.hypothesis_settings import examples


def one(grades: dict[str, int], ranking: list[str]) -> dict[str, float]:
    return mean_scores(measure({"q": grades}, {"q": ranking}))


def test_a_single_relevant_document_in_third_place() -> None:
    told = one({"对": 1}, ["a", "b", "对", "c"])
    assert told == pytest.approx(
        {"ndcg@10": 1 / log2(4), "mrr@10": 1 / 3, "recall@10": 1.0, "recall@100": 1.0, "hit@1": 0.0}
    )


def test_grades_weigh_in_ndcg_alone() -> None:
    told = one({"很对": 3, "对": 1, "也对": 2, "不对": 0}, ["对", "不对", "很对"])
    gained = 1 / log2(2) + 0 / log2(3) + 3 / log2(4)
    best = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert told["ndcg@10"] == pytest.approx(gained / best)
    assert told["mrr@10"] == 1.0
    assert told["recall@10"] == pytest.approx(2 / 3)
    assert told["hit@1"] == 1.0


def test_the_eleventh_place_counts_for_recall_at_100_alone() -> None:
    told = one({"对": 1}, [f"d{at}" for at in range(10)] + ["对"])
    assert told == {"ndcg@10": 0.0, "mrr@10": 0.0, "recall@10": 0.0, "recall@100": 1.0, "hit@1": 0.0}


def test_beyond_the_hundredth_place_nothing_is_found() -> None:
    told = one({"对": 1}, [f"d{at}" for at in range(100)] + ["对"])
    assert set(told.values()) == {0.0}


def test_a_query_without_a_ranking_counts_as_zero() -> None:
    told = mean_scores(measure({"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}, {"q1": ["a"], "q2": []}))
    assert told == pytest.approx(dict.fromkeys(METRICS, 1 / 3))


def test_our_order_counts_not_that_of_ids() -> None:
    assert one({"a": 1}, ["z", "a"])["hit@1"] == 0.0
    assert one({"z": 1}, ["z", "a"])["hit@1"] == 1.0


def test_a_negative_grade_is_not_relevant() -> None:
    assert one({"差": -1, "对": 1}, ["差", "对"])["ndcg@10"] == pytest.approx(1 / log2(3))


def test_ids_that_a_c_string_cannot_hold_stay_apart() -> None:
    told = one({"a\x00对": 1}, ["a\x00错", "a\x00对", "\ud800"])
    assert told["mrr@10"] == 0.5


def test_a_document_twice_in_a_ranking_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="twice"):
        measure({"q": {"a": 1}}, {"q": ["a", "a"]})


documents = st.sampled_from([f"文{at}" for at in range(130)])
judgements = st.dictionaries(documents, st.integers(0, 3), min_size=1, max_size=12).filter(lambda g: any(g.values()))


@examples(60)
@given(st.lists(st.tuples(judgements, st.lists(documents, unique=True, max_size=130)), min_size=1, max_size=4))
def test_trec_eval_says_the_same(cases: list[tuple[dict[str, int], list[str]]]) -> None:
    qrels = {f"q{at}": grades for at, (grades, _) in enumerate(cases)}
    rankings = {f"q{at}": ranking for at, (_, ranking) in enumerate(cases)}
    told = measure(qrels, rankings)
    names = {"ndcg_cut_10": "ndcg@10", "recall_10": "recall@10", "recall_100": "recall@100", "success_1": "hit@1"}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.10,100", "success.1"})
    first_ten = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"})
    for query, ranking in rankings.items():
        run = {query: {document: 1000.0 - rank for rank, document in enumerate(ranking)}}
        if not ranking:
            continue  # trec_eval passes over what has no ranking
        expected = evaluator.evaluate(run)[query]
        for theirs, ours in names.items():
            assert told[ours][query] == pytest.approx(expected[theirs])
        cut = {query: dict(list(run[query].items())[:10])}
        assert told["mrr@10"][query] == pytest.approx(first_ten.evaluate(cut)[query]["recip_rank"])
