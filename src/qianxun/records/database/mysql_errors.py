"""Errors of MySQL and MariaDB as ours, without what they quote of a row."""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import BadInput, BadSettings, RecordsUnavailable
from qianxun.records.database.server import Deadlocked, first_line

TOO_LARGE: Final = 1153
_DEADLOCK: Final = 1213
_TOO_SLOW: Final = (1205, 1317, 1969, 3024)  # a lock, or the statement's own time
_BAD_DATA: Final = (1264, 1366, 1406, 3988)  # out of range, not a character, too long
_NOT_ALLOWED: Final = (1142, 1143, 1227, 1370)
_READ_ONLY_SERVER: Final = (1290, 1836)
_REASONS: Final = {
    1044: ("数据库用户没有使用这个数据库的权限", "请管理员授予这个数据库的全部权限，或改正 records.url"),
    1045: ("数据库不接受这个用户名或密码", "核对 records.url 里的用户名和密码"),
    1698: ("数据库不接受这个用户名或密码", "核对 records.url 里的用户名和密码"),
    1049: ("数据库服务器上没有这个数据库", "先创建它：CREATE DATABASE 名称 CHARACTER SET utf8mb4，或改正 records.url"),
    1040: ("数据库服务器的连接已用完", "调小 records.pool_size，或调大服务器的 max_connections"),
    1203: ("数据库服务器的连接已用完", "调小 records.pool_size，或调大服务器的 max_user_connections"),
    1130: ("数据库服务器不许从这里连接", "请管理员放行这台机器（CREATE USER '用户'@'主机'）"),
    1129: ("数据库服务器不许从这里连接：失败的次数太多", "请管理员运行 FLUSH HOSTS"),
    1053: ("数据库服务器正在停止", "稍后重试"),
    2026: ("与数据库服务器的加密连接没有建立", "检查 records.url 的 ssl_mode 与 ssl_ca，以及服务器的证书"),
}
# What messages quote of a row or of a statement, which has its values in it: from here to the last quote before one of
# these words or the end. Two searches: one pattern for both would try every opening against the whole message.
_OPENING: Final = re.compile(r"(?:entry|value:?|near|function|at row) '")
_AFTER_CLOSING: Final = (" for ", " at line")


def code_of(error: BaseException | None) -> int:
    arguments: tuple[Any, ...] = getattr(error, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def translate(error: BaseException, *, is_disconnect: bool, is_connected: bool) -> Exception | None:
    """An error of the driver as one of ours; None where it is not about reaching the database."""
    code = code_of(error)
    if code == _DEADLOCK:
        return Deadlocked("数据库撤销了这次写入，因为它与另一次相互等待", hint="稍后重试")
    if code in _TOO_SLOW:
        return RecordsUnavailable(
            "数据库没有在限定的时间内答复", hint="稍后重试；常常如此时调大 records.statement_seconds"
        )
    if code in _READ_ONLY_SERVER and "read" in str(error):
        return RecordsUnavailable(
            "数据库服务器现在是只读的：多半是从库，或正在切换主库", hint="把 records.url 指向主库；切换中的稍后重试"
        )
    if code in _NOT_ALLOWED:
        return BadSettings(
            f"数据库用户没有权限：{first_line(error)}", hint="请管理员授予在这个数据库中建表和读写的权限"
        )
    if is_disconnect or not is_connected:
        return _unreachable(error)
    if code == TOO_LARGE:
        return BadInput(
            "有一项内容比数据库服务器一次能收的还大",
            hint="请管理员调大服务器的 max_allowed_packet（例如 256M），再重试",
        )
    if code in _BAD_DATA:
        return BadInput("有一项内容是数据库存不下的：太长、太大，或含有空字符（NUL）", hint="缩短或改正后再提交")
    return None


def _unreachable(error: BaseException) -> RecordsUnavailable:
    code = code_of(error)
    if code in _REASONS:
        message, hint = _REASONS[code]
        return RecordsUnavailable(message, hint=hint)
    words = first_line(error)
    if "cryptography" in words:
        return RecordsUnavailable(
            "这个数据库用户的口令方式（caching_sha2_password）在不加密的连接上要 cryptography 包",
            hint="pip install cryptography，或让连接加密：records.url 末尾加 ?ssl_mode=required",
        )
    if "timed out" in words and "connect to" not in words:
        return RecordsUnavailable("数据库没有任何答复", hint="稍后重试；看看服务器是否停顿")
    return RecordsUnavailable(
        f"连不上数据库：{words}", hint="检查 records.url 的主机与端口，以及数据库服务器是否在运行；恢复后会自动重连"
    )


def translate_error(context: ExceptionContext) -> None:
    driver, error = context.dialect.loaded_dbapi, context.original_exception
    if context.is_pre_ping or not isinstance(error, driver.Error | RuntimeError):
        return
    has_quoted = without_detail(error)
    ours = translate(error, is_disconnect=context.is_disconnect, is_connected=context.connection is not None)
    if ours is not None:
        raise ours from error
    if has_quoted:
        raise DBAPIError.instance(context.statement, None, error, driver.Error, hide_parameters=True) from error


def without_detail(error: Any) -> bool:
    """Removes what an error quotes of a row: user data does not belong in logs."""
    if len(error.args) < 2 or not isinstance(error.args[1], str):
        return False
    message: str = error.args[1]
    opening = _OPENING.search(message)
    closing = max(
        len(message) - 1 if message.endswith("'") else -1, *(message.rfind("'" + word) for word in _AFTER_CLOSING)
    )
    if opening is None or closing < opening.end():
        return False
    error.args = (error.args[0], f"{message[: opening.end()]}…{message[closing:]}")
    return True
