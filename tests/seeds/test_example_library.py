"""Document 000, 3.3, 3.4, 5.2, 11.2 and stage two: tables as settings, the import script, connections of drivers,
Alembic by hand, dialogues taken back, and an A/B test."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import create_engine, inspect

import qianxun
from qianxun.core.errors import BadInput, BadSettings, NotFound
from qianxun.doors.cli.import_data import main
from qianxun.engine import embedding_models
from qianxun.engine.admin import migrations
from qianxun.engine.admin.examples import compare_settings, read_values
from qianxun.engine.example_library import close_default_library, example_library, open_examples
from qianxun.engine.settings import ExampleSettings, Settings, load
from qianxun.examples.dialogues import AdoptionReport, adopt_dialogues
from qianxun.testing.scripted import HashEmbedding

MODEL = HashEmbedding(64, "fake-64")
ROOT = Path(__file__).resolve().parents[2]
ROWS = {
    "qa_examples": [{"user_input": f"高血压能喝第{n}种酒吗", "agent_response": "最好不喝。"} for n in range(9)],
    "policy_examples": [{"user_input": f"高血压第{n}种药报销吗", "agent_response": "按目录报销。"} for n in range(9)],
}


@pytest.fixture
def excel_path(tmp_path: Path) -> Path:
    path = tmp_path / "提示词案例库.json"
    path.write_text(json.dumps(ROWS, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The model of the settings is one that needs no files."""
    monkeypatch.setenv("QIANXUN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(embedding_models.Embeddings, "choose", lambda *_, **__: (MODEL.name, MODEL.dimension))
    monkeypatch.setattr(embedding_models.Embeddings, "_opened", lambda *_: MODEL)
    yield
    close_default_library()


def settings(**examples: Any) -> Settings:
    return Settings(data=load().data, examples=ExampleSettings(**examples))


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def test_which_tables_are_searched_and_how_many_of_each_is_a_setting(
    excel_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QIANXUN_EXAMPLES_TABLES", "qa_examples=2, policy_examples=8")
    monkeypatch.setenv("QIANXUN_EXAMPLES_SIMILARITY_THRESHOLD", "0.0")
    assert main(["--excel_path", str(excel_path)]) == 0
    assert "18" in capsys.readouterr().out
    found = qianxun.vector_db_search("高血压能喝酒吗，报销吗", similarity_threshold=0.0)
    assert [sum(one["source"] == table for one in found) for table in ROWS] == [2, 8]
    assert all(one["content"].startswith("用户：高血压") for one in found)
    with pytest.raises(NotFound, match=r"examples\.tables"):
        qianxun.vector_db_search("高血压", table_names=["没有这张表"])
    assert {one["source"] for one in qianxun.vector_db_search("高血压", [], 15, 0.0, ["policy_examples"])} == {
        "policy_examples"
    }
    with open_examples(load()) as store, store.connection() as connection:
        tables = set(inspect(connection).get_table_names())
    assert {f"gd2502_{name}" for name in (*qianxun.DEFAULT_TABLE_NAMES, "policy_examples")} <= tables


@pytest.mark.parametrize("tables", [("Policy",), ("policy_examples=many",), ("x" * 40 + "_examples",)])
def test_a_table_that_cannot_be_is_refused(tables: tuple[str, ...]) -> None:
    with pytest.raises(BadSettings, match="examples"), open_examples(settings(tables=tables)) as store:
        store.prepare()


def test_without_the_setting_a_sheet_of_another_name_is_ignored_aloud(excel_path: Path) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as db_conn:
        stats = qianxun.import_from_excel(excel_path, db_conn, model=MODEL)
    engine.dispose()
    assert (stats["added"], stats["ignored_sheets"]) == (9, ["policy_examples"])


def test_the_import_script_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--excel_path", str(tmp_path / "没有.xlsx")]) == 2
    assert "没有.xlsx" in capsys.readouterr().err
    script = (ROOT / "examples/medical_assistant/import_data.py").read_text("utf-8")
    assert "python import_data.py --excel_path 提示词案例库.xlsx" in script


# ── connections ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["idle", "automatic", "begun"])
def test_a_psycopg_connection_is_a_connection(postgres_url: str, excel_path: Path, mode: str) -> None:
    def rows(db_conn: Any) -> int:
        with psycopg.connect(postgres_url) as other:
            there = other.execute("SELECT to_regclass('gd2502_qa_examples')").fetchone()
            if there is None or there[0] is None:
                return 0
            counted = other.execute("SELECT count(*) FROM gd2502_qa_examples").fetchone()
            return int(counted[0]) if counted else 0

    with psycopg.connect(postgres_url, autocommit=mode == "automatic") as db_conn:
        if mode == "begun":
            db_conn.execute("CREATE TABLE mine (id int)")
        stats = qianxun.import_from_excel(str(excel_path), db_conn, model=MODEL)
        assert stats["added"] == 9
        assert rows(db_conn) == (0 if mode == "begun" else 9)  # a transaction of the caller's own is theirs to end
        more = [{"user_input": "你好", "agent_response": "您好。"}]
        assert qianxun.insert_greeting_examples(more, db_conn, MODEL) == 1
        db_conn.commit()
        assert rows(db_conn) == 9
        assert (db_conn.closed, db_conn.autocommit) == (False, mode == "automatic")


def test_so_is_one_of_sqlite(excel_path: Path) -> None:
    db_conn = sqlite3.connect(":memory:")
    assert qianxun.import_from_excel(str(excel_path), db_conn, model=MODEL)["added"] == 9
    assert db_conn.execute("SELECT count(*) FROM gd2502_qa_examples").fetchone() == (9,)
    db_conn.close()


def test_what_is_no_connection_is_refused_in_one_sentence(excel_path: Path) -> None:
    with pytest.raises(BadInput, match=r"psycopg\.connect"):
        qianxun.import_from_excel(excel_path, "postgresql://localhost/rag", model=MODEL)


# ── migrations ───────────────────────────────────────────────────────────────────────────────────


def test_alembic_upgrade_head_by_hand(excel_path: Path) -> None:
    config = Config(str(ROOT / "alembic.ini"))
    command.upgrade(config, "head")
    with open_examples(load()) as store, store.connection() as connection:
        assert inspect(connection).has_table("gd2502_qa_examples")
    assert main(["--excel_path", str(excel_path)]) == 0
    command.downgrade(config, "base")
    with open_examples(load()) as store, store.connection() as connection:
        assert not inspect(connection).has_table("gd2502_qa_examples")


def test_qianxun_migrate_covers_the_tables_of_examples() -> None:
    own = settings(tables=("qa_examples", "policy_examples"))
    own.folder.mkdir()
    assert migrations.missing(own)[-2:] == ["examples-0001", "examples-gd2502_policy_examples"]
    assert migrations.migrate(own)[-1] == "examples-gd2502_policy_examples"
    assert migrations.missing(own) == migrations.migrate(own) == []


# ── dialogues taken back ─────────────────────────────────────────────────────────────────────────


def test_good_dialogues_become_examples() -> None:
    conversation = [HumanMessage("降压药漏服了怎么办"), AIMessage("想起来就补服，接近下次时间则跳过。")]
    dialogues = [
        {"user_input": "血压高能喝酒吗", "agent_response": "最好不喝。", "rating": "good", "tags": ["饮食"]},
        {"user_input": "血压高能喝酒吗？", "agent_response": "最好不喝。", "rating": "good"},  # says the same
        {"user_input": "明天天气怎样", "agent_response": "不知道。", "rating": "bad"},
        {"user_input": "血压多少算高", "agent_response": "看情况。"},
        {"messages": conversation, "rating": "good"},
        {"messages": [{"role": "user", "content": "你好"}, {"role": "assistant", "content": ""}], "rating": "good"},
    ]
    with open_examples(settings()) as store:
        library = example_library(store, settings())
        report = adopt_dialogues(dialogues, library, near=0.8)
        assert (report.added, report.unrated, report.near, len(report.rejected)) == (2, 2, 1, 1)
        found = library.vector_db_search("降压药漏服了怎么办", similarity_threshold=0.1)
        assert found[0]["metadata"]["quality_grade"] == "优秀"
        assert adopt_dialogues(dialogues[:1], library) == AdoptionReport(near=1)


@pytest.mark.parametrize("dialogue", [5, None, "你好", {"messages": 3}, {"messages": None, "rating": "good"}])
def test_what_is_no_dialogue_is_named_and_left_out(dialogue: object) -> None:
    with open_examples(settings()) as store:
        report = adopt_dialogues([dialogue], example_library(store, settings()))
    assert report.added == 0
    assert report.rejected[0].startswith("第 1 段：不是对话")


def test_a_broken_line_of_dialogues_is_named(tmp_path: Path) -> None:
    file = tmp_path / "对话.jsonl"
    file.write_text('{"user_input": "换行\u2028也是一段"}\n{坏\n', encoding="utf-8")
    with pytest.raises(BadInput, match="第 2 行不是合法的 JSON"):
        read_values(file)


# ── A/B ──────────────────────────────────────────────────────────────────────────────────────────


def test_two_settings_are_compared_on_labelled_questions(tmp_path: Path, excel_path: Path) -> None:
    main(["--excel_path", str(excel_path)])
    labelled = tmp_path / "标注.jsonl"
    questions = [f"高血压能喝第{n}种酒吗" for n in range(9)]
    lines = [json.dumps({"query": question, "expected": [question]}, ensure_ascii=False) for question in questions]
    labelled.write_text("\n".join(lines), encoding="utf-8")
    loose, strict = settings(similarity_threshold=0.0), settings(similarity_threshold=1.0, min_results=0)
    comparison = compare_settings(labelled, loose, strict)
    assert (comparison.queries, comparison.mean_scores) == (9, (pytest.approx(1.0), 0.0))
    assert comparison.is_significant
    assert compare_settings(labelled, loose, loose).p_value == 1.0
    labelled.write_text('[{"query": "问"}]', encoding="utf-8")
    with pytest.raises(BadInput, match="expected"):
        compare_settings(labelled, loose, strict)
