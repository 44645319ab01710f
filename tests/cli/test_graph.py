"""`qianxun graph`, over a data folder and, where a model reads, a real chat service."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.doors.cli import main
from tests.cli.conftest import Run
from tests.graph.reading_model import reads_well
from tests.models.chat_service import ChatService, Reply, Request, chat_service


def answers(request: Request) -> str | Reply:
    if "核对知识图谱" in request.text:
        return json.dumps([{"name": "第1厂", "alias": "第3厂", "reason": "同一家"}], ensure_ascii=False)
    if "写摘要" in request.text:
        return json.dumps({"title": "药厂", "summary": "药厂生产药品。"}, ensure_ascii=False)
    return reads_well(request)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatService]:
    with chat_service(answers) as running:
        monkeypatch.setenv("QIANXUN_CHAT_BASE_URL", running.url)
        monkeypatch.setenv("QIANXUN_CHAT_MODEL", "qwen")
        yield running


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a base “药厂” of three files, whose graph a model reads on demand: copied for each test."""
    folder = tmp_path_factory.mktemp("graph") / "文件"
    folder.mkdir()
    for n in (1, 2, 3):
        (folder / f"{n}.txt").write_text(f"第{n}厂生产{n}号药。\n第{n}厂生产{n}9号药。", "utf-8")
    data = folder.parent / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
        patch.setenv("QIANXUN_CHAT_BASE_URL", "http://127.0.0.1:9/v1")
        patch.setenv("QIANXUN_CHAT_MODEL", "qwen")
        own = ["--config", "graph_model=qwen", "--config", "graph=false"]
        assert main(["--data", str(data), "kb", "create", "药厂", *own]) == 0
        assert main(["--data", str(data), "add", str(folder), "--kb", "药厂"]) == 0
    return data


@pytest.fixture
def plants(run: Run, service: ChatService, planted: Path, tmp_path: Path) -> Run:
    shutil.copytree(planted, tmp_path / "qianxun-data")
    return run


def test_the_cost_is_told_then_the_model_reads_and_nothing_is_asked_twice(plants: Run, service: ChatService) -> None:
    expected = plants("graph", "estimate", "--kb", "药厂", "--json").json
    assert expected["reading"]["cost"]["calls"] == 3
    assert "约 3 次调用" in plants("graph", "estimate", "--kb", "药厂").out
    assert service.requests == []
    built = plants("graph", "build", "--kb", "药厂")
    assert built.code == 0
    assert "约 3 次调用" in built.err
    assert "读了 3 块" in built.out
    asked = len(service.requests)
    again = plants("graph", "build", "--kb", "药厂", "--json")
    assert (again.code, again.json["model"]["calls"], again.json["model"]["whole"]) == (0, 0, True)
    assert len(service.requests) == asked
    assert "都读过了" in plants("graph", "estimate", "--kb", "药厂").out
    status = plants("graph", "status", "--kb", "药厂", "--json").json
    assert (status["readers"], status["unread"], status["entities"]) == ({"model:qwen": 3}, 0, 9)
    assert "模型 qwen：3 块" in plants("graph", "status", "--kb", "药厂").out


def test_statistics_alone_ask_no_model(plants: Run, service: ChatService) -> None:
    built = plants("graph", "build", "--kb", "药厂", "--no-model", "--json").json
    assert (built["chunks"], built["model"], built["summaries"]) == (3, None, None)
    assert service.requests == []
    assert "还有 3 块没有读" in plants("graph", "status", "--kb", "药厂").out


def test_all_is_read_anew_where_that_is_asked_for(plants: Run, service: ChatService) -> None:
    assert plants("graph", "build", "--kb", "药厂").code == 0
    asked = len(service.requests)
    again = plants("graph", "build", "--kb", "药厂", "--anew", "--json").json
    assert (again["model"]["read"], len(service.requests)) == (3, asked + 3)  # the summaries are as before
    plain = plants("graph", "build", "--kb", "药厂", "--anew", "--no-model", "--json").json
    assert plain["read"] == 3
    (reader,) = plants("graph", "status", "--kb", "药厂", "--json").json["readers"]
    assert reader.startswith("statistical:")


def test_a_model_that_cannot_be_had_is_told_of(plants: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QIANXUN_CHAT_BASE_URL")
    told = plants("graph", "status", "--kb", "药厂")
    assert told.code == 0
    assert "qwen" in told.out
    assert plants("graph", "build", "--kb", "药厂").code == 2
    assert plants("graph", "build", "--kb", "药厂", "--no-model").code == 0


def test_an_entity_is_shown_with_what_says_so(plants: Run) -> None:
    assert plants("graph", "build", "--kb", "药厂").code == 0
    shown = plants("graph", "show", "第1厂", "--kb", "药厂")
    assert shown.code == 0
    assert "第1厂 —生产→ 1号药" in shown.out
    assert "第1厂生产1号药。" in shown.out
    told = plants("graph", "show", "第1厂", "--kb", "药厂", "--json").json
    assert told["entity"]["type"] == "ORGANIZATION"
    stated = next(each for each in told["relations"] if each["type"] == "生产")
    assert (stated["source_name"], stated["quote"]["doc_name"]) == ("第1厂", "1.txt")
    unknown = plants("graph", "show", "第一厂", "--kb", "药厂")
    assert unknown.code == 2
    assert "第1厂" in unknown.err


def test_names_are_merged_and_split_and_suggested(plants: Run) -> None:
    assert plants("graph", "build", "--kb", "药厂").code == 0
    before = plants("graph", "status", "--kb", "药厂", "--json").json
    suggested = plants("graph", "aliases", "--kb", "药厂", "--suggest")
    assert "第3厂 → 第1厂" in suggested.out
    assert "graph merge 第1厂 第3厂 --kb 药厂" in suggested.err
    merged = plants("graph", "merge", "第1厂", "第3厂", "--kb", "药厂")
    assert merged.code == 0
    assert "第1厂：又名 第3厂" in merged.out
    assert "graph split 第3厂" in merged.err
    assert plants("graph", "status", "--kb", "药厂", "--json").json["entities"] == before["entities"] - 1
    rows = plants("graph", "aliases", "--kb", "药厂", "--json").json["aliases"]
    assert [(row["name"], row["alias"]) for row in rows] == [("第1厂", "第3厂")]
    twice = plants("graph", "merge", "第2厂", "第3厂", "--kb", "药厂", "--json")
    assert (twice.code, twice.json["error"]) == (2, "already_there")
    assert plants("graph", "split", "第3厂", "--kb", "药厂", "--json").json == {"parted": ["第3厂"]}
    assert plants("graph", "status", "--kb", "药厂", "--json").json == before
    assert "没有合并过" in plants("graph", "aliases", "--kb", "药厂").out
    assert plants("graph", "split", "第3厂", "--kb", "药厂").code == 2


def test_communities_are_told_in_the_models_words(plants: Run) -> None:
    assert plants("graph", "build", "--kb", "药厂", "--no-model").code == 0
    assert plants("graph", "build", "--kb", "药厂").code == 0
    shown = plants("graph", "communities", "--kb", "药厂")
    assert "药厂生产药品。" in shown.out
    told = plants("graph", "communities", "--kb", "药厂", "--json").json["communities"]
    assert {each["origin"] for each in told} >= {"model:qwen"}
    assert all(each["sources"] for each in told)


def test_a_model_that_fails_is_told_and_the_statistics_stay(
    plants: Run, service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers = lambda _: Reply(status=400)
    built = plants("graph", "build", "--kb", "药厂")
    assert built.code == 1
    assert "3 块还没有读" in built.out
    assert plants("graph", "status", "--kb", "药厂", "--json").json["chunks"] == 3


def test_without_a_model_it_is_said_how_to_name_one_and_a_service_is_refused(handbook: Run) -> None:
    assert handbook("graph", "build", "--kb", "手册").code == 0
    refused = handbook("graph", "estimate", "--kb", "手册")
    assert refused.code == 2
    assert "graph_model=" in refused.err
    over = handbook("--url", "http://127.0.0.1:1", "graph", "status", "--kb", "手册")
    assert over.code == 2
    assert "--url" in over.err
    assert handbook("--lang", "en", "graph", "status", "--kb", "手册").code == 0
    assert handbook("graph", "status", "--kb", "没有").code == 2
