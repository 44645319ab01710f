"""Vectors are mapped farther than they reach, so that a write need not map the file anew."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.ports import Index
from qianxun.core.types import Attributes, IndexBatch, IndexEntry, IndexStamp
from qianxun.index.embedded import store
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.index.embedded.precision import SINGLE

STAMP = IndexStamp(model="测试模型", dimension=64, analysis="1")
ROWS = np.random.default_rng(3).normal(size=(60, 64)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


async def add(index: Index, first: int, end: int) -> None:
    entries = (IndexEntry(key, key, "", "", ROWS[key], Attributes(str(key))) for key in range(first, end))
    await index.apply(IndexBatch(end, (), tuple(entries)))


async def nearest_keys(index: Index, end: int) -> list[int]:
    return [int((await index.nearest(ROWS[key], 1)).keys[0]) for key in range(end)]


def test_rows_that_are_added_are_found_in_the_mapping_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ROOM_ROWS", 30)

    async def story() -> None:
        index = await create(tmp_path).build(1, STAMP)
        assert isinstance(index, EmbeddedIndex)
        await add(index, 0, 20)
        first = index._view.store._room
        assert len(first) == 50
        await add(index, 20, 40)
        assert index._view.store._room is first
        await index.apply(IndexBatch(41, (7,), ()))
        assert index._view.store._room is first
        await add(index, 40, 60)  # more than there is room for
        assert index._view.store._room is not first
        assert await nearest_keys(index, 60) == [key if key != 7 else _second(7) for key in range(60)]
        await index.close()

    asyncio.run(story())
    [file] = tmp_path.rglob(SINGLE.file)
    assert file.stat().st_size == 60 * 64 * 4  # nothing is left of the room


def _second(key: int) -> int:
    return int(np.argsort(-(ROWS @ ROWS[key]), kind="stable")[1])


def test_where_a_file_may_not_be_long_there_is_room_for_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_be_long = os.truncate

    def truncate(path: Path, size: int) -> None:
        if size > path.stat().st_size:
            raise OSError(27, "File too large")
        may_be_long(path, size)

    monkeypatch.setattr(os, "truncate", truncate)

    async def story() -> None:
        index = await create(tmp_path).build(1, STAMP)
        await add(index, 0, 20)
        await add(index, 20, 40)
        assert await nearest_keys(index, 40) == list(range(40))
        await index.close()

    asyncio.run(story())
