"""The database's own clock: processes on several machines agree about when a lease ends by no other."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from qianxun.records.schema import Moment


class database_time(FunctionElement[Any]):  # a function of SQL
    """The time at which a statement runs, not at which its transaction began: it may have waited for a lock."""

    type = Moment()
    inherit_cache = True


@compiles(database_time)
def _usual(*_: Any, **__: Any) -> str:
    return "clock_timestamp()"


@compiles(database_time, "mysql")
@compiles(database_time, "mariadb")
def _mysql(*_: Any, **__: Any) -> str:
    return "SYSDATE(6)"  # UTC, as all sessions have it; the other functions tell when the statement began


@compiles(database_time, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
