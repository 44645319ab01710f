"""One engine of one process owns a data folder; a second one is refused, with the owner's name. Engines that have
neither records nor an index in it share it: they refuse one that wants it alone, and are refused by it.

Two locks: the file `LOCK`, which names the owner, and the folder itself. Whoever deletes the file under a running
process does not let a second one in.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import re
import shlex
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from qianxun.core.errors import BadInput, FolderInUse
from qianxun.core.system.durable import make_folder

LOCK = "lock"
UNLOCKABLE = frozenset((errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP))  # some network file systems
DATABASE = "qianxun.db"  # the records, in the same folder
LEFT_SECONDS = 10.0  # to wait for what a killed process has left
FOLDER_SECONDS = 0.2  # whoever has given back the one lock is about to give back the other
LOOK_SECONDS = 0.02


@contextmanager
def owned(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Owns the folder, or shares it with others who do; the kernel releases it when the process ends, however it ends.

    Raises FolderInUse or BadInput.
    """
    try:
        make_private_folder(folder)
        handle, own = _open_lock(folder), os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise refused(folder, error) from error
    try:
        kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        _lock(handle, folder, kind)
        _lock_folder(own, folder, kind)
        if not _is_same_file(handle, folder / LOCK):
            raise _lock_deleted(folder)
        _sign(handle)
        yield
    finally:
        os.close(own)
        os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Creates the folder for this user alone; a data folder of this user that others can enter is closed to them.

    A folder with other things in it, or one that all may write to, is left as it is. Raises OSError.
    """
    make_folder(folder, 0o700)
    if is_exposed(folder) and ((folder / DATABASE).exists() or not any(folder.iterdir())):
        folder.chmod(0o700)


def is_exposed(path: Path) -> bool:
    """Whether other users may get at what is this user's own; not of a folder that all share, like /tmp."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and bool(found.st_mode & 0o077) and not found.st_mode & stat.S_ISVTX


def owner_of(folder: Path) -> str | None:
    """The process that owns the folder right now, for people to read; None if there is none. Locks nothing."""
    if (handle := _opened(folder / LOCK)) is not None:
        try:
            if not _can_share(handle):
                return _owner(handle)
        finally:
            os.close(handle)
    if (own := _opened(folder)) is not None:
        try:
            return None if _can_share(own) else "（它的 lock 文件被删掉了，不知道是哪一个）"
        finally:
            os.close(own)
    return None


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _can_share(handle: int) -> bool:
    """False while a process owns the file or folder."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNLOCKABLE:
            raise
    return True


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
        message += f"（它属于用户 {theirs}，现在是 {ours}）"
        hint = f"用 {theirs} 运行（sudo -u {theirs} …），或请管理员把它交给 {ours}：chown -R {ours} {place}"
    return BadInput(message, hint=f"{hint}；要另建一个库，用 --data DIR")


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


def _lock(handle: int, folder: Path, kind: int) -> None:
    try:
        _flock(handle, kind, LEFT_SECONDS if _is_gone(_pid(handle)) else 0.0)
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


def _flock(handle: int, kind: int, seconds: float) -> None:
    """Tries again for so long. Raises BlockingIOError."""
    ends = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(handle, kind)
        except BlockingIOError:
            if time.monotonic() >= ends:
                raise
        time.sleep(LOOK_SECONDS)


def _is_gone(pid: int | None) -> bool:
    """Whether there is no such process. A killed one may have left a child that was about to become another program:
    until it has, the locks are its own, too."""
    try:
        os.kill(pid or os.getpid(), 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False


def _open_lock(folder: Path) -> int:
    """The lock file; one that others can read is closed to them, since it shows a command line."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if is_exposed(folder / LOCK):
        os.fchmod(handle, 0o600)
    return handle


def _lock_folder(own: int, folder: Path, kind: int) -> None:
    """Locks the folder itself, where its file system can: a process whose lock file was deleted still has it."""
    try:
        _flock(own, kind, FOLDER_SECONDS)
    except BlockingIOError as error:
        raise _lock_deleted(folder) from error
    except OSError as error:
        if error.errno not in UNLOCKABLE:
            raise


def _is_same_file(handle: int, path: Path) -> bool:
    """Whether the file that was opened is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _lock_deleted(folder: Path) -> FolderInUse:
    return FolderInUse(
        f"数据目录 {folder} 正被另一个进程使用，而它的 lock 文件被删掉或换掉了",
        hint=f"先停下那个进程（fuser -v {shlex.quote(str(folder))} 可以查到），再运行一次；不要删除 lock 文件",
    )


def _sign(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": _without_secrets(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))[:200],
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner, ensure_ascii=False).encode("utf-8", "backslashreplace"), 0)  # of file names


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
