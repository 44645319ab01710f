"""Values and parameters go to JSON and come back as they were; equal answers have equal digests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from qianxun.core.codec.digests import digest
from qianxun.core.codec.options import choices_from, params_of
from qianxun.core.codec.plain import plain, read
from qianxun.core.codec.wire import read_recall, written_recall
from qianxun.core.filters import filter_from_log, filter_to_log
from qianxun.core.option_fields import choices_of
from qianxun.core.options import AskChoices, AskOptions, SearchChoices, SearchOptions
from qianxun.core.types import Eq, Filter, Generation, Range, Recall, StepTime
from tests.hypothesis_settings import examples
from tests.retrieve.recalls import answer, filters, recalls

WHOLE = answer(
    "住院",
    "住院报销八成",
    seconds=0.5,
    trace_id="t1",
    steps=(StepTime("fuse", 0.1, 9),),
    generation=Generation(7, 7, "m", "1"),
)


@examples(150)
@given(recalls)
def test_a_recall_comes_back_as_it_was(recall: Recall) -> None:
    again = read(Recall, json.loads(json.dumps(plain(recall), ensure_ascii=False)))
    assert again == recall
    assert repr(again) == repr(recall)  # 1 is not 1.0, -0.0 is not 0.0, order included
    assert digest(again) == digest(recall)


@examples(150)
@given(recalls)
def test_a_recall_is_sent_without_its_keys_and_times_of_this_process(recall: Recall) -> None:
    again = read_recall(json.loads(json.dumps(written_recall(7, recall), ensure_ascii=False)))
    keyless = [replace(hit, chunk=replace(hit.chunk, key=0)) for hit in again.found]
    assert again == replace(again, results=tuple(keyless))
    assert read_recall(json.loads(json.dumps(written_recall(7, again), ensure_ascii=False))) == again


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
    assert digest(replace(WHOLE, **change)) == digest(WHOLE)
    assert plain(replace(WHOLE, **change)) != plain(WHOLE)


@pytest.mark.parametrize(
    "other",
    [
        replace(WHOLE, query="住院 "),
        replace(WHOLE, results=()),
        replace(WHOLE, results=(replace(WHOLE.found[0], score=1.0 - 2**-53),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], tier="fuzzy"),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], rerank=None if WHOLE.found[0].rerank else 0.0),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], matched=("另一个词",)),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], arms={}),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], coverage=0.123),)),
        replace(WHOLE, results=(replace(WHOLE.found[0], chunk=replace(WHOLE.found[0].chunk, key=77)),)),
        replace(WHOLE, results=(*WHOLE.found, WHOLE.found[0])),
        replace(WHOLE, steps=(StepTime("fuse", 0.1, 8),)),
    ],
)
def test_another_answer_has_another_digest(other: Recall) -> None:
    assert digest(other) != digest(WHOLE)


def test_the_order_of_a_mapping_is_kept_whole_and_left_out_of_the_answer() -> None:
    hit = WHOLE.found[0]
    score = hit.arms["keyword"]
    one = replace(WHOLE, results=(replace(hit, arms={"vector": score, "keyword": score}),))
    two = replace(WHOLE, results=(replace(hit, arms={"keyword": score, "vector": score}),))
    assert list(read(Recall, plain(one)).found[0].arms) == ["vector", "keyword"]
    assert digest(one) == digest(two)


def test_what_is_missing_is_named_and_what_is_not_known_is_passed_over() -> None:
    written = plain(WHOLE)
    assert read(Recall, {**written, "mood": 1}) == WHOLE
    with pytest.raises(TypeError, match="query"):
        read(Recall, {name: value for name, value in written.items() if name != "query"})
    sent = written_recall(7, WHOLE)
    with pytest.raises(KeyError, match="steps"):
        read_recall({name: value for name, value in sent.items() if name != "steps"})


@examples(150)
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
        "as_of": "",
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
