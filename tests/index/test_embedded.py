"""The embedded backend keeps the contract, searched exactly and through codes, with and without compaction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun.core.ports import IndexBackend
from qianxun.core.types import IndexBatch, Terms
from qianxun.index.embedded.backend import EmbeddedBackend, create
from qianxun.index.embedded.extents import State
from qianxun.index.embedded.index import EmbeddedIndex, Options
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


def test_keyword_indexes_that_are_not_used_are_closed_and_open_again_when_they_are(tmp_path: Path) -> None:
    """Each has a thread of tantivy's: a thousand bases had a thousand."""
    many, most = 5, 2

    async def story() -> None:
        backend = EmbeddedBackend(tmp_path, Options(open_keywords=most))
        indexes = [await backend.build(number, STAMP) for number in range(many)]
        for turn in range(3):
            for number, index in enumerate(indexes):
                key = many * turn + number + 1
                await index.apply(IndexBatch(turn + 1, (), (entry(key, key, f"住院 库{number}"),)))
            for number, index in enumerate(indexes):
                found = await index.match(Terms(("住院", f"库{number}")), 10)
                assert found.keys.tolist() == [many * at + number + 1 for at in range(turn + 1)]
                assert (await index.count(Terms((f"库{number}",)))).words[f"库{number}"] == turn + 1
                assert sum(each._view.keywords is not None for each in indexes) <= most
        for index in indexes:
            await index.close()
        assert not backend._recently_used._recent

    asyncio.run(story())
