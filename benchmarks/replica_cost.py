"""What one replica and its servers spend on a question and on a chunk: for working out how many of them to run.

    python -m benchmarks.replica_cost [--count 20000] [--questions 200] [--records postgres,mysql]

Records on PostgreSQL and on MySQL (MariaDB) by turns, the index on PostgreSQL each time, one engine without its HTTP
side (docs/benchmarks.md has that: 1 to 2.5 ms a question). Seconds are of the processor, ours and the servers', so that
other work on the machine does not blur them. Vectors are made of hashes: with a local model the embedding of every
question and chunk comes on top; it is measured by itself where the model is there. Questions are passages' own words,
each asked once: nothing comes from a cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.servers import mysql, postgres

from benchmarks.passages import MODEL, passages
from qianxun import Document, Engine
from qianxun.engine.settings import load
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.testing.scripted import HashEmbedding

BATCH = 500
DIMENSION = 512
CHUNKS_EMBEDDED = 64
QUESTION = 18  # characters: about what people type


def used_below(folder: Path) -> float:
    """CPU seconds of the processes that were started in this folder, and of those they started."""
    found: dict[int, tuple[int, float, bool]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (process / "stat").read_text().rpartition(") ")[2].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found[int(process.name)] = int(fields[1]), seconds, str(folder) in (process / "cmdline").read_text()
    own = {number for number, (_, _, is_named) in found.items() if is_named}
    own |= {number for number, (parent, _, _) in found.items() if parent in own}
    return sum(found[number][1] for number in own)


@contextmanager
def servers(kind: str) -> Iterator[tuple[str, str, Callable[[], float]]]:
    """URLs of the records and of the index, and what their servers have used so far."""
    with ExitStack() as stack:
        index = stack.enter_context(postgres.own_server())
        folders = [index.folder]
        url = postgres.create_database(index)
        records = url
        if kind == "mysql":
            other = stack.enter_context(mysql.own_server())
            folders.append(other.folder)
            records = mysql.create_database(other)
        yield records, url, lambda: sum(used_below(folder) for folder in folders)


async def measure(kind: str, count: int, questions: int) -> dict[str, Any]:
    texts = passages(count)
    model = HashEmbedding(DIMENSION)
    with servers(kind) as (records, index, theirs), tempfile.TemporaryDirectory() as folder:
        given = {"data": folder, "records.url": records, "index.backend": "postgres", "index.url": index}
        settings = load(environment={}, arguments=given | {"search.cache_entries": 0}, folder=Path(folder))
        async with Engine.open(settings=settings, models={model.name: model}, background=False) as engine:
            base = (await engine.create_knowledge_base("量", model=model.name)).id
            ours, server = time.process_time(), theirs()
            for start in range(0, count, BATCH):
                await engine.add_documents(base, [Document(*one) for one in texts[start : start + BATCH]])
            taken_in = time.process_time() - ours, theirs() - server
            middles = (text[len(text) // 2 :].strip()[:QUESTION] for _, text in texts[:: max(1, count // questions)])
            asked = [text for text in middles if text][:questions]
            for text in asked[:10]:
                await engine.retrieve(base, f"{text}？")
            ours, server = time.process_time(), theirs()
            for text in asked:
                await engine.retrieve(base, text)
            answered = time.process_time() - ours, theirs() - server
            chunks = (await engine.statistics(base))["chunks"]
    return {
        "records": kind,
        "chunks": chunks,
        "ms a chunk taken in": [round(seconds / chunks * 1000, 2) for seconds in taken_in],
        "ms a question": [round(seconds / len(asked) * 1000, 2) for seconds in answered],
    }


def embedding_cost(questions: int) -> dict[str, Any]:
    """Of the local model, one question at a time on one thread."""
    if not MODEL.is_dir():
        return {}
    model = LocalEmbedding(MODEL.name, MODEL, threads=1)
    asked = [text[:QUESTION] for _, text in passages(questions)]
    model.embed_query(asked[0])
    start = time.process_time()
    for text in asked:
        model.embed_query(text)
    one = (time.process_time() - start) / len(asked)
    start = time.process_time()
    model.embed_passages([text for _, text in passages(CHUNKS_EMBEDDED)])
    many = (time.process_time() - start) / CHUNKS_EMBEDDED
    return {"ms a question embedded": round(one * 1000, 2), "ms a chunk embedded": round(many * 1000, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--records", default="postgres,mysql")
    chosen = parser.parse_args()
    print("[ours, the servers'] in CPU milliseconds")
    for kind in chosen.records.split(","):
        if kind == "mysql" and (reason := mysql.unavailable()):
            print(reason)
            continue
        print(json.dumps(asyncio.run(measure(kind, chosen.count, chosen.questions)), ensure_ascii=False))
    print(json.dumps(embedding_cost(50)))


if __name__ == "__main__":
    main()
