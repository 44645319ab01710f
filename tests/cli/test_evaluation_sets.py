"""`qianxun evalset`: a question saved, measured, looked at and compared; sets to a folder and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def base(run: Run, tmp_path: Path) -> str:
    for name, text in {"住院": "住院报销比例为百分之八十五。", "门诊": "门诊报销比例为百分之六十。"}.items():
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
    assert run("kb", "create", "医保", "--model", "none").code == 0
    assert run("add", tmp_path / "住院.txt", tmp_path / "门诊.txt", "--kb", "医保").code == 0
    found = json.loads(run("search", "住院报销", "--kb", "医保", "--json").out)
    return str(found["chunks"][0]["chunk_id"])


def test_a_question_is_saved_measured_and_compared(run: Run, base: str, tmp_path: Path) -> None:
    saved = run("evalset", "save", "住院能报多少", "--kb", "医保", "--chunk", base)
    assert (saved.code, "共 1 题" in saved.out) == (0, True), saved.err
    first = json.loads(run("evalset", "run", "常用问题", "--kb", "医保", "--modes", "fulltext,hybrid", "--json").out)
    assert [one["metrics"]["recall@100"] for one in first["runs"]] == [1.0, 1.0]
    numbers = [str(one["id"]) for one in first["runs"]]
    assert "不显著" in run("evalset", "compare", *numbers).out
    assert "住院能报多少" in run("evalset", "worst", numbers[0]).out
    assert "nDCG@10" in run("evalset", "runs", "常用问题", "--kb", "医保").out
    assert "住院能报多少" in run("evalset", "show", "常用问题", "--kb", "医保").out
    assert run("evalset", "export", "常用问题", tmp_path / "集", "--kb", "医保").code == 0
    again = run("evalset", "import", tmp_path / "集", "--kb", "医保", "--set", "又一个")
    assert "“又一个”共 1 题" in again.out
    assert run("evalset", "delete", "又一个", "--kb", "医保").code == 0
    assert [one["name"] for one in json.loads(run("evalset", "list", "--kb", "医保", "--json").out)["sets"]] == [
        "常用问题"
    ]
    unknown = run("evalset", "run", "无", "--kb", "医保")
    assert (unknown.code != 0, "已有：常用问题" in unknown.err) == (True, True)
