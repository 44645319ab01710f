"""A fact that many documents have is stored once, with a few bytes for each of them; filters notice nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from qianxun.core.ports import Index
from qianxun.core.types import And, Attributes, Eq, Filter, In, IndexBatch, IndexEntry, IndexStamp, Not, Range, matches
from qianxun.index.embedded import facts, store
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.extents import STATE, sealed, unsealed
from qianxun.index.embedded.facts import FACT, REPEAT
from qianxun.index.embedded.index import EmbeddedIndex

STAMP = IndexStamp(model="", dimension=0, analysis="1")
DOCUMENTS = 400
FILTERS: tuple[Filter, ...] = (
    Eq("user_id", "用户1"),
    In("metadata.年", (2021, 2022)),
    Range("metadata.年", ge=2022),
    And((Eq("doc_id", "文7"), Eq("project_id", "项目7"))),
    Not(Eq("project_id", "项目3")),
)


def attributes(key: int) -> Attributes:
    return Attributes(f"文{key}", f"用户{key % 2}", f"项目{key % 10}", metadata={"年": 2020 + key % 4})


async def add(index: Index, keys: range, removed: tuple[int, ...] = ()) -> None:
    entries = tuple(IndexEntry(key, key, "文字", "", None, attributes(key)) for key in keys)
    await index.apply(IndexBatch((await index.watermark()) + 1, removed, entries))


async def built(folder: Path) -> EmbeddedIndex:
    backend = create(folder, dead_least=100)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    return cast(EmbeddedIndex, index)


async def reopened(folder: Path, index: EmbeddedIndex) -> EmbeddedIndex:
    await index.close()
    return cast(EmbeddedIndex, await create(folder, dead_least=100).open(1, STAMP))


def require_right_filters(index: EmbeddedIndex, keys: list[int]) -> None:
    view = index._open_view()
    for where in FILTERS:
        allowed = view.store.allowed(view.rows, where, "keywords")
        assert sorted(view.rows.columns["key"][allowed]) == [key for key in keys if matches(where, attributes(key))]


def write_format(folder: Path, number: int) -> None:
    [place] = folder.rglob(STATE)
    place.write_bytes(sealed(json.dumps(json.loads(unsealed(place)) | {"format": number})))


def size_of(folder: Path, name: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(name))


def test_what_many_have_is_stored_once(tmp_path: Path) -> None:
    async def story() -> None:
        index = await built(tmp_path)
        await add(index, range(DOCUMENTS))
        distinct = DOCUMENTS + 2 + 10 + 4  # ids, users, projects, years
        assert size_of(tmp_path, store.FACTS) <= (distinct + 4) * FACT.itemsize  # and what all of them have
        assert size_of(tmp_path, store.REPEATS) >= (4 * DOCUMENTS - distinct) * REPEAT.itemsize
        require_right_filters(index, [*range(DOCUMENTS)])
        await index.close()

    asyncio.run(story())


def test_filters_are_the_same_after_reopening_adding_and_compacting(tmp_path: Path) -> None:
    async def story() -> None:
        index = await built(tmp_path)
        await add(index, range(DOCUMENTS))
        index = await reopened(tmp_path, index)
        await add(index, range(DOCUMENTS, DOCUMENTS + 50))  # by a writer that knows nothing of what is stored
        require_right_filters(index, [*range(DOCUMENTS + 50)])
        index = await reopened(tmp_path, index)
        require_right_filters(index, [*range(DOCUMENTS + 50)])
        before = size_of(tmp_path, store.FACTS)
        await add(index, range(DOCUMENTS + 50, DOCUMENTS + 60), removed=tuple(range(300)))
        assert size_of(tmp_path, store.FACTS) < before  # it was compacted
        left = [*range(300, DOCUMENTS + 60)]
        require_right_filters(index, left)
        index = await reopened(tmp_path, index)
        require_right_filters(index, left)
        await index.close()

    asyncio.run(story())


def test_a_failed_write_leaves_no_reference_to_what_it_had_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        index = await built(tmp_path)
        await add(index, range(0, 4))
        with monkeypatch.context() as broken:
            broken.setattr(store, "sync", lambda paths: (_ for _ in ()).throw(OSError(28, "no space")))
            with pytest.raises(Exception, match="no space"):
                await add(index, range(4, 20))
        index = await reopened(tmp_path, index)
        await add(index, range(4, DOCUMENTS))
        require_right_filters(index, [*range(DOCUMENTS)])
        index = await reopened(tmp_path, index)
        require_right_filters(index, [*range(DOCUMENTS)])
        await index.close()

    asyncio.run(story())


def test_an_index_of_an_earlier_version_is_read_and_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        with monkeypatch.context() as before:
            for module in (facts, store):
                before.setattr(module, "parted", lambda table, once, numbers: (table, np.zeros(0, REPEAT)))
            index = await built(tmp_path)
            await add(index, range(DOCUMENTS))
            await index.close()
        assert size_of(tmp_path, store.FACTS) >= 4 * DOCUMENTS * FACT.itemsize
        write_format(tmp_path, 6)
        index = cast(EmbeddedIndex, await create(tmp_path, dead_least=100).open(1, STAMP))
        require_right_filters(index, [*range(DOCUMENTS)])
        await add(index, range(DOCUMENTS, DOCUMENTS + 50))
        index = await reopened(tmp_path, index)
        require_right_filters(index, [*range(DOCUMENTS + 50)])
        await index.close()

    asyncio.run(story())
