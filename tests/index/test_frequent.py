"""Characters that stand nearly everywhere are left out of a search that has something else to go by."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.ports import Index
from qianxun.core.types import Attributes, IndexBatch, IndexEntry, IndexStamp, Terms
from qianxun.index import shared
from qianxun.index.embedded.backend import create
from qianxun.testing.index_material import keys_of

ABOUT = Attributes("文档")


async def filled(folder: Path) -> Index:
    """Forty entries: 的 in all, 保 in three, 医保 in two."""
    grams = ["的"] * 37 + ["的 的 保", "的 医 保 医保", "的 医 保 医保"]
    index = await create(folder).build(1, IndexStamp("", 0, "1"))
    entries = [IndexEntry(key, key, "词" if key == 5 else "", gram, None, ABOUT) for key, gram in enumerate(grams)]
    await index.apply(IndexBatch(1, (), tuple(entries)))
    return index


def found(folder: Path, words: tuple[str, ...], *grams: str) -> tuple[list[int], float | None]:
    async def search() -> tuple[list[int], float | None]:
        ranking = await (await filled(folder)).match(Terms(words, grams), 100)
        assert ranking.ceiling is not None
        assert all(0 < score <= ranking.ceiling for score in ranking.scores.tolist())
        return keys_of(ranking), ranking.ceiling

    return asyncio.run(search())


@pytest.fixture
def _frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "FREQUENT_LEAST", 10)


@pytest.mark.usefixtures("_frequent")
def test_what_is_frequent_counts_neither_in_scores_nor_in_the_ceiling(tmp_path: Path) -> None:
    assert found(tmp_path / "1", (), "的", "保", "医保") == found(tmp_path / "2", (), "保", "医保")
    assert found(tmp_path / "3", ("词",), "的")[0] == [5]


@pytest.mark.usefixtures("_frequent")
def test_what_is_frequent_counts_when_the_query_has_nothing_else(tmp_path: Path) -> None:
    assert len(found(tmp_path / "1", (), "的")[0]) == 40
    assert len(found(tmp_path / "2", ("没有",), "的", "没", "没有")[0]) == 40


def test_in_a_small_base_everything_counts(tmp_path: Path) -> None:
    assert len(found(tmp_path, (), "的", "医保")[0]) == 40
