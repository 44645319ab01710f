"""How cost grows with a base: CPU a question, memory, disk, building, a write, at 10,000, 100,000 and a million chunks.

    python -m benchmarks.scale [--rows 10000 100000 [1000000]] [--folder DIR] [--part build … stops]

One-chunk documents: the passages of `zh_scale_200k`, and from the 200,001st on a passage followed by the beginning of
another. Vectors: bge-small-zh-v1.5 of the first passages (`REAL`), then mixtures of two of them with a little noise
(`peers.material.spread`). Questions are real ones with real vectors. Every part is run in a process of its own; a base
is built once in the folder and found again by the next run. Prints one JSON document: the figures of every size, and
the exponents between them (cost ~ rows ** exponent).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.passages import MODEL, passages
from benchmarks.peers.harness import cpu_seconds
from benchmarks.peers.material import embedded, questions, spread
from benchmarks.peers.ours import MODULES
from qianxun.core.types import EVERYTHING, Document, Eq, Filter, In, Vectors

DIMENSION = 512
REAL = 7_000  # vectors of the model
SLICE = 50_000  # documents in one call that adds
BLOCK = 100_000  # vectors made at a time
LONG = 8_000  # no passage is cut
ASKED, WARMING = 300, 30
DEPTH = 200  # candidates per arm, as the pipeline asks for them
TAIL = 60  # characters of another passage that make a variant
CACHE = Path(__file__).resolve().parents[1] / ".bench-cache"
PARTS = ("build", "open", "ask", "filters", "write", "stops")
WRITTEN = 5_000  # documents that are added while questions are asked
FILTERS: dict[str, Filter] = {
    "50 %": Eq("user_id", "user-1"),
    "1 %": Eq("project_id", "project-17"),
    "0.01 %": Eq("content_type", "type-4711"),
}


class Precomputed:
    """A model whose vectors were made before: passages in the order in which they come, questions by their text."""

    name = "precomputed"
    dimension = DIMENSION
    is_quick = True

    def __init__(self, vectors: Vectors, asked: dict[str, Any]) -> None:
        self._vectors, self._asked, self._next = vectors, asked, 0
        self.now: Any = next(iter(asked.values()))  # of the question that is being asked, however it is rewritten

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        start = self._next % len(self._vectors)
        self._next += len(texts)
        found = np.take(self._vectors, range(start, start + len(texts)), axis=0, mode="wrap")
        if (mapped := getattr(self._vectors, "_mmap", None)) is not None:
            mapped.madvise(mmap.MADV_DONTNEED)  # what a model would have made is not the engine's memory
        return found

    def embed_query(self, text: str) -> Any:
        return self.now

    def ask(self, text: str) -> str:
        self.now = self._asked[text]
        return text


# ── material ─────────────────────────────────────────────────────────────────────────────────────


def make_vectors(folder: Path, rows: int) -> None:
    """Vectors of passages and questions, kept in the folder."""
    from qianxun.models.local.embedding import LocalEmbedding

    CACHE.mkdir(exist_ok=True)
    place = folder / "vectors.npy"
    if not (folder / "questions.npz").exists():
        model = LocalEmbedding(MODEL.name, MODEL)
        texts = questions(ASKED + WARMING)
        np.savez(folder / "questions.npz", texts=texts, vectors=np.stack([model.embed_query(text) for text in texts]))
        embedded([text for _, text in passages(REAL)], min(REAL, rows), CACHE / "embedded.npy", model)
    if not place.exists():
        real = np.load(CACHE / "embedded.npy")[: min(REAL, rows)]
        made = np.lib.format.open_memmap(folder / "making.npy", "w+", np.float32, (rows, DIMENSION))
        made[: len(real)] = real
        for number, start in enumerate(range(len(real), rows, BLOCK)):
            end = min(start + BLOCK, rows)
            made[start:end] = spread(real, len(real) + end - start, seed=number)[len(real) :]
        made.flush()
        (folder / "making.npy").rename(place)


def documents(rows: int) -> Iterator[Document]:
    found = [text for _, text in passages(min(rows, 200_000))]
    for number in range(rows):
        turn, at = divmod(number, len(found))
        text = found[at] + (found[(at * 7 + turn) % len(found)][:TAIL] if turn else "")
        yield Document(
            f"d{number}", text, name=f"d{number}",
            user_id=f"user-{number % 2}", project_id=f"project-{number % 100}", content_type=f"type-{number % 10_000}",
        )  # fmt: skip


def model_of(folder: Path) -> tuple[Precomputed, list[str]]:
    kept = np.load(folder / "questions.npz")
    asked = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))
    return Precomputed(np.load(folder / "vectors.npy", mmap_mode="r"), asked), list(asked)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


async def build(folder: Path, rows: int) -> dict[str, Any]:
    from qianxun import Engine

    if (folder / "built.json").exists():
        told: dict[str, Any] = json.loads((folder / "built.json").read_text())
        return told
    model, _ = model_of(folder)
    cpu = wall = 0.0
    async with Engine.open(folder / "data", models={model.name: model}, background=False) as engine:
        base = await engine.create_knowledge_base(
            "bench", model=model.name, config={"chunk_size": LONG, "chunk_overlap": 0}
        )
        coming, waiting = documents(rows), True
        while waiting:
            batch = [one for one, _ in zip(coming, range(SLICE), strict=False)]
            waiting = len(batch) == SLICE
            began, spent = time.perf_counter(), cpu_seconds()
            await engine.add_documents(base.id, batch)
            wall, cpu = wall + time.perf_counter() - began, cpu + cpu_seconds() - spent
            print(f"{wall:.0f} s, {cpu:.0f} s CPU, {peak_gigabytes()} GB", file=sys.stderr, flush=True)
        chunks = (await engine.statistics(base.id))["chunks"]
    told = {
        "chunks": chunks,
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
        "chunks_per_cpu_second": round(chunks / cpu),
        "peak_gigabytes": peak_gigabytes(),
    }
    (folder / "built.json").write_text(json.dumps(told))
    return told


def peak_gigabytes() -> float:
    """Of this program, mapped files included. Not `ru_maxrss`: a process that was just started has that of the one that
    started it, which made the vectors."""
    return round(_status("VmHWM"), 2)


def disk(folder: Path) -> dict[str, Any]:
    """Gigabytes, of the whole and of the largest."""
    sizes: dict[str, int] = {}
    for path in (folder / "data").rglob("*"):
        if path.is_file():
            name = "keywords" if path.parent.name == "keywords" else path.name.partition("-")[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_blocks * 512
    largest = sorted(sizes, key=lambda name: -sizes[name])[:6]
    return {"all": round(sum(sizes.values()) / 1e9, 2)} | {name: round(sizes[name] / 1e9, 3) for name in largest}


def anonymous_gigabytes() -> float:
    """Memory of this process that is no mapped file."""
    return round(_status("RssAnon"), 3)


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1e6


def require_whole(recall: Any) -> None:
    if recall.degraded or recall.from_cache:
        raise RuntimeError(f"not the whole work: {recall.degraded}, from cache: {recall.from_cache}")


Ask = Callable[[str], Awaitable[Any]]


async def opened(folder: Path, work: Callable[[Any, int, Precomputed, list[str]], Awaitable[dict[str, Any]]]) -> Any:
    from qianxun import Engine

    model, asked = model_of(folder)
    async with Engine.open(folder / "data", models={model.name: model}, background=False) as engine:
        base = await engine.knowledge_base("bench")
        return await work(engine, base.id, model, asked)


async def open_(folder: Path, rows: int) -> dict[str, Any]:
    """A fresh process up to its first answer, after the imports that any process makes."""
    for name in MODULES:
        import_module(name)
    imported, began = cpu_seconds(), time.perf_counter()

    async def first(engine: Any, base: int, model: Precomputed, asked: list[str]) -> dict[str, Any]:
        found = await engine.retrieve(base, model.ask(asked[0]), top_k=10)
        require_whole(found)
        return {
            "cpu_seconds": round(cpu_seconds() - imported, 3),
            "wall_seconds": round(time.perf_counter() - began, 3),
            "whole_process_cpu_seconds": round(cpu_seconds(), 3),
            "anonymous_gigabytes": anonymous_gigabytes(),
        }

    told: dict[str, Any] = await opened(folder, first)
    return told


async def ask(folder: Path, rows: int) -> dict[str, Any]:
    async def work(engine: Any, base: int, model: Precomputed, asked: list[str]) -> dict[str, Any]:
        async def retrieve(text: str) -> None:
            found = await engine.retrieve(base, model.ask(text), top_k=10)
            require_whole(found)

        for text in asked[ASKED:]:
            await retrieve(text)
        told: dict[str, Any] = {"hybrid": await timed(asked[:ASKED], retrieve)}
        index = (await engine.base(base)).index
        told |= await arms(index, model, asked[:ASKED])
        told["anonymous_gigabytes"] = anonymous_gigabytes()
        return told

    told: dict[str, Any] = await opened(folder, work)
    return told


async def filters(folder: Path, rows: int) -> dict[str, Any]:
    async def work(engine: Any, base: int, model: Precomputed, asked: list[str]) -> dict[str, Any]:
        index = (await engine.base(base)).index
        told: dict[str, Any] = {}
        for name, where in FILTERS.items():

            async def retrieve(text: str, where: Filter = where) -> None:
                found = await engine.retrieve(base, model.ask(text), top_k=10, where=where)
                require_whole(found)

            for text in asked[ASKED:]:
                await retrieve(text)
            hybrid = await timed(asked[: ASKED // 3], retrieve)
            told[name] = {"hybrid": hybrid} | await arms(index, model, asked[: ASKED // 3], where)
        return told

    told: dict[str, Any] = await opened(folder, work)
    return told


async def timed(asked: Sequence[str], work: Ask) -> dict[str, float]:
    """CPU milliseconds of the process a question, and the clock's at the median and the 95th percentile."""
    took, spent = [], cpu_seconds()
    for text in asked:
        began = time.perf_counter()
        await work(text)
        took.append(time.perf_counter() - began)
    cpu = (cpu_seconds() - spent) / len(asked)
    p50, p95 = np.percentile(took, [50, 95])
    return {"cpu_ms": round(1e3 * cpu, 2), "p50_ms": round(1e3 * p50, 2), "p95_ms": round(1e3 * p95, 2)}


async def arms(index: Any, model: Precomputed, asked: Sequence[str], where: Filter = EVERYTHING) -> dict[str, Any]:
    """Each arm by itself, and what a longer look finds that it does not."""
    from qianxun.text.chinese import analyse_query

    async def nearest(text: str) -> None:
        model.ask(text)
        await index.nearest(model.now, DEPTH, where)

    terms = {text: analyse_query(text) for text in asked}

    async def match(text: str) -> None:
        await index.match(terms[text], DEPTH, where)

    return {
        "vector": await timed(asked, nearest) | await vector_recall(index, model, asked[:200], where),
        "words": await timed(asked, match) | {"recall@10": await word_recall(index, list(terms.values())[:100], where)},
    }


async def vector_recall(index: Any, model: Precomputed, asked: Sequence[str], where: Filter) -> dict[str, float]:
    """Shares of the truly nearest 10 and 200, by a scan of every vector of the index."""
    view = index._open_view()
    allowed = np.flatnonzero(view.store.allowed(view.rows, where, "content"))
    keys, rows = view.rows.columns["key"], view.store.vector_rows(view.rows).rows
    queries = np.stack([model._asked[text] for text in asked])
    best = [(np.empty(0, np.float32), np.empty(0, np.int64))] * len(asked)
    for start in range(0, len(allowed), BLOCK // 4):
        slots = allowed[start : start + BLOCK // 4]
        products = queries @ rows[slots].astype(np.float32).T
        for number, own in enumerate(products):
            scores, found = np.concatenate([best[number][0], own]), np.concatenate([best[number][1], keys[slots]])
            top = np.argsort(-scores, kind="stable")[:DEPTH]
            best[number] = scores[top], found[top]
    told = {}
    for limit in (10, DEPTH):
        hit = total = 0
        for vector, (_, truth) in zip(queries, best, strict=True):
            hit += int(np.isin(truth[:limit], (await index.nearest(vector, limit, where)).keys).sum())
            total += len(truth[:limit])
        told[f"recall@{limit}"] = round(hit / total, 4)
    return told


async def word_recall(index: Any, terms: Sequence[Any], where: Filter) -> float:
    """The first ten against the first ten of a list so long that nothing is skipped in making it."""
    hit = total = 0
    for one in terms:
        truth = (await index.match(one, 20_000, where)).head(10).keys
        hit += int(np.isin(truth, (await index.match(one, 10, where)).keys).sum())
        total += len(truth)
    return round(hit / max(total, 1), 4)


async def write(folder: Path, rows: int) -> dict[str, Any]:
    """One document until it is found, and until it is not any more: medians of five, clock and CPU milliseconds."""

    async def work(engine: Any, base: int, model: Precomputed, asked: list[str]) -> dict[str, Any]:
        await engine.retrieve(base, model.ask(asked[0]), top_k=10)
        told: dict[str, list[tuple[float, float]]] = {"write": [], "delete": []}
        for number in range(6):
            text = f"第{number}次试写：新规定自公布之日起施行，原办法同时废止。{asked[number]}"
            doc_id = f"written-{os.getpid()}-{number}"
            told["write"].append(await _took(engine.add_documents(base, [Document(doc_id, text, name=doc_id)])))
            found = await engine.retrieve(base, model.ask(asked[number]), top_k=10, where=In("doc_id", (doc_id,)))
            assert [one.chunk.doc_id for one in found.found] == [doc_id]
            told["delete"].append(await _took(engine.delete_document(base, doc_id)))
        return {
            name: {"ms": round(float(np.median([wall for wall, _ in runs[1:]])), 1),
                   "cpu_ms": round(float(np.median([cpu for _, cpu in runs[1:]])), 1)}
            for name, runs in told.items()
        }  # fmt: skip

    told: dict[str, Any] = await opened(folder, work)
    return told


async def _took(work: Awaitable[Any]) -> tuple[float, float]:
    began, spent = time.perf_counter(), cpu_seconds()
    await work
    return 1e3 * (time.perf_counter() - began), 1e3 * (cpu_seconds() - spent)


async def stops(folder: Path, rows: int) -> dict[str, Any]:
    """How long a question takes while many documents are added, beside how long it takes before and after that: the
    clock's milliseconds at the median, at the 95th percentile and at most."""

    async def work(engine: Any, base: int, model: Precomputed, asked: list[str]) -> dict[str, Any]:
        numbers = count()  # no question comes twice: the first answer would be given again

        async def times(goes_on: Callable[[], bool]) -> dict[str, float]:
            took: list[float] = []
            while goes_on() or len(took) < WARMING:
                number = next(numbers)
                question = f"{model.ask(asked[number % len(asked)])}{number}"
                began = time.perf_counter()
                await engine.retrieve(base, question, top_k=10)
                took.append(1e3 * (time.perf_counter() - began))
            p50, p95, most = np.percentile(took, [50, 95, 100])
            return {"p50_ms": round(p50, 1), "p95_ms": round(p95, 1), "most_ms": round(most, 1), "asked": len(took)}

        await times(lambda: False)
        told = {"alone": await times(lambda: False)}
        coming = [replace(one, id=f"{one.id}-{os.getpid()}") for one in islice(documents(rows), WRITTEN)]
        adding = asyncio.create_task(engine.add_documents(base, coming))
        told["while_adding"] = await times(lambda: not adding.done())
        await adding
        return told

    told: dict[str, Any] = await opened(folder, work)
    return told


RUN = {"build": build, "open": open_, "ask": ask, "filters": filters, "write": write, "stops": stops}

# ── all sizes ────────────────────────────────────────────────────────────────────────────────────

GROWING = {  # what grows, and where it stands in a report
    "CPU a question": ("ask", "hybrid", "cpu_ms"),
    "… of vectors": ("ask", "vector", "cpu_ms"),
    "… of words": ("ask", "words", "cpu_ms"),
    "memory": ("ask", "anonymous_gigabytes"),
    "disk": ("disk", "all"),
    "building": ("build", "cpu_seconds"),
    "open and first answer": ("open", "cpu_seconds"),
    "a write": ("write", "write", "cpu_ms"),
    "a delete": ("write", "delete", "cpu_ms"),
}


def exponents(told: dict[int, dict[str, Any]]) -> dict[str, list[float]]:
    """Between one size and the next."""
    sizes = sorted(told)
    found = {}
    for name, path in GROWING.items():
        figures = [_at(told[size], path) for size in sizes]
        if all(figures):
            found[name] = [
                round(math.log(after / before) / math.log(larger / smaller), 2)
                for before, after, smaller, larger in zip(figures, figures[1:], sizes, sizes[1:], strict=False)
            ]
    return found


def _at(told: Any, path: Sequence[str]) -> float:
    for name in path:
        told = told.get(name, {})
    return float(told) if told else 0.0


def measure(rows: int, folder: Path, parts: Sequence[str]) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    make_vectors(folder, rows)
    told: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    for part in parts:
        command = [
            sys.executable,
            "-m",
            "benchmarks.scale",
            "--rows",
            str(rows),
            "--folder",
            str(folder),
            "--run",
            part,
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told[part] = json.loads(done.stdout)
        print(json.dumps({rows: {part: told[part]}}, ensure_ascii=False), file=sys.stderr, flush=True)
    return told | {"disk": disk(folder)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path, default=CACHE / "scale")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--run", choices=PARTS, help="one part, in this process, of the base in the folder")
    given = parser.parse_args()
    if given.run:
        print(json.dumps(asyncio.run(RUN[given.run](given.folder, given.rows[0]))))
        return 0
    told = {rows: measure(rows, given.folder / str(rows), given.part) for rows in sorted(given.rows)}
    recalls = [_at(each, ("ask", "vector", "recall@10")) for each in told.values()]
    report = {"recall@10": min(recalls), "sizes": told, "exponents": exponents(told)}
    print(json.dumps(report, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
