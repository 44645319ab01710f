"""`qianxun logs` shows what went badly; `qianxun replay` gives the same answer, or says what has changed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qianxun.core.log_types import LogEntry
from qianxun.doors.cli.commands.logs import _table
from qianxun.engine.admin.replay import changes
from qianxun.engine.engine import Engine
from qianxun.retrieve.recall_cache import replaying
from qianxun.retrieve.search_log import Journal
from tests.cli.conftest import Run

PARAMS: dict[str, Any] = {
    "mode": "fulltext",
    "top_k": 5,
    "threshold": 0.0,
    "where": {"op": "in", "field": "content_type", "values": [""]},
    "doc_ids": [],
}


def searched(*queries: str, seconds: float | None = None) -> None:
    """These searches, made and logged as the engine does it."""

    async def work() -> None:
        async with Engine.open("qianxun-data", background=False) as engine:
            base = await engine.knowledge_base("手册")
            journal = Journal(engine.records)
            for query in queries:
                with replaying():
                    answer = await engine.retrieve(base.id, query, mode="fulltext", top_k=5)
                if seconds is not None:
                    object.__setattr__(answer, "seconds", seconds)
                journal.note(base, answer, PARAMS)
            await journal.close()

    asyncio.run(work())


def test_the_log_is_listed_newest_first_and_says_what_to_do_next(handbook: Run) -> None:
    searched("住宿", "火星基地")
    shown = handbook("logs")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]
    assert "火星基地" in lines[1]
    assert "手册" in lines[1]
    assert "严格" in shown.out or "模糊" in shown.out
    assert "replay 2" in shown.err


def test_only_those_that_found_nothing(handbook: Run) -> None:
    searched("住宿", "ｑｑｑｑｑ")
    found = handbook("logs", "--zero", "--json").json["logs"]
    assert [(each["query"], each["chunk_count"], each["tier"]) for each in found] == [("ｑｑｑｑｑ", 0, None)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), [2, 1]), (("--slow",), [2]), (("--slow", "400"), []), (("--slow", "5"), [2, 1]), (("--limit", "1"), [2])],
)
def test_slow_ones_and_a_limit(handbook: Run, arguments: tuple[str, ...], expected: list[int]) -> None:
    searched("住宿", seconds=0.01)
    searched("住宿", seconds=0.3)
    found = handbook("logs", *arguments, "--kb", "手册", "--json").json["logs"]
    assert [each["id"] for each in found] == expected


def test_an_empty_log_and_an_unknown_base_are_said_so(handbook: Run) -> None:
    assert "还没有检索记录" in handbook("logs").out
    assert "没有这样的检索" in handbook("logs", "--zero").out
    assert handbook("logs", "--kb", "没有").code == 2


def test_queries_that_would_upset_a_terminal_are_shown_plain(handbook: Run) -> None:
    searched("住宿 [red]\x1b[31m红", "住宿" * 100)
    shown = handbook("logs").out
    assert "\x1b" not in shown
    assert "[red]" in shown
    assert "住宿" * 5 in shown
    assert "住宿" * 13 not in shown
    assert len(shown.splitlines()) == 3  # a head and one line each


def test_a_replay_gives_the_same_answer_and_leaves_no_record(handbook: Run) -> None:
    searched("出差住宿")
    told = handbook("replay", "1", "--json").json
    again = handbook("replay", "1", "--json").json
    assert told["replay"]["same"] is True
    assert told["replay"]["changed"] == []
    assert told["replay"]["log_id"] == 1
    assert told["chunks"][0]["doc_name"] == "制度.md"
    varying = {"time_cost_ms", "seconds", "steps", "trace_id"}
    assert {key: told[key] for key in told.keys() - varying} == {key: again[key] for key in again.keys() - varying}
    assert [each["id"] for each in handbook("logs", "--json").json["logs"]] == [1]
    assert "逐字节相同" in handbook("replay", "1").out


def test_a_replay_says_what_has_changed_since(handbook: Run, tmp_path: Path) -> None:
    searched("出差住宿")
    (tmp_path / "新规.txt").write_text("出差住宿，出差住宿，出差住宿。", "utf-8")
    assert handbook("add", tmp_path / "新规.txt", "--kb", "手册").code == 0
    done = handbook("replay", "1", "--json")
    told = done.json["replay"]
    assert done.code == 0
    assert told["same"] is False
    assert "came" in {each["change"] for each in told["changed"]}
    shown = handbook("replay", "1")
    assert shown.code == 0
    assert "新来" in shown.out


def test_a_replay_of_nothing_is_a_mistake(handbook: Run) -> None:
    refused = handbook("replay", "99")
    assert refused.code == 2
    assert "qianxun logs" in refused.err


def test_the_log_of_a_deleted_base_is_gone(handbook: Run) -> None:
    searched("出差住宿")
    assert handbook("kb", "delete", "手册", "--yes").code == 0
    assert handbook("logs", "--json").json == {"logs": []}


def test_changes_name_what_came_went_moved_and_was_scored_anew() -> None:
    then = [("甲", 0.9), ("乙", 0.8), ("丙", 0.7), ("丁", 0.6)]
    now = [("甲", 0.9), ("丙", 0.7), ("戊", 0.65), ("丁", 0.5)]
    found = [(each["chunk_id"], each["change"], each["rank_then"], each["rank_now"]) for each in changes(then, now)]
    assert found == [("丙", "moved", 3, 2), ("戊", "came", None, 3), ("丁", "rescored", 4, 4), ("乙", "went", 2, None)]
    assert changes(then, then) == []


def test_no_figure_is_cut_off_in_a_narrow_terminal() -> None:
    moment = datetime(2026, 11, 18, 16, 28, 7, tzinfo=UTC)
    results = tuple((f"c_1_{number}", 0.5) for number in range(100))
    long = LogEntry(1, "退休职工三级医院住院起付标准是多少", {}, results, 12345, moment, "ask:mix", "document")
    console = Console(width=80, file=StringIO())
    console.print(_table([replace(long, id=100234)], {1: "一个名称很长很长的知识库"}, 80))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert {"100234", "12345", "100", f"{moment.astimezone():%H:%M:%S}"} <= set(shown.split())
