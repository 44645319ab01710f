"""The global options, errors and languages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len

from qianxun.doors.cli.app import COMMANDS, WITH_VALUE, app_for
from qianxun.doors.cli.i18n import _breaks
from tests.cli.conftest import Run

HEAVY = ("numpy", "sqlalchemy", "faiss", "tantivy", "onnxruntime", "httpx", "opencc", "qianxun.engine.engine")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from qianxun.doors.cli import main; main(['--help']); main(['search', '--help']);"
        f"print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "heavy: []"
    assert "kb" in told.stdout


def test_a_command_is_built_alone_wherever_it_stands() -> None:
    for name in COMMANDS:
        for before in ((), ("--verbose",), ("--data", "ask"), ("--lang=en", "--data", "--help", "--url", "kb")):
            assert list(typer.main.get_command(app_for((*before, name, "--help"))).commands) == [name]  # type: ignore[attr-defined]
    for words in ((), ("--help", "ask"), ("--data", "ask"), ("serch", "ask"), ("--version",)):
        assert set(typer.main.get_command(app_for(words)).commands) == set(COMMANDS)  # type: ignore[attr-defined]


def test_the_options_that_take_a_value_are_known() -> None:
    (*options,) = typer.main.get_command(app_for(())).params
    assert set(WITH_VALUE) == {name for one in options if not one.is_flag for name in one.opts}  # type: ignore[attr-defined]


def test_version(run: Run) -> None:
    assert run("--version").out.startswith("qianxun ")


def test_errors_are_english_on_request(handbook: Run, files: Path) -> None:
    assert "There is no knowledge base" in handbook("--lang", "en", "kb", "show", "没有").err
    assert "files added" in handbook("--lang", "en", "add", files, "--kb", "手册").out
    assert "没有名为" in handbook("kb", "show", "没有").err


def test_names_do_not_reach_the_terminal_as_commands(handbook: Run, tmp_path: Path) -> None:
    """A name may be whatever a file system takes: escape sequences, bytes that are no text, marks of direction."""
    wicked = tmp_path / "\x1b[2J\x1b]0;换标题\x07\u202e[bold]坏.txt"
    wicked.write_text("琥珀是宝石。", "utf-8")
    unreadable = tmp_path / os.fsdecode(b"\xff\x1b[31m.pdf")
    unreadable.write_bytes(b"not a pdf")
    added = handbook("add", wicked, unreadable, "--kb", "手册")
    assert handbook("kb", "create", "\x1b[31m红").code in (0, 2)
    item = next(one for one in handbook("kb", "show", "手册", "--json").json["items"] if "坏.txt" in one["name"])
    shown = [added, handbook("kb", "show", "手册"), handbook("kb", "list"), handbook("search", "琥珀", "--kb", "手册")]
    shown += [handbook("delete", item["doc_id"], "--kb", "手册"), handbook("kb", "show", "\x1b[31m没有")]
    for outcome in shown:
        assert not set(outcome.out + outcome.err) & {"\x1b", "\x07", "\u202e", "\udcff"}
    assert "\\x1b[2J" in shown[1].out
    assert "\\xff" in added.err


def test_json_is_utf_8_whatever_a_file_is_called(handbook: Run, tmp_path: Path) -> None:
    bad = tmp_path / os.fsdecode(b"\xff\xfe.pdf")
    bad.write_bytes(b"not a pdf")
    report = handbook("add", bad, "--kb", "手册", "--json")
    report.out.encode()
    assert report.json["refused"][0]["path"].endswith("\\xff\\xfe.pdf")
    command = [sys.executable, "-c", "import sys; from qianxun.doors.cli import main; main(sys.argv[1:])"]
    missing = tmp_path / "缺.txt"
    program = [*command, "add", bad, missing, "--kb", "手册", "--json"]
    environment = {**os.environ, "PYTHONIOENCODING": "gbk:surrogateescape"}
    printed = subprocess.run(program, capture_output=True, env=environment, check=False).stdout
    assert b"refused" in printed, printed.decode()
    paths = [refusal["path"] for refusal in json.loads(printed.decode("utf-8"))["refused"]]
    assert sorted(Path(path).name for path in paths) == ["\\xff\\xfe.pdf", "缺.txt"]


def test_a_wrong_command_is_a_mistake_also_in_json(run: Run) -> None:
    assert run("search", "发票").code == 2
    failed = run("search", "发票", "--json")
    assert (failed.code, failed.json["error"]) == (2, "bad_input")
    assert "--kb" in failed.json["message"]
    assert run("没有这个命令").code == 2


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("serch 发票", "没有“serch”这个命令；是不是 search、serve？"),
        ("kb 没有", "没有“没有”这个命令"),
        ("search 发票 --kbb 手册", "没有 --kbb 这个选项；是不是 --kb？"),
        ("search 发票 --没有", "没有 --没有 这个选项"),
        ("search", "缺少 QUERY"),
        ("search 发票", "缺少 --kb"),
        ("search 发票 --kb", "--kb 后面缺少它的值"),
        ("search 发票 --kb 手册 --explain=1", "--explain 不带值"),
        ("search 发票 多久 --kb 手册", "多出了 多久；有空格的话要加引号"),
        ("search 发票 --kb 手册 --mode 没有", "--mode 没有“没有”这个值，可用的有 hybrid, vector, fulltext"),
        ("search 发票 --kb 手册 -k 三", "--top-k / -k 要一个整数"),
        ("search 发票 --kb 手册 --threshold 三", "--threshold 要一个数"),
        ("serve --port 99999", "--port 应不大于 65535"),
        ("serve --workers -1", "--workers 应不小于 0"),
    ],
)
def test_a_wrong_command_is_told_in_chinese(run: Run, written: str, told: str) -> None:
    failed = run(*written.split())
    assert failed.code == 2
    assert failed.err.splitlines()[0] == f"✗ 命令写得不对：{told}"


def test_a_wrong_command_is_told_in_english_on_request(run: Run) -> None:
    assert "No such command 'serch'" in run("--lang", "en", "serch").err


def pages(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from pages(below, (*path, name))


def test_help_pages_are_whole_in_a_narrow_window(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    seen = 0
    for path, command in pages(typer.main.get_command(app_for(()))):
        page = "".join(run(*path, "--help").out.replace("│", "").split())
        assert "…" not in page.replace("……", ""), path
        for parameter in command.params:
            assert (parameter.help or "").split("·")[0].strip()[:12].replace(" ", "") in page, (path, parameter.name)
            seen += 1
    assert seen > 100


def test_no_command_prints_the_help(run: Run) -> None:
    bare = run("kb")
    assert "create" in bare.out
    assert bare.err == ""


def test_a_bad_settings_file_is_named(run: Run) -> None:
    failed = run("--config", "没有.yaml", "kb", "list")
    assert failed.code == 2
    assert "没有.yaml" in failed.err


def test_a_traceback_is_shown_only_on_request(handbook: Run) -> None:
    assert "Traceback" not in handbook("kb", "show", "没有").err
    assert "Traceback" in handbook("--verbose", "kb", "show", "没有").err


def test_lines_break_between_chinese_characters_but_not_in_numbers() -> None:
    line = "每晚不超过380.50元"
    cuts = [0, *_breaks(line, 14), len(line)]
    parts = [line[a:b] for a, b in pairwise(cuts)]
    assert parts == ["每晚不超过", "380.50元"]
    assert all(cell_len(part) <= 14 for part in parts)


def test_no_line_begins_with_a_closing_mark() -> None:
    assert _breaks("满三周岁前，夫妻各享", 10) == [4, 9]


def test_a_run_longer_than_a_line_is_broken_all_the_same() -> None:
    assert _breaks("x" * 25, 10) == [10, 20]
