"""What the retrieval node costs beside its bare parts, and what its index loses, at 20,000 examples on PostgreSQL.

    python -m benchmarks.examples [--rows 20000] [--asked 200] [--database URL]

The largest table holds ``rows`` examples, the three others a tenth of that each: real passages, their vectors from the
model as far as an earlier run has embedded them, the others mixed of those (see `benchmarks.peers.material`). Questions
are real ones; none comes twice. Bare calls and node take turns, question by question, so that what else the machine
does falls on both:

- ``embedding``: the model alone; ``sql``: the four searches alone, one after another on one open connection;
- ``node``: `make_retrieval_node(library)(state)`, which does both, in threads, and ranks, checks and formats;
- ``ratio``: the median over the questions of node / (embedding + sql).

Recall is the share of the true nearest 15 that the index finds, over all and under a filter that one in a hundred
passes. Without ``--database`` a server is started for the run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from sqlalchemy import text
from tests.servers.postgres import create_database, drop_database, shared_server

from benchmarks.passages import MODEL, passages
from benchmarks.peers.material import embedded, questions, spread
from qianxun.core.types import Vector, Vectors
from qianxun.doors.workflow.nodes.retrieval_node import make_retrieval_node
from qianxun.examples.library import ExampleLibrary, SearchSettings
from qianxun.examples.pgvector import filter_parameters, nearest_statement, settings_statement
from qianxun.examples.results import ExampleFilter
from qianxun.examples.schema import DEFAULT_TABLE_NAMES, vector_text
from qianxun.examples.store import ExampleStore
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.records.database.open import connect

CACHE = Path(__file__).resolve().parents[1] / ".bench-cache"
REAL = 10_000
RARE = "少见"  # the tag that one in a hundred bears
DEPTH = 15
RATIO_AT_MOST = 1.3
RECALL_AT_LEAST = 0.98
NODE_MS_AT_MOST = 500.0
THREADS = 16
GRADES = ("优秀", "良好", "一般")


@contextmanager
def database(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with shared_server(f"benchmark {os.getpid()}") as server:
        created = create_database(server)
        try:
            yield created
        finally:
            drop_database(server, created)


def sizes(rows: int) -> dict[str, int]:
    return {name: rows if name == DEFAULT_TABLE_NAMES[0] else rows // 10 for name in DEFAULT_TABLE_NAMES}


def filled(store: ExampleStore, texts: Sequence[str], vectors: Vectors, rows: int) -> float:
    """Copies the examples in, the index made last; seconds."""
    started = time.perf_counter()
    store.prepare()
    first = 0
    for source, count in sizes(rows).items():
        table = store.tables[source].name
        with store.engine.begin() as connection:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
            connection.execute(text(f"DROP INDEX {table}_embedding_idx"))
            with (
                connection.connection.cursor() as cursor,
                cursor.copy(
                    f"COPY {table} (user_input, agent_response, tags, quality_grade, embedding) FROM STDIN"
                ) as copied,
            ):
                for number in range(first, first + count):
                    tags = ["常见", RARE] if number % 100 == 0 else ["常见"]
                    said, answered = f"{number} {texts[number][:30]}", texts[number][:300]
                    copied.write_row((said, answered, tags, GRADES[number % 3], vector_text(vectors[number])))
            connection.execute(
                text(f"CREATE INDEX {table}_embedding_idx ON {table} USING hnsw (embedding vector_cosine_ops)")
            )
            connection.execute(text(f"ANALYZE {table}"))
        first += count
    return time.perf_counter() - started


def bare_sql(cursor: Any, store: ExampleStore, vector: Vector) -> int:
    """The four statements, with nothing around them."""
    asked, found = {"query": vector_text(vector), "most": 5, "least": 0.5}, 0
    for table in store.tables.values():
        cursor.execute(nearest_statement(table), asked)
        found += len(cursor.fetchall())
    return found


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def by_turns(library: ExampleLibrary, model: LocalEmbedding, asked: Sequence[str]) -> dict[str, Any]:
    """Milliseconds per question, bare and through the node."""
    node, store = make_retrieval_node(library), library.store
    rows: list[tuple[float, float, float]] = []
    with store.engine.connect() as connection, connection.connection.cursor() as cursor:
        cursor.execute(settings_statement().replace("true)", "false)"))  # for the whole session
        for number, question in enumerate(asked):
            vector = model.embed_query(question)  # unmeasured: the first look at these words
            turns: list[Callable[[], Any]] = [
                lambda question=question: model.embed_query(question),
                lambda vector=vector: bare_sql(cursor, store, vector),
                lambda question=question: node({"prompt_vars": {"query_text": question}}),
            ]
            order = [(number + n) % 3 for n in range(3)]
            took = {turn: timed(turns[turn]) for turn in order}
            rows.append((took[0], took[1], took[2]))
    embedding, sql, whole = (np.array(column) for column in zip(*rows, strict=True))
    return {
        "embedding_ms": round(float(np.median(embedding)), 2),
        "sql_ms": round(float(np.median(sql)), 2),
        "node_ms": round(float(np.median(whole)), 2),
        "node_p95_ms": round(float(np.quantile(whole, 0.95)), 2),
        "ratio": round(float(np.median(whole / (embedding + sql))), 3),
        "questions": len(asked),
    }


def kept(library: ExampleLibrary, asked: Sequence[str]) -> list[float]:
    """Milliseconds for questions whose answers are kept."""
    node = make_retrieval_node(library)
    return [timed(lambda question=question: node({"prompt_vars": {"query_text": question}})) for question in asked]


def at_once(library: ExampleLibrary, asked: Sequence[str]) -> dict[str, float]:
    """Sixteen threads, each with questions of its own."""
    node = make_retrieval_node(library)

    def ask(question: str) -> tuple[float, int]:
        state: dict[str, Any] = {"prompt_vars": {"query_text": question}}
        started = time.perf_counter()
        found = node(state)["prompt_vars"]["retrieved_examples"]
        return (time.perf_counter() - started) * 1000, len(found)

    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        told = list(threads.map(ask, asked))
    seconds = time.perf_counter() - started
    took = [each for each, _ in told]
    return {
        "threads": THREADS,
        "questions": len(asked),
        "per_second": round(len(asked) / seconds, 1),
        "median_ms": round(median(took), 1),
        "p95_ms": round(quantiles(took, n=20)[-1], 1),
        "with_examples": sum(count > 0 for _, count in told),
    }


def recall(library: ExampleLibrary, vectors: Vectors, asked: Vectors, rows: int, *, rare: bool) -> float:
    """Of the true nearest 15 of the largest table, the share that is found."""
    where = ExampleFilter(tags=(RARE,)) if rare else ExampleFilter()
    here = np.arange(0, rows, 100 if rare else 1)
    hits = 0.0
    for vector in asked:
        exact = {int(number) for number in here[np.argsort(-(vectors[here] @ vector))[:DEPTH]]}
        found = library.search_in_table(DEFAULT_TABLE_NAMES[0], vector, DEPTH, -1.0, where=where)
        hits += len(exact & {int(row["user_input"].split(" ", 1)[0]) for row in found}) / DEPTH
    return round(hits / len(asked), 4)


def plan(store: ExampleStore, vector: Vector, where: ExampleFilter) -> list[str]:
    """How PostgreSQL says it goes about a search: the lines that name a scan."""
    statement = nearest_statement(store.tables[DEFAULT_TABLE_NAMES[0]], where)
    values = {"query": vector_text(vector), "most": DEPTH, "least": 0.5, **filter_parameters(where)}
    with store.engine.connect() as connection:
        connection.exec_driver_sql(settings_statement(is_filtered=bool(where)))
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", values)
        return [row[0].strip() for row in rows if "Scan" in row[0]]


def measure(url: str, rows: int, asked: int) -> dict[str, Any]:
    model = LocalEmbedding(MODEL.name, MODEL)
    total = sum(sizes(rows).values())
    texts = [content for _, content in passages(total)]
    real = embedded(texts, min(REAL, total), CACHE / "embedded.npy", model)
    vectors = spread(real, total) if len(real) < total else real[:total]
    words = questions(2 * asked + 4 * THREADS)
    engine = connect(url)
    store = ExampleStore(engine, "bench_", model)
    told: dict[str, Any] = {"rows": sizes(rows), "really_embedded": min(len(real), total), "load": os.getloadavg()}
    try:
        told["fill_seconds"] = round(filled(store, texts, vectors, rows), 1)
        library = ExampleLibrary(store, SearchSettings(cache_seconds=3600.0, statement_seconds=60.0))  # as shipped
        looked_up = np.stack([model.embed_query(question) for question in words[:asked]])
        told["plan"] = plan(store, looked_up[0], ExampleFilter())
        told["plan_filtered"] = plan(store, looked_up[0], ExampleFilter(tags=(RARE,)))
        told["recall@15"] = recall(library, vectors, looked_up, rows, rare=False)
        told["recall@15_filtered"] = recall(library, vectors, looked_up, rows, rare=True)
        told["node"] = by_turns(library, model, words[asked : 2 * asked])
        told["kept_ms"] = round(median(kept(library, words[asked : 2 * asked])), 2)
        told["at_once"] = at_once(library, words[2 * asked :])
        library.close()
    finally:
        engine.dispose()
    return told


def verdicts(told: dict[str, Any]) -> dict[str, bool]:
    index = f"{DEFAULT_TABLE_NAMES[0]}_embedding_idx"
    return {
        f"plan uses {index}": any(index in line for line in told["plan"]),
        f"recall@15 {told['recall@15']} >= {RECALL_AT_LEAST}": told["recall@15"] >= RECALL_AT_LEAST,
        f"filtered {told['recall@15_filtered']} >= {RECALL_AT_LEAST}": told["recall@15_filtered"] >= RECALL_AT_LEAST,
        f"node / bare {told['node']['ratio']} <= {RATIO_AT_MOST}": told["node"]["ratio"] <= RATIO_AT_MOST,
        f"node {told['node']['node_ms']} ms <= {NODE_MS_AT_MOST:g}": told["node"]["node_ms"] <= NODE_MS_AT_MOST,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--database", default="")
    options = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    with database(options.database) as url:
        told = measure(url, options.rows, options.asked)
    judged = verdicts(told) if options.rows >= 20_000 else {}
    print(json.dumps({**told, "judged": judged}, ensure_ascii=False, indent=1))
    return 0 if all(judged.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
