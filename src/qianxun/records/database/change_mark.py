"""Whether anything was written to a database since it was last looked at: what was seen then need not be read again."""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import Connection

from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.server import SQLITE

ChangeMark: TypeAlias = tuple[object, int, int]  # of this connection, writes by others, writes of its own


def change_mark(tx: Connection) -> ChangeMark | None:
    """Equal to an earlier one of the same connection only if nothing was written in between, by whichever connection or
    process. None where the database does not count writes, or not everything in it may be seen."""
    if tx.dialect.name != SQLITE or permitted_in(tx) is not None:
        return None
    own = tx.connection.info.setdefault(__name__, object())
    connection: Any = tx.connection.dbapi_connection
    ((others,),) = connection.execute("PRAGMA data_version").fetchall()
    return own, others, connection.total_changes
