"""A hybrid search for ten passages among many, side by side: bare engine calls, this pipeline, and its peers.

Every contender runs in a process of its own, over the same passages, vectors and questions. A pass is the same
questions put to this pipeline and to the other, in turn; no question comes twice, so no cache of results can help. What
counts is the CPU time of the whole process per question; a ratio is the median over the passes.

A peer is judged as its own guide to hybrid search builds it. Where a user could make it faster by hand, that form is
measured too, and shown without a target.

The peers live in a virtual environment of their own (``make bench`` makes it). One that is missing, fails or is not
built in time is named with its reason, and counts as a target that is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.passages import SCALE
from benchmarks.peers.material import REAL, prepare

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".bench-cache"
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
BUILD_SECONDS = 1800.0  # LlamaIndex writes a gigabyte of JSON, Haystack too
ANSWER_SECONDS = 300.0
WARMING = 20  # questions before the first pass
OURS_AT_LEAST = 50  # questions of a pass that are put to ours, however few the other can be asked


class Failed(Exception):
    """A contender could not be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``per_pass``: questions in one pass. ``at_least``: how many times our CPU time it must take; 0: no target."""

    module: str
    per_pass: int
    at_least: float = 0.0
    is_peer: bool = True
    tuned: bool = False  # by hand, beyond what its guide shows

    @property
    def name(self) -> str:
        return f"{self.module}-tuned" if self.tuned else self.module

    @property
    def asked_of_ours(self) -> int:
        return max(self.per_pass, OURS_AT_LEAST)


OURS = Entry("ours", 0, is_peer=False)
BARE = Entry("bare", 200, at_least=1 / 1.5, is_peer=False)
PEERS = (
    Entry("txtai", 100, 4.0),
    Entry("lancedb", 20, 20.0),
    Entry("lancedb", 40, tuned=True),
    Entry("langchain", 10, 50.0),
    Entry("llamaindex", 20, tuned=True),
    Entry("haystack", 2, 50.0),
    Entry("llamaindex", 2, 50.0),
)
PERSISTENT = ("txtai", "lancedb", "llamaindex", "haystack")  # LangChain's BM25Retriever cannot be kept
TARGETS_FROM = 100_000  # passages; below, fixed costs decide
REOPEN_AT_MOST = 0.1  # of the best peer that persists, in the form of its guide, after imports


class Served:
    """A contender that is open and waits for questions."""

    def __init__(self, entry: Entry, material: Path, folder: Path) -> None:
        self.entry = entry
        self._folder = folder
        self._process = subprocess.Popen(
            _command(entry, "serve", material, folder),
            cwd=ROOT, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=_log(folder), text=True,
        )  # fmt: skip
        self.opened = self._reply(BUILD_SECONDS)

    def ask(self, start: int, count: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{start} {count}\n")
        self._process.stdin.flush()
        return self._reply(ANSWER_SECONDS)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _reply(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._process.stdout, selectors.EVENT_READ)
            if not waiting.select(seconds):
                self.close()
                raise Failed(f"no answer within {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"ended with code {self._process.wait()}: {_last_words(self._folder)}")
        told: dict[str, Any] = json.loads(line)
        return told


def _log(folder: Path) -> Any:
    return (folder.parent / f"{folder.name}.log").open("ab")


def _last_words(folder: Path) -> str:
    lines = (folder.parent / f"{folder.name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def _command(entry: Entry, task: str, material: Path, folder: Path) -> list[str]:
    python = str(PEERS_PYTHON) if entry.is_peer else sys.executable
    form = ["tuned"] if entry.tuned else []
    return [python, "-m", f"benchmarks.peers.{entry.module}", task, str(material), str(folder), *form]


def _environment() -> dict[str, str]:
    """Everybody as installed: pip compiles what it installs, and a checkout that keeps no bytecode is compiled anew by
    every process."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(entry: Entry, task: str, material: Path, folder: Path, seconds: float) -> dict[str, Any]:
    """One task in a fresh process. Raises Failed."""
    if entry.is_peer and not PEERS_PYTHON.exists():
        raise Failed("not installed: `make bench` makes .venv-peers")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            _command(entry, task, material, folder),
            cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, stderr=_log(folder), text=True, timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{task} not done within {seconds:.0f} s") from None
    if done.returncode:
        raise Failed(f"{task} ended with code {done.returncode}: {_last_words(folder)}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def built(entry: Entry, material: Path, folder: Path) -> dict[str, Any] | None:
    """What building cost; None where an earlier run has built it."""
    if (folder / "built").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    return run(entry, "build", material, folder, BUILD_SECONDS)


def reopened(entry: Entry, material: Path, folder: Path, times: int) -> dict[str, float]:
    """Medians over fresh processes."""
    runs = [run(entry, "reopen", material, folder, BUILD_SECONDS) for _ in range(times)]
    return rounded({name: median(each[name] for each in runs) for name in runs[0]})


def rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(figure, 3) for name, figure in figures.items()}


def compared(ours: Served, other: Served, start: int, passes: int) -> dict[str, float]:
    """Passes by turns. Both are asked the same; ours a few more where the other is so slow that few must do."""
    count, more = other.entry.per_pass, other.entry.asked_of_ours
    pairs = []
    for turn in range(passes):
        first = start + turn * more
        mine = ours.ask(first, more)
        theirs = other.ask(first, count)
        pairs.append((mine["cpu"] / mine["questions"], theirs["cpu"] / theirs["questions"], theirs))
    return {
        "ratio": round(median(theirs / mine for mine, theirs, _ in pairs), 3),
        "cpu_ms": round(1e3 * median(theirs for _, theirs, _ in pairs), 3),
        "ours_cpu_ms": round(1e3 * median(mine for mine, _, _ in pairs), 3),
        "wall_ms": round(1e3 * median(told["wall"] / told["questions"] for _, _, told in pairs), 3),
        "found": pairs[-1][2]["found"],
        "questions": passes * count,
        "megabytes": other.opened["megabytes"],
    }


def questions_needed(entries: Sequence[Entry], passes: int) -> int:
    return 1 + WARMING * (1 + len(entries)) + passes * sum(entry.asked_of_ours for entry in entries)


def measure_one(entry: Entry, ours: Served, material: Path, place: Path, start: int, passes: int) -> dict[str, Any]:
    folder = place / entry.name
    try:
        told: dict[str, Any] = {"build": built(entry, material, folder)}
        other = Served(entry, material, folder)
        try:
            other.ask(start, min(WARMING, entry.per_pass))
            told |= compared(ours, other, start + WARMING, passes)
        finally:
            other.close()
        if entry.is_peer:
            told["reopen"] = reopened(entry, material, folder, 3) if entry.per_pass >= 20 else rounded(other.opened)
    except Failed as failed:
        return {"failed": str(failed)}
    return told


def measure(entries: Sequence[Entry], count: int, passes: int, cache: Path = CACHE, real: int = REAL) -> dict[str, Any]:
    """Builds what is missing under ``cache``, and compares every entry with this pipeline."""
    material, embedded = prepare(cache, count, questions_needed(entries, passes), real)
    place = cache / f"built-{count}"
    told: dict[str, Any] = {"passages": count, "really_embedded": embedded, "passes": passes, "load": os.getloadavg()}
    shutil.rmtree(place / OURS.name, ignore_errors=True)  # of this checkout, not of an earlier one
    told["ours"] = {"build": built(OURS, material.folder, place / OURS.name)}
    told["ours"]["reopen"] = reopened(OURS, material.folder, place / OURS.name, passes)
    ours = Served(OURS, material.folder, place / OURS.name)
    try:
        start = 1  # the first question was asked at the opening
        ours.ask(start, WARMING)
        start += WARMING
        for entry in entries:
            told[entry.name] = measure_one(entry, ours, material.folder, place, start, passes)
            print(json.dumps({entry.name: told[entry.name]}), file=sys.stderr, flush=True)
            start += WARMING + passes * entry.asked_of_ours
    finally:
        ours.close()
    return told


def verdicts(told: dict[str, Any], entries: Sequence[Entry]) -> list[tuple[str, bool]]:
    """What was to be shown, and whether it was. Nothing of entries without a target."""
    said = []
    for entry in entries:
        mine = told[entry.name]
        if not entry.at_least:
            continue
        if "failed" in mine:
            said.append((f"{entry.name}: not measured: {mine['failed']}", False))
        elif entry.module == BARE.module:
            said.append((f"ours / bare = {1 / mine['ratio']:.2f}, at most 1.5", mine["ratio"] >= entry.at_least))
        else:
            held = mine["ratio"] >= entry.at_least
            said.append((f"{entry.name} / ours = {mine['ratio']:.1f}, at least {entry.at_least:g}", held))
    return said + _reopening(told, entries)


def _reopening(told: dict[str, Any], entries: Sequence[Entry]) -> list[tuple[str, bool]]:
    """Judged from the moment at which the libraries are loaded; the whole process is told beside it."""
    kept = {
        entry.name: told[entry.name]["reopen"]
        for entry in entries
        if entry.name in PERSISTENT and "reopen" in told[entry.name]
    }
    if not kept:
        return []
    best = min(kept, key=lambda name: kept[name]["cpu_without_imports"])
    ours, theirs = told["ours"]["reopen"], kept[best]
    share = ours["cpu_without_imports"] / theirs["cpu_without_imports"]
    said = (
        f"reopening after imports: ours {ours['cpu_without_imports']} s / {best} {theirs['cpu_without_imports']} s "
        f"= {share:.2f}, at most {REOPEN_AT_MOST} (whole processes: {ours['cpu']} s / {theirs['cpu']} s)"
    )
    return [(said, share <= REOPEN_AT_MOST)]


HEADER = """\
CPU ms per question, medians of {passes} passes by turns. "ours" is ours in the very same passes; "× ours" is the median
of the ratios of single passes, so that the two columns before it need not divide to it.

| | CPU ms | ours | × ours | target | wall ms | questions | reopen: CPU s | after imports | MB |
|-|-|-|-|-|-|-|-|-|-|"""


def table(told: dict[str, Any], entries: Sequence[Entry]) -> str:
    again = told["ours"]["reopen"]
    first = f"| ours | | | 1 | | | | {again['cpu']} | {again['cpu_without_imports']} | {again['megabytes']:.0f} |"
    return "\n".join(
        [HEADER.format(passes=told["passes"]), first, *(_row(entry, told[entry.name]) for entry in entries)]
    )


def _row(entry: Entry, mine: dict[str, Any]) -> str:
    target = f"≥ {entry.at_least:.3g}" if entry.at_least else "none: tuned by hand"
    if "failed" in mine:
        return f"| {entry.name} | {mine['failed']} | | | {target} | | | | | |"
    again = mine.get("reopen", {"cpu": "–", "cpu_without_imports": "–"})
    return (
        f"| {entry.name} | {mine['cpu_ms']} | {mine['ours_cpu_ms']} | {mine['ratio']} | {target} | {mine['wall_ms']} "
        f"| {mine['questions']} | {again['cpu']} | {again['cpu_without_imports']} | {mine['megabytes']} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="passages")
    parser.add_argument("--passes", type=int, default=5, help="turns; at least 3 for a figure to quote")
    parser.add_argument("--per-pass", type=int, default=BARE.per_pass, help="questions put to the bare calls in a pass")
    parser.add_argument("--real", type=int, default=REAL, help="passages embedded with the model")
    parser.add_argument("--only", nargs="*", help="names of peers, each in all its forms; none: only bare calls")
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    if not SCALE.exists():
        print(f"no passages to measure with: {SCALE.name} is not beside this checkout", file=sys.stderr)
        return 2
    bare = replace(BARE, per_pass=given.per_pass)
    entries = (bare, *(entry for entry in PEERS if given.only is None or entry.module in given.only))
    told = measure(entries, given.count, given.passes, given.cache, given.real)
    said = verdicts(told, entries)
    told["verdicts"], told["judged"] = dict(said), given.count >= TARGETS_FROM
    print(json.dumps(told, ensure_ascii=False, indent=1))
    print(table(told, entries), file=sys.stderr)
    for what, held in said:
        print(f"{'met   ' if held else 'MISSED'} {what}", file=sys.stderr)
    if not told["judged"]:
        print(f"the targets speak of {TARGETS_FROM} passages: none is held against this run", file=sys.stderr)
        return 0
    return 0 if all(held for _, held in said) else 1


if __name__ == "__main__":
    sys.exit(main())
