"""At 10,000 examples: the index is used, and finds nearly all of what comparing everything would find.

Short vectors keep it quick; `python -m benchmarks.examples` measures the same with real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from qianxun.core.types import Vectors
from qianxun.examples.library import ExampleLibrary
from qianxun.examples.pgvector import filter_parameters, nearest_statement, settings_statement
from qianxun.examples.results import ExampleFilter
from qianxun.examples.schema import vector_text
from qianxun.testing.scripted import HashEmbedding
from tests.examples.libraries import clustered, opened
from tests.servers.postgres import create_database, drop_database

ROWS = 10_000
DIMENSION = 48
RARE = ExampleFilter(tags=("少见",))
TABLE = "gd2502_qa_examples"


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return clustered(ROWS, DIMENSION, 200, seed=3)


@pytest.fixture(scope="module")
def questions() -> Vectors:
    """Around the same centres as the examples."""
    return clustered(60, DIMENSION, 200, seed=3)


@pytest.fixture(scope="module")
def library(postgres_maintenance_url: str, vectors: Vectors) -> Iterator[ExampleLibrary]:
    """Filled as a large import would be: copied in, the index made last."""
    url = create_database(postgres_maintenance_url)
    with opened(url, HashEmbedding(DIMENSION)) as library:
        library.store.prepare()
        with library.store.engine.begin() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            (index,) = connection.execute(
                text("SELECT indexdef FROM pg_indexes WHERE indexname = :name"), {"name": f"{TABLE}_embedding_idx"}
            ).scalars()
            connection.execute(text(f"DROP INDEX {TABLE}_embedding_idx"))
            _copy(connection.connection, vectors)
            connection.execute(text(index))
            connection.execute(text(f"ANALYZE {TABLE}"))
        yield library
    drop_database(postgres_maintenance_url, url)


def _copy(connection: Any, vectors: Vectors) -> None:
    columns = "user_input, agent_response, tags, quality_grade, embedding"
    with connection.cursor() as cursor, cursor.copy(f"COPY {TABLE} ({columns}) FROM STDIN") as copied:
        for number, vector in enumerate(vectors):
            tags = ["常见", "少见"] if number % 100 == 0 else ["常见"]
            copied.write_row((str(number), "答", tags, "良好", vector_text(vector)))


def recall(library: ExampleLibrary, vectors: Vectors, questions: Vectors, where: ExampleFilter, step: int) -> float:
    here = np.arange(0, ROWS, step)
    shares = []
    for question in questions:
        exact = set(here[np.argsort(-(vectors[here] @ question))[:15]].tolist())
        found = library.search_in_table("qa_examples", question, 15, -1.0, where=where)
        shares.append(len(exact & {int(row["user_input"]) for row in found}) / 15)
    return float(np.mean(shares))


def explained(library: ExampleLibrary, question: Any, where: ExampleFilter, *settings: str) -> str:
    statement = nearest_statement(library.store.tables["qa_examples"], where)
    values = {"query": vector_text(question), "most": 15, "least": 0.5, **filter_parameters(where)}
    with library.store.engine.begin() as connection:
        for setting in settings:
            connection.exec_driver_sql(setting)
        return "\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}", values))


def test_the_index_is_used_and_the_threshold_stands_outside_its_scan(
    library: ExampleLibrary, questions: Vectors
) -> None:
    for settings in ((settings_statement(),), ()):  # as we ask, and as anybody would
        plan = explained(library, questions[0], ExampleFilter(), *settings)
        assert f"Index Scan using {TABLE}_embedding_idx" in plan
        scan, _, outside = plan.partition("CTE Scan on nearest")
        assert "Filter" not in scan
        assert "Filter: (('1'::double precision - distance) >=" in outside


def test_the_true_nearest_are_found(library: ExampleLibrary, vectors: Vectors, questions: Vectors) -> None:
    assert recall(library, vectors, questions, ExampleFilter(), 1) >= 0.98


def test_the_true_nearest_are_found_under_a_filter_that_one_in_a_hundred_passes(
    library: ExampleLibrary, vectors: Vectors, questions: Vectors
) -> None:
    assert recall(library, vectors, questions, RARE, 100) >= 0.98


def test_a_filtered_walk_through_the_index_reads_on_until_enough_pass(
    library: ExampleLibrary, vectors: Vectors, questions: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the planner prefers the index even so, which a larger table would have it do."""
    walking = settings_statement() + ", set_config('enable_seqscan', 'off', true)"
    monkeypatch.setattr("qianxun.examples.pgvector.settings_statement", lambda *_, **__: walking)
    assert f"Index Scan using {TABLE}_embedding_idx" in explained(library, questions[0], RARE, walking)
    assert recall(library, vectors, questions, RARE, 100) >= 0.98


def test_a_threshold_costs_no_walk_through_the_whole_index(library: ExampleLibrary, questions: Vectors) -> None:
    """A threshold that nothing passes: with it beside the LIMIT the scan would go on and on."""
    statement = nearest_statement(library.store.tables["qa_examples"])
    values = {"query": vector_text(questions[0]), "most": 15, "least": 1.1}
    with library.store.engine.begin() as connection:
        connection.exec_driver_sql(settings_statement())
        explaining = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}"
        plan = connection.exec_driver_sql(explaining, values).scalar_one()[0]["Plan"]
    assert plan["Actual Rows"] == 0
    (limited,) = (each for each in plan["Plans"] if each.get("Subplan Name") == "CTE nearest")
    assert limited["Actual Rows"] == 15
    assert limited["Plans"][0]["Actual Rows"] == 15


def test_the_settings_of_a_search_end_with_it(library: ExampleLibrary, questions: Vectors) -> None:
    asked = text("SELECT current_setting('hnsw.ef_search', true), current_setting('random_page_cost')")
    for _ in range(12):
        library.search_in_table("qa_examples", questions[0], 15, 0.0)
    for _ in range(12):  # whichever connection it was
        with library.store.engine.begin() as connection:
            width, cost = connection.execute(asked).one()
        assert width in ("40", "", None)
        assert cost == "4"
