"""What was asked is in the log beside what was searched for, told apart from it; a replay compares what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.http.questions import writing
from tests.models.chat_service import chat_service

ASKED = ("ask", "出差住宿每晚不超过多少元", "--kb", "手册")


def test_one_row_to_a_question_and_those_without_an_answer_among_the_zero(handbook: Run) -> None:
    assert handbook(*ASKED).code == 0
    assert handbook("ask", "火星基地的站长是谁", "--kb", "手册", "--mode", "naive").code == 0
    assert handbook("ask", "你好", "--kb", "手册").code == 0
    assert handbook("search", "出差住宿", "--kb", "手册").code == 0
    rows = handbook("logs", "--json").json["logs"]
    assert [each["retrieval_mode"] for each in rows] == ["hybrid", "ask:mix", "ask:naive", "ask:mix"]
    (unanswered,) = handbook("logs", "--zero", "--json").json["logs"]
    assert (unanswered["query"], unanswered["zero"]) == ("火星基地的站长是谁", True)
    assert unanswered["retrieval_params"]["form"] == "declined"
    assert len(unanswered["retrieval_params"]["wordings"]) >= 1
    shown = handbook("logs", "--zero").out
    assert "ask:naive" in shown
    assert "未答" in shown


def test_a_replay_of_a_question_compares_what_was_found_and_says_so(handbook: Run, tmp_path: Path) -> None:
    assert handbook(*ASKED).code == 0
    told = handbook("replay", "1", "--json").json
    assert (told["replay"]["same"], told["replay"]["compared"], told["replay"]["form"]) == (True, "found", "extractive")
    assert told["retrieval_mode"] == "ask:mix"
    assert told["chunks"][0]["doc_name"] == "制度.md"
    shown = handbook("replay", "1")
    assert "找到的资料与当时逐字节相同" in shown.out
    assert "答案没有重写" in shown.err
    (tmp_path / "新规.txt").write_text("出差住宿每晚不超过 500 元。", "utf-8")
    assert handbook("add", tmp_path / "新规.txt", "--kb", "手册").code == 0
    changed = handbook("replay", "1", "--json").json["replay"]
    assert changed["same"] is False
    assert "came" in {each["change"] for each in changed["changed"]}
    assert changed["generation_then"] != changed["generation_now"]
    assert [each["id"] for each in handbook("logs", "--json").json["logs"]] == [1]


def test_the_words_of_a_model_are_said_not_to_be_replayed(handbook: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_service(writing("出差住宿每晚不超过380元，凭发票报销[1]。")) as service:
        monkeypatch.setenv("QIANXUN_CHAT_BASE_URL", service.url)
        monkeypatch.setenv("QIANXUN_CHAT_MODEL", "qwen")
        assert handbook(*ASKED, "--stream").code == 0
        calls = len(service.requests)
        shown = handbook("replay", "1")
        assert len(service.requests) == calls
    assert "措辞无法重放" in shown.err
    assert "找到的资料与当时逐字节相同" in shown.out


def test_where_nothing_was_looked_up_there_is_nothing_to_compare(handbook: Run) -> None:
    assert handbook("ask", "你好", "--kb", "手册").code == 0
    shown = handbook("replay", "1")
    assert shown.code == 0, shown.err
    assert "没有可比的" in shown.out
