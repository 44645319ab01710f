"""What only real processes show: an owner that lives, Ctrl-C, and going on after it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import preloaded
from tests.cli.conftest import Run
from tests.cli.test_examples import name_model
from tests.models.embedding_service import Exchange, Service, serving, well

OWNER = """
import sys, time
from pathlib import Path
from qianxun.engine.folder_lock import owned
with owned(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""
FILES = 100
QIANXUN = (sys.executable, "-c", "import sys; from qianxun.doors.cli import main; sys.exit(main())")


def test_a_folder_in_use_names_its_owner_and_doctor_still_works(handbook: Run, tmp_path: Path) -> None:
    owner = preloaded.Popen([sys.executable, "-c", OWNER, tmp_path / "qianxun-data"], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        refused = handbook("search", "发票", "--kb", "手册", "--json")
        assert (refused.code, refused.json["error"]) == (3, "folder_in_use")
        assert str(owner.pid) in refused.json["message"]
        told = handbook("doctor", "--json")
        assert told.code == 0
        assert str(owner.pid) in told.json["owner"]
        assert told.json["bases"][0]["documents"] == 2
        assert str(owner.pid) in handbook("doctor").out
    finally:
        owner.kill()
        owner.communicate()
    assert handbook("search", "发票", "--kb", "手册").code == 0


def test_after_ctrl_c_the_same_command_goes_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "很多"
    files.mkdir()
    for number in range(FILES):
        (files / f"{number:04}.txt").write_text(f"第 {number} 号文件。" + "琥珀、青铜与瓷器。" * 100, "utf-8")
    with serving(well, _hangs) as service:
        name_model(monkeypatch, service.url)
        assert run("kb", "create", "库").code == 0
        stopped = _interrupted_add(tmp_path, service)
        assert stopped.returncode == 130, stopped.stderr
        assert "继续" in stopped.stderr
        assert "add 很多 --kb 库" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        service.answers[:] = [well]
        assert run("verify", "--json").json["clean"] is True
        told = run("add", "很多", "--kb", "库", "--json")
    assert told.code == 0
    assert told.json["added"] + told.json["unchanged"] == FILES
    assert told.json["added"] > 0
    verdict = run("verify", "--json").json
    assert verdict["clean"] is True
    assert verdict["knowledge_bases"][0]["documents"] == FILES


def _hangs(exchange: Exchange) -> None:
    exchange.service.released.wait(300)


def _interrupted_add(folder: Path, service: Service) -> subprocess.CompletedProcess[str]:
    """A real `add`, sent what a terminal sends on Ctrl-C once its work is under way: it waits for the second batch."""
    process = preloaded.Popen(
        [*QIANXUN, "add", "很多", "--kb", "库"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(service.asked) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_json_of_a_real_process_is_one_document_and_nothing_else(run: Run, tmp_path: Path) -> None:
    (tmp_path / "一.txt").write_text("琥珀。", "utf-8")
    assert run("kb", "create", "库").code == 0
    told = subprocess.run(
        [*QIANXUN, "add", "一.txt", "没有.txt", "--kb", "库", "--json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 1
    assert json.loads(told.stdout)["added"] == 1
    assert told.stderr == ""


def test_a_closed_pipe_is_no_crash(handbook: Run, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    told = subprocess.run([*QIANXUN, "kb", "list"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert "Traceback" not in told.stderr
