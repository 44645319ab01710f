"""Document 000, 5.3.2: grades may reorder and drop 一般, but only while enough examples remain for the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qianxun
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.records.database.open import sqlite_url
from tests.examples.libraries import FIRST_AXIS, Said, insert_rows, lying_at, opened


@pytest.fixture
def library(tmp_path: Path) -> Iterator[ExampleLibrary]:
    """Nineteen examples without a grade at .9, and one 优秀 at .71."""
    rows = [
        (Said(f"问题{number}", f"回答{number}", DEFAULT_TABLE_NAMES[number % 4]), lying_at(0.9)) for number in range(19)
    ]
    rows.append((Said("最好的问题", "最好的回答", DEFAULT_TABLE_NAMES[3], grade="优秀"), lying_at(0.71)))
    with opened(sqlite_url(tmp_path / "examples.db")) as library:
        insert_rows(library.store, rows)
        yield library


def test_one_excellent_example_does_not_replace_the_nearer_ones(library: ExampleLibrary) -> None:
    found = library.multi_table_search(FIRST_AXIS, list(DEFAULT_TABLE_NAMES), 5, 0.7)
    assert len(found) == 15
    assert found[-1]["quality_grade"] == "优秀"  # in the place of an ordinary one, by its similarity
    assert [row["similarity"] for row in found] == pytest.approx([0.9] * 14 + [0.71])


def test_search_with_fallback_gives_at_least_min_results_where_there_are_so_many(library: ExampleLibrary) -> None:
    for min_results in (5, 10, 15):
        found = library.search_with_fallback(FIRST_AXIS, list(DEFAULT_TABLE_NAMES), min_results=min_results)
        assert len(found) >= min_results


def quality_filter_of_the_document(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the document has it."""
    quality_scores = {"优秀": 3, "良好": 2, "一般": 1}
    if len(results) > 15:
        filtered = [r for r in results if quality_scores.get(r.get("quality_grade", "一般"), 1) >= 2]
        return filtered if filtered else results
    return results


def test_where_enough_good_ones_remain_it_is_the_filter_of_the_document() -> None:
    grades = ["优秀", "一般", "良好", None] * 10
    results = [
        {"content": f"例{n}", "similarity": 0.9, "metadata": {}, **({"quality_grade": grade} if grade else {})}
        for n, grade in enumerate(grades)
    ]
    assert qianxun.quality_filter(results) == quality_filter_of_the_document(results)
    assert qianxun.quality_filter(results[:15]) == quality_filter_of_the_document(results[:15])
