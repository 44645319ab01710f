"""What further processes bring: searches per second of `serve --workers 2` against one process, over the same files.

    python -m benchmarks.service --workers 2

Both serve the same folder one after the other, real passages by words alone (a model would take the same time in
each), and are asked by the same clients over connections that stay open (benchmarks/load.py), none of the questions
twice in a pass, no cache of answers. What asks, and whatever else runs on the machine, is counted out: with a core of
its own and clients enough, a process answers as many searches per second as it takes CPU seconds for them, and two
processes answer twice as many as the CPU seconds of all of them, supervisor and writer included, allow for.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.passages import passages

CHUNKS: Final = 5_000
CLIENTS: Final = 32
QUESTIONS: Final = 2_000
RATIO_AT_LEAST: Final = 1.6
TICKS: Final = os.sysconf("SC_CLK_TCK")


async def _filled(folder: Path, texts: list[tuple[str, str]]) -> int:
    from qianxun import Document, Engine
    from qianxun.engine.settings import load

    settings = load(environment={}, arguments={"data": str(folder)}, folder=folder)
    async with Engine.open(settings=settings, background=False) as engine:
        base = (await engine.create_knowledge_base("bench", model="none")).id
        await engine.add_documents(base, [Document(name, text) for name, text in texts])
        return base


def _questions(texts: list[tuple[str, str]]) -> list[str]:
    """From the midst of passages: twelve characters of each."""
    return [text[len(text) // 2 :][:12].strip() or text[:12] for _, text in texts]


@contextmanager
def _served(folder: Path, workers: int) -> Iterator[tuple[int, int]]:
    """Its process and port."""
    command = [sys.executable, "-c", "import sys; from qianxun.doors.cli import main; sys.exit(main())"]
    options = ["--data", str(folder), "serve", "--port", "0", *(["--workers", str(workers)] if workers else [])]
    variables = {**os.environ, "QIANXUN_SEARCH_CACHE_ENTRIES": "0"}
    with (folder.parent / "service.log").open("ab") as log:
        service = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, env=variables, text=True)
        try:
            assert service.stdout is not None
            line = next(line for line in service.stdout if "http://" in line)
            yield service.pid, int(line.rpartition(":")[2].split()[0])
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()


def _cpu(process: int) -> dict[int, float]:
    """The process and its children → the CPU seconds of each."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    found = {}
    for one in (process, *map(int, children)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        found[one] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _passes(served: tuple[int, int], workers: int, base: int, asked: Path, passes: int, seconds: float) -> list[float]:
    """Searches per second, each process on a core of its own."""
    process, port = served
    command = [sys.executable, "-m", "benchmarks.load", str(port), f"/v1/retrieval/{base}", str(asked), str(QUESTIONS)]
    rates = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        for number in range(passes + 1):
            before = _cpu(process)
            load.stdin.write(f"{CLIENTS} {seconds} {number * 137}\n")
            load.stdin.flush()
            done = json.loads(load.stdout.readline())
            answers = len(done["waits"]) + done["others"].get("200", 0)  # a base without a model says so in each
            spent = sum(now - before.get(one, 0.0) for one, now in _cpu(process).items())
            if number:  # the first is to warm up
                rates.append(max(workers, 1) * answers / spent)
        load.stdin.close()
    return rates


def run(workers: int, passes: int = 3, seconds: float = 5.0, chunks: int = CHUNKS) -> dict[str, Any]:
    texts = passages(chunks)
    with tempfile.TemporaryDirectory(prefix="qianxun-bench-") as place:
        folder, asked = Path(place) / "data", Path(place) / "questions.json"
        base = asyncio.run(_filled(folder, texts))
        asked.write_text(json.dumps(_questions(texts)[:QUESTIONS], ensure_ascii=False), encoding="utf-8")
        rates = {}
        for count in (0, workers):
            with _served(folder, count) as served:
                rates[count] = _passes(served, count, base, asked, passes, seconds)
    ratio = median(rates[workers]) / median(rates[0])
    return {"one": median(rates[0]), "workers": median(rates[workers]), "ratio": ratio, "met": ratio >= RATIO_AT_LEAST}


def tell(workers: int, passes: int, seconds: float, chunks: int = CHUNKS) -> bool:
    found = run(workers, passes, seconds, chunks)
    sys.stdout.write(
        f"searches per second, a core for each process: one process {found['one']:.0f}, "
        f"{workers} workers {found['workers']:.0f}, ratio {found['ratio']:.2f} (at least {RATIO_AT_LEAST})\n"
    )
    return bool(found["met"])
