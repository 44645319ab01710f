"""Runs the benchmarks that have a target, and says which are met. Exits 1 when one is not.

`make bench` is this; `python -m benchmarks --quick` is a small sample of the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from benchmarks.passages import MODEL, SCALE


@dataclass(frozen=True)
class Benchmark:
    module: str
    measure: tuple[str, ...]  # where in its report the ratio stands that has a target; (): its exit code says
    at_most: float
    full: tuple[str, ...]
    quick: tuple[str, ...]


BENCHMARKS = (
    Benchmark("benchmarks.ingest", ("ratio_wall",), 1.5, ("--limit", "200000"), ("--limit", "20000")),
    Benchmark(
        "benchmarks.embedding",
        ("ratio_to_bare", "cpu"),
        1.1,
        (str(SCALE), str(MODEL), "--count", "256"),
        (str(SCALE), str(MODEL), "--count", "32", "--rounds", "3"),
    ),
    Benchmark(
        "benchmarks.side_by_side",
        (),
        0,
        (),
        ("--count", "3000", "--passes", "2", "--real", "200", "--only"),  # none of the peers
    ),
)


def run(benchmark: Benchmark, quick: bool) -> tuple[int, dict[str, Any]]:
    """Its exit code and its report."""
    arguments = benchmark.quick if quick else benchmark.full
    # Not `check`: a benchmark may exit 1 to say that it missed its target.
    done = subprocess.run([sys.executable, "-m", benchmark.module, *arguments], stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, told


def judge(benchmark: Benchmark, code: int, told: dict[str, Any]) -> tuple[bool, str]:
    if not benchmark.measure:
        return code == 0, "its own targets, above"
    ratio = reduce(getitem, benchmark.measure, told)
    return ratio <= benchmark.at_most, f"{'.'.join(benchmark.measure)} = {ratio}, at most {benchmark.at_most}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not SCALE.exists():
        print(f"no passages to measure with: {SCALE.name} is not beside this checkout", file=sys.stderr)
        return 2
    missed = 0
    for benchmark in BENCHMARKS:
        code, told = run(benchmark, options.quick)
        met, said = judge(benchmark, code, told)
        missed += not met
        print(json.dumps({benchmark.module: told}, ensure_ascii=False, indent=1))
        print(f"{benchmark.module}: {said}: {'met' if met else 'MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
