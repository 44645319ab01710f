"""What a library holds, counted; and a change of its model."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from sqlalchemy import text

from qianxun.core.errors import BadInput, BadSettings, ModelUnavailable, NotFound
from qianxun.examples import statistics
from qianxun.examples.importing import import_file
from qianxun.examples.insert import reembed, remove
from qianxun.examples.statistics import is_empty, library_statistics, near_pairs
from qianxun.examples.store import ExampleStore, Stamp
from qianxun.records.database.open import connect
from qianxun.testing.scripted import HashEmbedding
from tests.examples.conftest import Write, stored
from tests.examples.libraries import FIRST_AXIS, MODEL, Said, fill, insert_rows, lying_at
from tests.examples.test_import import Failing


def test_grades_and_tags_are_counted_by_category(store: ExampleStore) -> None:
    fill(store)
    found = library_statistics(store)
    questions = found.tables["qa_examples"]
    assert (found.count, questions.count) == (10, 4)
    assert questions.grades == {"优秀": 1, "良好": 1, "一般": 2}  # one of them nobody has graded
    assert list(questions.tags.items()) == [("饮食", 3), ("高血压", 2), ("糖尿病", 1), ("症状", 1)]
    assert (questions.tagged, questions.coverage) == (4, 1.0)
    assert found.stamp == Stamp("fake-64", 64)


def test_coverage_is_the_share_of_examples_with_a_tag(store: ExampleStore) -> None:
    fill(store, [Said("一", "答", tags=("a",)), Said("二", "答"), Said("三", "答"), Said("四", "答")])
    found = library_statistics(store).tables
    assert found["qa_examples"].coverage == 1 / 4
    assert (found["greeting_examples"].count, found["greeting_examples"].coverage) == (0, 0.0)


def test_near_duplicates_are_shown_in_pairs_across_categories(store: ExampleStore) -> None:
    rows = [
        (Said("一", "答"), FIRST_AXIS),
        (Said("二", "答"), lying_at(0.96)),
        (Said("三", "答", "query_examples"), lying_at(0.99)),
        (Said("四", "答"), lying_at(0.5)),
    ]
    insert_rows(store, rows)
    found = library_statistics(store, near=0.95)
    told = [(round(pair.similarity, 2), {pair.first.user_input, pair.second.user_input}) for pair in found.pairs]
    between = 0.96 * 0.99 + np.sqrt((1 - 0.96**2) * (1 - 0.99**2))
    assert told == [(0.99, {"一", "三"}), (round(between, 2), {"二", "三"}), (0.96, {"一", "二"})]
    assert (found.pair_count, found.compared) == (3, 4)
    assert {pair.second.source for pair in found.pairs[:2]} == {"query_examples"}


def test_pairs_are_the_same_as_counted_one_by_one() -> None:
    vectors = np.random.default_rng(3).normal(size=(2500, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs, count = near_pairs(vectors, 0.98, most=40)
    cosines = vectors @ vectors.T
    exact = sorted(
        ((min(1.0, float(cosines[a, b])), a, b) for a, b in combinations(range(2500), 2) if cosines[a, b] >= 0.98),
        reverse=True,
    )
    assert count == len(exact) > 40
    assert [pair[0] for pair in pairs] == pytest.approx([pair[0] for pair in exact[:40]], abs=1e-6)
    assert {(a, b) for _, a, b in pairs[:20]} <= {(a, b) for _, a, b in exact[:60]}
    assert all(a < b for _, a, b in pairs)


def test_a_library_that_says_one_thing_over_and_over_is_counted_whole() -> None:
    pairs, count = near_pairs(np.tile(FIRST_AXIS, (4000, 1)), 0.95)  # one by one they take a minute
    assert count == 4000 * 3999 // 2
    assert {pair[0] for pair in pairs} == {1.0}
    assert len(pairs) == 50


def test_only_the_newest_of_a_large_library_are_compared(store: ExampleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_COMPARED", 8)  # two of each category
    insert_rows(store, [(Said(f"第{number}个", "答"), FIRST_AXIS) for number in range(5)])
    found = library_statistics(store)
    assert (found.count, found.compared, found.pair_count) == (5, 2, 1)
    assert {found.pairs[0].first.user_input, found.pairs[0].second.user_input} == {"第3个", "第4个"}


def test_no_model_is_needed_to_count(store: ExampleStore) -> None:
    fill(store)
    assert library_statistics(ExampleStore(store.engine, "gd2502_", None)).count == 10
    assert library_statistics(ExampleStore(store.engine, "gd2502_", HashEmbedding(8))).count == 10  # of another model


def test_where_there_is_no_library_it_says_how_to_make_one(store: ExampleStore) -> None:
    with pytest.raises(NotFound, match="examples import"):
        library_statistics(store)
    with pytest.raises(BadInput, match="0 与 1 之间"):
        library_statistics(store, near=1.5)


# ── another model ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("model", [HashEmbedding(64, "新模型"), HashEmbedding(96, "新模型"), HashEmbedding(16)])
def test_every_example_changes_over_to_the_new_model(store: ExampleStore, model: HashEmbedding) -> None:
    fill(store)
    before = [row[:5] for row in stored(store)]
    new = ExampleStore(store.engine, "gd2502_", model)
    with pytest.raises(BadSettings):
        new.prepare()
    assert reembed(new) == 10
    new.prepare()
    rows = stored(new)
    assert [row[:5] for row in rows] == before
    expected = model.embed_passages([f"{row.user_input} {row.agent_response}" for row in rows])
    assert np.allclose([row.embedding for row in rows], expected, atol=1e-6)
    with pytest.raises(BadSettings, match=model.name):
        ExampleStore(store.engine, "gd2502_", MODEL).prepare()


def test_after_the_change_the_column_and_the_index_fit_the_new_model(postgres_url: str) -> None:
    engine = connect(postgres_url)
    fill(ExampleStore(engine, "gd2502_", MODEL))
    reembed(ExampleStore(engine, "gd2502_", HashEmbedding(96)))
    with engine.connect() as connection:
        kept = connection.execute(
            text(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 'gd2502_query_examples'::regclass AND attname = 'embedding'"
            )
        ).scalar()
        index = connection.execute(
            text("SELECT indexdef FROM pg_indexes WHERE indexname = 'gd2502_query_examples_embedding_idx'")
        ).scalar()
    engine.dispose()
    assert kept == "vector(96)"
    assert "USING hnsw (embedding vector_cosine_ops)" in str(index)


def test_a_model_that_fails_leaves_the_library_with_its_old_one(store: ExampleStore) -> None:
    fill(store)
    failing = Failing(0, ModelUnavailable("断线"))
    failing._name = "新模型"
    with pytest.raises(ModelUnavailable):
        reembed(ExampleStore(store.engine, "gd2502_", failing))
    ExampleStore(store.engine, "gd2502_", MODEL).prepare()
    assert len(stored(store)) == 4


def test_an_example_added_while_the_vectors_were_made_changes_over_too(store: ExampleStore, workbook: Write) -> None:
    fill(store)
    path = workbook({"qa_examples": [("后来的", "答")]})

    def add_meanwhile(done: int, _total: int) -> None:
        import_file(path, ExampleStore(store.engine, "gd2502_", MODEL))

    new = ExampleStore(store.engine, "gd2502_", HashEmbedding(32))
    assert reembed(new, add_meanwhile) == 11
    assert {row.embedding.shape for row in stored(new)} == {(32,)}


def test_an_empty_library_changes_over_at_once(store: ExampleStore, workbook: Write) -> None:
    store.prepare()
    new = ExampleStore(store.engine, "gd2502_", HashEmbedding(32))
    assert reembed(new) == 0
    import_file(workbook({"qa_examples": [("问", "答")]}), new)
    assert not is_empty(new)


# ── removing ─────────────────────────────────────────────────────────────────────────────────────


def test_examples_are_removed_by_their_ids(store: ExampleStore) -> None:
    fill(store)
    assert remove(store, "qa_examples", [2, 99, 2]) == [2]
    assert [row.id for row in stored(store)] == [1, 3, 4]
    assert remove(store, "greeting_examples", [1, 2]) == [1, 2]


def test_what_was_removed_comes_back_with_the_next_import(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"qa_examples": [("一", "答"), ("二", "答")]})
    import_file(path, store)
    remove(store, "qa_examples", [1])
    assert import_file(path, store).total("added") == 1
    assert [(row.id, row.user_input) for row in stored(store)] == [(2, "二"), (3, "一")]
    remove(store, "qa_examples", [3])
    import_file(path, store)
    assert [row.id for row in stored(store)] == [2, 4]  # no id is given twice
