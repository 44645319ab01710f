"""Writers with a fault in them, to see whether the checker sees it."""

from __future__ import annotations

import os
import signal
from itertools import count
from random import Random
from typing import Any, Literal, TypeAlias

from sqlalchemy import event

from qianxun.records import Records

Fault: TypeAlias = Literal["none", "torn", "early"]
STATEMENTS = (20, 60)  # of which the last one is drawn: those of a few operations


def tear(records: Records, seed: int) -> None:
    """Commits after every statement: a document, its chunks and its outbox row become separate transactions. After one
    of them the process kills itself: from outside it is hardly ever hit right there on a busy machine."""
    numbers, last = count(1), Random(seed).randint(*STATEMENTS)

    def commit_at_once(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            apart = cursor.connection.cursor()  # the statement's own cursor still has its row count to give
            apart.execute("COMMIT")
            if next(numbers) == last:
                os.kill(os.getpid(), signal.SIGKILL)
            apart.execute("BEGIN")

    event.listen(records.engine, "after_cursor_execute", commit_at_once)
