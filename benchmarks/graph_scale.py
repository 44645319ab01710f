"""What the graph of many chunks costs: made, asked, asked again, after a single write, and under a filter.

    python -m benchmarks.graph_scale ../shared/data/zh_scale_200k.jsonl.xz --limit 100000

Every line of the file ({"_id", "title", "text", …}) becomes a document of a base without a model. Told are processor
seconds of the whole process, step by step, and its memory after each: all of it one engine, nothing else running in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.types import Document, Eq
from qianxun.engine.engine import Engine
from qianxun.graph.build import extract_missing_facts, graph_of

SET = Path("../shared/data/zh_scale_200k.jsonl.xz")
QUESTION = "特斯拉在上海的工厂生产什么"
WRITTEN = "特斯拉在上海的超级工厂由李四创立，位于临港新片区。"
FILTER = Eq("metadata.tenth", 3)
Result = TypeVar("Result")


def documents(path: Path) -> Iterator[Document]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for at, line in enumerate(lines):
            told = json.loads(line)
            name = told.get("title") or told["_id"]
            yield Document(told["_id"], told["text"], name=name, metadata={"tenth": at % 10})


class Steps:
    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    async def timed(self, name: str, work: Awaitable[Result]) -> Result:
        started = time.process_time()
        done = await work
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        self.told[name] = {"cpu_seconds": round(time.process_time() - started, 2), "peak_mib": peak}
        print(name, self.told[name], file=sys.stderr, flush=True)
        return done


async def run(library: Sequence[Document]) -> dict[str, Any]:
    steps = Steps()
    with tempfile.TemporaryDirectory() as folder:
        async with Engine.open(folder, background=False) as engine:
            kb = (await engine.create_knowledge_base("scale", model="none")).id
            await steps.timed("indexing", engine.add_documents(kb, library))
            base = await engine.base(kb)
            await steps.timed("facts", extract_missing_facts(base))
            graph = await steps.timed("graph", graph_of(base))
            for mode in ("local", "global", "mix"):
                await steps.timed(f"first {mode}", engine.gather(kb, QUESTION, mode=mode))
            for mode in ("local", "global", "mix"):
                await steps.timed(f"next {mode}", engine.gather(kb, QUESTION, mode=mode))
            await steps.timed("write", engine.add_documents(kb, [Document("written", WRITTEN)]))
            for mode in ("mix", "global"):
                await steps.timed(f"{mode} after a write", engine.gather(kb, QUESTION, mode=mode))
            for name in ("first mix", "next mix"):
                await steps.timed(f"{name} under a filter", engine.gather(kb, QUESTION, mode="mix", where=FILTER))
            sizes = {"chunks": len(graph.chunks), "entities": len(graph), "relations": len(graph.relations)}
    return {**sizes, "steps": steps.told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", type=Path, default=SET)
    parser.add_argument("--limit", type=int, default=100_000, help="documents")
    arguments = parser.parse_args()
    told = asyncio.run(run(list(islice(documents(arguments.set), arguments.limit))))
    json.dump(told, sys.stdout, ensure_ascii=False, indent=2)
    print()


if __name__ == "__main__":
    main()
