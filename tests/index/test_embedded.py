"""The embedded backend keeps the contract, searched exactly and through codes, with and without compaction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.ports import IndexBackend
from qianxun.core.types import IndexBatch
from qianxun.index.embedded.extents import State
from qianxun.index.embedded.index import EmbeddedIndex, create
from qianxun.testing.index_conformance import IndexConformance
from qianxun.testing.index_material import STAMP, entry


class TestExact(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder)


class TestCoded(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder, exact_limit=8)


class TestCompacted(IndexConformance):
    def backend(self, folder: Path) -> IndexBackend:
        return create(folder, exact_limit=20, dead_share=0.01, dead_least=2)


def test_the_watermark_is_that_of_the_rows_a_reader_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who finds it unmoved may trust the rows to be the same: it moves with them, not with the state file."""
    honest = EmbeddedIndex._commit
    seen: list[int] = []

    async def story() -> None:
        index = await create(tmp_path).build(1, STAMP)

        def observed(held: EmbeddedIndex, state: State, *before: Path) -> None:
            honest(held, state, *before)
            seen.append(asyncio.run(index.watermark()))

        await index.apply(IndexBatch(7, (), (entry(1, 1),)))
        monkeypatch.setattr(EmbeddedIndex, "_commit", observed)
        await index.apply(IndexBatch(8, (), (entry(2, 2),)))
        assert seen == [7]
        assert await index.watermark() == 8

    asyncio.run(story())
