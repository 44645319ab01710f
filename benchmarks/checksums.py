"""What checksums and the count of acknowledged writes cost: ``python benchmarks/checksums.py`` (no data, a minute)."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from random import Random
from timeit import repeat
from typing import Any
from zlib import crc32

from qianxun.core.types import Document, Submission
from qianxun.engine.engine import Engine
from qianxun.records import Records, bases, chunks, documents
from qianxun.records.database.open import sqlite_url
from qianxun.testing.scripted import HashEmbedding

WORDS = ("医保", "住院", "门诊", "报销", "比例", "申领", "办法", "待遇", "统筹", "基金", "参保", "职工", "生育", "工伤")
DOCUMENTS, QUERIES, WRITES, ROUNDS, CALLS = 3_000, 300, 50, 6, 2_000


def text(chance: Random, words: int = 180) -> str:
    return "".join(chance.choice(WORDS) for _ in range(words))


def microseconds(work: Callable[[], object]) -> float:
    return min(repeat(work, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def compare_functions(chance: Random) -> None:
    passage, vector = text(chance), chance.randbytes(2048)
    for name, work in (("CRC-32", crc32), ("BLAKE2b-64", lambda data: blake2b(data, digest_size=8).digest())):
        of_text = microseconds(lambda work=work: work(passage.encode()))  # type: ignore[misc]
        vector_checksum = microseconds(lambda work=work: work(vector))  # type: ignore[misc]
        sys.stdout.write(f"{name}: text {of_text:.1f} µs, vector {vector_checksum:.1f} µs\n")


async def measure_searches(folder: Path, chance: Random) -> None:
    """The share of a search's CPU: how many chunks it checks, times what a check takes."""
    async with Engine.open(folder, models={"fake-64": HashEmbedding()}, background=False) as engine:
        kb = (await engine.create_knowledge_base("代价", model="fake-64")).id
        await engine.add_documents(kb, [Document(f"d{at}", text(chance), name=f"d{at}") for at in range(DOCUMENTS)])
        seen: list[Any] = []
        honest = chunks._is_sound
        chunks._is_sound = lambda row: seen.append(row) is None and honest(row)
        await _searched(engine, kb, chance)
        chunks._is_sound = honest
        seconds = min([await _searched(engine, kb, chance) for _ in range(ROUNDS)]) / QUERIES
    checked, check = len(seen) / QUERIES, min(repeat(lambda: [*map(honest, seen)], number=1, repeat=ROUNDS)) / len(seen)
    sys.stdout.write(
        f"retrieve: {seconds * 1e3:.2f} ms CPU, {checked:.0f} chunks checked in {check * 1e6:.1f} µs each: "
        f"{checked * check / seconds:.2%}\n"
    )


async def _searched(engine: Engine, kb: int, chance: Random) -> float:
    started = time.process_time()
    for _ in range(QUERIES):
        await engine.retrieve(kb, text(chance, 4) + str(chance.random())[2:6], top_k=10)
    return time.process_time() - started


def measure_writes(folder: Path, chance: Random) -> None:
    """The CPU of the smallest write with the count and without it."""
    counted = Records.open(sqlite_url(folder / "a.db"), acknowledged=folder / "acknowledged")
    with counted.writing() as tx:
        kb = bases.create(tx, "代价", tenant="local").id
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for at in range(2 * ROUNDS):
        started = time.process_time()
        for _ in range(WRITES):
            submission = Submission(Document(f"{chance.random()}", "住院报销的比例" * 40), "")
            if at % 2:
                with counted.writing() as tx:
                    documents.accept(tx, kb, [submission])
            else:
                with counted._transactions.begin() as tx:
                    documents.accept(tx, kb, [submission])
        seconds[bool(at % 2)].append(time.process_time() - started)
    counted.close()
    sys.stdout.write(f"a write with the count: {min(seconds[True]) / min(seconds[False]):.2f} of one without\n")


def main() -> None:
    chance = Random(1)
    compare_functions(chance)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure_searches(Path(folder) / "data", chance))
        measure_writes(Path(folder), chance)


if __name__ == "__main__":
    main()
