"""Processes that are forked from one that has imported everything behave as those that `subprocess` starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import preloaded

ABOUT = """
import json, os, sys
print(json.dumps({
    "arguments": sys.argv[1:], "variables": dict(os.environ), "folder": os.getcwd(), "name": __name__,
    "files": [name for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)],
    "session": os.getsid(0) == os.getpid(), "imported": "qianxun.doors.http.app" in sys.modules,
}))
print("错误", file=sys.stderr)
sys.exit(7)
"""
WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


@pytest.mark.parametrize("new_session", [False, True])
def test_a_process_has_what_it_was_given_and_nothing_else(tmp_path: Path, new_session: bool) -> None:
    variables = {"LANG": "C.UTF-8", "变量": "值"}
    command = python(ABOUT, "一", "--two")
    options = {"cwd": tmp_path, "env": variables, "start_new_session": new_session}
    done = preloaded.run(command, capture_output=True, text=True, encoding="utf-8", **options)
    real = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", **options)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (real.returncode, real.stderr) == (7, "错误\n")
    told, expected = json.loads(done.stdout), json.loads(real.stdout)
    assert (told.pop("imported"), expected.pop("imported")) == (True, False)
    assert {**told, "variables": variables} == {**expected, "variables": variables}
    assert told["variables"].items() >= variables.items()
    assert told["files"] == ["0", "1", "2"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with preloaded.Popen(python(WAITS), text=True, **streams) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0)
        process.send_signal(number)
        _, told = process.communicate()
        assert process.returncode == process.poll() == -number
        assert ("KeyboardInterrupt" in told) == (number == signal.SIGINT)
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_input_ends_for_one_while_another_runs() -> None:
    with (
        preloaded.Popen(python(WAITS), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first,
        preloaded.Popen(python(WAITS), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second,
    ):
        first.communicate()  # the other process has no copy of its input that would keep it open
        assert (first.returncode, second.poll()) == (0, None)


def test_a_module_is_run_as_the_main_one_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text("import sys; print(__name__, sys.argv[1:])", "utf-8")
    done = preloaded.run([sys.executable, "-m", "greeting", "你好"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "__main__ ['你好']\n", "")


def test_a_script_finds_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = '你好'", "utf-8")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside; print(__name__, beside.WORD, sys.argv[1:])", "utf-8")
    done = preloaded.run([sys.executable, script, "世界"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "__main__ 你好 ['世界']\n", "")


def test_a_failure_is_one() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        preloaded.run(python("1 / 0"), check=True, stderr=subprocess.DEVNULL)


def test_what_is_forked_has_no_thread_but_that_of_numpy() -> None:
    """Which the library itself stops before the first fork."""
    of_parent = python("import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))")
    of_numpy = python("import os, numpy; print(len(os.listdir('/proc/self/task')))")
    counted = int(preloaded.run(of_parent, capture_output=True).stdout)
    assert counted <= int(subprocess.run(of_numpy, capture_output=True, check=True).stdout)
