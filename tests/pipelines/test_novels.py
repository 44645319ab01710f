"""Ten long novels through the whole way in, embedding aside: the memory stays bounded and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import DATA, needs_data

PROGRAM = """
import asyncio, json, re, sys
from pathlib import Path
from qianxun import Engine

async def main():
    async with Engine.open(sys.argv[1], background=False) as engine:
        kb = await engine.create_knowledge_base("小说", model="none")
        report = await engine.add(kb.id, [sys.argv[2]])
        verdict = await engine.verify(kb.id)
        found = await engine.retrieve(kb.id, "鲁提辖拳打镇关西", top_k=5)
    print(json.dumps({
        "added": report.added,
        "refused": len(report.refused),
        "chunks": report.chunks,
        "clean": verdict.is_clean,
        "names": [one.chunk.doc_name for one in found.found],
        "peak_megabytes": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024,
    }))

asyncio.run(main())
"""


@needs_data
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_all_novels_index_below_one_gigabyte(tmp_path: Path) -> None:
    novels = DATA / "ingest" / "novels"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(novels)],
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    told = json.loads(run.stdout)
    assert told["added"] == len(list(novels.glob("*.txt")))
    assert told["refused"] == 0
    assert told["clean"]
    assert "水浒传.txt" in told["names"]
    assert told["chunks"] > 15_000
    # Not getrusage's figure: that of a new process begins with what its parent held.
    assert 0 < told["peak_megabytes"] < 1024
