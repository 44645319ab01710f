"""`qianxun eval --answers`: a file of one's own questions and answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TEXT = "# 鱼缸养护\n\n## 换水\n每十天换水一次，每次换掉三分之一。\n\n## 喂食\n成鱼每天喂食两次，幼鱼每天喂食四次。\n"
CASES = [
    {"question": "多久换一次水", "answer": "每10天换水一次", "source": "鱼缸"},
    {"question": "幼鱼每天喂食几次", "answer": "四次", "source": "别处"},
    {"question": "鱼缸的保修期是多久", "answer": ""},
]


@pytest.fixture
def asked(tmp_path: Path, run: Run) -> Path:
    (tmp_path / "鱼缸.md").write_text(TEXT, "utf-8")
    run("kb", "create", "养鱼", "--model", "none")
    run("add", str(tmp_path / "鱼缸.md"), "--kb", "养鱼")
    file = tmp_path / "问答.jsonl"
    file.write_text("\n".join(json.dumps(case, ensure_ascii=False) for case in CASES), "utf-8")
    return file


def test_answers_are_measured_on_a_file_of_ones_own(run: Run, asked: Path) -> None:
    told = json.loads(run("eval", "--answers", str(asked), "--kb", "养鱼", "--json").out)
    summary = told["summary"]["问答"]
    assert (summary["questions"], summary["answerable_declined"], summary["unanswerable_declined"]) == (3, 0.0, 1.0)
    assert (summary["right"], summary["wrong"], summary["figures"]) == (1.0, 0.0, 1.0)
    assert summary["citations_right"] == 0.5
    assert "答对" in run("eval", "--answers", str(asked), "--kb", "养鱼").out


def test_two_settings_are_compared(run: Run, asked: Path, tmp_path: Path) -> None:
    for name, top_k in (("甲", 1), ("乙", 5)):
        (tmp_path / f"{name}.yaml").write_text(f"search: {{top_k: {top_k}}}\n", "utf-8")
    files = ["--config", str(tmp_path / "甲.yaml"), "--config", str(tmp_path / "乙.yaml")]
    told = json.loads(run("eval", "--answers", str(asked), "--kb", "养鱼", *files, "--json").out)
    assert list(told["summary"]) == ["甲", "乙"]


def test_what_cannot_be_read_is_named_with_its_line(run: Run, asked: Path) -> None:
    asked.write_text('{"question": "一"}\n{"answer": "二"}\n', "utf-8")
    refused = run("eval", "--answers", str(asked), "--kb", "养鱼")
    assert refused.code != 0
    assert "第 2 行" in refused.err
    assert "--kb" in run("eval", "--answers", str(asked)).err
