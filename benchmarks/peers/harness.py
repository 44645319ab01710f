"""What every contender is: something that is built in a folder, opened from it, and asked.

    python -m benchmarks.peers.NAME build|reopen|serve MATERIAL FOLDER [tuned]

As its guide has a user build it or, where a module knows that form, tuned by hand.
``build`` and ``reopen`` print one JSON line. ``serve`` does as ``reopen``, then answers each line ``START COUNT`` on
its input with the cost of those queries: the CPU time of the whole process, all its threads and children included. The
first question is for opening; whoever asks it again may find it remembered.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np

TOP_K = 10


@dataclass(frozen=True, slots=True)
class Passage:
    id: str
    text: str
    words: str  # the text with blanks between jieba's words


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    vector: Any  # float32, unit length


@dataclass(frozen=True, slots=True)
class Material:
    """What everybody is given: the same passages, the same vectors, the same questions."""

    folder: Path

    def passages(self) -> list[Passage]:
        with (self.folder / "passages.jsonl").open(encoding="utf-8") as lines:
            return [Passage(**json.loads(line)) for line in lines]

    def vectors(self) -> Any:
        return np.load(self.folder / "vectors.npy")

    def questions(self) -> list[Question]:
        texts = json.loads((self.folder / "questions.json").read_text(encoding="utf-8"))
        return [
            Question(text, vector) for text, vector in zip(texts, np.load(self.folder / "questions.npy"), strict=True)
        ]


Answer: TypeAlias = Callable[[Sequence[Question]], list[list[str]]]  # the texts found, per question, best first


@dataclass(frozen=True, slots=True)
class Contender:
    build: Callable[[Material, Path], None]
    open: Callable[[Material, Path], Answer]
    modules: tuple[str, ...]  # imported before the second clock of `reopen` starts
    persists: bool = True


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    made = work()
    return made, {"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}


def megabytes() -> int:
    """The most memory that this process has held. (getrusage would tell of the process that started it, too.)"""
    for line in Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


def build(contender: Contender, material: Material, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    _, cost = timed(lambda: contender.build(material, folder))
    (folder / "built").touch()  # a build that was cut off does not look like one
    return {**cost, "megabytes": megabytes()}


def reopen(contender: Contender, material: Material, folder: Path) -> tuple[Answer, dict[str, Any]]:
    """Opens and answers a first question. From the start of this process, and from when the libraries were loaded."""
    question = material.questions()[0]
    for module in contender.modules:
        __import__(module)
    imported = cpu_seconds()
    answer, opening = timed(lambda: contender.open(material, folder))
    found, first = timed(lambda: answer([question]))
    after = opening["cpu"] + first["cpu"]
    return answer, {
        "cpu": imported + after,
        "cpu_without_imports": after,
        "wall_without_imports": opening["wall"] + first["wall"],
        "found": len(found[0]),
        "megabytes": megabytes(),
    }


def serve(contender: Contender, material: Material, folder: Path, replies: TextIO) -> None:
    answer, opened = reopen(contender, material, folder)
    tell(replies, opened)
    questions = material.questions()
    for line in sys.stdin:
        start, count = map(int, line.split())
        asked = questions[start : start + count]
        found, cost = timed(lambda asked=asked: answer(asked))
        tell(replies, {**cost, "questions": len(asked), "found": sum(map(len, found)) / len(asked)})


def tell(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def main(guide: Contender, tuned: Contender | None = None) -> None:
    task, material, folder = sys.argv[1], Material(Path(sys.argv[2])), Path(sys.argv[3])
    contender = tuned if sys.argv[4:] == ["tuned"] else guide
    if contender is None:
        raise SystemExit(f"{folder.name} has no tuned form")
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not an answer
    if task == "build":
        tell(replies, build(contender, material, folder))
    elif task == "reopen":
        tell(replies, reopen(contender, material, folder)[1])
    else:
        serve(contender, material, folder, replies)
