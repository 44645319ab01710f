"""A graph's context: by importance, with direction, within its budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import CO_OCCURRENCE, Community, Entity, GraphContext, Relation
from qianxun.graph.context import ranked_context
from qianxun.text.tokens import context_tokens
from tests.hypothesis_settings import examples

DIABETES = Entity("e1", "糖尿病", "DISEASE", importance=0.8)
INSULIN = Entity("e2", "胰岛素", "MEDICINE", importance=0.3)
CITY = Entity("e3", "北京", "PLACE", importance=1.0)
TREATS = Relation("e2", "e1", "TREATS", 1.0)


def test_the_form_that_is_handed_out() -> None:
    told = ranked_context([INSULIN, DIABETES], [TREATS]).as_dict()
    assert told == {
        "entities": [
            {"id": "e1", "name": "糖尿病", "type": "DISEASE"},
            {"id": "e2", "name": "胰岛素", "type": "MEDICINE"},
        ],
        "relationships": [{"source": "e2", "target": "e1", "type": "TREATS"}],
    }


def test_relevance_comes_before_centrality_and_centrality_decides_between_equals() -> None:
    told = ranked_context([DIABETES, INSULIN, CITY], relevance={"e1": 0.9, "e2": 0.9, "e3": 0.3})
    assert [each.id for each in told.entities] == ["e1", "e2", "e3"]
    assert [each.id for each in ranked_context([DIABETES, INSULIN, CITY]).entities] == ["e3", "e1", "e2"]


def test_relations_keep_their_direction_and_stated_ones_come_first() -> None:
    near, back = Relation("e1", "e2", CO_OCCURRENCE, 1.0), Relation("e1", "e2", "需要", 0.5)
    told = ranked_context([DIABETES, INSULIN], [near, back, TREATS, TREATS])
    assert told.relations == (TREATS, back, near)


def test_a_relation_to_something_that_is_not_told_is_not_told() -> None:
    told = ranked_context([DIABETES], [TREATS])
    assert told.relations == ()


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(BadInput, match="预算"):
        ranked_context([DIABETES], budget=-1)


names = st.text(st.sampled_from("糖尿病胰岛素 abc123，"), min_size=1, max_size=12)
entities = st.lists(
    st.builds(Entity, st.sampled_from("abcdefgh"), names, names, importance=st.floats(0, 1)), max_size=8
)
ends = st.sampled_from("abcdefghij")
relations = st.lists(st.builds(Relation, ends, ends, names, st.floats(0, 9)), max_size=12)
communities = st.lists(
    st.builds(Community, names, st.just(()), names, names, st.just(()), st.just("extractive")), max_size=4
)


@given(entities, relations, communities, st.integers(0, 300))
@examples(150)
def test_a_budget_is_never_exceeded_and_order_of_input_does_not_matter(
    some: list[Entity], between: list[Relation], groups: list[Community], budget: int
) -> None:
    once = list({each.id: each for each in some}.values())
    told = ranked_context(once, between, communities=groups, budget=budget)
    assert context_tokens(told) <= budget
    here = {each.id for each in told.entities}
    assert all({each.source, each.target} <= here for each in told.relations)
    assert len(here) == len(told.entities)
    apart = list({(each.source, each.target, each.type): each for each in between}.values())
    again = ranked_context(once[::-1], apart[::-1], communities=groups, budget=budget)
    assert again == ranked_context(once, apart, communities=groups, budget=budget)


def test_room_that_is_there_is_used() -> None:
    whole = GraphContext((DIABETES, INSULIN), (TREATS,))
    budget = context_tokens(whole)
    assert ranked_context([INSULIN, DIABETES], [TREATS], budget=2 * budget) == whole
    assert len(ranked_context([INSULIN, DIABETES], budget=budget).entities) == 2
