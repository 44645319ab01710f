"""The ladders as data, and how one is climbed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from qianxun.core.errors import BadQuery, RetrieverUnavailable
from qianxun.engine.settings import TableEngine, TextEngine
from qianxun.retrieve.layered.ladder import (
    ALWAYS,
    Admission,
    Ladder,
    LadderResult,
    Layer,
    Step,
    run_ladder,
    table_ladder,
    text_ladder,
)

LADDER = Ladder((Layer(1, "a", ALWAYS, 0.7), Layer(2, "b", 0.8, 0.5), Layer(3, "c", 0.7, 0.4)), cap=30)


def giving(*scored: tuple[int, float]) -> Step:
    async def step(layer: Layer) -> Mapping[int, Admission]:
        return {id_: Admission(score, {layer.strategy: score}) for id_, score in scored}

    return step


def failing(error: Exception) -> Step:
    async def step(layer: Layer) -> Mapping[int, Admission]:
        raise error

    return step


def climbed(target: int, a: Step, b: Step | None = None, c: Step | None = None) -> LadderResult:
    nothing = giving()
    return asyncio.run(run_ladder(LADDER, {"a": a, "b": b or nothing, "c": c or nothing}, target))


def test_the_ladders_are_those_of_the_requirement() -> None:
    assert [(each.strategy, each.below, each.threshold) for each in text_ladder(TextEngine()).layers] == [
        ("vector", ALWAYS, 0.7),
        ("keyword", 0.8, 0.5),
        ("expansion", 0.7, 0.4),
    ]
    assert [(each.strategy, each.below, each.threshold) for each in table_ladder(TableEngine()).layers] == [
        ("structure", ALWAYS, 0.65),
        ("semantic", 0.8, 0.4),
        ("keyword", 0.7, 0.5),
        ("expansion", 0.6, 0.4),
    ]
    assert (text_ladder(TextEngine()).cap, table_ladder(TableEngine()).cap) == (30, 15)
    assert [text_ladder(TextEngine()).target(top_k) for top_k in (None, 5, 50)] == [30, 5, 30]
    assert not text_ladder(TextEngine(use_keyword_search=False)).layers[1].is_on
    assert not table_ladder(TableEngine(use_semantic_search=False)).layers[1].is_on


@pytest.mark.parametrize(
    ("held", "runs"), [(8, [True, False, False]), (7, [True, True, False]), (6, [True, True, True])]
)
def test_a_layer_begins_while_those_before_it_gave_too_little(held: int, runs: list[bool]) -> None:
    """80 % of ten for the second, 70 % for the third."""
    found = climbed(10, giving(*((id_, 0.9) for id_ in range(held))))
    assert [run.ran for run in found.runs] == runs
    assert all(run.reason for run in found.runs if not run.ran)


def test_the_best_layer_is_kept_and_the_best_score() -> None:
    found = climbed(10, giving((1, 0.5)), giving((1, 0.8), (2, 0.8)))
    assert [(id_, held.layer.number, held.score) for id_, held in found.best(10)] == [(1, 1, 0.8), (2, 2, 0.8)]
    assert found.admitted[1].details == {"a": 0.5, "b": 0.8}
    assert [(run.count, run.best) for run in found.runs] == [(1, 0.5), (1, 0.8), (0, 0.0)]


def test_the_score_orders_whatever_layer_it_was_and_ties_go_by_id() -> None:
    found = climbed(10, giving((5, 0.7), (3, 0.7)), giving((9, 0.95)))
    assert [id_ for id_, _ in found.best(10)] == [9, 3, 5]
    assert [id_ for id_, _ in found.best(2)] == [9, 3]


def test_a_failing_layer_gives_way_to_the_next_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = climbed(
            10, failing(RetrieverUnavailable("模型停了")), giving((1, 0.6)), failing(ValueError("词典坏了"))
        )
    assert list(found.admitted) == [1]
    assert [(each.part, each.reason) for each in found.degraded] == [
        ("a", "模型停了"),
        ("c", "出错：ValueError: 词典坏了"),
    ]
    assert found.runs[0].ran
    assert found.runs[0].reason == "模型停了"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_all_failing_is_an_empty_list_that_says_why() -> None:
    broken = failing(RetrieverUnavailable("停了"))
    found = climbed(10, broken, broken, broken)
    assert found.best(10) == []
    assert [each.part for each in found.degraded] == ["a", "b", "c"]


def test_the_requests_own_fault_is_told_to_it() -> None:
    with pytest.raises(BadQuery):
        climbed(10, failing(BadQuery("空的")))
