"""Processes that apply batches until they are killed, by others or by themselves at a chosen step inside the index.

``python writer.py`` loads everything once and then forks a writer for every line of its input, a JSON list of folder,
batches and where to die. A writer prints its process and the number of every batch that was acknowledged; once it has
ended, "ended" and its code are printed. Where to die is ``never``, a number or a function of the index
and a number (``save_state:2``). A bare number counts all calls that code of the index makes, Python's and C's alike:
every system call, commit and rename lies between two of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import qianxun.index
from qianxun.core.ports import IndexBackend
from qianxun.core.types import Attributes, IndexBatch, IndexEntry
from qianxun.index.embedded.backend import create
from qianxun.testing.index_material import STAMP, unit

DOCUMENTS = 7
INDEX_CODE = str(Path(qianxun.index.__path__[0]))


def backend(folder: Path) -> IndexBackend:
    """Small limits, so that codes and compaction come often."""
    return create(folder, exact_limit=10, dead_share=0.3, dead_least=20)


def batch(number: int) -> IndexBatch:
    """Replaces one of a few documents by a new version: four chunks and a question."""
    attributes = Attributes(doc_id=f"文档{number % DOCUMENTS}", user_id=f"用户{number % 3}", metadata={"批": number})
    chunks = [
        IndexEntry(10 * number + at, number % DOCUMENTS, f"共 批{number}", "共", unit(10 * number + at), attributes)
        for at in range(4)
    ]
    question = IndexEntry(10 * number, number % DOCUMENTS, "问", "", unit(10 * number), attributes, field="question")
    return IndexBatch(number, (number % DOCUMENTS,), (*chunks, question))


def living(watermark: int) -> list[int]:
    """The batches whose version of a document is the latest one."""
    return list(range(max(1, watermark - DOCUMENTS + 1), watermark + 1))


def die_at(place: str) -> None:
    """Kills this process with the n-th call made by, or to, the index's code, in whatever thread."""
    name, _, number = place.rpartition(":")
    steps = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal steps
        if event not in ("call", "c_call", "c_return") or not frame.f_code.co_filename.startswith(INDEX_CODE):
            return
        if not name or (event == "call" and frame.f_code.co_name == name):
            steps += 1
            if steps == int(number):
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)


async def write(folder: Path, batches: int) -> None:
    index = await backend(folder).open(1, STAMP)
    start = await index.watermark()
    for number in range(start + 1, start + 1 + batches):
        await index.apply(batch(number))
        _say(f"{number}")
    await index.close()


def _say(line: str) -> None:
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


def main() -> None:
    while line := sys.stdin.readline():
        folder, batches, place = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _live(Path(folder), batches, place)
        _, status = os.waitpid(pid, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


def _live(folder: Path, batches: int, place: str) -> NoReturn:
    _say(f"{os.getpid()}")
    try:
        if place != "never":
            die_at(place)
        asyncio.run(write(folder, batches))
    except BaseException:  # the outer door of a forked child: it must never return into its parent's loop
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
