"""``python -m tests.torture``: kill writers for a long time, or run many interleavings."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.torture.ledger import Ledger
from tests.torture.rounds import torture


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    asked.add_argument(
        "--rounds", type=int, default=0, help="kill -9 so many writers, and a quarter as many again amid rebuilds"
    )
    asked.add_argument("--interleavings", type=int, default=0, help="so many random steps against the plain model")
    asked.add_argument("--seed", type=int, default=1)
    told = asked.parse_args()
    if told.rounds:
        _kill(told.rounds, told.seed)
    if told.interleavings:
        _interleave(told.interleavings, told.seed)


def _kill(rounds: int, seed: int) -> None:
    for mixture, count in (("mixture", rounds), ("rebuilding", max(1, rounds // 4))):
        with tempfile.TemporaryDirectory(prefix="qianxun-torture-") as folder:
            tally = torture(Path(folder), count, seed, mixture=mixture, watch=_tell)
        sys.stdout.write(
            f"{mixture}: {tally.rounds} kills, {tally.acknowledged} acknowledged operations, "
            f"{tally.unfinished} interrupted, no violation, {tally.seconds:.0f} s\n"
        )


def _tell(number: int, ledger: Ledger) -> None:
    if number % 20 == 0:
        sys.stdout.write(f"  {number} kills, {ledger.acknowledged} acknowledged\n")
        sys.stdout.flush()


def _interleave(steps: int, seed: int) -> None:
    from tests.torture.interleaving import interleave  # hypothesis takes a while to load

    started = time.monotonic()
    done, seeds = interleave(steps, seed)
    sys.stdout.write(f"{done} steps over {seeds} seeds equal the plain model, {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
