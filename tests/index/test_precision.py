"""Vectors are stored in half precision where that loses nothing, and their scores are those of single precision."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from qianxun.core.ports import Index
from qianxun.core.types import Attributes, Eq, IndexBatch, IndexEntry, IndexStamp, Ranking, Vectors
from qianxun.index.embedded import precision, products, store, vectors
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.extents import STATE, sealed, unsealed
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.index.embedded.precision import HALF, SINGLE, Precision
from qianxun.index.embedded.reader import create_reader

NUMBERS = 64
STAMP = IndexStamp(model="测试模型", dimension=NUMBERS, analysis="1")
ROWS = 300


def unrounded(count: int, numbers: int = NUMBERS, seed: int = 5) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=(count, numbers))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def rounded(count: int, numbers: int = NUMBERS, seed: int = 5) -> Vectors:
    return unrounded(count, numbers, seed).astype(np.float16).astype(np.float32)


async def add(index: Index, rows: Vectors, first: int = 0, removed: tuple[int, ...] = ()) -> None:
    owners = [Attributes(doc_id=str(part), user_id=f"用户{part}") for part in range(2)]
    entries = (IndexEntry(key, key, "", "", row, owners[key % 2]) for key, row in enumerate(rows, first))
    await index.apply(IndexBatch(first + len(rows) + len(removed), removed, tuple(entries)))


async def built(folder: Path, exact_limit: int = 1_000) -> EmbeddedIndex:
    backend = create(folder, exact_limit=exact_limit, dead_least=100)
    index = await backend.build(1, STAMP)
    await backend.switch(1, index)
    return cast(EmbeddedIndex, index)


async def answers(index: Index) -> list[Ranking]:
    asked = unrounded(12, seed=9)
    whole = [await index.nearest(vector, 20) for vector in asked]
    return whole + [await index.nearest(vector, 20, Eq("user_id", "用户1")) for vector in asked]


def precision_of(index: EmbeddedIndex) -> Precision | None:
    return index._view.store.precision


@pytest.mark.parametrize("numbers", [16, 64, 128, 512, 768])
def test_products_of_half_precision_are_those_of_the_widened_rows(numbers: int) -> None:
    wide, vector = rounded(2_500, numbers), unrounded(1, numbers, seed=8)[0]
    half = wide.astype(np.float16)
    truth = wide.astype(np.float64) @ vector.astype(np.float64)
    slots = np.random.default_rng(1).permutation(2_500)[:1_700]
    assert np.abs(products.products(half, vector) - truth).max() < 1e-6
    assert np.abs(products.products_of(half, slots, vector) - truth[slots]).max() < 1e-6
    few = products.products_of(half, slots[:3], vector)
    assert few.tolist() == products.products_of(half, slots, vector)[:3].tolist()  # whatever else is scored
    assert few.tolist() == products.products(half, vector)[slots[:3]].tolist()
    assert products.products_of(half, slots[:0], vector).tolist() == []


def test_each_thread_has_a_scanner_of_its_own() -> None:
    half, vector = rounded(500, 128).astype(np.float16), unrounded(1, 128)[0]
    expected = products.products(half, vector).tolist()

    async def story() -> None:
        found = await asyncio.gather(*(asyncio.to_thread(products.products, half, vector) for _ in range(40)))
        assert all(one.tolist() == expected for one in found)

    asyncio.run(story())


def test_any_flipped_bit_changes_the_sum_of_a_row() -> None:
    row = rounded(1, 16).astype(np.float16)
    right = precision.row_sums(row)
    for bit in range(16 * 16):
        flipped = bytearray(row.tobytes())
        flipped[bit // 8] ^= 1 << bit % 8
        assert precision.row_sums(np.frombuffer(flipped, np.float16).reshape(1, -1)) != right


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (rounded(3), HALF), (unrounded(3), SINGLE), (rounded(3, 24), SINGLE), (np.empty((0, 0), np.float32), SINGLE),
        (np.full((1, 16), 70_000, np.float32), SINGLE), (np.full((1, 16), 2.0**-24, np.float32), HALF),
        (np.full((1, 16), 2.0**-26, np.float32), SINGLE), (np.concatenate([rounded(1_500), unrounded(1)]), SINGLE),
    ],
)  # fmt: skip
def test_half_precision_is_for_what_it_does_not_change(rows: Vectors, expected: Precision) -> None:
    assert precision.narrowest(rows) is expected


def test_rounded_vectors_take_half_of_the_space(tmp_path: Path) -> None:
    async def story() -> None:
        index = await built(tmp_path)
        await add(index, rounded(ROWS))
        await index.close()

    asyncio.run(story())
    [file] = tmp_path.rglob(HALF.file)
    assert file.stat().st_size == ROWS * NUMBERS * 2
    assert not has_file(tmp_path, SINGLE)


@pytest.mark.parametrize("exact_limit", [10, 1_000])
def test_a_vector_that_half_precision_would_change_is_stored_as_it_is(tmp_path: Path, exact_limit: int) -> None:
    """The rows that are there are written anew; nothing is lost, whoever searches meanwhile or afterwards."""

    async def story() -> None:
        index = await built(tmp_path, exact_limit)
        await add(index, rounded(ROWS))
        before, view = await answers(index), index._view
        await add(index, unrounded(1, seed=77), ROWS)
        assert precision_of(index) is SINGLE
        old = vectors.nearest(view.store.vector_rows(view.rows), unrounded(1, seed=9)[0], 20, view.rows.live)
        assert old == before[0]  # a search that began before
        [own] = (await index.nearest(unrounded(1, seed=77)[0], 1)).keys.tolist()
        assert own == ROWS
        await index.apply(IndexBatch(ROWS + 9, (ROWS,), ()))
        assert await answers(index) == before
        await index.close()
        again = await create(tmp_path, exact_limit=exact_limit).open(1, STAMP)
        assert await answers(again) == before
        await again.close()

    asyncio.run(story())


async def of_an_earlier_version(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: Vectors, exact_limit: int) -> None:
    """All vectors in single precision, under the number of the layout before."""
    with monkeypatch.context() as before:
        before.setattr(store, "narrowest", lambda rows: SINGLE)
        before.setattr(precision, "can_be_half", lambda dimension: False)
        before.setattr(store, "can_be_half", lambda dimension: False)
        index = await built(folder, exact_limit)
        await add(index, rows)
        await index.close()
    _write_format(folder, 5)


def _write_format(folder: Path, number: int) -> None:
    [place] = folder.rglob(STATE)
    place.write_bytes(sealed(json.dumps(json.loads(unsealed(place)) | {"format": number})))


def has_file(folder: Path, kind: Precision) -> bool:
    return bool(list(folder.rglob(kind.file)))


@pytest.mark.parametrize("exact_limit", [10, 1_000])
def test_an_index_of_an_earlier_version_opens_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact_limit: int
) -> None:
    async def story() -> None:
        await of_an_earlier_version(tmp_path / "old", monkeypatch, rounded(ROWS), exact_limit)
        old = cast(EmbeddedIndex, await create(tmp_path / "old", exact_limit=exact_limit).open(1, STAMP))
        new = await built(tmp_path / "new", exact_limit)
        await add(new, rounded(ROWS))
        assert (precision_of(old), precision_of(new)) == (SINGLE, HALF)
        assert await answers(old) == await answers(new)
        await add(old, rounded(5, seed=6), ROWS)
        await add(new, rounded(5, seed=6), ROWS)
        assert precision_of(old) is SINGLE
        assert await answers(old) == await answers(new)
        for index in (old, new):
            await index.check()
            await index.close()

    asyncio.run(story())


def test_an_index_of_an_earlier_version_is_written_anew_with_its_next_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await of_an_earlier_version(tmp_path, monkeypatch, rounded(ROWS), 10)
        index = cast(EmbeddedIndex, await create(tmp_path, exact_limit=10).open(1, STAMP))
        reader = cast(EmbeddedIndex, await create_reader(tmp_path, exact_limit=10).open(1, STAMP))
        before, view = await answers(index), index._view
        assert await answers(reader) == before
        await add(index, rounded(11, seed=6), ROWS)
        assert precision_of(index) is HALF
        assert not has_file(tmp_path, SINGLE)
        assert view.store.precision is SINGLE  # a search that began before has all that it needs
        old = vectors.nearest(view.store.vector_rows(view.rows), unrounded(1, seed=9)[0], 20, view.rows.live)
        assert old == before[0]
        assert await answers(reader) == await answers(index)
        assert precision_of(reader) is HALF
        await index.apply(IndexBatch(ROWS + 99, tuple(range(ROWS, ROWS + 11)), ()))
        assert await answers(index) == before
        await index.check()
        for one in (reader, index):
            await one.close()

    asyncio.run(story())


def test_rows_that_are_not_exact_or_not_sound_stay_in_single_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(name: str, rows: Vectors, is_damaged: bool) -> None:
        folder = tmp_path / name
        await of_an_earlier_version(folder, monkeypatch, rows, 10)
        if is_damaged:
            [place] = folder.rglob(SINGLE.file)
            data = bytearray(place.read_bytes())
            data[2] ^= 0x20  # still a number of half precision, and not the one that was written
            place.write_bytes(data)
        index = cast(EmbeddedIndex, await create(folder, exact_limit=10).open(1, STAMP))
        assert not index._view.store.is_narrowable()
        await index.close()

    asyncio.run(story("unrounded", np.concatenate([rounded(ROWS), unrounded(1)]), False))
    asyncio.run(story("damaged", rounded(ROWS), True))


def test_compaction_leaves_out_what_kept_the_rest_in_single_precision(tmp_path: Path) -> None:
    async def story() -> None:
        index = await built(tmp_path)
        await add(index, np.concatenate([rounded(200), unrounded(100)]))
        assert precision_of(index) is SINGLE
        await index.apply(IndexBatch(999, tuple(range(200, 300)), ()))
        assert precision_of(index) is HALF
        fresh = await built(tmp_path / "fresh")
        await add(fresh, rounded(200))
        assert await answers(index) == await answers(fresh)
        await index.check()
        for one in (index, fresh):
            await one.close()

    asyncio.run(story())


def test_a_compacted_store_is_searched_when_it_has_its_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then, the old one is: without codes every row of a large base would be scored."""
    seen: list[bool] = []
    staged = store.Store.stage_codes

    async def story() -> None:
        index = await built(tmp_path, exact_limit=10)
        await add(index, rounded(ROWS))

        def stage(self: store.Store) -> store.StagedCodes:
            seen.append(self is not index._view.store and index._view.store.has_codes)
            return staged(self)

        monkeypatch.setattr(store.Store, "stage_codes", stage)
        await index.apply(IndexBatch(999, tuple(range(150)), ()))
        assert seen == [True]
        assert index._view.store.has_codes
        assert len(index._view.rows) == ROWS - 150
        await index.close()

    asyncio.run(story())
