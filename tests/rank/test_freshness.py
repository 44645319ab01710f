from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from qianxun.rank.freshness import moment_of, refreshed
from tests.rank.results import found

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def seconds(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-03-05", seconds(2024, 3, 5)),
        ("2024-03-05T08:30:00Z", seconds(2024, 3, 5, 8, 30)),
        ("2024-03-05T08:30:00+08:00", seconds(2024, 3, 5, 0, 30)),
        ("2024-03-05 08:30:00", seconds(2024, 3, 5, 8, 30)),
        ("2024/3/5", seconds(2024, 3, 5)),
        ("2024.3", seconds(2024, 3, 1)),
        ("2024年3月5日", seconds(2024, 3, 5)),
        ("2024年3月", seconds(2024, 3, 1)),
        ("2024年", seconds(2024, 1, 1)),
        ("2024", seconds(2024, 1, 1)),
        ("20240305", seconds(2024, 3, 5)),
        (2024, seconds(2024, 1, 1)),
        (20240305, seconds(2024, 3, 5)),
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000_000, 1_700_000_000.0),
        (1_700_000_000.5, 1_700_000_000.5),
        (("2020-01-01", "2024-03-05", "不详"), seconds(2024, 3, 5)),
        ("不详", None),
        ("", None),
        ("2024-13-45", None),
        ("9" * 64, None),
        ("2024-03-05" * 1000, None),
        (True, None),
        (math.nan, None),
        (math.inf, None),
        (-5, None),
        (3, None),
        (10**400, None),
        ((), None),
    ],
)
def test_dates_are_read_in_many_forms(value: Any, expected: float | None) -> None:
    assert moment_of({"日期": value}) == expected


def test_the_last_change_counts_and_an_unreadable_field_gives_way_to_the_next() -> None:
    assert moment_of({"created_at": "2020-01-01", "Updated_At": "2023-01-01"}) == seconds(2023, 1, 1)
    assert moment_of({"created_at": "2020-01-01", "updated_at": "昨天"}) == seconds(2020, 1, 1)
    assert moment_of({"作者": "2020-01-01"}) is None


def test_a_half_life_costs_half_of_the_weight_and_the_undated_lose_nothing() -> None:
    results = [
        found(1, 0.8, metadata={"date": "2024-01-01"}),
        found(2, 0.8, metadata={"date": "2023-12-22"}),
        found(3, 0.8, metadata={"date": "1999-01-01"}),
        found(4, 0.8, metadata={"date": "2030-01-01"}),
        found(5, 0.8),
    ]
    scores = [each.score for each in refreshed(results, weight=0.4, half_life_days=10.0, now=NOW)]
    assert scores == pytest.approx([0.8, 0.8 * (1 - 0.4 * 0.5), 0.8 * 0.6, 0.8, 0.8])
    assert refreshed(results, weight=0.0) == results


def test_without_now_ages_count_from_the_newest_result() -> None:
    results = [found(1, 0.8, metadata={"date": "2010-01-11"}), found(2, 0.8, metadata={"date": "2010-01-01"})]
    scores = [each.score for each in refreshed(results, weight=1.0, half_life_days=10.0)]
    assert scores == pytest.approx([0.8, 0.4])
    assert refreshed([found(1, 0.5)], weight=1.0) == [found(1, 0.5)]
