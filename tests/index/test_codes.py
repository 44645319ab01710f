"""Codes in lists propose the right rows, whatever the rows are like, and grow with the base."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.errors import IndexUnusable
from qianxun.core.ports import Index
from qianxun.core.types import Attributes, Eq, IndexBatch, IndexEntry, IndexStamp, Vectors
from qianxun.index.embedded import codes
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.extents import STATE, sealed, unsealed
from qianxun.testing.index_material import STAMP, keys_of, unit

WIDE = IndexStamp(model="测试模型", dimension=64, analysis="1")
ROWS = 6_000


@pytest.fixture(autouse=True)
def _not_all_lists_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "LEAST_ROWS", ROWS)


def clustered(count: int, seed: int = 4) -> Vectors:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 64)) + 1.2 * rng.normal(size=(40, 64))[rng.integers(0, 40, count)]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def coded(rows: Vectors) -> codes.CodedRows:
    centers = codes.centers_of(rows)
    return codes.coded(centers, codes.encode(centers, rows), few=0)


def entries(rows: Vectors, first: int = 0) -> tuple[IndexEntry, ...]:
    owners = [Attributes(doc_id=str(part), user_id=f"用户{part}") for part in range(2)]
    return tuple(IndexEntry(key, key, "", "", row, owners[key % 2]) for key, row in enumerate(rows, first))


def test_the_lists_nearest_to_the_query_hold_most_of_what_is_nearest() -> None:
    rows = clustered(ROWS)
    held, everything = coded(rows), np.ones(ROWS, dtype=bool)
    found = 0
    for asked in rows[::150]:
        truth = np.argsort(-(rows @ asked))[:10]
        found += np.isin(truth, held.proposed(asked, 10, everything, ROWS)).sum()
    assert found >= 0.95 * 10 * len(rows[::150])


def test_every_limit_up_to_two_hundred_has_the_same_pool() -> None:
    held, everything = coded(clustered(ROWS)), np.ones(ROWS, dtype=bool)
    asked = clustered(1, seed=9)[0]
    pool = held.proposed(asked, 1, everything, ROWS)
    assert len(pool) == codes.POOL
    for limit in (10, 100, codes.POOLED):
        assert held.proposed(asked, limit, everything, ROWS).tolist() == pool.tolist()


def test_a_filter_is_never_lost_in_lists_that_are_not_read() -> None:
    rows = clustered(ROWS)
    far = np.argsort(rows @ rows[0])[:500]  # all of them far from what is asked for
    allowed = np.zeros(ROWS, dtype=bool)
    allowed[far] = True
    assert coded(rows).proposed(rows[0], 10, allowed, len(far)).tolist() == sorted(far.tolist())


def test_nearly_empty_lists_send_the_search_on_to_the_full_ones() -> None:
    """Nearly all rows are the same; those around the query are a handful, in lists of their own."""
    rows = np.repeat(clustered(1), ROWS, axis=0)
    rows[:300] = clustered(300, seed=7)
    found = coded(rows).proposed(rows[3], codes.POOLED, np.ones(ROWS, dtype=bool), ROWS)
    assert len(found) == codes.POOL
    assert 3 in found


def test_the_same_rows_give_the_same_codes() -> None:
    rows = clustered(ROWS)
    first, second = codes.centers_of(rows), codes.centers_of(rows)
    assert first.tobytes() == second.tobytes()
    assert codes.encode(first, rows) == codes.encode(second, rows)


def test_a_base_that_outgrows_its_centres_gets_new_ones(tmp_path: Path) -> None:
    rows = clustered(2_000)

    async def answers(index: Index) -> list[list[int]]:
        where = Eq("user_id", "用户1")
        return [keys_of(await index.nearest(row, 20, w)) for row in rows[::400] for w in (where, Eq("doc_id", "0"))]

    async def story() -> None:
        backend = create(tmp_path, exact_limit=100)
        index = await backend.build(1, WIDE)
        await backend.switch(1, index)
        trained = []
        for first in range(0, 2_000, 200):
            await index.apply(IndexBatch(first + 1, (), entries(rows[first : first + 200], first)))
            trained.append([path.name for path in files(tmp_path, "codes-*")])
        assert trained[0] == ["codes-200"]
        assert trained[3] == ["codes-800"]
        assert trained[-1] == ["codes-800"]
        before = await answers(index)
        await index.close()
        (files(tmp_path, "columns-1")[0] / "codes-200").write_bytes(b"left by a process that was killed")
        reopened = await backend.open(1, WIDE)
        assert await answers(reopened) == before
        assert [path.name for path in files(tmp_path, "codes-*")] == ["codes-800"]
        await reopened.check()
        truth = [key for key in np.argsort(-(rows @ rows[0])).tolist() if key % 2 == 1][:20]
        assert len(set(truth) & set(before[0])) >= 19

    asyncio.run(story())


def test_an_index_that_does_not_say_of_whose_records_it_is_says_so_from_its_next_change_on(tmp_path: Path) -> None:
    async def story() -> None:
        backend = create(tmp_path)
        index = await backend.build(1, STAMP)
        await backend.switch(1, index)
        await index.close()
        [path] = files(tmp_path, STATE)
        former = json.loads(unsealed(path)) | {"format": 3}
        del former["stamp"]["origin"]
        path.write_bytes(sealed(json.dumps(former)))
        own, foreign = replace(STAMP, origin="kb1-甲"), replace(STAMP, origin="kb1-乙")
        index = await backend.open(1, own)
        await index.apply(IndexBatch(1, (), (IndexEntry(1, 1, "词", "", unit(1), Attributes("甲")),)))
        await index.close()
        with pytest.raises(IndexUnusable, match="别的知识库"):
            await backend.open(1, foreign)
        for stamp in (STAMP, own):
            index = await backend.open(1, stamp)
            assert index.stamp == own
            await index.close()

    asyncio.run(story())


def test_an_index_of_a_much_older_layout_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        backend = create(tmp_path)
        index = await backend.build(1, STAMP)
        await index.apply(IndexBatch(1, (), (IndexEntry(1, 1, "词", "", unit(1), Attributes("甲")),)))
        await backend.switch(1, index)
        await index.close()
        [path] = files(tmp_path, STATE)
        path.write_bytes(sealed(json.dumps(json.loads(unsealed(path)) | {"format": 1})))
        with pytest.raises(IndexUnusable, match="另一个版本"):
            await backend.open(1, STAMP)

    asyncio.run(story())
