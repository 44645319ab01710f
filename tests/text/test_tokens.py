"""What a text costs, and what a budget holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.graph_types import Community, Entity, GraphContext, Relation
from qianxun.text.tokens import COUNTED, Budget, context_tokens, fitted, tokens, tokens_of_all


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("医保报销比例", 6),
        ("ＡＢＣ１２３", 6),  # full width: each a sign of its own
        ("insulin", 2),  # 7 letters
        ("1234567", 3),
        ("报销 80%。\n", 2 + 1 + 1 + 1 + 1),
        ("𠮷", 2),  # outside the basic plane
    ],
)
def test_what_a_text_costs(text: str, expected: int) -> None:
    assert tokens(text) == expected


@given(st.text(), st.text())
def test_two_texts_cost_no_more_together_than_apart(one: str, other: str) -> None:
    assert tokens(one + other) <= tokens(one) + tokens(other)
    assert tokens(one) <= 2 * len(one)


@given(st.lists(st.integers(0, 30)), st.integers(-5, 100), st.floats(0, 1))
def test_no_more_is_taken_than_there_is(prices: list[int], left: int, share: float) -> None:
    purse = Budget(left)
    taken = purse.take(prices, lambda price: price, share)
    assert sum(taken) <= max(left, 0) * share
    assert purse.left == left - sum(taken)


def test_a_large_one_is_passed_over_for_small_ones() -> None:
    assert Budget(10).take([4, 9, 5, 1, 1], lambda price: price) == [4, 5, 1]


def test_what_a_context_keeps_is_the_beginning_of_its_lists_and_relations_keep_their_ends() -> None:
    entities = tuple(Entity(f"e{at}", "糖尿病", "DISEASE") for at in range(6))
    relations = tuple(Relation("e0", f"e{at}", "相关", 1.0) for at in range(1, 6))
    whole = GraphContext(entities, relations, (Community("c", (), "病", "糖尿病是慢性病。", (), "extractive"),))
    assert fitted(whole, 10_000) == whole
    assert fitted(whole, 0) == GraphContext()
    for budget in range(0, context_tokens(whole), 5):
        kept = fitted(whole, budget)
        assert context_tokens(kept) <= budget
        assert kept.entities == entities[: len(kept.entities)]
        assert {each.target for each in kept.relations} <= {each.id for each in kept.entities}


def test_many_texts_are_counted_as_each_is_and_beyond_a_bound_by_their_length() -> None:
    few = ["住院 85%", "", "hello\nworld"]
    assert tokens_of_all(few) == sum(map(tokens, few))
    assert tokens_of_all([]) == tokens_of_all(["", ""]) == 0
    assert tokens_of_all(["长" * COUNTED, "长" * 7, "长" * COUNTED]) == 2 * COUNTED + 7
    assert tokens_of_all(["abcd" * COUNTED]) == COUNTED
