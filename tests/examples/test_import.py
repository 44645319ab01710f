"""A file into the library: all of it or nothing, nothing twice, every rejected row told."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, inspect, text

from qianxun.core.errors import BadInput, BadModelReply, ModelUnavailable, Unreadable
from qianxun.core.types import Vectors
from qianxun.engine.example_library import (
    import_from_excel,
    insert_greeting_examples,
    insert_qa_examples,
    insert_query_examples,
    insert_record_examples,
)
from qianxun.examples import insert as keeping
from qianxun.examples.importing import DuplicateRow, Rejected, import_file
from qianxun.examples.insert import Inserted, vectorize, vectorize_text
from qianxun.examples.schema import DEFAULT_TABLE_NAMES
from qianxun.examples.store import ExampleStore
from qianxun.records.database.open import for_writing
from qianxun.samples import EXAMPLES
from qianxun.testing.scripted import HashEmbedding, ScriptedEmbedding
from tests.examples.conftest import Write, stored
from tests.examples.libraries import MODEL

GOOD = [("高血压能喝酒吗", "最好不喝。", "饮食，高血压", "优秀", "审过"), ("头晕怎么办", "先坐下。", None, None, None)]


def snapshot(store: ExampleStore) -> dict[str, list[Any]]:
    return {name: [tuple(row)[:5] + tuple(row)[6:] for row in stored(store, name)] for name in DEFAULT_TABLE_NAMES}


def test_rows_are_stored_clean_with_the_vector_of_both_texts(store: ExampleStore, workbook: Write) -> None:
    report = import_file(workbook({"QA示例": GOOD}), store)
    first, second = stored(store)
    assert (first.user_input, first.agent_response) == ("高血压能喝酒吗", "最好不喝。")
    assert (first.tags, first.quality_grade) == (["饮食", "高血压"], "优秀")
    assert (second.tags, second.quality_grade) == ([], "一般")
    assert np.allclose(first.embedding, MODEL.embed_passages(["高血压能喝酒吗 最好不喝。"])[0], atol=1e-6)
    assert first.created_at == first.updated_at == second.created_at
    assert report.inserted == {"qa_examples": Inserted(added=2)}


def test_notes_are_never_stored(store: ExampleStore, workbook: Write) -> None:
    import_file(workbook({"qa_examples": [("问", "答", "a", "优秀", "绝密备注")]}), store)
    assert "绝密备注" not in str([tuple(row) for row in stored(store)])


def test_importing_again_changes_nothing(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"QA示例": GOOD, "问候示例": [("你好", "您好")]})
    import_file(path, store)
    before = snapshot(store)
    again = import_file(path, store)
    assert snapshot(store) == before
    assert [again.total(what) for what in ("added", "updated", "unchanged")] == [0, 0, 3]


def test_spaces_and_widths_make_no_other_example(store: ExampleStore, workbook: Write) -> None:
    import_file(workbook({"qa_examples": [("血压120/80", "正常")]}), store)
    report = import_file(workbook({"qa_examples": [(" 血压１２０／８０ ", "正常\n")]}), store)
    assert report.inserted["qa_examples"] == Inserted(unchanged=1)


def test_other_tags_or_grades_update_the_example_that_is_there(store: ExampleStore, workbook: Write) -> None:
    import_file(workbook({"qa_examples": [("问", "答", "a", "一般")]}), store)
    (before,) = stored(store)
    report = import_file(workbook({"qa_examples": [("问", "答", "a,b", "优秀")]}), store)
    (after,) = stored(store)
    assert report.inserted["qa_examples"] == Inserted(updated=1)
    assert (after.id, after.tags, after.quality_grade) == (before.id, ["a", "b"], "优秀")
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at
    assert np.array_equal(after.embedding, before.embedding)


def test_another_answer_is_another_example(store: ExampleStore, workbook: Write) -> None:
    import_file(workbook({"qa_examples": [("问", "答一"), ("问", "答二")]}), store)
    assert [row.agent_response for row in stored(store)] == ["答一", "答二"]


def test_the_same_words_twice_in_a_file_are_stored_once_and_told(store: ExampleStore, workbook: Write) -> None:
    rows = [("问", "答", "先"), ("问 ", "答", "后")]
    path = workbook({"qa_examples": rows, "QA示例": [("问", "答")], "问候": [("问", "答")]})
    report = import_file(path, store)
    (row,) = stored(store)
    assert row.tags == ["先"]
    assert report.doubles == (
        DuplicateRow("qa_examples", 3, "qa_examples", 2),
        DuplicateRow("QA示例", 2, "qa_examples", 2),
    )
    assert len(stored(store, "greeting_examples")) == 1  # the same words in another category are another example


BAD = [("问", None, None, "优秀"), (None, "答"), ("问", "答", None, "很好"), ("问", "答", "长" * 60), ("好", "答")]


def test_a_bad_row_keeps_the_whole_file_out_and_every_one_is_told(store: ExampleStore, workbook: Write) -> None:
    report = import_file(workbook({"QA示例": BAD, "问候示例": [("你好", "您好")]}), store)
    assert not report.stored
    assert report.rejected == (
        Rejected("QA示例", 2, "缺少 agent_response（助手回复）"),
        Rejected("QA示例", 3, "缺少 user_input（用户输入）"),
        Rejected("QA示例", 4, "quality_grade（质量等级）“很好”不是 优秀、良好、一般 之一"),
        Rejected("QA示例", 5, f"标签“{'长' * 12}…”有 60 个字，上限是 50：是不是填错了列，或漏了逗号"),
    )
    store.prepare()
    assert snapshot(store) == {name: [] for name in DEFAULT_TABLE_NAMES}


def test_bad_rows_can_be_skipped(store: ExampleStore, workbook: Write) -> None:
    report = import_file(workbook({"QA示例": BAD, "问候示例": [("你好", "您好")]}), store, skip_bad=True)
    assert (report.stored, len(report.rejected), report.total("added")) == (True, 4, 2)
    assert [row.user_input for row in stored(store)] == ["好"]


def test_a_sheet_with_a_bad_heading_keeps_the_file_out(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"qa_examples": [("问", "答")]}, ("问题", "标签"))
    report = import_file(path, store)
    assert (report.stored, [one.row for one in report.rejected]) == (False, [1])


def test_json_takes_the_same_way(store: ExampleStore, tmp_path: Path) -> None:
    path = tmp_path / "库.json"
    good = {"user_input": "问", "agent_response": "答", "tags": ["a", "b"], "quality_grade": "良好", "notes": "x"}
    path.write_text(json.dumps({"query_examples": [good, {"user_input": "问"}]}, ensure_ascii=False), "utf-8")
    assert import_file(path, store).rejected == (Rejected("query_examples", 2, "缺少 agent_response（助手回复）"),)
    import_file(path, store, skip_bad=True)
    (row,) = stored(store, "query_examples")
    assert (row.tags, row.quality_grade) == (["a", "b"], "良好")


class Failing(HashEmbedding):
    """Fails on the given call."""

    def __init__(self, at: int, error: Exception) -> None:
        super().__init__(64)
        self._left, self._error = at, error

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return super().embed_passages(texts)


def test_a_model_that_fails_half_way_changes_nothing(store: ExampleStore, workbook: Write) -> None:
    import_file(workbook({"qa_examples": GOOD}), store)
    before = snapshot(store)
    failing = ExampleStore(store.engine, "gd2502_", Failing(1, ModelUnavailable("断线")))
    many = workbook({"qa_examples": [(f"问{number}", "答") for number in range(100)], "问候": [("你好", "您好")]})
    with pytest.raises(ModelUnavailable, match="断线"):
        import_file(many, failing)
    assert snapshot(store) == before


@pytest.mark.parametrize(
    "reply", [np.ones((1, 63)), np.ones((2, 64)), np.zeros((1, 64)), np.full((1, 64), np.nan), np.full((1, 64), np.inf)]
)
def test_rubbish_of_a_model_is_never_stored(reply: Vectors) -> None:
    with pytest.raises(BadModelReply):
        vectorize(["问 答"], ScriptedEmbedding(change=lambda _: reply))


def test_vectors_keep_the_order_of_their_texts_and_have_unit_length() -> None:
    texts = [f"{'长' * (number % 7)}{number}" for number in range(150)]
    done: list[tuple[int, int]] = []
    rows = vectorize(texts, MODEL, lambda *step: done.append(step))
    assert np.allclose(rows, MODEL.embed_passages(texts), atol=1e-6)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert done == [(64, 150), (128, 150), (150, 150)]
    assert np.allclose(vectorize_text(texts[3], MODEL), rows[3])


def test_a_database_that_fails_half_way_stores_nothing(
    store: ExampleStore, workbook: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.prepare()
    insert = keeping._insert

    def broken(connection: Any, table: Any) -> Any:
        if table.name.endswith("greeting_examples"):
            raise ConnectionResetError("网断了")
        return insert(connection, table)

    monkeypatch.setattr(keeping, "_insert", broken)
    with pytest.raises(ConnectionResetError):
        import_file(workbook({"qa_examples": GOOD, "问候": [("你好", "您好")]}), store)
    assert snapshot(store) == {name: [] for name in DEFAULT_TABLE_NAMES}


def test_two_imports_at_once_store_each_example_once(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"qa_examples": [(f"问{number}", "答") for number in range(300)]})
    store.prepare()
    start = threading.Barrier(3)
    told: list[int | BaseException] = []

    def work() -> None:
        is_sqlite = store.engine.dialect.name == "sqlite"
        writing = for_writing(store.engine).begin if is_sqlite else None
        own = ExampleStore(store.engine, "gd2502_", MODEL, writing=writing)
        start.wait()
        try:
            told.append(import_file(path, own).total("added"))
        except BaseException as error:
            told.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(told) == 300  # type: ignore[arg-type]
    assert len(stored(store)) == 300


def test_an_example_that_vanishes_during_the_import_is_stored_again(
    store: ExampleStore, workbook: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workbook({"qa_examples": GOOD})
    import_file(path, store)
    looked = keeping._vectors

    def remove_meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(keeping, "_vectors", looked)
        with store.writing() as connection:
            connection.execute(text("DELETE FROM gd2502_qa_examples"))
        return looked(*arguments)

    monkeypatch.setattr(keeping, "_vectors", remove_meanwhile)
    assert import_file(path, store).total("added") == 2
    assert len(stored(store)) == 2


def test_many_rows_are_stored_with_their_index(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"qa_examples": [(f"第 {number} 个问题", f"第 {number} 个回答", "a,b") for number in range(1200)]})
    assert import_file(path, store).total("added") == 1200
    if store.engine.dialect.name == "postgresql":
        with store.connection() as connection:
            valid = connection.execute(
                text(
                    "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('gd2502_qa_examples_embedding_idx')"
                )
            ).scalar()
        assert valid is True
    assert import_file(path, store).total("unchanged") == 1200


# ── by the seed's names, on a connection ─────────────────────────────────────────────────────────


def test_a_workbook_comes_in_through_a_connection(store: ExampleStore, workbook: Write) -> None:
    path = workbook({"QA示例": GOOD, "草稿": []})
    with store.engine.connect() as connection:
        told = import_from_excel(str(path), connection, model=MODEL)
        assert not connection.in_transaction()  # nobody had begun one: it is committed
    assert (told["stored"], told["added"], told["ignored_sheets"]) == (True, 2, ["草稿"])
    assert told["tables"] == {"qa_examples": {"rows": 2, "added": 2, "updated": 0, "unchanged": 0}}
    json.dumps(told)
    store.prepare()
    assert len(stored(store)) == 2


def test_inside_a_transaction_its_owner_decides(store: ExampleStore, workbook: Write) -> None:
    store.prepare()
    path = workbook({"QA示例": GOOD})
    with for_writing(store.engine).connect() as connection:
        connection.begin()
        assert import_from_excel(path, connection, model=MODEL)["added"] == 2
        connection.rollback()
    assert stored(store) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_the_drivers_own_idea_of_a_transaction_changes_nothing_about_that(tmp_path: Path, is_there: bool) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'plain.db'}")  # nobody has told this one how to begin
    store = ExampleStore(engine, "gd2502_", MODEL)
    if is_there:
        store.prepare()
    with engine.connect() as connection:
        connection.begin()
        assert import_from_excel(EXAMPLES, connection, model=MODEL)["added"] > 60
        connection.rollback()
        assert inspect(connection).has_table("gd2502_qa_examples") is is_there
        connection.rollback()  # to ask was to begin
        assert import_from_excel(EXAMPLES, connection, model=MODEL)["added"] > 60
    store.prepare()
    assert len(stored(store)) > 20
    engine.dispose()


def test_each_category_has_its_insert(store: ExampleStore) -> None:
    inserts = {
        "qa_examples": insert_qa_examples,
        "record_examples": insert_record_examples,
        "query_examples": insert_query_examples,
        "greeting_examples": insert_greeting_examples,
    }
    examples = [
        {"user_input": "一", "agent_response": "答", "tags": ["x"]},
        {"user_input": "二", "agent_response": "答"},
    ]
    for category, insert in inserts.items():
        with store.engine.connect() as connection:
            assert insert(examples, connection, MODEL) == 2
            assert insert([*examples, {"user_input": "三", "agent_response": "答"}], connection, MODEL) == 1
        store.prepare()
        assert [row.user_input for row in stored(store, category)] == ["一", "二", "三"]


def test_inserts_go_where_the_settings_have_the_library(store: ExampleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not into another one beside it, where no search would find them."""
    monkeypatch.setenv("QIANXUN_EXAMPLES_PREFIX", "own_")
    with store.engine.connect() as connection:
        assert insert_qa_examples([{"user_input": "一", "agent_response": "答"}], connection, MODEL) == 1
    names = inspect(store.engine).get_table_names()
    assert "own_qa_examples" in names
    assert "gd2502_qa_examples" not in names


def test_one_that_cannot_be_stored_keeps_the_others_out(store: ExampleStore) -> None:
    with store.engine.connect() as connection, pytest.raises(BadInput, match="第 2 条示例：缺少 agent_response"):
        insert_qa_examples([{"user_input": "一", "agent_response": "答"}, {"user_input": "二"}], connection, MODEL)


def test_whatever_is_no_connection_is_refused() -> None:
    with pytest.raises(BadInput, match="create_engine"):
        insert_qa_examples([], object(), MODEL)  # type: ignore[arg-type]


# ── the shipped workbook ─────────────────────────────────────────────────────────────────────────


def test_the_shipped_examples_come_in_whole(store: ExampleStore) -> None:
    report = import_file(EXAMPLES, store)
    assert (report.rejected, report.doubles, report.ignored_sheets, report.ignored_columns) == ((), (), (), ())
    assert report.total("added") == sum(report.rows.values()) >= 60
    assert all(report.rows[name] >= 10 for name in DEFAULT_TABLE_NAMES)
    rows = [row for name in DEFAULT_TABLE_NAMES for row in stored(store, name)]
    assert {row.quality_grade for row in rows} == {"优秀", "良好", "一般"}
    assert all(row.tags for row in rows)
    dangers = [row for row in rows if "急救" in row.tags]
    assert dangers
    assert all("120" in row.agent_response for row in dangers)  # every emergency is sent to the emergency number


def test_a_file_that_cannot_be_read_makes_no_library(store: ExampleStore, tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(Unreadable):
        import_file(tmp_path / "a.xlsx", store)
    with store.connection() as connection:
        assert store.stamp(connection) is None
