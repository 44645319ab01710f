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
from typing import Any

from qianxun.core.types import IndexBatch
from qianxun.doors.cli import main
from qianxun.index.milvus import index as milvus
from qianxun.index.postgres import index as postgres
from qianxun.index.postgres import tables
from qianxun.records import leases


def plant_stop(at: Path, kind: Any) -> None:
    apply = kind.apply

    def is_due() -> bool:
        try:
            at.unlink()
        except FileNotFoundError:
            return False
        return True

    async def stopping(index: Any, batch: IndexBatch) -> None:
        if is_due():
            os.kill(os.getpid(), signal.SIGSTOP)
        await apply(index, batch)

    kind.apply = stopping


def plant_unfenced() -> None:
    tables.fenced = lambda state, fence: tables.replace(state, fence=fence)  # type: ignore[assignment]
    leases.require = lambda tx, lease: None  # type: ignore[assignment]


if __name__ == "__main__":
    given = sys.argv[2:]
    for kind in (postgres.PostgresIndex, milvus.MilvusIndex):
        plant_stop(Path(sys.argv[1]), kind)
    if given[0] == "--unfenced":
        plant_unfenced()
        given = given[1:]
    sys.exit(main(given))
