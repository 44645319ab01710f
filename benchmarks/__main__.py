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
from math import inf
from operator import getitem
from typing import Any

from benchmarks.passages import MODEL, SCALE


@dataclass(frozen=True)
class Benchmark:
    module: str
    full: tuple[str, ...]
    quick: tuple[str, ...]
    measure: tuple[str, ...] = ()  # where in its report the figure stands that has a target; (): its exit code says
    at_most: float = inf
    at_least: float = 0.0


BENCHMARKS = (
    Benchmark("benchmarks.ingest", ("--limit", "200000"), ("--limit", "20000"), ("ratio_wall",), at_most=1.5),
    Benchmark(
        "benchmarks.embedding",
        (str(SCALE), str(MODEL), "--count", "256"),
        (str(SCALE), str(MODEL), "--count", "32", "--rounds", "3"),
        ("ratio_to_bare", "cpu"),
        at_most=1.1,
    ),
    Benchmark("benchmarks.recall", (), ("--quick",), ("recall@10",), at_least=0.95),
    Benchmark(
        "benchmarks.scale",
        ("--rows", "10000", "100000"),
        ("--rows", "1500", "--part", "build", "open", "ask", "write"),
        ("recall@10",),
        at_least=0.98,
    ),
    Benchmark(
        "benchmarks.postgres_index",
        ("--keywords",),
        ("--count", "1500", "--questions", "10"),
        ("recall@15",),
        at_least=0.98,
    ),
    Benchmark("benchmarks.graph_build", (), ("--limit", "500", "--rounds", "1"), ("ratio",), at_most=3.0),
    Benchmark("benchmarks.service", (), ("--count", "3000", "--passes", "1", "--seconds", "1")),
    Benchmark("benchmarks.doors", (), ("--count", "3000", "--questions", "60"), ("doors", "MCP", "ratio"), at_most=2.5),
    Benchmark("benchmarks.examples", (), ("--rows", "2000", "--asked", "20")),
    Benchmark(
        "benchmarks.side_by_side",
        (),
        ("--count", "3000", "--passes", "2", "--real", "200", "--only"),  # none of the peers
    ),
)


MILLION = Benchmark(  # hours on a small machine
    "benchmarks.scale", ("--rows", "10000", "100000", "1000000"), (), ("recall@10",), at_least=0.98
)


def chosen(million: bool) -> tuple[Benchmark, ...]:
    return tuple(MILLION if million and each.module == MILLION.module else each for each in BENCHMARKS)


def run(benchmark: Benchmark, quick: bool) -> tuple[int, dict[str, Any] | None]:
    """Its exit code and its report; no report when it broke, its own words having gone to the error output."""
    arguments = benchmark.quick if quick else benchmark.full
    # Not `check`: a benchmark may exit 1 to say that it missed its target.
    done = subprocess.run([sys.executable, "-m", benchmark.module, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.returncode, None


def judge(benchmark: Benchmark, code: int, told: dict[str, Any] | None) -> tuple[bool, str]:
    """Whether nothing speaks against it, and the sentence that says so."""
    if told is None:
        return False, f"broke, with exit code {code}: MISSED"
    if not benchmark.measure and not told["judged"]:
        return code == 0, "so small a sample is held against no target"
    if not benchmark.measure:
        return code == 0, f"its own targets, above: {_word(code == 0)}"
    figure = reduce(getitem, benchmark.measure, told)
    bound = f"at most {benchmark.at_most}" if benchmark.at_most < inf else f"at least {benchmark.at_least}"
    held = benchmark.at_least <= figure <= benchmark.at_most
    return held, f"{'.'.join(benchmark.measure)} = {figure}, {bound}: {_word(held)}"


def _word(held: bool) -> str:
    return "met" if held else "MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--million", action="store_true", help="a base of a million chunks, too")
    options = parser.parse_args()
    if not SCALE.exists():
        print(f"no passages to measure with: {SCALE.name} is not beside this checkout", file=sys.stderr)
        return 2
    missed = 0
    for benchmark in chosen(options.million and not options.quick):
        code, told = run(benchmark, options.quick)
        met, said = judge(benchmark, code, told)
        missed += not met
        print(json.dumps({benchmark.module: told}, ensure_ascii=False, indent=1))
        print(f"{benchmark.module}: {said}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
