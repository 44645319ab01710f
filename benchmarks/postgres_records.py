"""What records on PostgreSQL cost beside records in SQLite: `python -m benchmarks.postgres_records`.

The same engine, the same documents, the same embedded index; only `records.url` differs. The server is the one that
the tests start (fsync off); SQLite flushes every commit. The two take turns, and the best of twenty rounds counts:
other work on the machine makes a round slower, never quicker. Absolute numbers mean little; the ratios are the result.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.servers.postgres import create_database, own_server

from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.engine.settings import load
from qianxun.testing.scripted import HashEmbedding

DOCUMENTS, SINGLE, SEARCHES, ROUNDS = 300, 8, 24, 20
WORDS = (
    *("参保", "人员", "住院", "门诊", "费用", "报销", "比例", "年休假", "差旅", "发票"),
    *("标准", "流程", "材料", "审批", "部门", "员工", "合同", "期限", "医院", "药品"),
)
MODEL = HashEmbedding(128)

Step = Callable[[Engine, int, int], Awaitable[None]]


def documents(count: int, seed: int) -> list[Document]:
    chance = random.Random(seed)
    return [Document(f"{seed}-{at}", "".join(chance.choices(WORDS, k=120)) + f" {seed} {at}") for at in range(count)]


async def ingest(engine: Engine, base: int, turn: int) -> None:
    """Many documents at once."""
    await engine.add_documents(base, documents(DOCUMENTS, turn))


async def write(engine: Engine, base: int, turn: int) -> None:
    """One document after the other, each searchable before the next."""
    for one in documents(SINGLE, 1000 + turn):
        await engine.add_documents(base, [one])


async def search(engine: Engine, base: int, turn: int) -> None:
    chance = random.Random(turn)
    for _ in range(SEARCHES):
        await engine.retrieve(base, "".join(chance.sample(WORDS, 3)) + str(chance.random()))


async def search_together(engine: Engine, base: int, turn: int) -> None:
    """Eight at a time."""
    chance = random.Random(-1 - turn)
    asked = ["".join(chance.sample(WORDS, 3)) + str(chance.random()) for _ in range(SEARCHES)]
    for start in range(0, SEARCHES, 8):
        await asyncio.gather(*(engine.retrieve(base, each) for each in asked[start : start + 8]))


async def measured(folder: Path, url: str) -> None:
    places = {"SQLite": {"data": str(folder / "sqlite")}}
    places["PostgreSQL"] = {"data": str(folder / "postgres"), "records.url": url}
    settings = {name: load(environment={}, arguments=told, folder=folder) for name, told in places.items()}
    opened = [Engine.open(settings=each, models={MODEL.name: MODEL}, background=False) for each in settings.values()]
    async with opened[0] as here, opened[1] as there:
        engines = dict(zip(settings, (here, there), strict=True))
        bases = {name: (await each.create_knowledge_base("量", model=MODEL.name)).id for name, each in engines.items()}
        best: dict[tuple[str, str], float] = {}
        for turn in range(ROUNDS):
            for step in (ingest, write, search, search_together):
                for name, engine in engines.items():
                    started = time.perf_counter()
                    await step(engine, bases[name], turn)
                    took = time.perf_counter() - started
                    best[step.__name__, name] = min(best.get((step.__name__, name), took), took)
    for what, count in (("ingest", DOCUMENTS), ("write", SINGLE), ("search", SEARCHES), ("search_together", SEARCHES)):
        first, second = best[what, "SQLite"], best[what, "PostgreSQL"]
        each = f"{first / count * 1e3:7.2f} ms  {second / count * 1e3:7.2f} ms"
        print(f"{what:16} {each}   PostgreSQL ÷ SQLite = {second / first:.2f}")


def main() -> None:
    with own_server() as server, tempfile.TemporaryDirectory(prefix="qianxun-") as folder:
        asyncio.run(measured(Path(folder), create_database(server)))


if __name__ == "__main__":
    main()
