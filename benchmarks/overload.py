"""Does a service that is asked for too much still answer as many as it can? Searches by more and more clients, who ask
again at once when they are refused and, the impatient ones, hang up when they have waited and come back.

    python -m benchmarks.overload

`qianxun serve` in one process, what asks in another. Goodput is the number of answers that arrived while their client
still waited. All levels are measured in one run, round after round, and compared with the first. Time is the CPU time
of the service, and patience, too: a service that is busy all the time would take as long on a machine of its own, and
whatever else this one does is left out. Where the service has nothing to do for a moment real time passes: answers by
CPU second leave that out, too, and are the figure to compare on a machine that is shared. What the clients took is
beside it: on two cores they take it from the service.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
import psutil
import uvloop

from benchmarks.load import Client, request

# (clients, seconds that each waits; 0: for ever)
LEVELS = ((32, 0.0), (280, 0.0), (400, 0.0), (400, 5.0), (400, 2.0))
PEAK = LEVELS[0]
GOODPUT_AT_LEAST = 0.9
HEALTH_SECONDS = 1.0
DOCUMENTS = 1_500
WARMING_SECONDS = 1.0
IDLE_SECONDS = 0.3  # without any CPU time, and no thread that waits for it: the service has nothing to do
WORDS = (
    "住院", "门诊", "报销", "比例", "手术", "药品", "慢性病", "起付线", "医保", "缴费", "年限", "异地", "就医", "备案",
    "生育", "津贴", "工伤", "认定", "残疾", "补助", "养老", "金额", "调整",
)  # fmt: skip


@dataclass
class Tally:
    answers: int = 0
    refused: int = 0
    hung_up: int = 0
    lost: int = 0
    healthy: list[float] = field(default_factory=list)  # seconds that /healthz took
    unhealthy: list[str] = field(default_factory=list)  # what it answered otherwise
    seconds: float = 1.0
    cpu_seconds: float = 1.0  # of the service
    asking_seconds: float = 0.0  # of CPU, of this process

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def by_cpu(self) -> float:
        """Answers in a CPU second of the service."""
        return self.answers / self.cpu_seconds


class Clock:
    """The CPU time of a process; real time while it uses none."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._alarms: list[tuple[float, int, asyncio.Future[None]]] = []  # a heap
        self.now = 0.0

    async def run(self) -> None:
        last, moved = self.used(), time.perf_counter()
        while True:
            await asyncio.sleep(0.01)
            used, now = self.used(), time.perf_counter()
            if used > last or (now - moved > IDLE_SECONDS and not self._is_starved()):
                self.now += used - last or now - moved
                last, moved = used, now
            while self._alarms and self._alarms[0][0] <= self.now:
                if not (alarm := heapq.heappop(self._alarms)[2]).done():
                    alarm.set_result(None)

    def at(self, moment: float) -> asyncio.Future[None]:
        alarm = asyncio.get_running_loop().create_future()
        heapq.heappush(self._alarms, (moment, id(alarm), alarm))
        return alarm

    def _is_starved(self) -> bool:
        """Whether one of its threads would run, if it were let."""
        states = (
            path.read_text().rpartition(")")[2] for path in Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        )
        return any(state.split()[0] in ("R", "D") for state in states)

    def used(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def service() -> Iterator[tuple[psutil.Process, int, int]]:
    """(process, port, base)"""
    with tempfile.TemporaryDirectory(prefix="qianxun-overload-") as folder:
        start = "import sys; from qianxun.doors.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", start, "--data", folder, "serve", "--port", "0"]
        environment = {**os.environ, "QIANXUN_SEARCH_CACHE_ENTRIES": "0"}
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
            try:
                assert process.stdout is not None
                line = next(line for line in process.stdout if "http://" in line)
                port = int(next(word for word in line.split() if word.startswith("http://")).rpartition(":")[2])
                yield psutil.Process(process.pid), port, filled(port)
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)


def filled(port: int) -> int:
    chance = random.Random(1)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300, trust_env=False) as http:
        made = http.post("/v1/knowledge-bases", json={"name": "医保", "embedding_model": "none"})
        base: int = made.json()["data"]["id"]
        path = f"/v1/knowledge-bases/{base}/documents"
        for number in range(DOCUMENTS):
            text = "，".join("".join(chance.choices(WORDS, k=3)) for _ in range(20)) + "。"
            http.post(path, params={"wait": number == DOCUMENTS - 1}, json={"name": f"{number}", "content": text})
    return base


async def asked(process: psutil.Process, port: int, base: int, clients: int, patience: float, seconds: float) -> Tally:
    tally, chance, clock, loop = Tally(), random.Random(2), Clock(process), asyncio.get_running_loop()
    begins, ends = WARMING_SECONDS, WARMING_SECONDS + seconds

    async def connected() -> Client:
        return (await loop.create_connection(Client, "127.0.0.1", port))[1]

    async def answer(client: Client) -> int:
        """The status of an answer; 0 where the connection was lost, -1 where the client did not wait for it."""
        question = "".join(chance.choices(WORDS, k=3)) + str(chance.randrange(10**6))
        asking = asyncio.ensure_future(client.ask(request(f"/v1/retrieval/{base}", question)))
        if not patience:
            return (await asking)[0]
        leaving = clock.at(clock.now + patience * chance.uniform(0.8, 1.2))
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        return asking.result()[0] if asking.done() else -1

    async def go_on() -> None:
        client = await connected()
        while True:
            status = await answer(client)
            if begins <= clock.now < ends:
                tally.answers += status == 200
                tally.refused += status == 503
                tally.hung_up += status == -1
                tally.lost += status == 0
            if status <= 0:
                client.close()
                client = await connected()

    async def probe() -> None:
        while True:
            started = clock.now
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            if not answer.startswith(b"HTTP/1.1 200"):
                tally.unhealthy.append(answer[:200].decode("latin-1"))
            tally.healthy += [clock.now - started] if begins <= clock.now else []
            await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(work) for work in (clock.run(), probe(), *(go_on() for _ in range(clients)))]
    await clock.at(begins)
    began, used, asking = clock.now, clock.used(), time.process_time()
    await clock.at(ends)
    tally.seconds, tally.cpu_seconds = clock.now - began, clock.used() - used
    tally.asking_seconds = time.process_time() - asking
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return tally


def measure(rounds: int, seconds: float, nice: int) -> dict[tuple[int, float], list[Tally]]:
    found: dict[tuple[int, float], list[Tally]] = {level: [] for level in LEVELS}
    with service() as (process, port, base):
        if nice:
            process.nice(nice)
            psutil.Process().nice(nice)
        for _ in range(rounds):
            for level in LEVELS:
                tally = uvloop.run(asked(process, port, base, *level, seconds))
                found[level].append(tally)
                print(json.dumps({"level": level, **shown([tally])}), file=sys.stderr, flush=True)
                time.sleep(1.0)  # for what is still under way
    return found


def shown(tallies: list[Tally]) -> dict[str, float]:
    totals = Counter[str]()
    for tally in tallies:
        totals += Counter(refused=tally.refused, hung_up=tally.hung_up, lost=tally.lost)
    return {
        "answers_per_second": round(median(tally.rate for tally in tallies), 1),
        "answers_per_cpu_second": round(median(tally.by_cpu for tally in tallies), 1),
        "clients_cpu_share": round(median(tally.asking_seconds / tally.cpu_seconds for tally in tallies), 2),
        "health_ms": max(round(1e3 * max(tally.healthy, default=9.999)) for tally in tallies),
        "unhealthy": sum(len(tally.unhealthy) for tally in tallies),
        **totals,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of one level")
    parser.add_argument("--nice", type=int, default=0, help="the priority of both processes on a shared machine")
    given = parser.parse_args()
    found = measure(given.rounds, given.seconds, given.nice)
    is_met = True
    for (clients, patience), tallies in found.items():
        beside = list(zip(tallies, found[PEAK], strict=True))
        ratio = median(tally.rate / peak.rate for tally, peak in beside)
        by_cpu = median(tally.by_cpu / peak.by_cpu for tally, peak in beside)
        slowest = max(max(tally.healthy, default=math.inf) for tally in tallies)
        is_sick = any(tally.unhealthy for tally in tallies)
        is_well = ratio >= GOODPUT_AT_LEAST and slowest < HEALTH_SECONDS and not is_sick
        is_met = is_met and is_well
        verdict = "met   " if is_well else "MISSED"
        goodput = f"goodput / peak {ratio:.2f}, by CPU second {by_cpu:.2f}"
        print(f"{verdict} {clients} clients, patience {patience:g} s: {goodput}, {shown(tallies)}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
