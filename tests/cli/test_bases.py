from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_base_is_created_listed_shown_and_deleted(handbook: Run) -> None:
    (row,) = handbook("kb", "list", "--json").json["knowledge_bases"]
    assert (row["name"], row["kind"], row["embedding_model"], row["documents"]) == ("手册", "documents", "", 2)
    shown = handbook("kb", "show", "手册", "--json").json
    assert [(item["name"], item["status"]) for item in shown["items"]] == [
        ("价目.csv", "indexed"),
        ("制度.md", "indexed"),
    ]
    assert shown["chunks"] == sum(item["chunks"] for item in shown["items"])
    assert handbook("kb", "delete", "手册", "--yes", "--json").json == {"deleted": "手册", "documents": 2}
    assert handbook("kb", "list", "--json").json == {"knowledge_bases": []}


def test_people_see_names_counts_and_states(handbook: Run) -> None:
    assert "手册" in handbook("kb", "list").out
    shown = handbook("kb", "show", "手册").out
    assert "2 个文档" in shown
    assert "可检索" in shown
    assert "价目.csv" in shown


def test_listing_nothing_creates_nothing(run: Run, tmp_path: Path) -> None:
    assert run("kb", "list", "--json").json == {"knowledge_bases": []}
    assert not (tmp_path / "qianxun-data").exists()


def test_searching_where_there_is_no_data_creates_nothing(run: Run, tmp_path: Path) -> None:
    failed = run("search", "发票", "--kb", "手册", "--json")
    assert (failed.code, failed.json["error"]) == (2, "not_found")
    assert not (tmp_path / "qianxun-data").exists()


def test_an_unknown_base_is_answered_with_the_known_ones(handbook: Run) -> None:
    failed = handbook("search", "发票", "--kb", "手策")
    assert failed.code == 2
    assert failed.out == ""
    assert "没有名为“手策”的知识库" in failed.err
    assert "已有：手册" in failed.err
    assert "Traceback" not in failed.err


def test_adding_to_a_base_that_is_not_there_names_the_command_to_run(handbook: Run) -> None:
    failed = handbook("--data", "qianxun-data/../qianxun-data", "add", "没有.txt", "--kb", "新库")
    assert failed.code == 2
    assert "qianxun --data qianxun-data/../qianxun-data kb create 新库" in failed.err


def test_a_taken_name_is_an_error(handbook: Run) -> None:
    failed = handbook("kb", "create", "手册", "--json")
    assert (failed.code, failed.json["error"]) == (2, "already_there")


def test_a_model_that_is_not_here_is_said_when_a_base_is_created(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "bge-small-zh-v1.5")
    made = run("kb", "create", "手册")
    assert made.code == 0
    assert "只按词语检索" in made.out
    assert "qianxun models pull bge-small-zh-v1.5" in made.err
    asked = run("kb", "create", "另一个", "--model", "bge-small-zh-v1.5")
    assert asked.code == 1
    assert "models pull" in asked.err


def test_deleting_asks_first(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.confirm", _declined)
    assert handbook("kb", "delete", "手册").code == 1
    assert len(handbook("kb", "list", "--json").json["knowledge_bases"]) == 1


def test_deleting_for_a_program_wants_a_clear_yes(handbook: Run) -> None:
    assert handbook("kb", "delete", "手册", "--json").code == 2
    assert len(handbook("kb", "list", "--json").json["knowledge_bases"]) == 1


def _declined(question: str, **options: object) -> bool:
    import typer

    assert "2 个文档" in question
    assert options["abort"] is True
    raise typer.Abort
