"""Errors of the disk, of the database file or of the system's limits, with what to do about them."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from qianxun.core.system.shortages import NO_DESCRIPTORS, NO_SPACE, causes, shortage

POSTGRES_DISK_FULL: Final = "53100"
MYSQL_DISK_FULL: Final = (1021, 1114)  # the disk, or what the server may use of it
_PRIMARY: Final = 0xFF  # SQLite's extended codes have the primary one in their last byte

_FULL: Final = ("磁盘已满，没有写入", "腾出空间后重试；此前存好的都在")
_DESCRIPTORS: Final = (
    "系统允许同时打开的文件数已经用完",
    "稍后重试；要免于再犯，调高上限（ulimit -n 65536，systemd 里是 LimitNOFILE）再重新启动",
)
_MEMORY: Final = ("系统的内存不够", "稍后重试；仍是如此，就关掉别的程序，或换内存更大的机器")
_OWNED: Final = "用建立数据目录的那个用户运行，或改正目录与其中文件的属主和权限；磁盘若是只读的，先改为可写"
_DAMAGED: Final = (
    "数据库文件 qianxun.db 已损坏",
    "先停下用它的进程，把整个数据目录复制一份留底；再从备份恢复 qianxun.db，"
    "旧的 -wal、-shm 与 index 目录一并移走，索引会自动重建",
)
_OF_SQLITE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: (
        "读写数据库文件时磁盘出错：多半是满了",
        "看看数据目录所在的磁盘还有没有空间（df）；有空间就检查磁盘与系统日志",
    ),
    sqlite3.SQLITE_READONLY: ("数据库文件不能写入", _OWNED),
    sqlite3.SQLITE_CANTOPEN: ("打不开数据库文件", _OWNED),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_BUSY: ("数据库正被另一个进程写入，等了 10 秒", "稍后重试"),
}


def is_disk_full(error: BaseException) -> bool:
    lack = shortage(error)
    return (lack is not None and lack.errno in NO_SPACE) or any(
        _code(cause) == sqlite3.SQLITE_FULL
        or getattr(cause, "sqlstate", None) == POSTGRES_DISK_FULL
        or (type(cause).__module__ == "pymysql.err" and cause.args[:1] and cause.args[0] in MYSQL_DISK_FULL)
        for cause in causes(error)
    )


def is_unwritable(error: BaseException) -> bool:
    """Whether a file that was to be written may only be read: its disk, its folder or its owner changed."""
    return any(
        _code(cause) == sqlite3.SQLITE_READONLY
        or (isinstance(cause, OSError) and cause.errno == errno.EROFS)
        or (isinstance(cause, PermissionError) and cause.filename is not None)  # without: a process, or a socket
        for cause in causes(error)
    )


def trouble(error: BaseException) -> tuple[str, str] | None:
    """What is wrong and what to do about it; None where it is neither the disk nor the file nor a limit."""
    if is_disk_full(error):
        return _FULL
    if (lack := shortage(error)) is not None:
        return _DESCRIPTORS if lack.errno in NO_DESCRIPTORS else _MEMORY
    for cause in causes(error):
        if (trouble := _OF_SQLITE.get(_code(cause))) is not None:
            return trouble
        if isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"没有权限读写 {cause.filename or '文件'}", _OWNED
    return None


def _code(error: BaseException) -> int:
    code = getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.Error) else 0
    return int(code) & _PRIMARY
