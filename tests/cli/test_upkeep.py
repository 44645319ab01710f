from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from qianxun.text import chinese
from tests.cli.conftest import Run
from tests.shared import BGE_SMALL, MODELS, needs_model

MODEL = "bge-small-zh-v1.5"


def test_a_sound_base_verifies(handbook: Run) -> None:
    told = handbook("verify", "--json")
    assert told.code == 0
    assert told.json["clean"] is True
    assert "一致" in handbook("verify", "--kb", "手册").out


def test_records_and_index_that_disagree_are_found_and_mended(handbook: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "qianxun-data" / "qianxun.db") as database:
        database.execute("DELETE FROM chunks WHERE key = 1")
    database.close()
    told = handbook("verify", "--json")
    assert told.code == 1
    (base,) = told.json["knowledge_bases"]
    assert [finding["kind"] for finding in base["findings"]] == ["orphan_facts", "not_in_records"]
    assert "rebuild --kb 手册" in handbook("verify").err
    assert handbook("rebuild", "--kb", "手册", "--json").code == 0
    assert handbook("verify").code == 0


@needs_model
def test_a_base_gets_a_model_by_rebuilding(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_FOLDERS", str(MODELS))
    told = handbook("rebuild", "--kb", "手册", "--model", MODEL, "--json").json
    assert told["embedding_model"] == MODEL
    assert told["chunks"] > 0
    best = handbook("search", "能休息几天", "--kb", "手册", "--mode", "vector", "-k", "1", "--json").json["chunks"]
    assert "年休假" in best[0]["content"]
    assert handbook("verify").code == 0


@needs_model
def test_a_model_is_pulled_from_a_folder_listed_and_tried(run: Run) -> None:
    assert run("models", "test", MODEL).code == 1
    assert run("models", "pull", MODEL, "--from", BGE_SMALL, "--json").json["model"] == MODEL
    found = {row["name"]: row for row in run("models", "list", "--json").json["models"]}
    assert found[MODEL]["folder"]
    assert found["bge-m3"]["folder"] is None
    assert run("models", "test", MODEL, "--json").json["dimension"] == 512


def test_a_pull_that_cannot_work_says_why(run: Run, tmp_path: Path) -> None:
    assert run("models", "pull", "没有这个").code == 2
    assert run("models", "pull", MODEL, "--from", tmp_path / "没有").code == 2
    failed = run("models", "pull", MODEL, "--from", tmp_path, "--json")
    assert (failed.code, failed.json["error"]) == (1, "model_unavailable")
    unpinned = run("models", "pull", "bge-m3", "--from", tmp_path)
    assert unpinned.code == 2
    assert "--accept-unpinned" in unpinned.err


def test_trying_no_model_is_a_mistake(run: Run) -> None:
    assert run("models", "test").code == 2


def test_doctor_says_where_each_value_came_from(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "qianxun.yaml").write_text("rag: {chunking: {chunk_size: 300}}", "utf-8")
    told = handbook("--data", "qianxun-data", "doctor", "--json")
    assert told.code == 0
    origins = {row["name"]: row["from"] for row in told.json["settings"]}
    assert origins["data"] == "参数"
    assert origins["vectorization.model"] == "环境变量 QIANXUN_VECTORIZATION_MODEL"
    assert origins["chunking.chunk_size"].startswith("文件 ")
    assert origins["chunking.chunk_overlap"] == "默认值"
    (base,) = told.json["bases"]
    assert (base["name"], base["documents"], base["index"], base["trouble"]) == ("手册", 2, "ready", "")
    assert told.json["owner"] is None
    assert "索引完好" in handbook("doctor").out


def test_a_data_folder_is_closed_to_other_users(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "qianxun-data"
    database = data / "qianxun.db"
    assert run("kb", "create", "手册").code == 0
    modes = {path.name: path.stat().st_mode & 0o077 for path in (data, database, data / "lock")}
    assert modes == {"qianxun-data": 0, "qianxun.db": 0, "lock": 0}
    assert "只有本用户读得到" in run("doctor").out
    data.chmod(0o755)
    database.chmod(0o644)
    assert "其他用户读得到" in run("doctor").out
    assert run("doctor", "--json").json["exposed"] == [str(data), str(database)]
    assert run("kb", "list").code == 0
    assert [path.stat().st_mode & 0o777 for path in (data, database)] == [0o700, 0o600]


def test_doctor_creates_nothing(run: Run, tmp_path: Path) -> None:
    assert run("doctor").code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_is_one_line_and_doctor_sees_it(handbook: Run, tmp_path: Path) -> None:
    (tmp_path / "qianxun-data" / "qianxun.db").write_bytes(b"not a database at all" * 500)
    told = handbook("doctor", "--json")
    assert told.code == 1
    assert "已损坏" in told.json["trouble"]
    assert "还没有" not in handbook("doctor").out, "as if there had never been anything in it"
    failed = handbook("kb", "list")
    assert failed.code == 1
    assert "已损坏" in failed.err
    assert "备份" in failed.err
    assert "Traceback" not in failed.err


def test_doctor_goes_on_where_an_index_is_somebody_elses(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(
        "qianxun.index.embedded.backend.unsealed", refused
    )  # a test that runs as root may read everything
    told = handbook("doctor", "--json")
    assert told.code == 1
    assert "没有权限" in told.json["trouble"]
    assert "属主" in told.json["trouble"]


def test_an_index_that_is_rebuilt_on_opening_is_announced(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A better analysis of texts rebuilds the words of every base, for which a first search waits."""
    assert "重建" not in handbook("search", "年休假", "--kb", "手册", "--json").err
    monkeypatch.setattr(chinese, "ANALYSIS_VERSION", "zh-later")
    told = handbook("search", "年休假", "--kb", "手册", "--json")
    assert told.json["chunks"]
    assert "重建关键词索引…知识库“手册”，3 个分块" in told.err
    assert "重建" not in handbook("search", "年休假", "--kb", "手册", "--json").err
