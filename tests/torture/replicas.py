"""Replicas and a worker on one database, under kill -9, SIGSTOP and a server that restarts.

Writers and searchers talk to all of them over HTTP. What they may expect:

- a document that was put with ``wait`` is found on every replica, in this version or a later one;
- a document whose deletion was acknowledged is found on none;
- in the end every document that was acknowledged is there, the index is what the records say, nothing waits;
- no index was ever written to with a fence lower than one that it had seen (the database itself notes every write; of
  an index in Milvus it shows in what `verify` finds).

A request that failed or was given up may have taken effect, or may still: its document is left alone from then on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import httpx

from qianxun import Engine
from qianxun.engine.settings import load
from tests import preloaded
from tests.replicas.audit import audited, lapsed_writes
from tests.servers.postgres import Server, create_database

LEASE_SECONDS: Final = 1.5
STOPPED_SECONDS: Final = 2 * LEASE_SECONDS
CATCH_UP_SECONDS: Final = 30.0
SAMPLE: Final = 60  # documents looked for between rounds: a light Milvus takes a second for each
START_SECONDS: Final = 300.0
REQUEST_SECONDS: Final = 15.0
BASES: Final = "/v1/knowledge-bases"


@dataclass
class Tally:
    """What happened, and what should not have."""

    rounds: int = 0
    acknowledged: int = 0
    searches: int = 0
    uncertain: int = 0  # requests that failed or were given up
    slowest_catch_up: float = 0.0
    done: dict[str, int] = field(default_factory=dict)  # what was done to the processes → how often
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Known:
    """One document, as its writer knows it. Texts carry their version."""

    doc_id: str
    version: int = 0
    is_there: bool = False
    is_searchable: bool = False  # it was waited for
    is_busy: bool = False  # a request about it is under way
    is_uncertain: bool = False


class Restarted(Protocol):
    """A server that may be killed and started again."""

    def stop(self) -> None: ...

    def start(self) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where records, index and cache are: settings by their dotted names, and the servers that are restarted."""

    settings: Mapping[str, Any]
    servers: Sequence[Restarted]
    index_url: str = ""  # of a PostgreSQL with the index, whose writes are noted; "": it is elsewhere


def on_postgres(server: Server, **more: Any) -> Place:
    url = create_database(server)
    return Place({"records.url": url, "index.backend": "postgres", **more}, [Crashed(server)], url)


@dataclass(frozen=True)
class Crashed:
    """PostgreSQL, stopped without finishing anything."""

    server: Server

    def stop(self) -> None:
        self.server.stop("immediate")

    def start(self) -> None:
        self.server.start()


# ── the processes ────────────────────────────────────────────────────────────────────────────────


@dataclass
class Process:
    """One that is started again when it was killed."""

    folder: Path
    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    fault: tuple[str, ...] = ()
    running: subprocess.Popen[bytes] | None = None

    @property
    def stop_file(self) -> Path:
        return self.folder / f"stop-{self.name}"

    def start(self) -> None:
        self.stop_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.torture.replica", str(self.stop_file), *self.fault]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.running = preloaded.Popen(
                [*command, "--data", str(self.folder / "data"), *self.command],
                env={**os.environ, **self.variables},
                stdout=log,
                stderr=log,
            )

    def send(self, number: signal.Signals) -> None:
        assert self.running is not None
        with suppress(ProcessLookupError):
            self.running.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self.running is not None
        self.running.wait()

    def is_stopped(self) -> bool:
        assert self.running is not None
        try:
            state = Path(f"/proc/{self.running.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state in "Tt"


@dataclass
class Cluster:
    """The replicas by their address, the worker, and what is under them."""

    place: Place
    settings: Mapping[str, Any]
    base: int
    replicas: dict[str, Process]
    worker: Process

    @property
    def processes(self) -> list[Process]:
        return [*self.replicas.values(), self.worker]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(folder: Path, place: Place, replicas: int, *, unfenced: bool) -> Iterator[Cluster]:
    chosen = {**place.settings, "index.lease_seconds": LEASE_SECONDS}
    variables = {f"QIANXUN_{name.replace('.', '_').upper()}": str(value) for name, value in chosen.items()}
    base = asyncio.run(_created(folder, chosen))
    if place.index_url:
        audited(place.index_url)
    fault = ("--unfenced",) if unfenced else ()
    addresses = [_free_port() for _ in range(replicas)]
    served = {
        f"http://127.0.0.1:{port}": Process(folder, f"{port}", ("serve", "--port", f"{port}"), variables, fault)
        for port in addresses
    }
    made = Cluster(place, chosen, base, served, Process(folder, "worker", ("worker",), variables, fault))
    try:
        for process in made.processes:
            process.start()
        for address in made.replicas:
            _wait_until_ready(address, START_SECONDS)
        yield made
    finally:
        for process in made.processes:
            if process.running is not None:
                process.kill()


async def _created(folder: Path, chosen: Mapping[str, Any]) -> int:
    async with _engine(folder, chosen) as engine:
        return (await engine.create_knowledge_base("拷问", model="none")).id


def _engine(folder: Path, chosen: Mapping[str, Any]) -> Any:
    settings = load(environment={}, arguments={"data": str(folder / "data"), **chosen}, folder=folder)
    return Engine.open(settings=settings, background=False)


def _wait_until_ready(address: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{address}/readyz", timeout=5.0).status_code == 200:
                return
        time.sleep(0.1)
    raise TimeoutError(f"{address} is not ready after {seconds:g} s")


# ── writers and searchers ────────────────────────────────────────────────────────────────────────


class Clients:
    """Threads that write to and search on all replicas, and what they know."""

    def __init__(self, made: Cluster, tally: Tally, seed: int) -> None:
        self.made, self.tally, self.seed = made, tally, seed
        self.known: dict[str, Known] = {}
        self.guard = threading.Lock()
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        self.searching = httpx.Client(timeout=REQUEST_SECONDS, trust_env=False)

    def begin(self) -> None:
        self.ended.clear()
        work: list[Callable[[int], None]] = [self._write] * len(self.made.replicas) + [self._search]
        self.threads = [threading.Thread(target=one, args=(at,), daemon=True) for at, one in enumerate(work)]
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def _write(self, at: int) -> None:
        drawn, address = random.Random(f"{self.seed} {at}"), list(self.made.replicas)[at]
        with httpx.Client(base_url=address, timeout=REQUEST_SECONDS) as client:
            while not self.ended.is_set():
                known = self._chosen(drawn, f"{at}-{drawn.randrange(10**9)}")
                if known.is_there and drawn.random() < 0.3:
                    self._delete(client, known)
                else:
                    self._put(client, known, wait=drawn.random() < 0.7)
                self.ended.wait(drawn.random() * (1.0 if known.is_uncertain else 0.05))

    def _chosen(self, drawn: random.Random, fresh: str) -> Known:
        """An earlier document or a new one, which no other thread works on."""
        with self.guard:
            free = [one for one in self.known.values() if not one.is_busy and not one.is_uncertain]
            if free and drawn.random() < 0.5:
                known = drawn.choice(free)
            else:
                known = self.known[fresh] = Known(fresh)
            known.is_busy = True
            return known

    def _put(self, client: httpx.Client, known: Known, *, wait: bool) -> None:
        version = known.version + 1
        text = f"编号{known.doc_id.replace('-', '号')}的第{version}版。"
        place = f"{BASES}/{self.made.base}/documents/{known.doc_id}"
        answer = self._sent(client, "PUT", place, params={"wait": wait}, json={"name": known.doc_id, "content": text})
        with self.guard:
            known.is_busy = False
            if answer is None or answer.status_code >= 300:
                self._doubt(known)
                return
            self.tally.acknowledged += 1
            known.version, known.is_there, known.is_searchable = version, True, wait

    def _delete(self, client: httpx.Client, known: Known) -> None:
        answer = self._sent(client, "DELETE", f"{BASES}/{self.made.base}/documents/{known.doc_id}")
        with self.guard:
            known.is_busy = False
            if answer is None or answer.status_code >= 300:
                self._doubt(known)
                return
            self.tally.acknowledged += 1
            known.is_there = known.is_searchable = False

    def _doubt(self, known: Known) -> None:
        known.is_uncertain = True
        self.tally.uncertain += 1

    def _sent(self, client: httpx.Client, method: str, place: str, **given: Any) -> httpx.Response | None:
        try:
            return client.request(method, place, **given)
        except httpx.HTTPError:
            return None

    def _search(self, at: int) -> None:
        drawn = random.Random(f"{self.seed} {at}")
        while not self.ended.is_set():
            with self.guard:
                free = [one for one in self.known.values() if not one.is_busy and not one.is_uncertain]
            if free:
                self.look(drawn.choice(free), drawn.choice(list(self.made.replicas)), everything=False)
            self.ended.wait(0.02)

    def look(self, known: Known, address: str, *, everything: bool) -> None:
        """Compares what is found with what its writer knows, if nobody has changed it meanwhile."""
        with self.guard:
            before = (known.version, known.is_there, known.is_searchable, known.is_busy)
        found = self._found(address, known.doc_id)
        with self.guard:
            after = (known.version, known.is_there, known.is_searchable, known.is_busy)
            if found is None or before != after or known.is_busy or known.is_uncertain:
                return
            self.tally.searches += 1
            if found and not known.is_there:
                self.tally.broken.append(f"{known.doc_id} was deleted and is found on {address}: {found}")
            expected = known.is_there and (everything or known.is_searchable)
            if expected and found != [f"第{known.version}版"]:
                self.tally.broken.append(f"{known.doc_id} is at {known.version} and {found} is found on {address}")

    def _found(self, address: str, doc_id: str) -> list[str] | None:
        """The versions of a document that a search for it finds; None without an answer, or without a whole one."""
        body = {"query": f"编号{doc_id.replace('-', '号')}", "top_k": 100}
        try:
            answer = self.searching.post(f"{address}/v1/retrieval/{self.made.base}", json=body)
        except httpx.HTTPError:
            return None
        if answer.status_code != 200:
            return None
        recall = answer.json()["data"]
        if {one["part"] for one in recall["degraded"]} - {"vector", "qa"}:
            return None
        own = [chunk["content"] for chunk in recall["chunks"] if chunk["doc_id"] == doc_id]
        return [text.rpartition("的")[2].rstrip("。") for text in own]


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────


def torture_replicas(
    folder: Path,
    place: Place,
    rounds: int,
    seed: int,
    *,
    replicas: int = 3,
    unfenced: bool = False,
    checks: int = 25,
    watch: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """So many rounds; after every ``checks`` of them a drawn part of the documents is looked for, in the end each."""
    tally, drawn, started = Tally(), random.Random(seed), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(folder, place, replicas, unfenced=unfenced) as made:
        clients = Clients(made, tally, seed)
        clients.begin()
        for number in range(1, rounds + 1):
            _round(made, drawn, tally)
            tally.rounds = number
            if number % checks == 0 or number == rounds:
                clients.end()
                every = list(clients.known.values())
                sample = every if number == rounds else drawn.sample(every, min(SAMPLE, len(every)))
                _check(folder, made, clients, tally, sample)
                watch(tally)
                if number < rounds and not tally.broken:
                    clients.begin()
            if tally.broken:
                break
        clients.end()
    tally.seconds = time.monotonic() - started
    return tally


def _round(made: Cluster, drawn: random.Random, tally: Tally) -> None:
    kind = drawn.choices(("kill", "stop", "stop before writing", "restart a server"), (3, 2, 4, 1))[0]
    tally.done[kind] = tally.done.get(kind, 0) + 1
    process = drawn.choice(made.processes)
    time.sleep(drawn.random())
    if kind == "kill":
        process.kill()
        process.start()
        for address, replica in made.replicas.items():
            if replica is process:
                _wait_until_ready(address, START_SECONDS)
    elif kind == "stop":
        process.send(signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        process.send(signal.SIGCONT)
    elif kind == "stop before writing":
        _stop_before_writing(process)
    else:
        server = drawn.choice(made.place.servers)
        server.stop()
        server.start()


def _stop_before_writing(process: Process) -> None:
    process.stop_file.touch()
    until = time.monotonic() + STOPPED_SECONDS
    while time.monotonic() < until and not process.is_stopped():
        time.sleep(0.01)
    if process.is_stopped():
        time.sleep(STOPPED_SECONDS)
        process.send(signal.SIGCONT)
    process.stop_file.unlink(missing_ok=True)


def _check(folder: Path, made: Cluster, clients: Clients, tally: Tally, documents: Sequence[Known]) -> None:
    """Once nobody writes any more. `verify` compares all of records and index each time."""
    began = time.monotonic()
    for address in made.replicas:
        while time.monotonic() - began < CATCH_UP_SECONDS and not _is_caught_up(address):
            time.sleep(0.1)
        if not _is_caught_up(address):
            tally.broken.append(f"{address} has not caught up after {CATCH_UP_SECONDS:g} s")
    tally.slowest_catch_up = max(tally.slowest_catch_up, time.monotonic() - began)
    for at, known in enumerate(documents):
        clients.look(known, list(made.replicas)[at % len(made.replicas)], everything=True)
    if made.place.index_url:
        tally.broken += lapsed_writes(made.place.index_url)
    tally.broken += asyncio.run(_disagreements(folder, made.settings, made.base))


def _is_caught_up(address: str) -> bool:
    with suppress(httpx.HTTPError):
        answer = httpx.get(f"{address}/readyz", timeout=5.0)
        return answer.status_code == 200 and answer.json()["data"]["queue_depth"] == 0
    return False


async def _disagreements(folder: Path, chosen: Mapping[str, Any], base: int) -> list[str]:
    async with _engine(folder, chosen) as engine:
        verdict = await engine.admin.verify(base)
        return [f"verify: {finding}" for finding in verdict.findings if finding.kind != "chunk_without_facts"]
