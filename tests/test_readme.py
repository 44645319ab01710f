"""Every command and every program in the README is run."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.doors.cli import main
from tests import preloaded
from tests.http.served import running
from tests.shared import MODELS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8000"
HANDBOOK = "# 员工手册\n\n## 医疗\n\n住院费用在职职工报销 85%，退休职工报销 90%。门诊费用报销 60%。\n"
RATES = "类别,报销比例\n住院,85%\n门诊,60%\n"
LABELLED = {
    "corpus.jsonl": '{"_id": "d1", "text": "住院费用报销 85%。"}\n{"_id": "d2", "text": "门诊费用报销 60%。"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "住院能报多少"}\n',
    "qrels.tsv": "q1\td1\t1\n",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def environment() -> dict[str, str]:
    model = {"QIANXUN_VECTORIZATION_MODEL_FOLDERS": str(MODELS)} if MODELS.is_dir() else {}
    return {**os.environ, **model, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def prepare(folder: Path) -> None:
    (folder / "手册.md").write_text(HANDBOOK, "utf-8")
    (folder / "报销比例.csv").write_text(RATES, "utf-8")
    (folder / "制度").mkdir()
    (folder / "制度" / "考勤.md").write_text("# 考勤\n\n迟到三次记旷工半天。\n", "utf-8")
    (folder / "评测集").mkdir()
    for name, content in LABELLED.items():
        (folder / "评测集" / name).write_text(content, "utf-8")


def run_commands(commands: list[list[str]]) -> dict[str, str]:
    """What each command printed, by its first word; all of them must succeed.

    In this process: each in one of its own would spend most of its time on imports.
    """
    shown: dict[str, str] = {}
    for words in commands:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        assert code == 0, f"{words}\n{out.getvalue()}\n{err.getvalue()}"
        shown[words[0]] = shown.get(words[0], "") + out.getvalue()
    return shown


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which somebody works who follows the README."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("门诊费用报销多少\n"))  # what is said in a chat
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    root, own = logging.getLogger(), logging.getLogger("qianxun")
    kept = root.handlers[:], root.level, own.level
    yield tmp_path
    root.handlers[:], root.level, own.level = kept
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


def ran(folder: Path, program: str) -> str:
    run = preloaded.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_every_command_runs(at_home: Path) -> None:
    first, *commands = [shlex.split(line) for block in blocks("bash") for line in block.splitlines() if line]
    assert first == ["make", "demo"]  # tests/test_demo.py runs what it runs
    assert {program for program, *_ in commands} == {"qianxun"}
    # Examples are compared by their vectors: without a model their commands say so, and fail.
    asked = [words for _, *words in commands if MODELS.is_dir() or words[0] != "examples"]
    at = asked.index(["serve"])
    shown = run_commands(asked[:at])
    assert "85%" in shown["search"]
    assert "85%" in shown["ask"]
    assert "[1] 手册.md" in shown["ask"]
    assert "60%" in shown["chat"]
    assert "85%" in shown["tables"]
    assert "住院" in shown["texts"]
    assert "逐字节相同" in shown["replay"]
    assert "nDCG@10" in shown["eval"]
    with running(at_home / "qianxun-data") as service:
        check_service(at_home, service.url, asked[at + 1 :])


def check_service(folder: Path, url: str, asked: list[list[str]]) -> None:
    """What the README does with a service, done with this one."""
    if shutil.which("curl"):
        requests = [line for block in blocks("sh") for line in block.splitlines()]
        retrieval, query, chat = (_curled(line.replace(ADDRESS, url)) for line in requests)
        assert "85%" in json.loads(retrieval)["data"]["chunks"][0]["content"]
        assert [line for line in query.splitlines() if line.startswith("event: ")][-1] == "event: done"
        assert "85%" in query
        assert "85%" in json.loads(chat)["choices"][0]["message"]["content"]
    _, program = blocks("python")
    assert "60%" in ran(folder, program.replace(ADDRESS, url))
    shown = run_commands([[word.replace(ADDRESS, url) for word in words] for words in asked])
    assert "85%" in shown["--url"]
    assert "local" in shown["kb"]
    key = shown["keys"].split()[0]  # with it the reader sees the base that the README has made
    seen = run_commands([["--url", url, "--key", key, "search", "住院能报多少", "--kb", "我的资料"]])
    assert "85%" in seen["--url"]


def _curled(command: str) -> str:
    return subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout


def test_the_program_runs(tmp_path: Path) -> None:
    prepare(tmp_path)
    program, _ = blocks("python")
    told = ran(tmp_path, program)
    assert "60%" in told
    assert "[1]" in told


def test_what_make_is_said_to_do_it_can_do() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"make ([a-z]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.M), target
