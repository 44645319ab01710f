"""RelationColumns are sorted columns, however large the numbers are that they are made of."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from qianxun.graph.network.relations import CO_OCCURRENCE_TYPE, co_occurrences, distinct, relation_columns
from tests.hypothesis_settings import examples

_SMALL = st.integers(0, 4)
_ANY = st.integers(0, 2**40)  # three of these do not fit into one number


@examples(200)
@given(st.lists(st.tuples(_ANY | _SMALL, _SMALL | _ANY, _ANY | _SMALL), max_size=30))
def test_distinct_rows_are_those_that_a_set_has_in_order(rows: list[tuple[int, int, int]]) -> None:
    found = distinct(np.array(rows, dtype=np.int64).reshape(-1, 3))
    assert [tuple(row) for row in found.tolist()] == sorted(set(rows))


_MENTIONS = st.lists(st.tuples(_SMALL, _SMALL, st.integers(0, 20)), max_size=30).map(sorted)
_STATED = st.lists(st.tuples(_SMALL, _SMALL, st.integers(1, 3), _SMALL, _SMALL, _SMALL), max_size=10)


@examples(200)
@given(_MENTIONS, _STATED)
def test_ties_and_their_evidence_are_in_order_whatever_came_first(
    mentions: list[tuple[int, int, int]], stated: list[tuple[int, ...]]
) -> None:
    sentences = np.array([(chunk, start, start + 7) for chunk in range(5) for start in (0, 7, 14)], dtype=np.int64)
    together = co_occurrences(np.array(mentions, dtype=np.int64).reshape(-1, 3), sentences)
    ties = relation_columns(np.array(stated, dtype=np.int64).reshape(-1, 6), together)
    ends = list(zip(ties.source.tolist(), ties.target.tolist(), ties.type.tolist(), strict=True))
    rows = [(*end, *place) for at, end in enumerate(ends) for place in ties.evidence_of(at).tolist()]
    known = {frozenset(row[:2]) for row in stated}
    beside = [tuple(row) for row in together.tolist() if frozenset(row[:2]) not in known]
    assert ends == sorted(set(ends))
    assert rows == sorted([*stated, *beside])
    assert all(row[2] == CO_OCCURRENCE_TYPE for row in beside)
