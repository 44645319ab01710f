"""A service under steady work: its memory must come to rest."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil

from qianxun.core.system.memory import REGULAR_SECONDS
from tests.http.served import BASES, running

MOST_MEGABYTES_AN_HOUR = 1.0
WARMING_MINUTES, WARMING_SHARE = 10.0, 1 / 2  # of a shorter time this share
CLIENTS, WARMING_CLIENTS = 4, 16  # steadily; while it warms, so that no later moment takes more than one before it
WARMING_CALLS = 15_000  # what fills does so by calls (the last of it after 14,000): ten busy minutes are too few
SAMPLE_SECONDS = 1.0
WORK_SECONDS = 150.0  # between two rests
REST_SECONDS = REGULAR_SECONDS + 5  # so that the service has given back what was free when the last call had ended
LEAST_RESTS = 5  # that a slope is fitted to
DOCUMENTS = 200  # that are written again and again, and deleted; and as many files, which are uploaded again and again
WORDS = (
    "住院",
    "门诊",
    "报销",
    "比例",
    "手术",
    "药品",
    "慢性病",
    "起付线",
    "医保",
    "缴费",
    "异地",
    "就医",
    "备案",
    "生育",
)


@dataclass(frozen=True)
class Soak:
    """The samples are taken at rest: what searches take for a moment, up to 25 MB, is no growth, and hides one."""

    samples: Sequence[tuple[float, float, int]]  # seconds, megabytes, calls
    calls: int
    failures: Sequence[str]  # what was called, and what it was answered with

    def an_hour(self, after: float) -> float:
        """Megabytes an hour, after so many seconds."""
        return self._slope(after, 0) * 3600

    def ten_thousand_calls(self, after: float) -> float:
        """Megabytes in ten thousand calls: what a busy machine does not change."""
        return self._slope(after, 2) * 10_000

    def _slope(self, after: float, by: int) -> float:
        """Fitted to the samples after so many seconds and `WARMING_CALLS`: the median of the slopes between any two of
        them that are not next to each other (Theil-Sen), which a few columns that wait to be rewritten do not bend.
        Not a number where the machine was too busy for as many calls."""
        late = np.array([sample for sample in self.samples if sample[0] >= after and sample[2] >= WARMING_CALLS])
        if len(late) < LEAST_RESTS:
            return math.nan
        first, second = np.triu_indices(len(late), max(1, len(late) // 4))
        moved = late[second] - late[first]
        return float(np.median(moved[:, 1] / np.maximum(moved[:, by], 1e-9)))


def warming(minutes: float) -> float:
    """Seconds until memory should have come to rest."""
    return 60 * min(WARMING_MINUTES, WARMING_SHARE * minutes)


def soak(folder: Path, minutes: float, seed: int) -> Soak:
    # No arm of a search is late because the machine is busy: of 6,000 calls at a load of 50 one was answered with 503,
    # since the keyword arm had not answered within its 10 s.
    patient = {**os.environ, "QIANXUN_SEARCH_ARM_SECONDS": "100"}
    with running(folder, environment=patient, preloaded=False) as service:
        process = psutil.Process(service.process.pid)
        found = asyncio.run(_work(service.url, process, 60 * minutes, warming(minutes), seed))
        _, logged = service.end(signal.SIGINT)
    for failure in found.failures:
        sys.stdout.writelines(f"  {line}\n" for line in logged.splitlines() if failure.split()[-1] in line)
    return found


async def _work(url: str, process: psutil.Process, seconds: float, warm: float, seed: int) -> Soak:
    chance, began = random.Random(seed), time.monotonic()
    samples: list[tuple[float, float, int]] = []
    failures: list[str] = []
    calls = 0
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as http:
        bases = [await _base(http, number, chance) for number in range(3)]
        working = asyncio.Event()
        working.set()
        began = time.monotonic()

        async def go_on(until: float) -> None:
            nonlocal calls
            while time.monotonic() - began < until:
                await working.wait()
                answer = await _call(http, chance.choice(bases), chance)
                calls += 1
                if answer.status_code >= 500:
                    failures.append(_failure(answer))
                    sys.stdout.write(f"  {failures[-1]}\n")

        async def sample() -> None:
            while time.monotonic() - began < seconds:
                await asyncio.sleep(WORK_SECONDS)
                working.clear()
                least = await _least(process, REST_SECONDS)
                working.set()
                samples.append((time.monotonic() - began, least, calls))
                sys.stdout.write(f"  {samples[-1][0] / 60:.0f} min: {least:.1f} MB, {calls} calls\n")
                sys.stdout.flush()

        steady = [go_on(seconds) for _ in range(CLIENTS)]
        await asyncio.gather(sample(), *steady, *(go_on(warm) for _ in range(WARMING_CLIENTS - CLIENTS)))
    return Soak(samples, calls, failures)


async def _least(process: psutil.Process, seconds: float) -> float:
    """Megabytes, at the best moment of a rest."""
    ends, least = time.monotonic() + seconds, math.inf
    while time.monotonic() < ends:
        await asyncio.sleep(SAMPLE_SECONDS)
        least = min(least, process.memory_info().rss / 2**20)
    return least


def _failure(answer: httpx.Response) -> str:
    """Ends with the trace, by which the lines of the log are found."""
    call, trace = answer.request, answer.headers.get("x-trace-id")
    return f"{call.method} {call.url.path}: {answer.status_code} {answer.text[:500]} trace {trace}"


async def _base(http: httpx.AsyncClient, number: int, chance: random.Random) -> int:
    """A base with all documents that there will be: by chance alone the last file would come after 60,000 calls, and a
    base that grows takes more memory."""
    made = await http.post(BASES, json={"name": f"库{number}", "embedding_model": "none"})
    base: int = made.json()["data"]["id"]
    for document in range(DOCUMENTS):
        for write in (_put, _upload):
            (await write(http, base, f"d{document}", _text(chance), wait=False)).raise_for_status()
    return base


def _text(chance: random.Random) -> str:
    clauses = ("".join(chance.choices(WORDS, k=3)) for _ in range(chance.choice((3, 40))))
    return "，".join(clauses) + f"{chance.random()}。"


async def _put(http: httpx.AsyncClient, base: int, name: str, text: str, *, wait: bool = True) -> httpx.Response:
    path = f"{BASES}/{base}/documents/{name}"
    return await http.put(path, params={"wait": wait}, json={"name": name, "content": text})


async def _upload(http: httpx.AsyncClient, base: int, name: str, text: str, *, wait: bool = True) -> httpx.Response:
    file = {"file": (f"{name}.txt", text.encode())}
    return await http.post(f"{BASES}/{base}/documents", params={"wait": wait}, files=file)


async def _call(http: httpx.AsyncClient, base: int, chance: random.Random) -> httpx.Response:
    text, name = _text(chance), f"d{chance.randrange(DOCUMENTS)}"
    match chance.randrange(20):
        case 0 | 1 | 2:
            return await _put(http, base, name, text)
        case 3:
            return await http.delete(f"{BASES}/{base}/documents/{name}")
        case 4:
            return await _upload(http, base, name, text)
        case 5:
            return await http.post(f"/v1/query/{base}", json={"query": text[:12] + "是多少？", "stream": False})
        case 6:
            return await http.post(f"/v1/recall/{base}/texts", json={"query": text[:20]})
        case _:
            return await http.post(f"/v1/retrieval/{base}", json={"query": text[:20] + str(chance.randrange(10**6))})
