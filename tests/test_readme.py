"""Every command and every program in the README is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.shared import MODELS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
HANDBOOK = "# 员工手册\n\n## 医疗\n\n住院费用在职职工报销 85%，退休职工报销 90%。门诊费用报销 60%。\n"
RATES = "类别,报销比例\n住院,85%\n门诊,60%\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def environment() -> dict[str, str]:
    model = {"QIANXUN_VECTORIZATION_MODEL_FOLDERS": str(MODELS)} if MODELS.is_dir() else {}
    return {**os.environ, **model, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def prepare(folder: Path) -> None:
    (folder / "手册.md").write_text(HANDBOOK, "utf-8")
    (folder / "报销比例.csv").write_text(RATES, "utf-8")


def test_every_command_runs(tmp_path: Path) -> None:
    prepare(tmp_path)
    commands = [line for block in blocks("bash") for line in block.splitlines() if line]
    assert commands[0] == "make demo"  # tests/test_demo.py runs what it runs
    shown = {}
    for command in commands[1:]:
        run = subprocess.run(
            shlex.split(command), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        shown[command] = run.stdout
    assert any("85%" in output for command, output in shown.items() if "search" in command)


def test_the_program_runs(tmp_path: Path) -> None:
    prepare(tmp_path)
    (program,) = blocks("python")
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert "60%" in run.stdout


def test_what_make_is_said_to_do_it_can_do() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"make ([a-z]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.M), target
