"""A disk that forgets: one flipped bit in the database, or in its write-ahead log, at a time.

Whatever it hits, no answer has another text than was written, and no acknowledged document is gone without a word.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sqlalchemy.exc import SQLAlchemyError

from qianxun.core.errors import QianxunError
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding

DOCUMENTS = 40
MODEL = "fake-64"


@dataclass
class Rot:
    """How the rounds ended: damage that nothing read, that was said, and promises that were broken."""

    unseen: int = 0
    told: int = 0
    broken: list[str] = field(default_factory=list)


def content(number: int) -> str:
    return f"编号 zq{number}k。" + f"第{number}条：参保人员住院发生的费用，按照规定的比例由统筹基金支付。" * 8


async def write(folder: Path, left: Path) -> None:
    """Leaves two data folders: one that was closed, and what a crash would have left, with its write-ahead log."""
    async with Engine.open(folder, models={MODEL: HashEmbedding()}, background=False) as engine:
        kb = (await engine.create_knowledge_base("医保", model=MODEL)).id
        for number in range(DOCUMENTS):
            await engine.add_documents(kb, [Document(f"文档{number}", content(number), name=f"文档{number}")])
        shutil.copytree(folder, left)


async def examine(folder: Path) -> tuple[list[str], bool]:
    """Broken promises, and whether anything was said: by opening, by an answer, by `verify`."""
    broken: list[str] = []
    try:
        async with Engine.open(folder, models={MODEL: HashEmbedding()}, background=False) as engine:
            was_told = engine.records.loss is not None
            known = await engine.knowledge_bases()
            if not known:
                return ([] if was_told else ["the base is gone without a word"]), was_told
            kb, seen = known[0].id, set[int]()
            for number in range(DOCUMENTS):
                recall = await engine.retrieve(kb, f"zq{number}k", mode="fulltext", top_k=5)
                was_told = was_told or bool(recall.degraded)
                seen |= {number for each in recall.found if content(number).startswith(each.chunk.text[:10])}
                broken += [
                    f"another text was given out: {each.chunk.text[:60]!r}"
                    for each in recall.found
                    if not any(each.chunk.text in content(other) for other in range(DOCUMENTS))
                ]
            verdict = await engine.admin.verify(kb)
            was_told = was_told or not verdict.is_clean
            if len(seen) < DOCUMENTS and not was_told:
                broken.append(f"{DOCUMENTS - len(seen)} documents are gone without a word")
            return broken, was_told
    except (QianxunError, SQLAlchemyError, OSError, ValueError):
        return broken, True


def places(data: bytearray, text: bytes) -> list[int]:
    """Where the bytes of a text are."""
    found = [match.start() for match in re.finditer(re.escape(text), data)]
    return [start + offset for start in found for offset in range(len(text))]


def rot(place: Path, rounds: int, seed: int, text: str = "") -> Rot:
    """Half of the rounds flip a bit in the database, half in its write-ahead log: anywhere, or where it has a text."""
    logging.getLogger("qianxun").setLevel(logging.CRITICAL)
    closed, crashed, damaged = place / "closed", place / "crashed", place / "damaged"
    asyncio.run(write(closed, crashed))
    chance, tally = Random(seed), Rot()
    for number in range(rounds):
        sound, name = (closed, "qianxun.db") if number % 2 else (crashed, "qianxun.db-wal")
        shutil.copytree(sound, damaged)
        data = bytearray((damaged / name).read_bytes())
        at = chance.choice(places(data, text.encode())) if text else chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        (damaged / name).write_bytes(data)
        broken, was_told = asyncio.run(examine(damaged))
        tally.broken += [f"{name}, byte {at}: {one}" for one in broken]
        tally.told += was_told
        tally.unseen += not was_told
        shutil.rmtree(damaged)
    return tally
