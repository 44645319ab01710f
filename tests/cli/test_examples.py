"""`qianxun examples`: import, template, search, stats, reembed and remove, as people and programs call them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from qianxun.engine.folder_lock import owned
from qianxun.samples import EXAMPLES
from tests import preloaded
from tests.cli.conftest import Run
from tests.models.embedding_service import DIMENSION, Exchange, Service, serving, status, well
from tests.shared import MODELS, needs_model

ASKED = "高血压能喝酒吗"
ALIKE = f"{ASKED} 最好不喝。"  # to a model that knows form alone
MAIN = "import sys; from qianxun.doors.cli import main; sys.exit(main())"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A model service that the settings name."""
    with serving(well) as service:
        name_model(monkeypatch, service.url)
        yield service


def name_model(monkeypatch: pytest.MonkeyPatch, url: str, name: str = "形似") -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_BASE_URL", url)
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", name)
    monkeypatch.setenv("QIANXUN_VECTORIZATION_DIMENSION", str(DIMENSION))


def write(folder: Path, content: Any, name: str = "库.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        {
            "qa_examples": [
                {
                    "user_input": "高血压能喝酒吗",
                    "agent_response": "最好不喝。",
                    "tags": ["饮食"],
                    "quality_grade": "优秀",
                },
                {"user_input": "头晕怎么办", "agent_response": "先坐下。"},
            ],
            "greeting_examples": [{"user_input": "你好", "agent_response": "您好"}],
        },
    )


@pytest.mark.usefixtures("model")
def test_a_file_comes_in_and_a_second_time_changes_nothing(run: Run, file: Path) -> None:
    first = run("examples", "import", file)
    assert first.code == 0
    assert "新增 3 条，更新 0 条，未变 0 条" in first.out
    again = run("examples", "import", file, "--json").json
    assert (again["stored"], again["added"], again["updated"], again["unchanged"]) == (True, 0, 0, 3)


def test_in_english(run: Run, file: Path, model: Service) -> None:
    assert "3 added, 0 updated, 0 unchanged" in run("--lang", "en", "examples", "import", file).out
    assert "3 in all, model 形似" in run("--lang", "en", "examples", "stats").out


@pytest.mark.usefixtures("model")
def test_bad_rows_are_told_with_sheet_row_and_reason(run: Run, tmp_path: Path) -> None:
    bad = write(tmp_path, {"QA示例": [{"user_input": "问"}, {"user_input": "问", "agent_response": "答"}], "草稿": []})
    told = run("examples", "import", bad)
    assert told.code == 1
    assert "整个文件没有导入" in told.out
    assert "“QA示例”第 1 行：缺少 agent_response（助手回复）" in told.err
    assert "“草稿”不是示例" in told.err
    assert "--skip-bad" in told.err
    skipped = run("examples", "import", bad, "--skip-bad", "--json")
    assert (skipped.code, skipped.json["added"]) == (1, 1)
    assert skipped.json["rejected"] == [{"sheet": "QA示例", "row": 1, "reason": "缺少 agent_response（助手回复）"}]
    assert skipped.json["ignored_sheets"] == ["草稿"]


def test_a_template_is_written_once_and_comes_in(run: Run, tmp_path: Path, model: Service) -> None:
    path = tmp_path / "模板.xlsx"
    assert "已写好" in run("examples", "template", path).out
    assert openpyxl.load_workbook(path).sheetnames[0] == "填写说明"
    refused = run("examples", "template", path)
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert run("examples", "template", path, "--force", "--json").json == {"written": str(path)}
    assert run("examples", "template", "模板.csv").code == 2
    assert run("examples", "template", tmp_path / "没有" / "a.xlsx").code == 2
    imported = run("examples", "import", path)
    assert (imported.code, "新增 0 条" in imported.out) == (0, True)
    assert "模板自带的 4 行示例没有改过，没有导入" in imported.err
    assert run("examples", "import", path, "--json").json["samples"] == 4


@pytest.mark.usefixtures("model")
def test_the_examples_most_alike_are_found(run: Run, file: Path) -> None:
    run("examples", "import", file)
    found = run("examples", "search", ALIKE, "--json").json
    best = found["examples"][0]
    assert best["content"] == "用户：高血压能喝酒吗\n助手：最好不喝。"
    assert (best["source"], best["metadata"]["tags"], best["metadata"]["quality_grade"]) == (
        "qa_examples",
        ["饮食"],
        "优秀",
    )
    assert 0.7 < best["similarity"] <= 1.0
    shown = run("examples", "search", ASKED, "--keyword", "最好不喝。", "--top-k", "1")
    assert "问答 #1  优秀  饮食" in shown.out
    assert "助手：最好不喝。" in shown.out


@pytest.mark.usefixtures("model")
def test_a_search_keeps_to_its_tables_and_threshold(run: Run, file: Path) -> None:
    run("examples", "import", file)
    only = run("examples", "search", "高血压能喝酒吗", "--table", "问候", "--threshold", "-1", "--json").json[
        "examples"
    ]
    assert {example["source"] for example in only} == {"greeting_examples"}
    none = run("examples", "search", ASKED, "--threshold", "0.999")
    assert (none.code, "降低 --threshold" in none.out) == (0, True)
    unknown = run("examples", "search", "你好", "--table", "病历")
    assert (unknown.code, "record_examples（记录示例）" in unknown.err) == (2, True)


@pytest.mark.usefixtures("model")
def test_statistics_show_grades_tags_and_near_duplicates(run: Run, file: Path, tmp_path: Path) -> None:
    run("examples", "import", file)
    near = {"user_input": ASKED, "agent_response": "最好不喝。"}
    run("examples", "import", write(tmp_path, {"query_examples": [near]}, "b.json"))
    told = run("examples", "stats", "--near", "0.99", "--json").json
    assert told["tables"]["qa_examples"]["grades"] == {"优秀": 1, "良好": 0, "一般": 1}
    assert told["tables"]["qa_examples"]["tag_coverage"] == 0.5
    (pair,) = told["near_duplicates"]["pairs"]
    assert (pair["first"]["source"], pair["second"]["source"]) == ("qa_examples", "query_examples")
    shown = run("examples", "stats", "--near", "0.99").out
    assert "近似重复 1 对" in shown
    assert f"问答 #1 {ASKED}  ≈  查询 #1 {ASKED}" in shown
    assert run("examples", "stats", "--near", "7").code == 2


@pytest.mark.usefixtures("model")
def test_examples_are_removed_by_number(run: Run, file: Path) -> None:
    run("examples", "import", file)
    assert run("examples", "remove", "问答", "1", "2", "--json").json == {"removed": [1, 2], "missing": []}
    missing = run("examples", "remove", "qa_examples", "1")
    assert (missing.code, "没有这些编号：1" in missing.err) == (1, True)


def test_another_model_is_refused_until_the_examples_are_embedded_anew(
    run: Run, file: Path, model: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("examples", "import", file)
    name_model(monkeypatch, model.url, "新模型")
    refused = run("examples", "search", "你好")
    assert (refused.code, "examples reembed" in refused.err) == (2, True)
    assert run("examples", "stats").code == 0  # counting needs no model
    assert run("examples", "reembed", "--json").json == {"examples": 3, "model": "新模型", "dimension": DIMENSION}
    assert run("examples", "search", ALIKE, "--json").json["examples"]


def test_without_a_model_it_says_what_to_do(run: Run, file: Path) -> None:
    told = run("examples", "import", file)
    assert (told.code, "models pull" in told.err) == (1, True)
    assert run("examples", "import", file, "--json").json["error"] == "model_unavailable"


def test_a_model_that_fails_loses_nothing(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(status(500)) as broken:
        name_model(monkeypatch, broken.url)
        assert run("examples", "import", file).code == 1
    with serving(well) as service:
        name_model(monkeypatch, service.url)
        assert run("examples", "import", file, "--json").json["added"] == 3


def test_nothing_there_yet_is_no_surprise(run: Run, tmp_path: Path) -> None:
    for command in (("search", "你好"), ("stats",), ("reembed",), ("remove", "问答", "1")):
        told = run("examples", *command)
        assert (told.code, "examples import" in told.err) == (2, True), command
    assert not (tmp_path / "qianxun-data").exists()
    assert run("examples", "import", tmp_path / "没有.xlsx").code == 2
    assert run("--url", "http://127.0.0.1:1", "examples", "stats").code == 2


def test_a_folder_that_cannot_be_is_refused(run: Run, file: Path, model: Service) -> None:
    told = run("--data", file, "examples", "import", file)
    assert (told.code, "换一个可写的目录" in told.err) == (2, True)


def test_an_import_works_beside_whoever_owns_the_folder(run: Run, file: Path, model: Service, tmp_path: Path) -> None:
    with owned(tmp_path / "qianxun-data"):
        assert run("examples", "import", file).code == 0


def test_the_library_and_knowledge_bases_share_a_database(handbook: Run, file: Path, model: Service) -> None:
    assert handbook("examples", "import", file).code == 0
    assert "手册" in handbook("kb", "list").out
    assert handbook("search", "QH-2087", "--kb", "手册", "--mode", "fulltext", "--json").json["chunks"]
    assert handbook("examples", "stats", "--json").json["count"] == 3


def test_ctrl_c_while_vectors_are_made_leaves_the_library_as_it_was(file: Path, tmp_path: Path) -> None:
    def slowly(exchange: Exchange) -> None:
        exchange.service.released.wait(300)

    with serving(slowly) as service:
        settings = {
            "QIANXUN_VECTORIZATION_BASE_URL": service.url,
            "QIANXUN_VECTORIZATION_MODEL": "慢",
            "QIANXUN_VECTORIZATION_DIMENSION": str(DIMENSION),
        }
        running = preloaded.Popen(
            [sys.executable, "-c", MAIN, "examples", "import", str(file)],
            env={**os.environ, **settings},
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not service.asked:
            assert running.poll() is None, running.communicate()
            time.sleep(0.02)
        running.send_signal(2)
        _, told = running.communicate(timeout=120)
    assert (running.returncode, "没有变化" in told) == (130, True)


def test_somebody_who_looks_sees_a_bar(file: Path, tmp_path: Path, model: Service) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", MAIN, "examples", "import", str(file)]
    environment = {**os.environ, "TERM": "xterm"}
    with preloaded.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # that is how a terminal ends whose other end is closed
            while more := os.read(ours, 65536):  # a terminal has room for 4 KB, and a slow bar draws more than that
                shown += more
    os.close(ours)
    assert process.returncode == 0
    assert "向量化" in shown.decode(errors="replace")
    assert b"3/3" in shown


@needs_model
def test_the_shipped_examples_answer_as_they_should(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "bge-small-zh-v1.5")
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_FOLDERS", str(MODELS))
    assert run("examples", "import", EXAMPLES, "--json").json["added"] == 71
    for query, words in (
        ("我妈血压 190/120，头疼，看东西也模糊，要紧吗？", "拨打 120"),
        ("我今天吃没吃药", "今天已记录"),
        ("帮我记一下，早上血压 126 80", "已记录"),
    ):
        best = run("examples", "search", query, "--top-k", "3", "--json").json["examples"]
        assert any(words in example["content"] for example in best), query
    assert run("examples", "stats", "--json").json["near_duplicates"]["count"] == 0
