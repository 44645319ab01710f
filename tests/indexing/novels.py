"""Long novels through the whole way in, embedding aside, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.shared import DATA

NOVELS = DATA / "ingest" / "novels"

PROGRAM = """
import asyncio, json, re, sys
from pathlib import Path
from qianxun import Engine

async def main():
    async with Engine.open(sys.argv[1], background=False) as engine:
        kb = await engine.create_knowledge_base("小说", model="none")
        report = await engine.add(kb.id, sys.argv[2:])
        verdict = await engine.admin.verify(kb.id)
        found = await engine.retrieve(kb.id, "鲁提辖拳打镇关西", top_k=5)
    # Not getrusage's figure: that of a new process begins with what its parent held.
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
    print(json.dumps({
        "added": report.added,
        "refused": len(report.refused),
        "chunks": report.chunks,
        "is_clean": verdict.is_clean,
        "names": [one.chunk.doc_name for one in found.found],
        "peak_megabytes": peak,
    }))

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Indexed:
    added: int
    refused: int
    chunks: int
    is_clean: bool
    names: Sequence[str]  # where a scene of 水浒传 is found
    peak_megabytes: int  # of memory


def indexed(folder: Path, novels: Sequence[Path]) -> Indexed:
    command = [sys.executable, "-c", PROGRAM, str(folder), *map(str, novels)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    return Indexed(**json.loads(run.stdout))
