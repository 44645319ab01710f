"""A large index opens with the lists that were saved, finds with them what it found before, and does without them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.errors import IndexUnusable
from qianxun.core.ports import Index
from qianxun.core.types import IndexBatch
from qianxun.index.embedded import codes, saved_lists, store
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.extents import Extent
from tests.index.test_many_lists import FEW, ROWS, WIDE, _lists_as_of_a_large_base, clustered, entry, story

__all__ = ["_lists_as_of_a_large_base"]  # a fixture

VECTORS = clustered(ROWS + 2 * FEW)


async def answers(index: Index) -> list[list[int]]:
    return [(await index.nearest(asked, 20)).keys.tolist() for asked in clustered(20, seed=9)]


def opened(folder: Path, batch: IndexBatch | None = None) -> list[list[int]]:
    """What is found after opening, and after a batch where there is one."""

    async def work() -> list[list[int]]:
        index = await create(folder, exact_limit=100).open(1, WIDE)
        if batch is not None:
            await index.apply(batch)
        found = await answers(index)
        await index.close()
        return found

    return asyncio.run(work())


def test_saved_lists_are_used_and_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_lists, "LEAST_BYTES", 0)
    right: list[list[int]] = []

    async def first(index: Index) -> None:
        right.extend(await answers(index))

    story(tmp_path, VECTORS[:ROWS], first)
    sorted_rows: list[int] = []
    make = codes._part

    def counted(centers: codes.Centers, given: bytes, start: int) -> codes.CodePart:
        part = make(centers, given, start)
        sorted_rows.append(part.rows)
        return part

    monkeypatch.setattr(codes, "_part", counted)
    assert opened(tmp_path) == right
    assert sorted_rows == []  # saved when the index was closed
    next(tmp_path.rglob(f"{saved_lists.LISTS}*")).unlink()
    assert opened(tmp_path) == right
    assert sorted_rows == [ROWS]
    assert opened(tmp_path) == right
    assert sorted_rows == [ROWS]  # not again

    more = tuple(entry(key, VECTORS[key]) for key in range(ROWS, ROWS + FEW))
    grown = opened(tmp_path, IndexBatch(ROWS, (), more))
    assert opened(tmp_path) == grown
    assert sorted_rows == [ROWS, FEW, FEW]  # what came since, alone

    (saved,) = tmp_path.rglob(f"{saved_lists.LISTS}*")
    data = saved.read_bytes()
    for damaged in (data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :], data[:-3], b""):
        saved.write_bytes(damaged)
        assert opened(tmp_path) == grown
        assert sorted_rows[-1] == ROWS + FEW  # all of them
        assert saved.read_bytes() != damaged  # and saved anew


def test_codes_that_are_all_in_saved_lists_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_lists, "LEAST_BYTES", 0)
    right: list[list[int]] = []

    async def first(index: Index) -> None:
        right.extend(await answers(index))

    story(tmp_path, VECTORS[:ROWS], first)
    names: list[str] = []
    read = store.read

    def noted(path: Path, extent: Extent) -> bytes:
        names.append(path.name)
        return read(path, extent)

    monkeypatch.setattr(store, "read", noted)
    assert opened(tmp_path) == right
    assert f"{store.CENTERS}{ROWS}" in names
    assert f"{store.CODES}{ROWS}" not in names
    (place,) = tmp_path.rglob(f"{store.CODES}{ROWS}")
    place.write_bytes(b"?" + place.read_bytes()[1:])

    async def verify() -> None:
        index = await create(tmp_path, exact_limit=100).open(1, WIDE)
        with pytest.raises(IndexUnusable, match="校验和"):
            await index.check()
        await index.close()

    asyncio.run(verify())
