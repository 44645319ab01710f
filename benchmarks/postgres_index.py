"""The index in PostgreSQL beside the embedded one, and beside the bare statements it sends.

    python -m benchmarks.postgres_index [--count 20000] [--questions 100] [--url postgresql://…] [--keywords]

Both hold the same passages and answer the same questions, by turns: other work on the machine touches them alike, so
the ratios are to be read, not the milliseconds. Without a URL a server is started from its wheel, with buffers that an
operator would give it. ``--keywords`` adds other ways to search words in PostgreSQL (`benchmarks.postgres_keywords`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.servers.postgres import create_database, own_server

from benchmarks.passages import MODEL, passages
from benchmarks.peers.material import embedded, questions, spread
from benchmarks.postgres_keywords import alternatives
from qianxun.core.ports import Index
from qianxun.core.types import EVERYTHING, Attributes, Eq, Filter, IndexBatch, IndexEntry, IndexStamp, Terms, Vectors
from qianxun.index.embedded import backend as folder_index
from qianxun.index.postgres import index as server_index
from qianxun.index.postgres import keywords as matching
from qianxun.index.postgres import vectors as near
from qianxun.index.postgres.index import PostgresIndex
from qianxun.index.postgres.postings import GRAMS, WORDS
from qianxun.index.postgres.server import Server as Connections
from qianxun.index.postgres.server import Tx
from qianxun.index.postgres.tables import State, Tables
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.text.chinese import analyse_query, index_grams, index_words

DEPTH = 200  # candidates per arm, as a search asks for them
BATCH = 2_000
SCHEMA = "bench"
CACHE = Path(__file__).resolve().parents[1] / ".bench-cache"
HUNDREDTH: Filter = Eq("user_id", "用户7")
BUFFERS = "1GB"


def cpu_since(server: int) -> Callable[[], float]:
    """How many CPU seconds have been spent since now, by those who are still there."""
    start = cpu_seconds(server)
    return lambda: sum(used - start.get(process, 0.0) for process, used in cpu_seconds(server).items())


@dataclass
class Took:
    """Seconds by contender, and what is said of them."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    async def of(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        start = time.perf_counter()
        found = await work()
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)
        return found

    def told(self) -> dict[str, Any]:
        middle = {name: float(np.median(took)) * 1000 for name, took in self.seconds.items()}
        ratios = {
            f"postgres_to_{name}": round(middle["postgres"] / ms, 2)
            for name, ms in middle.items()
            if name != "postgres"
        }
        return {"p50_ms": {name: round(ms, 2) for name, ms in middle.items()}, **ratios}


@contextmanager
def served(url: str) -> Iterator[tuple[str, int]]:
    """A database, and the process of its server; 0 where that is not ours."""
    if url:
        yield url, 0
        return
    with own_server() as server:
        with (server.folder / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"shared_buffers = '{BUFFERS}'\nmax_wal_size = '8GB'\n")
        server.stop()
        server.start()
        yield create_database(server), int((server.folder / "data" / "postmaster.pid").read_text().split()[0])


def cpu_seconds(server: int) -> dict[int, float]:
    """Used so far by this process and, where it is ours, by each of the server's."""
    used = {0: time.process_time()}
    for stat in Path("/proc").glob("[0-9]*/stat") if server else ():
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(") ")[2].split()
            if int(fields[1]) == server:
                used[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def entries(texts: Sequence[str], vectors: Vectors) -> Iterator[tuple[IndexEntry, ...]]:
    owners = [Attributes(f"文档{number}", user_id=f"用户{number % 100}") for number in range(len(texts))]
    for start in range(0, len(texts), BATCH):
        yield tuple(
            IndexEntry(key, key, index_words(texts[key]), index_grams(texts[key]), vectors[key], owners[key])
            for key in range(start, min(start + BATCH, len(texts)))
        )


async def filled(backends: Sequence[Any], stamp: IndexStamp, batches: Iterator[tuple[IndexEntry, ...]]) -> Any:
    """The indexes, filled by turns, and how long each took: with words and vectors, and to be finished."""
    indexes = [await backend.build(1, stamp) for backend in backends]
    seconds = {"embedded": 0.0, "postgres": 0.0, "postgres_graph": 0.0}
    for number, batch in enumerate(batches, 1):
        for name, index in zip(("embedded", "postgres"), indexes, strict=True):
            start = time.perf_counter()
            await index.apply(IndexBatch(number, (), batch))
            seconds[name] += time.perf_counter() - start
    await backends[0].switch(1, indexes[0])
    start = time.perf_counter()
    await backends[1].switch(1, indexes[1])
    seconds["postgres_graph"] = time.perf_counter() - start
    return indexes, seconds


# ── the bare statements ──────────────────────────────────────────────────────────────────────────


async def bare_match(connections: Connections, state: State, terms: Terms) -> int:
    """The postings of a query's words and bigrams, fetched and put away: what no way of scoring can spare."""

    def work(tx: Tx) -> int:
        search = matching.Search(tx, Tables(SCHEMA, state.build), state, None, 0.5)
        wanted = [*((WORDS, word) for word in terms.words), *((GRAMS, gram) for gram in terms.grams if len(gram) > 1)]
        return len(search.postings(wanted))

    return await connections.read(work)


async def bare_nearest(connections: Connections, state: State, vector: Any) -> int:
    def work(tx: Tx) -> int:
        search = near.Search(tx, Tables(SCHEMA, state.build), state, "content", vector)
        if state.graphs[0]:
            near._plan(search, near.SEARCH_WIDTH)
            return len(tx.rows(near.statement(search, None), fetched=DEPTH, **search.values(None)))
        return len(near._exactly(search, DEPTH, None))

    return await connections.read(work)


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


async def speeds(
    here: Index, there: PostgresIndex, url: str, terms: Sequence[Terms], asked: Vectors
) -> dict[str, dict[str, Any]]:
    connections = Connections(url)
    connections.hold()
    state = await there._read(lambda tx, state: state)
    match, nearest, few = Took(), Took(), Took()
    for words, vector in zip(terms, asked, strict=True):
        for name, index in (("embedded", here), ("postgres", there)):
            await match.of(name, lambda index=index, words=words: index.match(words, DEPTH))
            await nearest.of(name, lambda index=index, vector=vector: index.nearest(vector, DEPTH))
            await few.of(name, lambda index=index, vector=vector: index.nearest(vector, 15, HUNDREDTH))
        await match.of("bare_statement", lambda words=words: bare_match(connections, state, words))
        await nearest.of("bare_statement", lambda vector=vector: bare_nearest(connections, state, vector))
    await connections.release_soon()
    return {"match": match.told(), "nearest": nearest.told(), "nearest_of_1_percent": few.told()}


async def costs(
    here: Index, there: PostgresIndex, server: int, terms: Sequence[Terms], asked: Vectors
) -> dict[str, dict[str, float]]:
    """CPU milliseconds per question, of client and server together: what a busy machine does not blur."""
    told: dict[str, dict[str, float]] = {"match": {}, "nearest": {}}
    for name, index in (("embedded", here), ("postgres", there)):
        for part in told:
            spent = cpu_since(server if index is there else 0)
            for words, vector in zip(terms, asked, strict=True):
                await (index.match(words, DEPTH) if part == "match" else index.nearest(vector, DEPTH))
            told[part][name] = round(spent() / len(terms) * 1000, 2)
    return told


async def recalls(index: Index, rows: Vectors, asked: Vectors) -> dict[str, float]:
    told: dict[str, float] = {}
    allowed = np.arange(len(rows)) % 100 == 7
    for name, where, mask in (("", EVERYTHING, None), (" of 1 %", HUNDREDTH, allowed)):
        for limit in (10, 15, DEPTH):
            found = wanted = 0
            for vector in asked:
                scores = rows @ vector if mask is None else np.where(mask, rows @ vector, -2.0)
                truth = np.argsort(-scores, kind="stable")[: limit if mask is None else min(limit, int(mask.sum()))]
                found += int(np.isin(truth, (await index.nearest(vector, limit, where)).keys).sum())
                wanted += len(truth)
            told[f"recall@{limit}{name}"] = round(found / wanted, 4)
    return told


async def same(here: Index, there: Index, terms: Sequence[Terms]) -> float:
    """The share of questions to which both give the same ten chunks in the same order."""
    alike = 0
    for words in terms:
        first, second = await here.match(words, 10), await there.match(words, 10)
        alike += first.keys.tolist() == second.keys.tolist() and np.allclose(first.scores, second.scores, atol=1e-3)
    return alike / len(terms)


async def sizes(index: PostgresIndex, folder: Path) -> dict[str, float]:
    def work(tx: Tx, state: State) -> dict[str, float]:
        own = Tables(SCHEMA, state.build)
        found = {
            part: tx.rows(f"SELECT pg_total_relation_size('{getattr(own, part)}')")[0][0]
            for part in ("entries", "vectors", "facts", "postings")
        }
        return {f"postgres_{part}": round(size / 2**20, 1) for part, size in found.items()}

    return {"embedded": round(_bytes(folder) / 2**20, 1), **await index._read(work)}


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


async def measured(
    url: str,
    server: int,
    folder: Path,
    texts: Sequence[str],
    rows: Vectors,
    told: Sequence[str],
    asked: Vectors,
    with_others: bool,
) -> dict[str, Any]:
    stamp = IndexStamp("bench", rows.shape[1], "1")
    backends = (folder_index.create(folder), server_index.create(url, schema=SCHEMA))
    (here, there), seconds = await filled(backends, stamp, entries(texts, rows))
    terms = [analyse_query(text) for text in told]
    report = {
        "rows": len(rows),
        "load_seconds": {name: round(took, 1) for name, took in seconds.items()},
        "load_postgres_to_embedded": round(seconds["postgres"] / seconds["embedded"], 2),
        "megabytes": await sizes(there, folder),
        **await speeds(here, there, url, terms, asked),
        "cpu_ms": await costs(here, there, server, terms, asked),
        **await recalls(there, rows, asked),
        "same_top_10": await same(here, there, terms),
    }
    if with_others:
        report["other_keywords"] = await alternatives(url, texts, terms, DEPTH, partial(cpu_since, server))
    for index in (here, there):
        await index.close()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--url", default="")
    parser.add_argument("--keywords", action="store_true")
    options = parser.parse_args()
    model = LocalEmbedding(MODEL.name, MODEL)
    texts = [text for _, text in passages(options.count)]
    CACHE.mkdir(exist_ok=True)
    rows = spread(embedded(texts, min(options.count, 10_000), CACHE / "embedded.npy", model), len(texts))
    told = questions(options.questions)
    asked = np.stack([model.embed_query(text) for text in told])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url, server = stack.enter_context(served(options.url))
        report = asyncio.run(measured(url, server, folder, texts, rows, told, asked, options.keywords))
    print(json.dumps(report, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
