"""Writers with a fault in them, to see whether the checker sees it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from sqlalchemy import event

from qianxun.records import Records

Fault: TypeAlias = Literal["none", "torn", "early"]


def tear(records: Records) -> None:
    """Commits after every statement: a document, its chunks and its outbox row become separate transactions."""

    def commit_at_once(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            apart = cursor.connection.cursor()  # the statement's own cursor still has its row count to give
            apart.execute("COMMIT")
            apart.execute("BEGIN")

    event.listen(records.engine, "after_cursor_execute", commit_at_once)
