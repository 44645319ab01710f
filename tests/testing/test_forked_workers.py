"""The workers of a test run: every verdict arrives, whatever a test does to its process."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")

PLUGIN = """
from tests.forked_workers import ForkedWorkers


def pytest_cmdline_main(config):
    config.pluginmanager.register(ForkedWorkers(2, lambda: None))
"""
VERDICTS = """
import os
import sys

import pytest


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    place = tmp_path_factory.mktemp("shared")
    yield place
    (place.parent.parent / f"torn-down-{os.getpid()}").touch()


def test_passes(shared):
    print("words of one that passes")


def test_fails(shared):
    print("words before", "the failure")
    assert [1, 2] == [1, 3]


def test_is_skipped():
    pytest.skip("not here")


@pytest.mark.xfail(reason="known")
def test_is_known_to_fail():
    assert False


@pytest.fixture
def broken():
    raise RuntimeError("no such thing")


def test_has_an_error(broken):
    pass
"""
DEADLY = """
import os


def test_before():
    pass


def test_ends_its_process():
    os._exit(7)


def test_after():
    pass
"""


def verdicts(folder: Path, *options: str) -> tuple[int, dict[str, str], str]:
    """Exit code; test → passed, failed, error, skipped; what was printed."""
    (folder / "tests_plugin.py").write_text(PLUGIN)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", folder, "-p", "tests_plugin"]
    command += ["--junitxml", folder / "found.xml", "--basetemp", folder / "temporary", "-q", *options]
    environment = {"PYTHONPATH": f"{folder}:{CHECKOUT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
    found = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        found[str(case.get("name"))] = next((each.tag for each in case if each.tag != "system-out"), "passed")
    return done.returncode, found, done.stdout


def test_every_verdict_arrives_with_its_words(tmp_path: Path) -> None:
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(VERDICTS)
    code, found, out = verdicts(tmp_path, "-rs")
    assert code == 1
    assert found == {
        "test_passes": "passed",
        "test_fails": "failure",
        "test_is_skipped": "skipped",
        "test_is_known_to_fail": "skipped",
        "test_has_an_error": "error",
    }
    assert "2 failed, 2 passed, 2 skipped, 2 xfailed, 2 errors" in out
    assert out.count("words before the failure") == 2
    assert "assert [1, 2] == [1, 3]" in out
    assert "not here" in out
    assert len(list((tmp_path / "temporary").glob("torn-down-*"))) == 2  # by one worker each


def test_a_test_that_ends_its_process_has_failed_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(DEADLY)
    (tmp_path / "test_b.py").write_text("def test_other(): pass\n")
    code, found, out = verdicts(tmp_path)
    assert code == 1
    assert found == {
        "test_before": "passed",
        "test_ends_its_process": "failure",
        "test_after": "passed",
        "test_other": "passed",
    }
    assert "has ended while it ran this: 7" in out


def test_the_first_failure_ends_the_run_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_fails(): assert False\n")
    (tmp_path / "test_b.py").write_text("import time\n\n\ndef test_waits(): time.sleep(250)\n")
    code, found, out = verdicts(tmp_path, "-x")
    assert (code, found["test_fails"]) == (1, "failure")
    assert "1 failed" in out


def test_without_a_failure_the_run_has_succeeded(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_passes(): pass\n")
    assert verdicts(tmp_path)[:2] == (0, {"test_passes": "passed"})
