"""The service with few descriptors, and on a disk that is full again and again: every refusal says what is lacking."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.http.served import BASES, running, serving

AT_ONCE = 12
BASE_COUNT = 12
ROOM = (16_384, 65_536, 120_000, 200_000, 300_000, 500_000)  # bytes that are left on the disk
DISK_MEGABYTES = 40


@dataclass
class Answers:
    """What came back, and what should not have."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, answer: httpx.Response, allowed: tuple[int, ...], folder: Path) -> httpx.Response:
        self.statuses[answer.status_code] += 1
        is_refused = answer.status_code >= 500 or answer.status_code == 422  # as unreadable: every file is sound
        if (is_refused and answer.status_code not in allowed) or str(folder) in answer.text:
            self.wrong.append(f"{answer.request.method} {answer.request.url.path}: {answer.text[:300]}")
        return answer


def with_few_descriptors(folder: Path, limit: int, calls: int, seed: int) -> Answers:
    """Calls of all kinds to `qianxun serve`, which may open so many files. Refusals are 503; nothing is rebuilt."""
    answers = Answers()
    with running(folder, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) as service:
        asyncio.run(_call(service.url, calls, seed, lambda answer: answers.note(answer, (503,), folder)))
        code, log = service.stop(2)
    if code or "rebuilt from the records" in log:
        answers.wrong.append(f"exit {code}, {log.count('rebuilt from the records')} rebuilds")
    return answers


async def _call(url: str, calls: int, seed: int, note: Callable[[httpx.Response], httpx.Response]) -> None:
    chance, bases = random.Random(seed), list[int]()
    pool = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=pool) as http:
        for number in range(BASE_COUNT):
            made = note(await http.post(BASES, json={"name": f"库{number}", "embedding_model": "none"}))
            bases += [made.json()["data"]["id"]] if made.status_code == 201 else []

        async def one(number: int) -> None:
            try:
                note(await _any_call(http, chance.choice(bases), number, chance))
            except httpx.TransportError:  # no descriptor was left for the connection itself
                await asyncio.sleep(0.1)

        for start in range(0, calls, 2 * AT_ONCE):
            await asyncio.gather(*map(one, range(start, min(start + 2 * AT_ONCE, calls))))


def _any_call(http: httpx.AsyncClient, base: int, number: int, chance: random.Random) -> Awaitable[httpx.Response]:
    text = "".join(chance.choice("住院费用报销比例门诊手术") for _ in range(chance.choice([20, 2_000, 9_000])))
    documents = f"{BASES}/{base}/documents"
    match chance.randrange(4):
        case 0:
            return http.put(f"{documents}/d{number}", json={"name": f"d{number}", "content": text})
        case 1:
            return http.post(documents, files={"file": (f"f{number}.txt", text.encode())})
        case 2:
            return http.delete(f"{documents}/d{chance.randrange(number + 1)}")
        case _:
            return http.post(f"/v1/retrieval/{base}", json={"query": f"住院报销比例 {number}"})


def with_half_sent_heads(folder: Path, heads: int) -> Answers:
    """So many connections that begin a request and do not end it, to a service that may open 1,024 files: health is
    told and searches are answered all the same."""
    answers = Answers()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with running(folder, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))) as service:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, soft + heads), hard))
        asyncio.run(_half_sent(service.url, heads, lambda answer: answers.note(answer, (), folder)))
        service.stop(2)
    return answers


async def _half_sent(url: str, heads: int, note: Callable[[httpx.Response], httpx.Response]) -> None:
    port = int(url.rpartition(":")[2])
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
        made = note(await http.post(BASES, json={"name": "医保", "embedding_model": "none"}))
        half = [await asyncio.open_connection("127.0.0.1", port) for _ in range(heads)]
        for _, writer in half:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.")
        for _ in range(20):
            note(await http.get("/healthz", headers={"connection": "close"}))
            note(await http.post(f"/v1/retrieval/{made.json()['data']['id']}", json={"query": "住院"}))
        for _, writer in half:
            writer.close()


def on_a_full_disk(folder: Path, rounds: int, seed: int) -> Answers:
    """Calls of all kinds while the disk, a small one of memory, has next to no room left. Refusals are 507."""

    async def run() -> Answers:
        answers, chance = Answers(), random.Random(seed)
        async with serving(folder) as served:
            bases = [await served.base(f"库{number}") for number in range(3)]
            for number in range(rounds):
                with _filled(folder, chance.choice(ROOM)):
                    for call in range(4):
                        asked = _any_call(served.http, chance.choice(bases), 4 * number + call, chance)
                        answers.note(await asked, (507,), folder)
            await _goes_on(served.http, bases, answers)
        return answers

    with _small_disk(folder):
        return asyncio.run(run())


async def _goes_on(http: httpx.AsyncClient, bases: list[int], answers: Answers) -> None:
    """With room again everything works, and what was stored can be found."""
    for base in bases:
        put: Any = await http.put(f"{BASES}/{base}/documents/last", json={"name": "last", "content": "住院费用。"})
        found = await http.post(f"/v1/retrieval/{base}", json={"query": "住院费用"})
        if put.status_code not in (200, 201) or not found.json()["data"]["chunks"]:
            answers.wrong.append(f"base {base} does not go on: {put.text[:200]} {found.text[:200]}")


@contextmanager
def _filled(folder: Path, room: int) -> Iterator[None]:
    disk, filler = os.statvfs(folder), folder / "filler"
    with suppress(OSError):  # the indexer took some meanwhile: it is full, then
        filler.write_bytes(b"\0" * max(0, disk.f_bavail * disk.f_frsize - room))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """Raises CalledProcessError for those who may not mount one."""
    options = f"size={DISK_MEGABYTES}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
