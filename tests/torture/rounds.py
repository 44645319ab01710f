"""Kill a writer, look at what it left, let the next one go on in the same folder. Again and again.

A killed process leaves everything it had handed to the kernel. This therefore proves that no state on the way is
inconsistent and that nothing is acknowledged before it was handed over; **it says nothing about power loss**, which
only fsync and honest disks answer for.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.torture.checks import check
from tests.torture.ledger import Ledger, Violation
from tests.torture.planted import Fault

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Tally:
    rounds: int
    acknowledged: int
    unfinished: int
    seconds: float


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
    waiting = _start(folder, seed, mixture, fault)
    try:
        for number in range(1, rounds + 1):
            ledger.hear(_kill(waiting, chance))
            unfinished += len(ledger.unfinished)
            waiting = _start(folder, seed + number, mixture, fault)  # loads while we check; opens the folder later
            asyncio.run(check(folder, ledger, chance))
            watch(number, ledger)
    finally:
        waiting.kill()
        waiting.communicate()
    return Tally(rounds, ledger.acknowledged, unfinished, time.monotonic() - started)


def _start(folder: Path, seed: int, mixture: str, fault: Fault) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.torture.writer", str(folder), str(seed), mixture, fault],
        cwd=CHECKOUT,
        bufsize=0,  # `communicate` does not see what a buffer holds
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _kill(writer: subprocess.Popen[bytes], chance: Random) -> list[bytes]:
    """Lets it go, kills it at a random moment, and answers what it said."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n", writer.communicate()[1].decode()
    writer.stdin.write(b"go\n")
    writer.stdin.flush()
    heard: list[bytes] = []
    if chance.random() < 0.15:  # while it opens the folder and takes up what the last one left
        time.sleep(chance.uniform(0.0, 0.3))
    else:
        heard += _until_done(writer, chance.choice([1, 1, 2, 4, 8, 16]))
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.05), chance.uniform(0.0, 0.4)]))
    writer.kill()
    rest, errors = writer.communicate()
    if writer.returncode != -9:
        raise Violation(f"the writer ended by itself: {errors.decode()[-2000:]}")
    return heard + rest.splitlines(keepends=True)


def _until_done(writer: subprocess.Popen[bytes], count: int) -> Iterator[bytes]:
    assert writer.stdout is not None
    for line in writer.stdout:
        yield line
        count -= line.startswith(b'["done"')
        if count == 0:
            return
