"""A service with very many knowledge bases: what it has open must not grow with them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from tests.http.served import BASES, running

AT_ONCE = 4
MOST_THREADS = 100  # 64 keyword indexes are open, each with one
MOST_FILES = 2_000
MOST_KILOBYTES = 60.0  # of memory for each base beyond the first half
VISITS = 300  # of bases at random in the end, most of which have been closed by then


@dataclass
class Crowd:
    bases: int
    threads: int = 0  # the most that were seen, as below
    files: int = 0
    kilobytes_a_base: float = 0.0  # in the second half
    wrong: list[str] = field(default_factory=list)


def crowd(folder: Path, count: int, seed: int) -> Crowd:
    """Makes so many bases with a document each, searches each, and in the end some at random once more."""
    with running(folder, preloaded=False) as service:
        found = asyncio.run(_fill(service.url, psutil.Process(service.process.pid), count, seed))
        service.stop(2)
    bounds = ((found.threads, MOST_THREADS, "threads"), (found.files, MOST_FILES, "files"))
    found.wrong += [f"{number} {name}, {most} are allowed" for number, most, name in bounds if number > most]
    if found.kilobytes_a_base > MOST_KILOBYTES:
        found.wrong.append(f"{found.kilobytes_a_base:.0f} KB for each base, {MOST_KILOBYTES:.0f} are allowed")
    return found


async def _fill(url: str, process: psutil.Process, count: int, seed: int) -> Crowd:
    found, numbers, chance = Crowd(count), list[tuple[int, int]](), random.Random(seed)

    def look() -> float:
        found.threads = max(found.threads, process.num_threads())
        found.files = max(found.files, process.num_fds())
        return process.memory_info().rss / 1024

    async with httpx.AsyncClient(base_url=url, timeout=300, trust_env=False) as http:
        half = 0.0
        for start in range(0, count, AT_ONCE):
            several = range(start, min(start + AT_ONCE, count))
            numbers += zip(several, await asyncio.gather(*(_made(http, at, found) for at in several)), strict=True)
            half = look() if start <= count // 2 else half
        found.kilobytes_a_base = (look() - half) / max(1, count - count // 2)
        await _visit(http, chance.choices(numbers, k=min(VISITS, count)), found)
        look()
        ready = await http.get("/readyz")
        if ready.status_code != 200:
            found.wrong.append(f"not ready: {ready.text[:200]}")
    return found


async def _made(http: httpx.AsyncClient, at: int, found: Crowd) -> int:
    made = await http.post(BASES, json={"name": f"库{at}", "embedding_model": "none"})
    if made.status_code != 201:
        found.wrong.append(f"base {at}: {made.status_code} {made.text[:200]}")
        return 0
    number: int = made.json()["data"]["id"]
    put = await http.put(f"{BASES}/{number}/documents/甲", json={"name": "甲", "content": f"住院费用报销{at}元。"})
    if put.status_code not in (200, 201):
        found.wrong.append(f"document {at}: {put.status_code} {put.text[:200]}")
    return number


async def _visit(http: httpx.AsyncClient, chosen: Sequence[tuple[int, int]], found: Crowd) -> None:
    for at, number in chosen:
        answer = await http.post(f"/v1/retrieval/{number}", json={"query": "住院费用报销"})
        texts = [one["content"] for one in answer.json()["data"]["chunks"]] if answer.status_code == 200 else []
        if texts != [f"住院费用报销{at}元。"]:
            found.wrong.append(f"search {at}: {answer.status_code} {answer.text[:200]}")
