"""What LocalEmbedding costs beside the bare onnxruntime call, and what its way of batching gains.

    python benchmarks/embedding.py PASSAGES.jsonl.xz MODEL_FOLDER

Every way runs once per round, in turn, on the same passages; a ratio is the median over the rounds, so that a machine
with other work to do disturbs all ways alike. Prints one JSON document; exit 1 when the ratio exceeds its limit.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from qianxun.models import card
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.models.local.onnx import _cores, _padded

LIMIT = 1.1
Feed = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cost:
    wall: float
    cpu: float


def read_passages(path: Path, count: int) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in islice(lines, count)]


def bare_session(folder: Path, name: str, threads: int) -> Any:
    import onnxruntime  # it starts threads: the tests read this module in a process that forks

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    path = str(folder / card(name).weights.path)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds_in_batches(model: LocalEmbedding, texts: Sequence[str], batch_size: int, by_length: bool) -> list[Feed]:
    """Padded inputs, made beforehand: the bare call pays neither for tokens nor for padding."""
    encodings = model._onnx.encode(texts)
    if by_length:
        encodings = sorted(encodings, key=len, reverse=True)
    return [_padded(encodings[start : start + batch_size]) for start in range(0, len(encodings), batch_size)]


def run_bare(session: Any, feeds: Sequence[Feed], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(lambda feed: session.run(None, feed), feeds):
            pass


def measure(run: Callable[[], object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def in_rounds(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[Cost]]:
    for run in ways.values():
        run()  # the first call allocates
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for turn in range(rounds):
        names = list(ways) if turn % 2 == 0 else list(reversed(ways))
        for name in names:
            costs[name].append(measure(ways[name]))
    return costs


def ratio(over: Sequence[Cost], under: Sequence[Cost]) -> dict[str, float]:
    pairs = list(zip(over, under, strict=True))
    return {
        "cpu": round(median(a.cpu / b.cpu for a, b in pairs), 3),
        "wall": round(median(a.wall / b.wall for a, b in pairs), 3),
    }


def compare(folder: Path, name: str, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    model = LocalEmbedding(name, folder)
    cores = _cores()
    one, many = bare_session(folder, name, 1), bare_session(folder, name, cores)
    alone = feeds_in_batches(model, texts, 1, by_length=True)
    by_length = feeds_in_batches(model, texts, 32, by_length=True)
    as_they_come = feeds_in_batches(model, texts, 32, by_length=False)
    costs = in_rounds(
        {
            "local": lambda: model.embed_passages(texts),
            "bare": lambda: run_bare(one, alone, cores),
            "sorted_32": lambda: run_bare(one, by_length, cores),
            "naive_32": lambda: run_bare(one, as_they_come, cores),
            "naive_32_threads_within": lambda: run_bare(many, as_they_come, 1),
        },
        rounds,
    )
    per_core = {way: round(len(texts) / median(cost.cpu for cost in runs), 1) for way, runs in costs.items()}
    return {
        "model": name,
        "passages": len(texts),
        "median_characters": int(np.median([len(text) for text in texts])),
        "rounds": rounds,
        "cores": cores,
        "texts_per_core_second": per_core,
        "ratio_to_bare": ratio(costs["local"], costs["bare"]),
        "limit": LIMIT,
        "gain_of_sorted_batches_over_naive": ratio(costs["naive_32"], costs["sorted_32"]),
        "gain_of_one_at_a_time_over_sorted_batches": ratio(costs["sorted_32"], costs["bare"]),
        "gain_of_local_over_naive_threads_within": ratio(costs["naive_32_threads_within"], costs["local"]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=Path, help="JSON lines with a text field, xz-compressed")
    parser.add_argument("folder", type=Path, help="the folder of the model's files")
    parser.add_argument("--model", default="bge-small-zh-v1.5")
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    report = compare(given.folder, given.model, read_passages(given.passages, given.count), given.rounds)
    print(json.dumps(report, ensure_ascii=False, indent=2))
    return 0 if report["ratio_to_bare"]["cpu"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
