"""What the graph of many chunks costs: made, asked, asked again, after a single write, under a filter, after opening.

    python -m benchmarks.graph_scale ../shared/data/zh_scale_200k.jsonl.xz --limit 100000 [--keep FOLDER]

Every line of the file ({"_id", "title", "text", …}) becomes a document of a base without a model. Told are processor
seconds of the whole process, step by step, and its memory after each (``anonymous`` is without mapped files): all of it
one engine, nothing else running in it. ``follow`` is what the graph itself costs after a write. Then the base is opened
anew, and asked first of all for its graph. ``--keep``: the base is made there, or used again.
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
from collections.abc import Awaitable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from qianxun.core.types import Document, Eq
from qianxun.engine.engine import Engine
from qianxun.graph.build import current_graph, extract_missing_facts, graph_of
from qianxun.graph.stored_graph import keep_graph

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
        spent = round(time.process_time() - started, 3)
        self.told[name] = {"cpu_seconds": spent, "peak_mib": peak, "anonymous_mib": _anonymous()}
        print(name, self.told[name], file=sys.stderr, flush=True)
        return done


def _anonymous() -> int:
    """Of this process, in MiB, where the system says so."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon:")), -1)


async def built(folder: str, library: Iterator[Document], steps: Steps) -> dict[str, Any]:
    """A base of these documents, its graph and what is asked of it."""
    async with Engine.open(folder, background=False) as engine:
        kb = (await engine.create_knowledge_base("scale", model="none")).id
        await steps.timed("indexing", engine.add_documents(kb, list(library)))
        base = await engine.base(kb)
        await steps.timed("facts", extract_missing_facts(base))
        graph = await steps.timed("graph", graph_of(base))
        for mode in ("local", "global", "mix"):
            await steps.timed(f"first {mode}", engine.gather(kb, QUESTION, mode=mode))
        for mode in ("local", "global", "mix"):
            await steps.timed(f"next {mode}", engine.gather(kb, QUESTION, mode=mode))
        await steps.timed("kept on disk", keep_graph(base))
        return {"chunks": len(graph.chunks), "entities": len(graph), "relations": len(graph.relations)}


async def reopened(folder: str, steps: Steps) -> None:
    async with Engine.open(folder, background=False) as engine:
        kb = (await engine.knowledge_base("scale")).id
        base = await engine.base(kb)
        for mode in ("mix", "global"):
            await steps.timed(f"first {mode} after opening", engine.gather(kb, QUESTION, mode=mode))
        for name in ("first", "next"):
            await engine.add_documents(kb, [Document("written", WRITTEN.replace("李四", f"李四{time.time_ns()}"))])
            await steps.timed(f"follow, {name} write", current_graph(base))
            for mode in ("mix", "global"):
                await steps.timed(f"{mode} after the {name} write", engine.gather(kb, QUESTION, mode=mode))
        await engine.delete_document(kb, (await engine.documents(kb, limit=1))[0].doc_id)
        await steps.timed("follow, a deletion", current_graph(base))
        for name in ("first", "next"):
            asking = engine.gather(kb, QUESTION, mode="mix", where=FILTER)
            await steps.timed(f"{name} mix under a filter, which settles", asking)


def run(path: Path, limit: int, folder: str) -> dict[str, Any]:
    steps = Steps()
    sizes: dict[str, Any] = {}
    if not (Path(folder) / "qianxun.db").exists():
        sizes = asyncio.run(built(folder, islice(documents(path), limit), steps))
    asyncio.run(reopened(folder, steps))
    return {**sizes, "steps": steps.told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", type=Path, default=SET)
    parser.add_argument("--limit", type=int, default=100_000, help="documents")
    parser.add_argument("--keep", help="a folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        told = run(arguments.set, arguments.limit, arguments.keep or temporary)
    json.dump(told, sys.stdout, ensure_ascii=False, indent=2)
    print()


if __name__ == "__main__":
    main()
