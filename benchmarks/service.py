"""What HTTP costs: searches through the service against the same searches by calls of its engine.

One process serves: a real uvicorn, as `qianxun serve` runs it, its log written to a file. Another asks, over
connections that stay open (benchmarks/load.py). By turns the first asks its own engine instead, from as many tasks as
there were clients. The same questions, none twice in a pass, and no cache of answers; once more with it, for the show.

The vectors of the questions are handed to the engine: what a model costs would hide what HTTP costs. A ratio is the
median over the passes of the answers per second, over HTTP to direct.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.load import begun_at
from benchmarks.passages import SCALE
from benchmarks.peers.harness import Material, cpu_seconds
from benchmarks.peers.material import REAL, prepare
from benchmarks.peers.ours import Precomputed, squeezed
from benchmarks.side_by_side import CACHE, OURS, ROOT, built

CLIENTS = (1, 8, 32, 256)
QUESTIONS = 2_000
KEPT = 400  # of them where answers are kept: the cache has room for so many, by their size
CHUNKS = 20_000
RATIO_AT_LEAST, FROM_CLIENTS = 0.6, 8
GOODPUT_AT_LEAST = 0.9  # of the peak, with the most clients
ANSWER_SECONDS = 120.0  # beyond the time of a pass
FILLING_SECONDS = 600.0
WARMING_SECONDS = 1.0
STRIDE = 137  # questions between the beginnings of two passes


# ── the process that serves ──────────────────────────────────────────────────────────────────────


class Questions(Precomputed):
    """The vectors of the questions, whatever the pipeline makes of their blanks."""

    def __init__(self, material: Material) -> None:
        super().__init__()
        questions = material.questions()
        self._of = {squeezed(question.text): question.vector for question in questions}
        self._any = questions[0].vector

    def embed_query(self, text: str) -> Any:
        return self._of.get(squeezed(text), self._any)  # a guess at a mistyped word makes another text


def serve(material: Material, folder: Path, count: int, cache_entries: int) -> None:
    from qianxun.doors.http.listener import new_loop
    from qianxun.doors.http.middleware.log_lines import logs_as_lines

    with (
        (folder.parent / "service.log").open("w", encoding="utf-8") as written,
        logs_as_lines(written),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(_serve(material, folder, count, cache_entries))


async def _serve(material: Material, folder: Path, count: int, cache_entries: int) -> None:
    """Answers ``CLIENTS SECONDS START`` with a pass of calls, ``cpu`` with the CPU time so far."""
    from qianxun import Engine
    from qianxun.doors.http.app import create_app
    from qianxun.doors.http.listener import bound, url_of
    from qianxun.doors.http.serve import Server
    from qianxun.engine.settings import load

    arguments = {"data": str(folder / "data"), "search.cache_entries": cache_entries}
    settings, model = load(environment={}, arguments=arguments, folder=folder), Questions(material)
    texts = [question.text for question in material.questions()[:count]]
    async with Engine.open(settings=settings, models={model.name: model}) as engine:
        base = await engine.knowledge_base("bench")
        server = Server(create_app(engine, settings), settings)
        with bound("127.0.0.1", 0) as taken:
            running = asyncio.create_task(server.serve(sockets=[taken]))
            _tell({"port": int(url_of(taken).rpartition(":")[2]), "base": base.id})
            while line := await asyncio.to_thread(sys.stdin.readline):
                if line == "cpu\n":
                    _tell({"cpu": cpu_seconds()})
                    continue
                clients, seconds, start = line.split()
                _tell(await calls(engine, base.id, texts, int(clients), float(seconds), int(start)))
            server.stop()
            await running


def _tell(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


async def calls(engine: Any, base: int, texts: list[str], clients: int, seconds: float, start: int) -> dict[str, Any]:
    """As `benchmarks.load.load`, without HTTP, and without anybody who watches."""
    turns = iter(begun_at(texts, start))
    waits: list[float] = []
    others: dict[int, int] = {}
    watching, engine.hooks.recalled = engine.hooks.recalled, lambda _: None
    began = last = time.perf_counter()

    async def go_on() -> None:
        nonlocal last
        while (text := next(turns, None)) is not None:
            asked = time.perf_counter()
            recall = await engine.retrieve(base, text)
            last = answered = time.perf_counter()
            if recall.degraded:
                others[200] = others.get(200, 0) + 1
            else:
                waits.append(answered - asked)
            if answered >= began + seconds:
                return

    await asyncio.gather(*(go_on() for _ in range(clients)))
    engine.hooks.recalled = watching
    return {"waits": waits, "others": others, "seconds": last - began}


# ── what was measured ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pass:
    answers: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float  # of the process that serves, per answer
    others: int  # answers that were none

    @property
    def rate(self) -> float:
        return self.answers / self.seconds if self.seconds > 0 else 0.0


def pass_of(told: dict[str, Any], cpu: float) -> Pass:
    waits = sorted(told["waits"])
    answers = max(1, len(waits))
    return Pass(
        answers=len(waits),
        seconds=told["seconds"],
        p50_ms=1e3 * _at(waits, 0.5),
        p99_ms=1e3 * _at(waits, 0.99),
        cpu_ms=1e3 * cpu / answers,
        others=sum(told["others"].values()),
    )


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def level(pairs: Sequence[tuple[Pass, Pass]]) -> dict[str, float]:
    """Medians over (direct, HTTP) pairs of passes with the same number of clients."""
    return {
        "direct_per_second": round(median(direct.rate for direct, _ in pairs), 1),
        "http_per_second": round(median(http.rate for _, http in pairs), 1),
        "ratio": round(median(http.rate / direct.rate for direct, http in pairs), 3),
        "direct_p50_ms": round(median(direct.p50_ms for direct, _ in pairs), 1),
        "http_p50_ms": round(median(http.p50_ms for _, http in pairs), 1),
        "direct_p99_ms": round(median(direct.p99_ms for direct, _ in pairs), 1),
        "http_p99_ms": round(median(http.p99_ms for _, http in pairs), 1),
        "direct_cpu_ms": round(median(direct.cpu_ms for direct, _ in pairs), 2),
        "http_cpu_ms": round(median(http.cpu_ms for _, http in pairs), 2),
        "not_answered": sum(direct.others + http.others for direct, http in pairs),
    }


def verdicts(levels: Mapping[int, Mapping[str, float]], goodput: float) -> list[tuple[str, bool]]:
    said = [
        (
            f"HTTP / direct with {clients} clients = {told['ratio']}, at least {RATIO_AT_LEAST}",
            told["ratio"] >= RATIO_AT_LEAST,
        )
        for clients, told in levels.items()
        if clients >= FROM_CLIENTS
    ]
    most, peak = max(levels), peak_of(levels)
    held = goodput >= GOODPUT_AT_LEAST
    said.append((f"goodput with {most} clients / with {peak} = {goodput}, at least {GOODPUT_AT_LEAST}", held))
    lost = sum(told["not_answered"] for told in levels.values())
    return [*said, (f"{lost:g} questions not well answered, none allowed", lost == 0)]


def peak_of(levels: Mapping[int, Mapping[str, float]]) -> int:
    """The number of clients with the most answers per second over HTTP."""
    return max(levels, key=lambda clients: levels[clients]["http_per_second"])


# ── the processes ────────────────────────────────────────────────────────────────────────────────


class Process:
    """Takes lines, answers each with one of JSON."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str, seconds: float = 0.0) -> dict[str, Any]:
        """``seconds``: what it is told to take."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.reply(seconds + ANSWER_SECONDS)

    def reply(self, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline() if waiting.select(seconds) else ""
        if not line:
            self._process.kill()
            raise SystemExit(f"no answer within {seconds:g} s, or the end, of {self._process.args}")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        try:
            self._process.communicate(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Service:
    """A service and who asks it, each in a process of its own."""

    def __init__(self, material: Material, folder: Path, count: int, cache: int = 0) -> None:
        """``count``: different questions. ``cache``: answers that are kept."""
        given = (str(material.folder), str(folder), str(count), str(cache))
        self._server = Process("benchmarks.service", "serve", *given)
        opened = self._server.reply()
        path, questions = f"/v1/retrieval/{opened['base']}", material.folder / "questions.json"
        self._asker = Process("benchmarks.load", str(opened["port"]), path, str(questions), str(count))
        self._turn = 0

    def direct(self, clients: int, seconds: float) -> Pass:
        return self._timed(self._server.ask, clients, seconds)

    def http(self, clients: int, seconds: float) -> Pass:
        return self._timed(self._asker.ask, clients, seconds)

    def go_on(self) -> None:
        """The passes after this begin with another question."""
        self._turn += 1

    def close(self) -> None:
        self._asker.close()
        self._server.close()

    def _timed(self, ask: Callable[[str, float], dict[str, Any]], clients: int, seconds: float) -> Pass:
        before = self._server.ask("cpu")["cpu"]
        told = ask(f"{clients} {seconds} {self._turn * STRIDE}", seconds)
        return pass_of(told, self._server.ask("cpu")["cpu"] - before)


def measure(service: Service, passes: int, seconds: float) -> dict[int, dict[str, float]]:
    """Direct and over HTTP by turns, for each number of clients in turn."""
    found: dict[int, list[tuple[Pass, Pass]]] = {}
    for clients in CLIENTS * passes:
        pair = service.direct(clients, seconds), service.http(clients, seconds)
        service.go_on()
        found.setdefault(clients, []).append(pair)
        print(json.dumps({"clients": clients, **level([pair])}), file=sys.stderr, flush=True)
    return {clients: level(pairs) for clients, pairs in found.items()}


def goodput(service: Service, peak: int, passes: int, seconds: float) -> float:
    """Answers per second with the most clients, as a share of those with the best number, by turns: what else this
    machine has to do changes from minute to minute."""
    shares = []
    for _ in range(passes if peak != max(CLIENTS) else 0):
        best, most = service.http(peak, seconds), service.http(max(CLIENTS), seconds)
        service.go_on()
        shares.append(most.rate / best.rate)
    return round(median(shares), 3) if shares else 1.0


def warm(service: Service, seconds: float) -> None:
    service.direct(8, min(WARMING_SECONDS, seconds))
    service.http(8, min(WARMING_SECONDS, seconds))


def run(count: int, passes: int, seconds: float, cache: Path, questions: int, real: int) -> dict[str, Any]:
    material, embedded = prepare(cache, count, questions, real)
    folder = cache / f"built-{count}" / OURS.name
    shutil.rmtree(folder, ignore_errors=True)  # of this checkout, not of an earlier one
    built(OURS, material.folder, folder)
    with closing(Service(material, folder, questions)) as service:
        warm(service, seconds)
        levels = measure(service, passes, seconds)
        share = goodput(service, peak_of(levels), passes, seconds)
    with closing(Service(material, folder, min(questions, KEPT), cache=2 * KEPT)) as service:
        service.direct(8, FILLING_SECONDS)  # until all questions have been asked once
        kept = measure(service, 1, seconds)
    return {
        "chunks": count,
        "really_embedded": embedded,
        "passes": passes,
        "seconds": seconds,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "levels": levels,
        "goodput": share,
        "with_cache": kept,
        "verdicts": dict(verdicts(levels, share)),
        "judged": count >= CHUNKS,
    }


HEADER = """\
| clients | direct/s | HTTP/s | ratio | direct p50 ms | HTTP p50 | direct p99 | HTTP p99 | direct CPU ms | HTTP CPU |
|-|-|-|-|-|-|-|-|-|-|"""


def table(levels: dict[int, dict[str, float]]) -> str:
    rows = [[str(clients), *(f"{figure:g}" for figure in list(told.values())[:-1])] for clients, told in levels.items()]
    return "\n".join([HEADER, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        serve(Material(Path(sys.argv[2])), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=CHUNKS, help="chunks")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one pass")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="different ones")
    parser.add_argument("--real", type=int, default=REAL, help="passages embedded with the model")
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--workers", type=int, default=0, help="measure so many processes against one instead")
    given = parser.parse_args()
    if not SCALE.exists():
        print(f"no passages to measure with: {SCALE.name} is not beside this checkout", file=sys.stderr)
        return 2
    if given.workers:
        from benchmarks.workers import tell

        return 0 if tell(given.workers, given.passes, given.seconds) else 1
    told = run(given.count, given.passes, given.seconds, given.cache, given.questions, given.real)
    print(json.dumps(told, ensure_ascii=False, indent=1))
    print(f"{table(told['levels'])}\n\nWith a cache of answers:\n\n{table(told['with_cache'])}", file=sys.stderr)
    for what, held in told["verdicts"].items():
        print(f"{'met   ' if held else 'MISSED'} {what}", file=sys.stderr)
    if not told["judged"]:
        print(f"the targets speak of {CHUNKS} chunks: none is held against this run", file=sys.stderr)
        return 0
    return 0 if all(told["verdicts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
