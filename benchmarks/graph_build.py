"""What the graph of a set costs without a model, as a ratio to its keyword indexing, in processor seconds.

    python -m benchmarks.graph_build ../shared/data/beir/cmrc2018

Keyword indexing: `Engine.add_documents` of the same texts into a base without an embedding model, until they can be
searched: chunks, records, words and characters in the index. The graph: the facts of the same chunks read and kept in
the records, the graph derived from them, and its communities. Both in one process, one after the other, several times,
each time into new bases; the figures are those of the quickest round of each. Exits 1 when the graph costs more than
three times the indexing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.evaluation.dataset import load
from qianxun.graph.build import extract_missing_facts, graph_of
from qianxun.records import graph as facts

TARGET = 3.0
SET = Path("../shared/data/beir/cmrc2018")
WARM = 50  # documents that are taken in before the clock starts: dictionaries and models load once

Result = TypeVar("Result")


async def timed(work: Callable[[], Awaitable[Result]]) -> tuple[Result, float]:
    started = time.process_time()
    return await work(), time.process_time() - started


async def measured(engine: Engine, documents: Sequence[Document]) -> dict[str, float]:
    """Processor seconds of each part, for a base of its own."""
    kb = (await engine.create_knowledge_base(f"round {time.monotonic_ns()}", model="none")).id
    _, indexing = await timed(lambda: engine.add_documents(kb, documents))
    base = await engine.base(kb)
    chunks, reading = await timed(lambda: extract_missing_facts(base))
    graph, deriving = await timed(lambda: graph_of(base))
    communities, grouping = await timed(lambda: asyncio.to_thread(lambda: graph.communities.groups()))
    with base.records.reading() as tx:
        stored = sum(
            len(text.encode())
            for text in tx.execute(facts.select(facts.GraphFactsRow.facts).filter_by(knowledge_base_id=kb)).scalars()
        )
    await engine.delete_knowledge_base(kb)
    return {
        **{"indexing": indexing, "reading": reading, "deriving": deriving, "communities": grouping},
        **{"chunks": chunks, "entities": len(graph), "relations": len(graph.relations), "groups": len(communities)},
        "stored_bytes": stored,
    }


async def run(documents: Sequence[Document], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        async with Engine.open(folder, background=False) as engine:
            await measured(engine, documents[:WARM])
            told = [await measured(engine, documents) for _ in range(rounds)]
    seconds = {part: min(each[part] for each in told) for part in ("indexing", "reading", "deriving", "communities")}
    graph = sum(seconds[part] for part in ("reading", "deriving", "communities"))
    text = sum(len(document.content.encode()) for document in documents)
    return {
        "documents": len(documents),
        **{name: told[0][name] for name in ("chunks", "entities", "relations", "groups")},
        "cpu_seconds": {part: round(value, 3) for part, value in seconds.items()},
        "ratio": round(graph / seconds["indexing"], 3),
        "ratio_without_communities": round((graph - seconds["communities"]) / seconds["indexing"], 3),
        "milliseconds_per_chunk": round(1000 * seconds["reading"] / max(told[0]["chunks"], 1), 3),
        "stored_to_text": round(told[0]["stored_bytes"] / text, 3),
        "judged": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", type=Path, default=SET)
    parser.add_argument("--limit", type=int, help="documents")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    told = asyncio.run(run(load(arguments.set).documents[: arguments.limit], arguments.rounds))
    json.dump(told, sys.stdout, ensure_ascii=False, indent=2)
    print()
    sys.exit(told["ratio"] > TARGET)


if __name__ == "__main__":
    main()
