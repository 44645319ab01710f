"""The three index backends side by side: the same passages, the same questions, one run.

    python -m benchmarks.backends [--count 20000,100000] [--questions 100] [--milvus URL] [--only embedded,postgres]

PostgreSQL is started from its wheel, Milvus is the light one (``milvus-lite``) unless another is named: of the light
one read what we spend, not what it does. Seconds are of the processor, ours and the server's, so that other work on the
machine does not blur them. Vectors are random projections of the passages' characters: nothing is embedded.

Then one and two replicas, each a process of its own, ask the server the same questions at the same time. What a second
one brings is worked out from what each spends on a search, as if replicas and server had a core each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.servers import milvus as light_milvus
from tests.servers.postgres import create_database, own_server

from benchmarks.passages import passages
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.types import Attributes, Eq, IndexBatch, IndexEntry, IndexStamp, Ranking, Terms, Vectors
from qianxun.index.embedded import backend as embedded
from qianxun.index.milvus import index as milvus
from qianxun.index.milvus import server as milvus_server
from qianxun.index.postgres import index as postgres
from qianxun.text.chinese import analyse_query, index_grams, index_words

DEPTH = 200  # candidates of an arm, as a search asks for them
BATCH = 1_000
DIMENSION = 256
BUCKETS = 8_192
HUNDREDTH = Eq("user_id", "用户7")
WORK = ("match", "nearest", "nearest of 1 %")
STAMP = IndexStamp("投影", DIMENSION, "1")
SCHEMA = "bench"
PATIENCE = 1800.0  # seconds: the light server takes its time


@dataclass
class Contender:
    """A backend, its server's process (0: none of ours), and what it has cost: (ours, the server's) in CPU seconds."""

    name: str
    backend: IndexBackend
    server: int = 0
    url: str = ""  # of the server, for replicas
    index: Index | None = None
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    walls: dict[str, list[float]] = field(default_factory=dict)

    async def spend(self, part: str, work: Awaitable[Any]) -> Any:
        theirs, start, ours = cpu_of(self.server), time.perf_counter(), time.process_time()
        found = await work
        ours, took = time.process_time() - ours, time.perf_counter() - start
        known = self.costs.get(part, (0.0, 0.0))
        self.costs[part] = (known[0] + ours, known[1] + cpu_of(self.server) - theirs)
        self.walls.setdefault(part, []).append(took)
        return found


def cpu_of(server: int) -> float:
    """CPU seconds of a process and of its children, those that have ended included."""
    used = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat") if server else ():
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(") ")[2].split()
            if int(stat.parent.name) == server:
                used += sum(map(int, fields[11:15]))
            elif int(fields[1]) == server:
                used += sum(map(int, fields[11:13]))
    return used / os.sysconf("SC_CLK_TCK")


def projected(texts: Sequence[str]) -> Vectors:
    """Unit vectors that are alike where texts share characters."""
    rng = np.random.default_rng(7)
    directions = rng.normal(size=(BUCKETS, DIMENSION)).astype(np.float32)
    rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
    for at, text in enumerate(texts):
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32) % BUCKETS
        found, often = np.unique(codes, return_counts=True)
        rows[at] = np.log1p(often).astype(np.float32) @ directions[found]
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows


def batches(texts: Sequence[str], vectors: Vectors) -> Iterator[tuple[IndexEntry, ...]]:
    owners = [Attributes(f"文档{number}", user_id=f"用户{number % 100}") for number in range(len(texts))]
    for start in range(0, len(texts), BATCH):
        yield tuple(
            IndexEntry(key, key, index_words(texts[key]), index_grams(texts[key]), vectors[key], owners[key])
            for key in range(start, min(start + BATCH, len(texts)))
        )


async def fill(contenders: Sequence[Contender], texts: Sequence[str], vectors: Vectors) -> None:
    for each in contenders:
        each.index = await each.backend.build(1, STAMP)
    for number, batch in enumerate(batches(texts, vectors), 1):
        for each in contenders:
            index = each.index
            assert index is not None
            await each.spend("load", index.apply(IndexBatch(number, (), batch)))
    for each in contenders:
        assert each.index is not None
        await each.spend("load", each.backend.switch(1, each.index))


async def ask(contenders: Sequence[Contender], terms: Sequence[Terms], vectors: Vectors) -> dict[str, float]:
    """The share of questions to which each gave the embedded index's first ten, within a thousandth."""
    agreed: dict[str, int] = {each.name: 0 for each in contenders[1:]}
    for number, (words, vector) in enumerate(zip(terms, vectors, strict=True)):
        answers: list[Ranking] = []
        for each in contenders:
            index = each.index
            assert index is not None
            if number == 0:  # what is loaded and put in order by the first search
                await index.match(words, DEPTH)
                await index.nearest(vector, DEPTH)
            answers.append(await each.spend("match", index.match(words, DEPTH)))
            await each.spend("nearest", index.nearest(vector, DEPTH))
            await each.spend("nearest of 1 %", index.nearest(vector, 15, HUNDREDTH))
        for each, other in zip(contenders[1:], answers[1:], strict=True):
            agreed[each.name] += is_alike(answers[0], other)
    return {name: round(count / len(terms), 3) for name, count in agreed.items()}


def is_alike(first: Ranking, second: Ranking) -> bool:
    alike = first.keys[:10].tolist() == second.keys[:10].tolist()
    return alike and bool(np.allclose(first.scores[:10], second.scores[:10], atol=1e-3))


def table(contenders: Sequence[Contender], count: int, questions: int) -> str:
    """CPU milliseconds per search, ours + the server's; chunks indexed per CPU second of both."""
    lines = [
        f"| {count:,} chunks | load, chunks per CPU s (ours, server) | "
        + " | ".join(f"{part}, CPU ms (ours + server), p50 ms" for part in WORK)
        + " |",
        "|" + "-|" * (2 + len(WORK)),
    ]
    for each in contenders:
        ours, theirs = each.costs["load"]
        cells = [f"{count / (ours + theirs):.0f} ({ours:.0f} s, {theirs:.0f} s)"]
        for part in WORK:
            mine, its = (1000 * seconds / questions for seconds in each.costs[part])
            cells.append(f"{mine:.1f} + {its:.1f}, {1000 * float(np.median(each.walls[part])):.0f}")
        lines.append(f"| {each.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def connected(name: str, url: str) -> IndexBackend:
    if name == "postgres":
        return postgres.create(url, schema=SCHEMA)
    milvus_server.READ_SECONDS = milvus_server.WRITE_SECONDS = PATIENCE  # type: ignore[misc]
    return milvus.create(url, prefix=SCHEMA)


def replica(name: str, url: str, terms: Sequence[Terms], vectors: Vectors, ready: Any, costs: Any) -> None:
    """A process of its own: opens the index that is there, waits for the others, asks; CPU seconds go to ``costs``."""
    costs.put(asyncio.run(replica_cost(connected(name, url), terms, vectors, ready)))


async def replica_cost(backend: IndexBackend, terms: Sequence[Terms], vectors: Vectors, ready: Any) -> float:
    index = await backend.open(1, STAMP)
    await index.match(terms[0], DEPTH)
    await index.nearest(vectors[0], DEPTH)
    ready.wait(PATIENCE)
    start = time.process_time()
    for words, vector in zip(terms, vectors, strict=True):
        await index.match(words, DEPTH)
        await index.nearest(vector, DEPTH)
    spent = time.process_time() - start
    await index.close()
    return spent


def replicas(each: Contender, count: int, terms: Sequence[Terms], vectors: Vectors) -> tuple[float, float]:
    """CPU milliseconds of a search (both arms), ours and the server's, with so many replicas at the same time."""
    fresh = multiprocessing.get_context("spawn")
    ready, costs = fresh.Barrier(count + 1), fresh.Queue()
    started = [
        fresh.Process(target=replica, args=(each.name, each.url, terms, vectors, ready, costs)) for _ in range(count)
    ]
    for process in started:
        process.start()
    ready.wait(PATIENCE)
    theirs = cpu_of(each.server)
    ours = sum(costs.get(timeout=PATIENCE) for _ in started)
    theirs = cpu_of(each.server) - theirs
    for process in started:
        process.join()
    searches = count * len(terms)
    return 1000 * ours / searches, 1000 * theirs / searches


def replica_table(costs: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    lines = ["| both arms, CPU ms (ours + server) | 1 replica | 2 replicas | searches per second, 2 ÷ 1 |", "|-|-|-|-|"]
    for name, ((ours, its), (ours_of_two, its_of_two)) in costs.items():
        gain = 2 * ours / ours_of_two
        lines.append(f"| {name} | {ours:.1f} + {its:.1f} | {ours_of_two:.1f} + {its_of_two:.1f} | {gain:.2f} |")
    return "\n".join(lines)


async def run(options: argparse.Namespace, count: int) -> dict[str, Any]:
    texts = [text for _, text in passages(count)]
    asked = [texts[at][5:35] for at in np.linspace(0, len(texts) - 1, options.questions).astype(int)]
    with ExitStack() as stack:
        contenders = [each for each in started(stack, options) if each.name in options.only]
        await fill(contenders, texts, projected(texts))
        terms = [analyse_query(question) for question in asked]
        agreed = await ask(contenders, terms, projected(asked))
        for each in contenders:
            assert each.index is not None
            await each.index.close()
        print(table(contenders, len(texts), len(asked)), file=sys.stderr)
        shared = {
            each.name: [replicas(each, number, terms, projected(asked)) for number in (1, 2)]
            for each in contenders
            if each.url
        }
    print(replica_table(shared), file=sys.stderr, flush=True)
    return {
        "chunks": len(texts),
        "questions": len(asked),
        "same_first_ten": agreed,
        "replicas_cpu_ms": shared,
        "cpu_seconds": {each.name: each.costs for each in contenders},
        "p50_ms": {
            each.name: {part: round(1000 * float(np.median(took)), 1) for part, took in each.walls.items()}
            for each in contenders
        },
    }


def started(stack: ExitStack, options: argparse.Namespace) -> Iterator[Contender]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    yield Contender("embedded", embedded.create(folder))
    if "postgres" in options.only:
        server = stack.enter_context(own_server())
        process = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        url = create_database(server)
        yield Contender("postgres", connected("postgres", url), process, url)
    if "milvus" in options.only and options.milvus:
        yield Contender("milvus", connected("milvus", options.milvus), url=options.milvus)
    elif "milvus" in options.only:
        light = stack.enter_context(light_milvus.own_server())
        assert light.process is not None
        yield Contender("milvus", connected("milvus", light.uri), light.process.pid, light.uri)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=lambda counts: [int(each) for each in counts.split(",")], default=[20_000])
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--milvus", default="", help="the address of a server; empty: the light one")
    parser.add_argument("--only", default="embedded,postgres,milvus", type=lambda names: names.split(","))
    options = parser.parse_args()
    rows = [asyncio.run(run(options, count)) for count in options.count]
    print(json.dumps(rows, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
