"""The processes that are killed. Each says what it begins and, once a call has returned, that it is done.

``python -m tests.torture.writer`` loads everything once and then forks a writer for every line of its input, a JSON
list of folder, seed, mixture and fault. Lines of output are shorter than what a pipe takes whole and go straight into
it, so that the reader has all that were written before the kill; "ended" comes after the last one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import traceback
from itertools import count
from random import Random
from typing import NoReturn

from qianxun.engine.engine import Engine
from qianxun.text.chinese import Analyser
from tests.torture.planted import Fault, tear
from tests.torture.script import BASE, MIXTURE, MODELS, REBUILDING, Kind, Operation, documents_of, draw, models

HANDS = ("甲", "乙")  # two writers at the same time, each with documents of its own


async def write(folder: str, seed: int, mixture: dict[Kind, int], fault: Fault, operations: int | None = None) -> None:
    """Each hand does so many operations, or goes on until the end."""
    async with Engine.open(folder, models=models()) as engine:
        if fault == "torn":
            tear(engine.records, seed)
        known = [base.id for base in await engine.knowledge_bases()]
        kb = known[0] if known else (await engine.create_knowledge_base(BASE, model=MODELS[0])).id
        await asyncio.gather(*(_hand(engine, kb, seed, hand, mixture, fault, operations) for hand in HANDS))


async def _hand(
    engine: Engine, kb: int, seed: int, hand: str, mixture: dict[Kind, int], fault: Fault, operations: int | None
) -> None:
    chance = Random(f"{seed}{hand}")
    for number in count() if operations is None else range(operations):
        version = (seed * 10_000 + number) * len(HANDS) + HANDS.index(hand)
        operation = draw(chance, hand, version, mixture)
        _say(operation.line("begin"))
        if fault == "early":
            _say(operation.line("done"))
        await _perform(engine, kb, operation)
        if fault != "early":
            _say(operation.line("done"))


async def _perform(engine: Engine, kb: int, operation: Operation) -> None:
    match operation.kind:
        case "put":
            await engine.add_documents(kb, documents_of(operation))
        case "accept":
            await engine.add_documents(kb, documents_of(operation), wait=False)
        case "delete":
            await engine.delete_document(kb, operation.doc_ids[0])
        case "drain":
            await engine.drain(kb)
        case "rebuild":
            await engine.admin.rebuild(kb, model=operation.model)


def _say(line: bytes) -> None:
    os.write(sys.stdout.fileno(), line)


def main() -> None:
    logging.getLogger("qianxun").setLevel(logging.ERROR)
    Analyser().index_words("先把词典读进来")
    while line := sys.stdin.readline():
        folder, seed, mixture, fault = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _say(json.dumps(["born", os.getpid()]).encode() + b"\n")  # before anything else that it says
            _live(folder, seed, {"mixture": MIXTURE, "rebuilding": REBUILDING}[mixture], fault)
        _, status = os.waitpid(pid, 0)
        _say(json.dumps(["ended", os.waitstatus_to_exitcode(status)]).encode() + b"\n")


def _live(folder: str, seed: int, mixture: dict[Kind, int], fault: Fault) -> NoReturn:
    try:
        asyncio.run(write(folder, seed, mixture, fault))
    except BaseException:  # the outer door of a forked child: it must never return into its parent's loop
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    main()
