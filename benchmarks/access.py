"""What it costs to search on behalf of a principal, beside a search of everything: one process, the same questions.

    python -m benchmarks.access [--chunks 100000] [--labels 1000] [--own 20] [--folder FOLDER]

Passages of `zh_scale_200k`, one chunk a document, each with one of so many labels at random. The principal has
``--own`` of the labels; others have half of them, and all. Vectors are random, of 512 numbers: what they mean costs
nothing. With ``--folder`` the base is left there, and used again by a later run.

Questions are the beginnings of other passages. Each is asked by one principal and by the owner, and by nobody before:
what was read for earlier questions helps, as it does in a service. So the first questions after opening are reported
apart from those that follow `WARM` others, and those after a write once more. CPU time of the process; the cache of
answers is off.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qianxun import Engine
from qianxun.core.types import Document, Vector, Vectors
from qianxun.engine.settings import load

DIMENSION = 512
BATCH = 2_000
FIRST, WARM, ASKED, AFTER = 30, 240, 210, 30  # questions: after opening, not measured, measured, after a write


class RandomVectors:
    """A unit vector for every text, by its checksum."""

    name, dimension, is_quick = "random-512", DIMENSION, True

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        vector = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSION, dtype=np.float32)
        found: Vector = vector / np.linalg.norm(vector)
        return found


def passages(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            if 60 <= len(text) <= 450:
                yield text


async def filled(engine: Engine, texts: Sequence[str], labels: Sequence[str]) -> int:
    for known in await engine.knowledge_bases():
        return known.id
    chance = random.Random(29)
    base = (await engine.create_knowledge_base("access", model="random-512", config={"graph": False})).id
    for at in range(0, len(texts), BATCH):
        batch = [
            Document(f"d{number}", text, access=(chance.choice(labels),))
            for number, text in enumerate(texts[at : at + BATCH], at)
        ]
        await engine.add_documents(base, batch)
        print(f"\r{at + len(batch):,} documents", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return base


async def spent(engine: Engine, base: int, question: str) -> float:
    started = time.process_time()
    await engine.retrieve(base, question)
    return (time.process_time() - started) * 1000


async def measure(chunks: int, count: int, own: int, data: Path, folder: str) -> None:
    texts = list(islice(passages(data), chunks + FIRST + WARM + ASKED + AFTER + 1))
    questions = [text[: 12 + at % 14] for at, text in enumerate(texts[chunks:])]
    labels = [f"group:g{number}" for number in range(count)]
    settings = load(environment={}, arguments={"data": folder, "search.cache_entries": 0})
    async with Engine.open(settings=settings, models={"random-512": RandomVectors()}, background=False) as engine:
        base = await filled(engine, texts[:chunks], labels)
        for number in (own, count // 2, count):
            principal = engine.as_principal(*labels[:number])
            started = time.process_time()
            seen = (await principal.statistics(base))["chunks"]
            await principal.retrieve(base, questions[0])
            first = time.process_time() - started
            print(f"{number} of {count} labels: {seen:,} chunks; the first search after a change {first:.2f} s of CPU")
        principals = {number: engine.as_principal(*labels[:number]) for number in (own, count // 2, count)}
        waiting = iter(questions[1:])
        await compare(engine, principals[own], base, islice(waiting, FIRST), f"{own} labels, just opened")
        for question in islice(waiting, WARM):
            await principals[own].retrieve(base, question)
            await engine.retrieve(base, question)
        for number, principal in principals.items():
            await compare(engine, principal, base, islice(waiting, ASKED // 3), f"{number} of {count} labels")
        await engine.add_documents(base, [Document("written since", texts[-1], access=(labels[0],))])
        await compare(engine, principals[own], base, islice(waiting, AFTER), f"{own} labels, after a write")


async def compare(engine: Engine, principal: Engine, base: int, questions: Iterable[str], name: str) -> None:
    pairs = [(await spent(engine, base, one), await spent(principal, base, one)) for one in questions]
    print(_line(name, np.array(pairs)), flush=True)


def _line(name: str, pairs: NDArray[np.float64]) -> str:
    usual, found = pairs.T
    ratios = f"× {np.median(found) / np.median(usual):.2f} (median), × {found.mean() / usual.mean():.2f} (mean)"
    times = (
        f"{np.median(usual):.2f} → {np.median(found):.2f} ms (median), {usual.mean():.2f} → {found.mean():.2f} (mean)"
    )
    return f"{name}: {times}  {ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=1_000)
    parser.add_argument("--own", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/zh_scale_200k.jsonl.xz"))
    parser.add_argument("--folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(given.chunks, given.labels, given.own, given.data, given.folder or folder))


if __name__ == "__main__":
    main()
