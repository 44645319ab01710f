"""A small sample of `make bench`: it runs to its end and says what it promises to say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.shared import needs_data

ROOT = Path(__file__).resolve().parents[1]


@needs_data
def test_ingest_is_measured_against_its_bare_parts() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.ingest", "--limit", "600"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    told = json.loads(run.stdout)
    assert told["passages"] == 600
    assert told["chunks"] >= 600
    assert set(told["bare_seconds"]) == {"tokenise", "tantivy", "vectors", "sqlite"}
    assert told["ratio_wall"] > 0
