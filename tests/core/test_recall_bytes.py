"""Answers and parameters go to bytes and come back as they were; equal answers are equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qianxun.core.codec.recall_bytes import answer_bytes, digest, from_bytes, to_bytes
from qianxun.core.filters import filter_from_log, filter_to_log
from qianxun.core.options import (
    AskChoices,
    AskOptions,
    SearchChoices,
    SearchOptions,
    choices_from,
    choices_of,
    params_of,
)
from qianxun.core.types import Eq, Filter, Generation, Range, Recall, StepTime
from tests.retrieve.recalls import answer, filters, recalls

WHOLE = answer(
    "住院",
    "住院报销八成",
    seconds=0.5,
    trace_id="t1",
    steps=(StepTime("fuse", 0.1, 9),),
    generation=Generation(7, 7, "m", "1"),
)


@settings(max_examples=150, deadline=None)
@given(recalls)
def test_a_recall_comes_back_as_it_was(recall: Recall) -> None:
    again = from_bytes(to_bytes(recall))
    assert again == recall
    assert repr(again) == repr(recall)  # 1 is not 1.0, -0.0 is not 0.0, order included
    assert answer_bytes(again) == answer_bytes(recall)


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": 9.0},
        {"trace_id": "t2"},
        {"from_cache": True},
        {"steps": (StepTime("fuse", 9.9, 9),)},
        {"generation": Generation(8, 8, "m", "1")},
    ],
)
def test_what_belongs_to_the_run_is_not_the_answer(change: dict[str, Any]) -> None:
    assert answer_bytes(replace(WHOLE, **change)) == answer_bytes(WHOLE)
    assert to_bytes(replace(WHOLE, **change)) != to_bytes(WHOLE)


@pytest.mark.parametrize(
    "other",
    [
        replace(WHOLE, query="住院 "),
        replace(WHOLE, found=()),
        replace(WHOLE, found=(replace(WHOLE.found[0], score=1.0 - 2**-53),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], tier="fuzzy"),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], rerank=None if WHOLE.found[0].rerank else 0.0),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], matched=("另一个词",)),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], arms={}),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], coverage=0.123),)),
        replace(WHOLE, found=(replace(WHOLE.found[0], chunk=replace(WHOLE.found[0].chunk, key=77)),)),
        replace(WHOLE, found=(*WHOLE.found, WHOLE.found[0])),
        replace(WHOLE, steps=(StepTime("fuse", 0.1, 8),)),
    ],
)
def test_another_answer_has_another_digest(other: Recall) -> None:
    assert digest(other) != digest(WHOLE)


def test_the_order_of_a_mapping_is_kept_whole_and_left_out_of_the_answer() -> None:
    hit = WHOLE.found[0]
    score = hit.arms["keyword"]
    one = replace(WHOLE, found=(replace(hit, arms={"vector": score, "keyword": score}),))
    two = replace(WHOLE, found=(replace(hit, arms={"keyword": score, "vector": score}),))
    assert list(from_bytes(to_bytes(one)).found[0].arms) == ["vector", "keyword"]
    assert answer_bytes(one) == answer_bytes(two)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=40)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_what_is_no_recall_is_refused(written: bytes) -> None:
    with pytest.raises(ValueError, match="not a recall"):
        from_bytes(written)


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_damaged_recall_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="not a recall"):
        from_bytes(to_bytes(WHOLE)[:-cut])


def test_a_recall_of_another_shape_is_refused() -> None:
    told = json.loads(to_bytes(WHOLE))
    for changed in ({**told, "mood": 1}, {key: value for key, value in told.items() if key != "steps"}, [told]):
        with pytest.raises(ValueError, match="not a recall"):
            from_bytes(json.dumps(changed).encode())


@settings(max_examples=150, deadline=None)
@given(filters)
def test_a_filter_comes_back_as_it_was(where: Filter) -> None:
    written = json.loads(json.dumps(filter_to_log(where), ensure_ascii=False))
    assert repr(filter_from_log(written)) == repr(where)


def test_parameters_become_the_arguments_of_the_same_search() -> None:
    where = Range("metadata.年份", ge=2020, lt=2024.5)
    chosen = {"where": where, "doc_ids": ("甲",), "weights": {"vector": 0.7}, "top_k": 3}
    params = json.loads(json.dumps(params_of(SearchOptions(**chosen))))
    assert params["arm_seconds"] == 10.0  # logged, though no caller can choose it
    assert choices_from(SearchOptions, params) == {
        **chosen,
        "mode": "hybrid",
        "threshold": 0.0,
        "fusion": "weighted",
        "rerank": "",
        "fuzzy": True,
    }
    older = {name: value for name, value in params.items() if name in ("top_k", "where")}
    assert choices_from(SearchOptions, older) == {"top_k": 3, "where": where}


def test_a_parameter_without_a_plain_form_is_refused() -> None:
    with pytest.raises(TypeError):
        params_of(SearchOptions(mode=object()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "choices"),
    [(SearchOptions, SearchChoices), (AskOptions, AskChoices)],
)
def test_every_option_can_be_chosen_by_a_keyword(options: type, choices: type) -> None:
    assert tuple(choices_of(options)) == tuple(choices.__annotations__)


def test_a_filter_nobody_wrote_is_refused() -> None:
    with pytest.raises(KeyError):
        filter_from_log({"op": "sql", "field": "1=1"})
    assert filter_to_log(Eq("tags", True)) == {"op": "eq", "field": "tags", "value": True}
