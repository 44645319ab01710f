"""A replica or worker of the torture: the command line itself, which stops at the worst moment when it is told to.

``python -m tests.torture.replica STOP [--unfenced] serve …``. When the file STOP exists, the process takes it away and
stops itself (SIGSTOP) right before its next batch is written to an index: it has its lease by then, and has looked.
With ``--unfenced`` neither index nor records compare fences: the torture has to see what comes of it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from qianxun.core.types import IndexBatch
from qianxun.doors.cli import main
from qianxun.index.postgres import tables
from qianxun.index.postgres.index import PostgresIndex
from qianxun.records import leases


def plant_stop(at: Path) -> None:
    apply = PostgresIndex.apply

    def is_due() -> bool:
        try:
            at.unlink()
        except FileNotFoundError:
            return False
        return True

    async def stopping(index: PostgresIndex, batch: IndexBatch) -> None:
        if is_due():
            os.kill(os.getpid(), signal.SIGSTOP)
        await apply(index, batch)

    PostgresIndex.apply = stopping  # type: ignore[method-assign]


def plant_unfenced() -> None:
    tables.fenced = lambda state, fence: tables.replace(state, fence=fence)  # type: ignore[assignment]
    leases.require = lambda tx, lease: None  # type: ignore[assignment]


if __name__ == "__main__":
    given = sys.argv[2:]
    plant_stop(Path(sys.argv[1]))
    if given[0] == "--unfenced":
        plant_unfenced()
        given = given[1:]
    sys.exit(main(given))
