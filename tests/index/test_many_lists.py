"""The finer lists of a large base, at a size that a test can build: the promises of a search hold over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.ports import Index
from qianxun.core.types import EVERYTHING, Attributes, Eq, Filter, IndexBatch, IndexEntry, IndexStamp, Vectors
from qianxun.index.embedded import codes
from qianxun.index.embedded.backend import create
from qianxun.testing.index_material import keys_of

WIDE = IndexStamp(model="测试模型", dimension=64, analysis="1")
ROWS = 6_000
FEW = 120  # more than wait for their codes
FILTERS: tuple[tuple[Filter, int], ...] = (
    (EVERYTHING, 1),
    (Eq("user_id", "用户1"), 2),
    (Eq("project_id", "项目7"), 10),
)


@pytest.fixture(autouse=True)
def _lists_as_of_a_large_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MANY_ROWS", ROWS // 2)
    monkeypatch.setattr(codes, "LEAST_ROWS", ROWS // 2)
    monkeypatch.setattr(codes, "PER_ROOT", 6)
    monkeypatch.setattr(codes, "PROBES", 120)
    monkeypatch.setattr(codes, "MANY_POOL", 300)


def clustered(count: int, seed: int = 4) -> Vectors:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 64)) + 1.2 * rng.normal(size=(40, 64))[rng.integers(0, 40, count)]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def entry(key: int, row: Vectors) -> IndexEntry:
    attributes = Attributes(doc_id=str(key), user_id=f"用户{key % 2}", project_id=f"项目{key % 10}")
    return IndexEntry(key, key, "", "", row, attributes)


def story(folder: Path, rows: Vectors, work: Callable[[Index], Awaitable[None]], first: int = ROWS) -> None:
    """The first rows in one batch, which their centres come from; the others a few at a time."""

    async def told() -> None:
        backend = create(folder, exact_limit=100)
        index = await backend.build(1, WIDE)
        await backend.switch(1, index)
        starts = [0, *range(first, len(rows), FEW)]
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            batch = tuple(entry(key, rows[key]) for key in range(start, end))
            await index.apply(IndexBatch(start + 1, (), batch))
        await work(index)
        await index.close()

    asyncio.run(told())


async def recall(index: Index, rows: Vectors, kept: np.ndarray, where: Filter, share: int) -> float:
    """Of the ten truly nearest of what is kept and passes."""
    passing = np.flatnonzero(kept & (np.arange(len(rows)) % share == (7 if share == 10 else share - 1)))
    found = 0
    for asked in clustered(40, seed=11):
        truth = passing[np.argsort(-(rows[passing] @ asked), kind="stable")[:10]]
        found += int(np.isin(truth, (await index.nearest(asked, 10, where)).keys).sum())
    return found / 400


def test_there_are_many_lists_and_they_find_what_is_nearest_filtered_or_not(tmp_path: Path) -> None:
    rows = clustered(ROWS)

    async def work(index: Index) -> None:
        assert _lists(tmp_path) > codes.LISTS
        for where, share in FILTERS:
            assert await recall(index, rows, np.ones(ROWS, dtype=bool), where, share) >= 0.95

    story(tmp_path, rows, work)


def test_a_fifth_deleted_and_a_fifth_replaced_is_never_found_and_hides_nothing(tmp_path: Path) -> None:
    rows, kept = clustered(ROWS), np.ones(ROWS, dtype=bool)
    rng = np.random.default_rng(3)
    deleted, replaced = np.split(rng.permutation(ROWS)[: 2 * ROWS // 5], 2)

    async def work(index: Index) -> None:
        await index.apply(IndexBatch(ROWS + 1, tuple(deleted.tolist()), ()))
        fresh = clustered(len(replaced), seed=21)
        await index.apply(IndexBatch(ROWS + 2, (), tuple(map(entry, replaced.tolist(), fresh))))
        kept[deleted], rows[replaced] = False, fresh
        for where, share in FILTERS:
            assert await recall(index, rows, kept, where, share) >= 0.95
        for asked in rows[deleted[:20]]:
            assert not np.isin((await index.nearest(asked, 200)).keys, deleted).any()

    story(tmp_path, rows, work)


def test_a_shorter_list_begins_a_longer_one_and_scores_are_exact(tmp_path: Path) -> None:
    rows = clustered(ROWS)

    async def work(index: Index) -> None:
        for asked in clustered(10, seed=12):
            for where, _ in FILTERS:
                longest = await index.nearest(asked, 200, where)
                for limit in (1, 10, 100):
                    assert keys_of(await index.nearest(asked, limit, where)) == keys_of(longest)[:limit]
                exact = (rows[longest.keys].astype(np.float64) @ asked.astype(np.float64)).round(6)
                assert longest.scores == pytest.approx(exact, abs=2e-6)

    story(tmp_path, rows, work)


def test_rows_that_came_late_are_found_as_if_all_were_put_together(tmp_path: Path) -> None:
    """In small batches the latest rows are in a part of their own; the same files opened again have one part."""
    rows = clustered(ROWS)

    async def answers(index: Index) -> list[list[int]]:
        return [keys_of(await index.nearest(asked, 50, where)) for asked in rows[::500] for where, _ in FILTERS]

    async def work(index: Index) -> None:
        parts = index._view.store._codes().parts  # type: ignore[attr-defined]
        assert len(parts) == 2
        before = await answers(index)
        await index.close()
        again = await create(tmp_path, exact_limit=100).open(1, WIDE)
        assert len(again._view.store._codes().parts) == 1  # type: ignore[attr-defined]
        assert await answers(again) == before
        await again.check()
        await again.close()

    story(tmp_path, rows, work, first=ROWS - 4 * FEW)


def test_an_index_with_the_few_lists_of_before_gets_finer_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clustered(ROWS)
    monkeypatch.setattr(codes, "MANY_ROWS", 10 * ROWS)

    async def work(index: Index) -> None:
        assert _lists(tmp_path) <= codes.LISTS
        before = keys_of(await index.nearest(rows[5], 10))
        monkeypatch.setattr(codes, "MANY_ROWS", ROWS // 2)
        more = clustered(300, seed=8)
        await index.apply(IndexBatch(ROWS + 1, (), tuple(entry(ROWS + at, row) for at, row in enumerate(more))))
        assert _lists(tmp_path) > codes.LISTS
        assert len(set(keys_of(await index.nearest(rows[5], 10))) & set(before)) >= 9

    story(tmp_path, rows, work)


def _lists(folder: Path) -> int:
    (file,) = folder.rglob("centers-*")
    return file.stat().st_size // (64 * 4)


@pytest.mark.parametrize(
    ("lists", "passing", "probes"),
    [
        (2_997, 1_000_000, 400),  # made from as many rows: as many as ever
        (2_250, 1_000_000, 300),  # made from 562,500: the same share of the rows
        (1_500, 1_000_000, 240),  # made from a quarter: never fewer
        (1_500, 125_000, 480),  # a filter makes neighbours rarer
    ],
)
def test_of_lists_that_have_grown_fewer_are_read(
    lists: int, passing: int, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    coded = codes.CodedRows(np.zeros((lists, 1), np.float32), (codes.CodePart(None, 1_000_000),))
    assert coded._probes(200, passing) == probes
