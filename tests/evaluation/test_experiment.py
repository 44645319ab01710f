from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from qianxun.evaluation.experiment import compare, randomisation_test, run

QUERIES = {"q1": "住院能报多少", "q2": "住宿标准"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}}


def asked(answers: dict[str, Sequence[str]], name: str = "x"):  # type: ignore[no-untyped-def]
    async def search(text: str) -> Sequence[str]:
        return answers[text]

    return asyncio.run(run(name, QUERIES, QRELS, search))


def test_every_query_is_asked_by_its_text_and_measured() -> None:
    told = asked({"住院能报多少": ["d1", "d2"], "住宿标准": ["d1", "d2"]})
    assert told.per_query["mrr@10"] == {"q1": 1.0, "q2": 0.5}
    assert told.mean_scores["mrr@10"] == 0.75
    assert 0.0 < told.p50_ms <= told.p95_ms


def test_a_document_counts_where_its_best_chunk_stands() -> None:
    told = asked({"住院能报多少": ["d2", "d2", "d1", "d1"], "住宿标准": []})
    assert told.per_query["mrr@10"] == {"q1": 0.5, "q2": 0.0}


def test_progress_is_told_query_by_query() -> None:
    steps: list[int] = []

    async def search(_: str) -> Sequence[str]:
        return ["d1"]

    asyncio.run(run("x", QUERIES, QRELS, search, steps.append))
    assert steps == [1, 1]


def test_a_comparison_shows_the_queries_that_moved_most() -> None:
    first = asked({"住院能报多少": ["d2", "d1"], "住宿标准": ["d2"]}, "甲")
    second = asked({"住院能报多少": ["d1"], "住宿标准": ["d2"]}, "乙")
    told = compare(first, second, QUERIES, "mrr@10")
    assert (told.names, told.mean_scores, told.difference, told.queries) == (("甲", "乙"), (0.75, 1.0), 0.25, 2)
    assert [(each.query, each.text, each.before, each.after) for each in told.moved] == [
        ("q1", "住院能报多少", 0.5, 1.0)
    ]
    assert told.p_value == 1.0  # one difference: both signs are as far from zero
    assert not told.is_significant


def test_few_differences_are_tried_with_every_sign() -> None:
    # All of five agree: only +++++ and ----- are as far from zero as that, of 2^5.
    assert randomisation_test(np.array([0.1, 0.2, 0.3, 0.4, 0.5])) == pytest.approx(2 / 2**5)
    # .3 - .1: every sign but +.1 +.3 and -.1 -.3 … which are farther; all four are at least as far.
    assert randomisation_test(np.array([0.3, -0.1])) == 1.0


def test_queries_that_did_not_move_do_not_count() -> None:
    moved = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    assert randomisation_test(np.concatenate([moved, np.zeros(1000)])) == randomisation_test(moved)
    assert randomisation_test(np.zeros(10)) == randomisation_test(np.zeros(0)) == 1.0


def test_the_sampled_test_agrees_with_the_exact_one() -> None:
    # Fourteen equal differences of which three point the other way: 2 · P(Bin(14, ½) ≤ 3) = 2 · 470 / 2^14.
    differences = np.array([0.25] * 11 + [-0.25] * 3)
    assert randomisation_test(differences) == pytest.approx(2 * 470 / 2**14, abs=0.006)


def test_the_same_differences_give_the_same_p_value() -> None:
    differences = np.random.default_rng(1).normal(0.02, 0.3, 300)
    assert randomisation_test(differences) == randomisation_test(differences)


def test_chance_alone_is_rarely_called_significant() -> None:
    random = np.random.default_rng(7)
    called = [randomisation_test(random.normal(0.0, 0.3, 40), rounds=400) < 0.05 for _ in range(200)]
    assert np.mean(called) < 0.11  # expected .05; four standard deviations are .06


def test_a_clear_gain_is_significant_over_thousands_of_queries() -> None:
    differences = np.random.default_rng(3).normal(0.05, 0.3, 14_000)
    assert randomisation_test(differences, rounds=999) == pytest.approx(1 / 1000)
