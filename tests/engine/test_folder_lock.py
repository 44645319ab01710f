"""A data folder has one owner, and the second process is told who."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput, FolderInUse
from qianxun.engine.folder_lock import LOCK, is_exposed, make_private_folder, owned, owner_of, refused

HOLD = """import sys
from pathlib import Path
from qianxun.engine.folder_lock import owned
with owned(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_owns_the_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse, match=f"进程 {holder.pid}"), owned(tmp_path):
            pass
        holder.kill()
        holder.wait()
        with owned(tmp_path):  # a killed owner leaves no lock behind
            pass


def test_a_second_engine_of_the_same_process_is_told_to_share_the_first(tmp_path: Path) -> None:
    with owned(tmp_path), pytest.raises(FolderInUse, match="本进程") as told, owned(tmp_path):
        pass
    assert "create_query_workflow(engine)" in told.value.hint


def test_a_folder_that_cannot_be_written_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("不是目录")
    with pytest.raises(BadInput, match="--data"), owned(tmp_path / "file" / "data"):
        pass


def test_of_a_folder_of_somebody_else_it_is_said_whose_it_is_and_how_to_get_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    owner = pwd.getpwuid(os.geteuid()).pw_name
    assert "chmod" in refused(tmp_path, denied).hint
    assert refused(tmp_path / "没有", denied).hint == "换一个可写的目录：--data DIR"
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    told = refused(tmp_path, denied)
    assert f"属于用户 {owner}，现在是 54321" in told.message
    assert f"sudo -u {owner}" in told.hint
    assert f"chown -R 54321 {tmp_path}" in told.hint


@pytest.mark.parametrize(
    "told",
    [
        ["copy", "--to", "postgresql://u:s3cret@h/d"],
        ["copy", "--to=postgresql://u:s3c@ret:s3cret@h/d?password=s3cret&x=1"],
        ["--key", "s3cret", "kb", "list"],
        ["--key=s3cret"],
    ],
)
def test_no_password_of_the_command_line_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/qianxun", *told])
    with owned(tmp_path):
        written = (tmp_path / "lock").read_text("utf-8")
    assert "qianxun" in written
    assert "s3cret" not in written


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_lock_file_lets_nobody_in(tmp_path: Path, replaced: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (tmp_path / "lock").unlink()
        if replaced:
            (tmp_path / "lock").write_text("{}")
        with pytest.raises(FolderInUse, match="lock 文件被删掉"), owned(tmp_path):
            pass
        assert "lock 文件被删掉" in (owner_of(tmp_path) or "")
        holder.kill()
        holder.wait()
        assert owner_of(tmp_path) is None
        with owned(tmp_path):
            pass


def test_a_data_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    new, old, shared = tmp_path / "新" / "数据", tmp_path / "旧", tmp_path / "别的"
    for folder, file in ((old, "qianxun.db"), (shared, "照片.jpg")):
        folder.mkdir()
        folder.chmod(0o755)
        (folder / file).write_text("")
    for folder in (new, old, shared):
        make_private_folder(folder)
    assert [folder.stat().st_mode & 0o777 for folder in (new, old, shared)] == [0o700, 0o700, 0o755]
    (old / "lock").write_text("")
    (old / "lock").chmod(0o644)
    with owned(old):
        assert not is_exposed(old / "lock")


def test_what_a_killed_process_left_is_waited_for(tmp_path: Path) -> None:
    """A child that it was about to start has its locks until it is another program, which on a busy machine takes a
    while: whoever restarts a killed service at once is not to be refused."""
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    handle = os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, json.dumps({"pid": killed.pid, "host": socket.gethostname()}).encode())
    becomes_another = threading.Timer(0.2, os.close, [handle])
    becomes_another.start()
    with owned(tmp_path):
        assert not becomes_another.is_alive()
