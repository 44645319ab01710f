"""Kill a writer, look at what it left, let the next one go on in the same folder. Again and again.

A killed process leaves everything it had handed to the kernel. This therefore proves that no state on the way is
inconsistent and that nothing is acknowledged before it was handed over; **it says nothing about power loss**, for which
there is `power`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

from tests import preloaded
from tests.torture.checks import check
from tests.torture.ledger import Ledger
from tests.torture.planted import Fault

CHECKOUT = Path(__file__).resolve().parents[2]
DONE = b'["done"'
ENDED = b'["ended"'


@dataclass(frozen=True, slots=True)
class Tally:
    rounds: int
    acknowledged: int
    unfinished: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Nursery:
    """The process that bears writers."""

    orders: IO[bytes]
    said: IO[bytes]

    def bear(self, folder: Path, seed: int, mixture: str, fault: Fault) -> int:
        self.orders.write(json.dumps([str(folder), seed, mixture, fault]).encode() + b"\n")
        self.orders.flush()
        word, pid = json.loads(self.said.readline())
        assert word == "born"
        return int(pid)


@contextmanager
def _nursery() -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.torture.writer"]
    with preloaded.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Nursery(process.stdin, process.stdout)


def torture(
    folder: Path,
    rounds: int,
    seed: int,
    *,
    mixture: str = "mixture",
    fault: Fault = "none",
    watch: Callable[[int, Ledger], None] = lambda _round, _ledger: None,
) -> Tally:
    """Raises Violation at the first broken promise."""
    started = time.monotonic()
    ledger, chance, unfinished = Ledger(), Random(seed), 0
    with _nursery() as nursery:
        for number in range(1, rounds + 1):
            writer = nursery.bear(folder, seed * 10_000 + number, mixture, fault)
            ended = list(_until_ended(nursery)) if fault == "torn" else _kill(nursery, writer, chance)
            ledger.hear(_before_the_kill(ended))
            unfinished += len(ledger.unfinished)
            asyncio.run(check(folder, ledger, chance))
            watch(number, ledger)
    return Tally(rounds, ledger.acknowledged, unfinished, time.monotonic() - started)


def _kill(nursery: Nursery, writer: int, chance: Random) -> list[bytes]:
    """Kills it at a random moment, and answers what it said until it ended."""
    said: list[bytes] = []
    if chance.random() < 0.15:  # while it opens the folder and takes up what the last one left
        time.sleep(chance.uniform(0.0, 0.3))
    else:
        said += _until_done(nursery, chance.choice([1, 1, 2, 4, 8, 16]))
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.05), chance.uniform(0.0, 0.4)]))
    if not said or not said[-1].startswith(ENDED):
        os.kill(writer, signal.SIGKILL)
        said += _until_ended(nursery)
    return said


def _before_the_kill(said: list[bytes]) -> list[bytes]:
    *said, end = said
    if json.loads(end) != ["ended", -signal.SIGKILL]:
        raise RuntimeError("the writer ended by itself; what it says of that is on stderr")
    return said


def _until_done(nursery: Nursery, count: int) -> Iterator[bytes]:
    for line in nursery.said:
        yield line
        count -= line.startswith(DONE)
        if count == 0 or line.startswith(ENDED):
            return


def _until_ended(nursery: Nursery) -> Iterator[bytes]:
    for line in nursery.said:
        yield line
        if line.startswith(ENDED):
            return
