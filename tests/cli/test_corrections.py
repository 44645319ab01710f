"""`qianxun corrections`: a chunk corrected, listed, undone; corrections to a file and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TEXT = "住院报销比例为百分之八十五，三个月内提交发票。"


@pytest.fixture
def chunk(run: Run, tmp_path: Path) -> str:
    (tmp_path / "住院.txt").write_text(TEXT, "utf-8")
    assert run("kb", "create", "医保", "--model", "none").code == 0
    assert run("add", tmp_path / "住院.txt", "--kb", "医保").code == 0
    found = json.loads(run("search", "住院报销", "--kb", "医保", "--json").out)
    return str(found["chunks"][0]["chunk_id"])


def test_a_chunk_is_corrected_listed_and_restored(run: Run, chunk: str, tmp_path: Path) -> None:
    made = run(
        "corrections", "add", "edit", chunk, "--kb", "医保", "--text", "住院报销九成。", "--by", "张三", "--json"
    )
    assert made.code == 0, made.err
    number = str(json.loads(made.out)["id"])
    assert "住院报销九成。" in run("search", "住院报销", "--kb", "医保").out
    assert "张三" in run("corrections", "list", "--kb", "医保").out
    assert "百分之八十五" in run("corrections", "show", number, "--kb", "医保").out
    # A file that changed one figure: set aside, and said so.
    (tmp_path / "住院.txt").write_text(TEXT.replace("八十五", "七十五"), "utf-8")
    assert run("add", tmp_path / "住院.txt", "--kb", "医保").code == 0
    aside = json.loads(run("corrections", "list", "--kb", "医保", "--state", "needs_a_look", "--json").out)["list"]
    assert [str(one["id"]) for one in aside] == [number]
    assert "要看一看" in run("corrections", "list", "--kb", "医保").out
    moved = run("corrections", "move", number, chunk, "--kb", "医保")
    assert (moved.code, "已生效" in moved.out) == (0, True), moved.err
    assert "已撤销" in run("corrections", "undo", number, "--kb", "医保").out
    assert "百分之七十五" in run("search", "住院报销", "--kb", "医保").out
    assert "已生效" in run("corrections", "apply", number, "--kb", "医保").out


def test_rules_and_metadata_and_a_file_of_corrections(run: Run, chunk: str, tmp_path: Path) -> None:
    assert run("corrections", "add", "pin", chunk, "--question", "多久提交", "--kb", "医保").code == 0
    meta = ("--meta", "部门=社保", "--meta", "级别=3")
    marked = run("corrections", "add", "metadata", "--doc", "住院.txt", *meta, "--kb", "医保", "--json")
    assert json.loads(marked.out)["change"]["metadata"] == {"部门": "社保", "级别": 3}
    explained = run("search", "多久提交", "--kb", "医保", "--explain").out
    assert all(words in explained for words in ("规则", "更正 1：pin", "更正 2：metadata"))
    why = json.loads(run("search", "多久提交", "--kb", "医保", "--why", chunk, "--json").out)["why"]
    assert [one["kind"] for one in why["decisions"]["corrections"]] == ["pin", "metadata"]
    file = tmp_path / "更正.jsonl"
    assert run("corrections", "export", file, "--kb", "医保").code == 0
    assert len(file.read_text("utf-8").splitlines()) == 2
    again = run("corrections", "import", file, "--kb", "医保")
    assert (again.code, "收进 0 条" in again.out) == (0, True), again.err
    nowhere = run("corrections", "add", "rename", "--doc", "门诊.txt", "--name", "门诊", "--kb", "医保")
    assert (nowhere.code, "kb show" in nowhere.err) == (2, True), nowhere.err
    unknown = run("corrections", "add", "erase", chunk, "--kb", "医保")
    assert (unknown.code != 0, "edit" in unknown.err) == (True, True)
