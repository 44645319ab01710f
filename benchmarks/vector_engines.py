"""zvec beside rows of our own with faiss codes: speed, filters, recall, reopening, kill -9 and flipped bits.

    python -m benchmarks.vector_engines [--rows 100000] [--kills 12] [--flips 30]

Needs zvec beside the project's own dependencies. Every measurement runs in a process of its own, so that memory is
its own and a crash is a result. The reasons drawn from it are in docs/decisions/0002-vector-engine.md.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from qianxun.core.types import EVERYTHING, Attributes, Eq, Filter, IndexEntry, IndexStamp, Vectors
from qianxun.index.embedded.codes import FEW
from qianxun.index.embedded.extents import State, load_state, save_state
from qianxun.index.embedded.rows import Column
from qianxun.index.embedded.store import Store
from qianxun.index.embedded.vectors import nearest

DIMENSION = 512
BATCH = 5_000
SHARES = {"1 %": ("one", 100), "50 %": ("half", 2)}  # a filter passes where id % divisor == 1


class Engine(Protocol):
    def add(self, first: int, rows: Vectors) -> None:
        """Adds or replaces rows first, first + 1, …; durable as far as the engine can."""

    def delete(self, ids: Sequence[int]) -> None: ...

    def nearest(self, row: Any, limit: int, field: str = "") -> list[int]: ...

    def holds(self, ids: Sequence[int]) -> bool: ...

    def finish(self) -> None:
        """Builds what a bulk load builds at its end."""

    def close(self) -> None: ...


class Zvec:
    def __init__(self, folder: Path) -> None:
        import zvec

        self._zvec = zvec
        zvec.init(log_level=zvec.LogLevel.FATAL)
        if folder.exists():
            self._held = zvec.open(str(folder))
            return
        fields = [
            zvec.FieldSchema(n, zvec.DataType.INT64, index_param=zvec.InvertIndexParam()) for n in ("one", "half")
        ]
        hnsw = zvec.HnswIndexParam(metric_type=zvec.MetricType.IP, m=16, ef_construction=200)
        vector = zvec.VectorSchema("v", zvec.DataType.VECTOR_FP32, DIMENSION, index_param=hnsw)
        self._held = zvec.create_and_open(str(folder), zvec.CollectionSchema("bench", fields=fields, vectors=[vector]))

    def add(self, first: int, rows: Vectors) -> None:
        for start in range(0, len(rows), 1000):
            docs = [
                self._zvec.Doc(
                    id=str(first + start + at), vectors={"v": row},
                    fields={n: (first + start + at) % d for n, d in SHARES.values()},
                )
                for at, row in enumerate(rows[start : start + 1000])
            ]  # fmt: skip
            self._held.upsert(docs)
        self._held.flush()

    def delete(self, ids: Sequence[int]) -> None:
        self._held.delete([str(number) for number in ids])
        self._held.flush()

    def nearest(self, row: Any, limit: int, field: str = "") -> list[int]:
        asked = self._zvec.Query(field_name="v", vector=row, param=self._zvec.HnswQueryParam(ef=200))
        chosen = f"{field} = 1" if field else None
        found = self._held.query(asked, topk=limit, filter=chosen, output_fields=[])
        return [int(doc.id) for doc in found]

    def holds(self, ids: Sequence[int]) -> bool:
        return all(
            len(self._held.fetch([str(number) for number in ids[start : start + 500]])) == len(ids[start : start + 500])
            for start in range(0, len(ids), 500)
        )

    def finish(self) -> None:
        self._held.optimize()

    def close(self) -> None:
        self._held.close()


class Rows:
    """The vector half of the embedded index, without its keywords."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not folder.exists():
            (folder / "columns-1").mkdir(parents=True)
            save_state(folder, State(IndexStamp("bench", DIMENSION, "1")))
        self._state = load_state(folder)
        self._store = Store(folder / "columns-1", self._state, FEW)
        self._rows = self._store.rows(self._store.deaths())
        self._owners = [Attributes(str(one), metadata={"one": one, "half": one % 2}) for one in range(100)]

    def add(self, first: int, rows: Vectors) -> None:
        entries = [
            IndexEntry(number, number, "", "", row, self._owners[number % 100])
            for number, row in enumerate(rows, first)
        ]
        self._write(entries, rows, self._rows.dying((), entries))

    def delete(self, ids: Sequence[int]) -> None:
        self._write([], np.empty((0, DIMENSION), np.float32), self._rows.dying(ids, ()))

    def _write(self, entries: Sequence[IndexEntry], rows: Vectors, dead: Column) -> None:
        staged = self._store.stage(entries, rows, self._state.next_row, self._rows.columns["row"][dead])
        self._save(staged.extents, next_row=self._state.next_row + len(entries), owners=staged.owners)
        self._store.accept(staged)
        self._rows = self._store.rows_after(self._rows, dead)

    def _save(self, extents: Any, **changes: int) -> None:
        fields = {name: getattr(self._state, name) for name in State.__slots__} | changes
        self._state = State(**fields).with_extents(extents)
        save_state(self._folder, self._state)

    def nearest(self, row: Any, limit: int, field: str = "") -> list[int]:
        where: Filter = Eq(f"metadata.{field}", 1) if field else EVERYTHING
        allowed = self._store.allowed(self._rows, where, "content")
        return [hit.key for hit in nearest(self._store.vector_rows(self._rows), row, limit, allowed).hits]

    def holds(self, ids: Sequence[int]) -> bool:
        return bool(np.isin(ids, self._rows.columns["key"][self._rows.live]).all())

    def finish(self) -> None:
        staged = self._store.stage_codes()
        self._save(staged.extents)
        self._store.accept_codes(staged)

    def close(self) -> None:
        pass


ENGINES: dict[str, Callable[[Path], Engine]] = {"zvec": Zvec, "rows": Rows}


def vectors(count: int, seed: int = 1) -> Vectors:
    """Unit vectors in a thousand clusters."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(1000, DIMENSION)).astype(np.float32)
    rows = centers[rng.integers(0, 1000, count)]
    rows += 0.9 * rng.normal(size=(count, DIMENSION)).astype(np.float32)
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_writing(engine: str, folder: Path, count: int) -> dict[str, float]:
    rows, held = vectors(count), ENGINES[engine](folder)
    add = sum(seconds(lambda at=at: held.add(at, rows[at : at + BATCH])) for at in range(0, count, BATCH))
    finish = seconds(held.finish)
    upsert = np.median([seconds(lambda at=at: held.add(at * 50, rows[:5])) for at in range(10)])
    delete = np.median([seconds(lambda at=at: held.delete([at * 50 + 1])) for at in range(10)])
    held.add(0, rows[:500])
    held.close()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "bulk add s": add, "finish s": finish, "upsert of 5 ms": 1e3 * float(upsert),
        "delete of 1 ms": 1e3 * float(delete), "disk MB": size / 1e6,
    }  # fmt: skip


def measure_reading(engine: str, folder: Path, count: int) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    held = ENGINES[engine](folder)
    results = {"open ms": 1e3 * (time.perf_counter() - start)}
    asked = vectors(60, seed=2)
    results["first query ms"] = 1e3 * seconds(lambda: held.nearest(asked[0], 10))
    answers = {}
    for name, field in {"all": "", **{share: field for share, (field, _) in SHARES.items()}}.items():
        busy = time.process_time()
        took = [seconds(lambda row=row, field=field: held.nearest(row, 10, field)) for row in asked]
        busy = time.process_time() - busy
        answers[name] = [held.nearest(row, 10, field) for row in asked]
        results[f"nearest, {name} pass, ms"] = 1e3 * float(np.median(took))
        results[f"nearest, {name} pass, CPU ms"] = 1e3 * busy / len(asked)
    results["memory MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    return results | recalls(answers, asked, vectors(count))


def recalls(answers: dict[str, list[list[int]]], asked: Vectors, rows: Vectors) -> dict[str, float]:
    """recall@10 against exact search. The first 500 rows were upserted anew unchanged, so the truth is ``rows``."""
    scores = asked @ rows.T
    numbers = np.arange(len(rows))
    results = {}
    for name, found in answers.items():
        field_divisor = dict(SHARES.values()).get(SHARES[name][0], 1) if name in SHARES else 1
        allowed = np.where((numbers % field_divisor == 1) | (field_divisor == 1), scores, -2)
        best = np.argsort(-allowed, axis=1)[:, :10]
        hits = sum(len(set(truth.tolist()) & set(ids)) for truth, ids in zip(best, found, strict=True))
        results[f"recall@10, {name} pass"] = hits / best.size
    return results


def write_for_ever(engine: str, folder: Path, _: int) -> dict[str, float]:
    held, rows = ENGINES[engine](folder), vectors(100)
    first = 0
    while held.holds([first * 100]):
        first += 1
    for batch in range(max(first - 1, 0), 100_000):  # the last one may be there by halves
        held.add(batch * 100, rows)
        print(batch, flush=True)
    return {}


def check_written(engine: str, folder: Path, acknowledged: int) -> dict[str, float]:
    held = ENGINES[engine](folder)
    whole = held.holds(list(range((acknowledged + 1) * 100)))
    found = len(held.nearest(vectors(1)[0], 10)) == 10
    return {"whole": float(whole and found)}


def answer(engine: str, folder: Path, _: int) -> dict[str, Any]:
    held = ENGINES[engine](folder)
    asked = vectors(30, seed=3)
    return {field or "all": [held.nearest(row, 10, field) for row in asked] for field in ("", "one", "half")}


TASKS = {task.__name__: task for task in (measure_writing, measure_reading, write_for_ever, check_written, answer)}


def child(task: str, engine: str, folder: Path, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.vector_engines", "--task", task, engine, str(folder), str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def result(process: subprocess.Popen[str], timeout: float = 3600) -> dict[str, Any] | str:
    """What the child printed last, or how it ended."""
    try:
        printed = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "hung"
    if process.returncode < 0:
        return f"died of {signal.Signals(-process.returncode).name}"
    if process.returncode:
        return "refused"
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found


def kills(engine: str, folder: Path, rounds: int) -> Counter[str]:
    """Kills a writer at random moments; the next one goes on in the same folder."""
    chance, outcomes = random.Random(1), Counter[str]()
    for _ in range(rounds):
        writer = child("write_for_ever", engine, folder, 0)
        assert writer.stdout is not None
        printed = [writer.stdout.readline()]
        time.sleep(chance.random())
        writer.kill()
        printed += writer.communicate()[0].splitlines()
        acknowledged = max((int(line) for line in printed if line.strip().isdigit()), default=-1)
        checked = result(child("check_written", engine, folder, acknowledged), 120)
        outcome = checked if isinstance(checked, str) else ("whole" if checked["whole"] else "lost committed rows")
        outcomes[outcome] += 1
        if outcome != "whole":
            shutil.rmtree(folder, ignore_errors=True)
    return outcomes


def flips(engine: str, folder: Path, rounds: int) -> Counter[str]:
    """Flips one bit, in files chosen by their size and by turns, and asks again."""
    right = result(child("answer", engine, folder, 0))
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]
    chance, outcomes = random.Random(2), Counter[str]()
    for number in range(rounds):
        by_size = chance.choices(files, [path.stat().st_size for path in files])[0]
        path = by_size if number % 2 else files[number // 2 % len(files)]
        damaged = folder.with_name("damaged")
        shutil.copytree(folder, damaged)
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (damaged / path.relative_to(folder)).write_bytes(data)
        found = result(child("answer", engine, damaged, 0), 60)
        outcomes[found if isinstance(found, str) else ("right" if found == right else "WRONG, silently")] += 1
        shutil.rmtree(damaged)
    return outcomes


def report(engine: str, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as place:
        big, small = Path(place) / "big", Path(place) / "small"
        for task in ("measure_writing", "measure_reading"):
            found = result(child(task, engine, big, arguments.rows))
            lines = found.items() if isinstance(found, dict) else [(task, found)]
            for name, value in lines:
                print(f"{engine:5} {name:32} {value:.4g}" if isinstance(value, float) else f"{engine} {name} {value}")
        shutil.rmtree(big, ignore_errors=True)
        print(f"{engine:5} kill -9 while writing: {dict(kills(engine, big, arguments.kills))}", flush=True)
        result(child("measure_writing", engine, small, 5000))
        print(f"{engine:5} one flipped bit: {dict(flips(engine, small, arguments.flips))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--flips", type=int, default=30)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--task", nargs=4, metavar=("TASK", "ENGINE", "FOLDER", "NUMBER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        task, engine, folder, number = arguments.task
        print(json.dumps(TASKS[task](engine, Path(folder), int(number))))
        return
    for engine in arguments.engines:
        report(engine, arguments)


if __name__ == "__main__":
    main()
