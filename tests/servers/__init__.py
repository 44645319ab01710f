"""Real servers that tests, benchmarks and `make cluster` start by themselves: they come as wheels of the development
environment, or are programs of the machine.

`postgres` (with pgvector) and `mysql` (MariaDB) are `guarded`: one for a whole run, which ends with its users. `milvus`
and `bolt` (the protocol of Neo4j's drivers) are started one by one.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def child_environment() -> dict[str, str]:
    """That of this process, with which a child finds this package wherever it runs."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
