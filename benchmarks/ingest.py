"""Indexing without the embedding step, as a ratio to the bare cost of its parts in the same run.

Bare: tokenise (words, characters and bigrams) + add to tantivy + add to a vector file and its faiss codes + one SQLite
insert per passage, each in the shortest way its library has, on the same texts and vectors. Ours:
`Engine.add_documents` with a model that hands out the same vectors. Both are run in slices, in turn, so that a noisy
machine hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import tantivy

from benchmarks.passages import SCALE, passages
from qianxun import Document, Engine
from qianxun.core.types import Vector, Vectors
from qianxun.text.chinese import Analyser, index_grams

DIMENSION = 512
BATCH = 5_000  # rows in one commit, as in the pipeline
SLICE = 50_000  # passages before the other side has its turn


class Precomputed:
    """A model whose vectors were made before the clock started."""

    name = "precomputed"
    dimension = DIMENSION

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._next = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        start = self._next % len(self._vectors)
        self._next += len(texts)
        return np.take(self._vectors, range(start, start + len(texts)), axis=0, mode="wrap")

    def embed_query(self, text: str) -> Vector:
        return self._vectors[0]


class Clock:
    """Wall and CPU seconds, added up by name."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu
        return result


class Bare:
    """The parts, each by itself."""

    def __init__(self, folder: Path) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("row", indexed=True, fast=True)
        builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
        builder.add_text_field("grams", tokenizer_name="whitespace", index_option="freq")
        (folder / "tantivy").mkdir()
        self.index = tantivy.Index(builder.build(), path=str(folder / "tantivy"))
        self.vectors = (folder / "vectors").open("wb")
        self.codes = faiss.IndexRaBitQ(DIMENSION, faiss.METRIC_INNER_PRODUCT)
        self.codes.is_trained = True
        faiss.copy_array_to_vector(np.zeros(DIMENSION, np.float32), self.codes.center)
        self.rows = sqlite3.connect(folder / "rows.db", isolation_level=None)
        self.rows.execute("PRAGMA journal_mode=WAL")
        self.rows.execute("PRAGMA synchronous=FULL")
        self.rows.execute("CREATE TABLE passages (id INTEGER PRIMARY KEY, name TEXT, text TEXT, vector BLOB)")
        self.analyser = Analyser()
        self.count = 0

    def tokenise(self, texts: Sequence[str]) -> list[tuple[str, str]]:
        return [(self.analyser.index_words(text), index_grams(text)) for text in texts]

    def add_keywords(self, tokens: Sequence[tuple[str, str]]) -> None:
        for row, (words, grams) in enumerate(tokens, self.count):
            self.writer.add_document(tantivy.Document(row=row, words=words, grams=grams))
        self.writer.commit()

    def add_vectors(self, vectors: Vectors) -> None:
        self.vectors.write(vectors.tobytes())
        self.vectors.flush()
        os.fsync(self.vectors.fileno())
        self.codes.add(vectors)

    def add_rows(self, batch: Sequence[tuple[str, str]], vectors: Vectors) -> None:
        self.rows.execute("BEGIN")
        self.rows.executemany(
            "INSERT INTO passages VALUES (?, ?, ?, ?)",
            [
                (row, name, text, vector.tobytes())
                for row, ((name, text), vector) in enumerate(zip(batch, vectors, strict=True), self.count)
            ],
        )
        self.rows.execute("COMMIT")

    def run(self, clock: Clock, found: Sequence[tuple[str, str]], vectors: Vectors) -> None:
        self.writer = self.index.writer(64_000_000, 1)
        for start in range(0, len(found), BATCH):
            self._run_batch(clock, found[start : start + BATCH], vectors[start : start + BATCH])
        clock.run("tantivy", self.writer.wait_merging_threads)  # its merges must not run on the other side's clock

    def _run_batch(self, clock: Clock, batch: Sequence[tuple[str, str]], vectors: Vectors) -> None:
        tokens = clock.run("tokenise", lambda: self.tokenise([text for _, text in batch]))
        clock.run("tantivy", lambda: self.add_keywords(tokens))
        clock.run("vectors", lambda: self.add_vectors(vectors))
        clock.run("sqlite", lambda: self.add_rows(batch, vectors))
        self.count += len(batch)

    def finish(self) -> None:
        self.rows.close()
        self.vectors.close()


async def measure(found: Sequence[tuple[str, str]], vectors: Vectors, folder: Path) -> dict[str, Any]:
    clock = Clock()
    ours_wall = ours_cpu = 0.0
    (folder / "bare").mkdir()
    bare = Bare(folder / "bare")
    model = Precomputed(vectors)
    async with Engine.open(folder / "ours", models={model.name: model}, background=False) as engine:
        base = await engine.create_knowledge_base("bench", model=model.name)
        for start in range(0, len(found), SLICE):
            part = found[start : start + SLICE]
            bare.run(clock, part, vectors[start : start + SLICE])
            wall, cpu = time.perf_counter(), time.process_time()
            await engine.add_documents(base.id, [Document(name, text, name=name) for name, text in part])
            ours_wall += time.perf_counter() - wall
            ours_cpu += time.process_time() - cpu
        bare.finish()
        chunks = (await engine.statistics(base.id))["chunks"]
    bare_wall, bare_cpu = sum(clock.wall.values()), sum(clock.cpu.values())
    return {
        "passages": len(found),
        "chunks": chunks,
        "ratio_wall": round(ours_wall / bare_wall, 3),
        "ratio_cpu": round(ours_cpu / bare_cpu, 3),
        "ours_seconds": round(ours_wall, 2),
        "bare_cpu_seconds": {name: round(seconds, 2) for name, seconds in clock.cpu.items()},
        "bare_seconds": {name: round(seconds, 2) for name, seconds in clock.wall.items()},
        "passages_per_second": round(len(found) / ours_wall),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=200_000)
    parser.add_argument("--source", type=Path, default=SCALE)
    options = parser.parse_args()
    found = passages(options.limit, options.source)
    vectors = np.random.default_rng(7).standard_normal((len(found), DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    folder = Path(tempfile.mkdtemp(prefix="qianxun-bench-"))
    try:
        json.dump(asyncio.run(measure(found, vectors, folder)), sys.stdout, ensure_ascii=False, indent=1)
        print()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
