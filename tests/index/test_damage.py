"""A damaged index says so, or answers right; it never answers wrong and never takes the process with it."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.core.errors import IndexUnusable
from qianxun.core.ports import Index
from qianxun.core.types import Eq, IndexBatch, Not, Range, Terms
from qianxun.testing.index_material import STAMP, unit
from tests.index import writer

BATCHES = 16


async def make(folder: Path) -> list[object]:
    backend = writer.backend(folder)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    for number in range(1, BATCHES + 1):
        await index.apply(writer.batch(number))
    await index.apply(IndexBatch(BATCHES + 1, removed=(3,)))
    answers = await ask(index)
    await index.close()
    return answers


async def ask(index: Index) -> list[object]:
    late = Range("metadata.批", ge=12)
    held = await index.inventory()
    return [
        await index.nearest(unit(5), 100),
        await index.nearest(unit(141), 3, Not(Eq("user_id", "用户1"))),
        await index.nearest(unit(140), 5, late, "question"),
        await index.match(Terms(("共", "批14"), ("共",)), 100),
        await index.match(Terms(("共",)), 5, late, "all"),
        (held.keywords.tolist(), held.vectors["content"].tolist(), held.vectors["question"].tolist()),
        await index.watermark(),
    ]


async def ask_again(folder: Path) -> list[object]:
    index = await writer.backend(folder).open(1, STAMP)
    try:
        return await ask(index)
    finally:
        await index.close()


def damages(path: Path, chance: random.Random) -> Iterator[bytes | None]:
    """A few flipped bits (more in the table of contents, which has no checksum of its own), two cuts, no file."""
    data = path.read_bytes()
    for _ in range(40 if path.name == "meta.json" else 4 if data else 0):
        at = chance.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
    yield data[: len(data) // 2]
    yield data[:-1]
    yield None


def test_damage_is_told_or_harmless(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    right = asyncio.run(make(sound))
    files = sorted(path.relative_to(sound) for path in sound.rglob("*") if path.is_file())
    chance, told = random.Random(21), set()
    for file in files:
        for data in damages(sound / file, chance):
            damaged = tmp_path / "damaged"
            shutil.copytree(sound, damaged)
            (damaged / file).unlink() if data is None else (damaged / file).write_bytes(data)
            try:
                answers = asyncio.run(ask_again(damaged))
                assert answers == right, f"wrong answers after damage to {file}"
            except IndexUnusable:
                told.add(file.suffix or file.name.partition("-")[0])
            shutil.rmtree(damaged)
    assert told >= {
        "CURRENT", "state", "rows", "halves", "facts", "values", "codes", "centers", "deaths",
        ".json", ".idx", ".term", ".fast", ".fieldnorm",
    }  # fmt: skip


def test_a_table_of_contents_that_still_reads_well_is_told(tmp_path: Path) -> None:
    """One document more in a segment would be no error to tantivy; it would only change every score."""
    asyncio.run(make(tmp_path))
    [path] = tmp_path.rglob("meta.json")
    text = path.read_text()
    path.write_text(re.sub(r'"max_doc": ?(\d+)', lambda found: f'"max_doc": {int(found[1]) + 1}', text, count=1))
    assert path.read_text() != text
    with pytest.raises(IndexUnusable):
        asyncio.run(ask_again(tmp_path))


def test_a_check_reads_everything(tmp_path: Path) -> None:
    async def check() -> None:
        index = await writer.backend(tmp_path).open(1, STAMP)
        await index.check()  # type: ignore[attr-defined]

    asyncio.run(make(tmp_path))
    asyncio.run(check())
    for name in ("halves", "values", "codes-*", "centers-*", "facts"):
        [path] = tmp_path.rglob(f"columns-*/{name}")
        data = path.read_bytes()
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        with pytest.raises(IndexUnusable):
            asyncio.run(check())
        path.write_bytes(data)
    asyncio.run(check())
