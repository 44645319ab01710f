"""Hostile files in earnest: how much of the machine each takes, from the worker and from the process that serves."""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qianxun.core.errors import QianxunError
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool
from tests.ingest.hostile import BENIGN, REFUSED, recursive_forms_pdf, repeated

MOST_GROWN = 50  # megabytes that the process that serves may keep
MOST_WORKER = 1_200  # megabytes: the libraries and what a file may take beyond them
LONGEST_STOP = 1.0  # seconds without an answer of the event loop; it may be that long on a busy machine

LARGE: dict[str, Callable[[Path], Path]] = {
    "forms": lambda folder: recursive_forms_pdf(folder, levels=8),
    "line": lambda folder: repeated(folder, "line.txt", "a", 100_000_000),
    "chinese line": lambda folder: repeated(folder, "line.txt", "中", 33_000_000),
    "headings": lambda folder: repeated(folder, "headings.md", "# a\n", 1_250_000),
    "paragraphs": lambda folder: repeated(folder, "paragraphs.md", "a\n\n", 1_700_000),
    "rows": lambda folder: repeated(folder, "rows.md", "a|b\n", 1_250_000),
    "items": lambda folder: repeated(folder, "items.md", "- a\n", 1_250_000),
    "references": lambda folder: repeated(folder, "references.md", "[a]: b\n", 700_000),
    "quotes": lambda folder: repeated(folder, "quotes.md", "> ", 2_500_000),
    "cells": lambda folder: repeated(folder, "cells.html", "<td>x", 380_000),
    "breaks": lambda folder: repeated(folder, "breaks.html", "x<br>", 380_000),
    "records": lambda folder: repeated(folder, "records.jsonl", '{"q":"a"}\n', 500_000),
    "numbered": lambda folder: repeated(folder, "numbered.txt", "一、甲\n", 600_000),
    "pipes": lambda folder: repeated(folder, "pipes.txt", "a|b|c|d\n", 600_000),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Megabytes and seconds that one file took."""

    name: str
    outcome: str
    grown: int  # kept by this process
    worker: int
    stopped: float

    @property
    def is_bounded(self) -> bool:
        return self.grown <= MOST_GROWN and self.worker <= MOST_WORKER and self.stopped <= LONGEST_STOP


def costs() -> Iterator[Cost]:
    makers = LARGE | {name: maker for name, (maker, _) in REFUSED.items()} | BENIGN
    with asyncio.Runner() as runner:
        pool = ParserPool(1, ParseLimits())
        runner.run(_cost(pool, "first", BENIGN["numerals"], _resident("self")))
        before = _resident("self")
        for name, maker in makers.items():
            yield runner.run(_cost(pool, name, maker, before))
        runner.run(pool.aclose())


async def _cost(pool: ParserPool, name: str, maker: Callable[[Path], Path], before: int) -> Cost:
    worker, stopped = 0, 0.0

    async def watch() -> None:
        nonlocal worker, stopped
        clock = asyncio.get_running_loop().time
        while True:
            since = clock()
            await asyncio.sleep(0.02)
            stopped = max(stopped, clock() - since - 0.02)
            worker = max([worker, *(_resident(str(one.pid)) for one in pool._all)])

    with tempfile.TemporaryDirectory(prefix="qianxun-hostile-") as folder:
        path = await asyncio.to_thread(maker, Path(folder))
        watching = asyncio.create_task(watch())
        try:
            outcome = f"{len((await pool.read(path)).text.content)} characters"  # type: ignore[union-attr]
        except QianxunError as refusal:
            outcome = refusal.word
        finally:
            watching.cancel()
    gc.collect()
    return Cost(name, outcome, _resident("self") - before, worker, stopped)


def _resident(process: str) -> int:
    """Megabytes of a process in memory; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/status").read_text("ascii").split()
    except OSError:
        return 0
    return int(fields[fields.index("VmRSS:") + 1]) // 1024 if "VmRSS:" in fields else 0
