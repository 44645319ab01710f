"""Runs the commands in this process, with a data folder of its own and without a model unless a test asks for one."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from qianxun.doors.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; fails when there is anything beside it."""
        return json.loads(self.out)


Run = Callable[..., Outcome]

# A process builds its commands once, and runs one of them. To build them takes longer than most commands do.
built_once = cache(typer.main.get_command)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("QIANXUN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
    monkeypatch.setenv("QIANXUN_VECTORIZATION_MODEL_HOME", str(tmp_path / "models"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(typer.main, "get_command", built_once)
    monkeypatch.chdir(tmp_path)
    root, own = logging.getLogger(), logging.getLogger("qianxun")
    kept = root.handlers[:], root.level, own.level
    yield
    root.handlers[:], root.level, own.level = kept
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """``run("kb", "list")`` is `qianxun kb list` in a folder of its own."""

    def command(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        told = capsys.readouterr()
        return Outcome(code, told.out, told.err)

    return command


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents, read by every test and changed by none."""
    folder = tmp_path_factory.mktemp("cli") / "文件"
    folder.mkdir()
    (folder / "制度.md").write_text(
        "# 制度\n\n## 差旅\n\n出差住宿每晚不超过 380 元，凭發票报销。\n\n## 假期\n\n年休假为 7 天。\n", "utf-8"
    )
    (folder / "价目.csv").write_text("编号,品名,单价\nQH-2087,升降书桌,2199\nQH-1001,复印纸,22.5\n", "utf-8")
    return folder


@pytest.fixture(scope="session")
def filled(files: Path) -> Path:
    """A data folder whose base “手册” holds the two documents: taken in once, copied for each test."""
    data = files.parent / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QIANXUN_VECTORIZATION_MODEL", "none")
        assert main(["--data", str(data), "kb", "create", "手册"]) == 0
        assert main(["--data", str(data), "add", str(files), "--kb", "手册"]) == 0
    return data


@pytest.fixture
def handbook(run: Run, filled: Path, tmp_path: Path) -> Run:
    """`run`, where there is a base “手册” with two documents in it."""
    shutil.copytree(filled, tmp_path / "qianxun-data")
    return run
