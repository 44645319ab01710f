"""One engine of one process owns a data folder; a second one is refused, with the owner's name."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from qianxun.core.errors import BadInput, FolderInUse

LOCK = "lock"
DATABASE = "qianxun.db"  # the records, in the same folder


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Owns the folder; the kernel releases it when the process ends, however it ends. Raises FolderInUse, BadInput."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise refused(folder, error) from error
    try:
        _lock(handle, folder)
        _sign(handle)
        yield
    finally:
        os.close(handle)


def owner_of(folder: Path) -> str | None:
    """The process that owns the folder right now, for people to read; None if there is none. Locks nothing."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(handle)
    finally:
        os.close(handle)
    return None


def refused(folder: Path, error: OSError) -> BadInput:
    """The error for a folder that cannot be used: whose it is, and how to get access."""
    message = f"不能使用数据目录 {folder}：{error.strerror}"
    theirs = _owner_of_files(folder) if isinstance(error, PermissionError) else None
    if theirs is None:
        return BadInput(message, hint="换一个可写的目录：--data DIR")
    ours, place = _user(os.geteuid()), shlex.quote(str(folder))
    if theirs == ours:
        hint = f"目录是自己的，但不许读写：chmod -R u+rwX {place}"
    else:
        hint = f"用 {theirs} 运行（sudo -u {theirs} …），或请管理员把它交给 {ours}：chown -R {ours} {place}"
    return BadInput(f"{message}（它属于用户 {theirs}，现在是 {ours}）", hint=f"{hint}；要另建一个库，用 --data DIR")


def _owner_of_files(folder: Path) -> str | None:
    """None where there is no such folder, as far as we may see."""
    lock = folder / LOCK  # has another owner if a command was once run as root
    try:  # not `Path.exists`, which raises where we may not look
        return _user((lock if os.path.exists(lock) else folder).stat().st_uid)
    except OSError:
        return None


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # in a container users need not have names
        return str(number)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if _pid(handle) == os.getpid():
            raise FolderInUse(
                f"数据目录 {folder} 已经由本进程打开",
                hint="把打开的那个 engine 交给要用它的地方，如 create_query_workflow(engine)、"
                "RAGAnythingAdapter(engine)；或等它关上（async with 结束）再打开",
            ) from error
        raise FolderInUse(
            f"数据目录 {folder} 正被另一个进程使用：{_owner(handle)}",
            hint="等它结束，或换一个目录（--data DIR）；若它是服务，请用 --url 连接它（代码里用 qianxun.Client）",
        ) from error


def _sign(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": _without_secrets(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))[:200],
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner, ensure_ascii=False).encode(), 0)


def _without_secrets(command: str) -> str:
    """The lock file is readable: it must not show the password of a database or a key."""
    command = re.sub(r"(?<!\S)\S*@", lambda word: re.sub(r"(://[^:/?#]*):.*", r"\1:******@", word[0]), command)
    return re.sub(r"(password=|--key[= ])[^\s&]*", r"\1******", command, flags=re.IGNORECASE)


def _pid(handle: int) -> int | None:
    """Of the owner, where that is a process of this machine."""
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return int(owner["pid"]) if owner["host"] == socket.gethostname() else None
    except (ValueError, KeyError, TypeError):
        return None


def _owner(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"进程 {owner['pid']}（{owner['command']}，始于 {owner['since']}，主机 {owner['host']}）"
    except (ValueError, KeyError, TypeError):
        return "（对方尚未写下身份）"
