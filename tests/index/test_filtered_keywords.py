"""However allowed rows are found among the hits of the keyword index, the same ones come, with the same scores."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qianxun.core.types import Attributes, Eq, Filter, In, IndexBatch, IndexEntry, IndexStamp, Range, Ranking, Terms
from qianxun.index import shared
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.keywords import search, tantivy_index

ROWS = 1_500
WORDS = [f"词{number}" for number in range(30)]
FILTERS: tuple[Filter, ...] = (
    Eq("user_id", "用户1"),
    Eq("project_id", "项目7"),
    In("doc_id", ("文档3", "文档4", "文档9")),  # each of some rows after one another
    Range("metadata.part", ge=120),  # one stretch, a fifth
)


def entries() -> tuple[IndexEntry, ...]:
    chance = random.Random(5)
    owners = [
        Attributes(f"文档{part}", user_id=f"用户{part % 2}", project_id=f"项目{part % 50}", metadata={"part": part})
        for part in range(ROWS // 10)
    ]
    texts = (" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(ROWS))
    return tuple(IndexEntry(key, key, text, "", None, owners[key // 10]) for key, text in enumerate(texts))


def answers(folder: Path) -> list[Ranking]:
    async def told() -> list[Ranking]:
        index = await create(folder).build(1, IndexStamp("", 0, "1"))
        await index.apply(IndexBatch(1, (), entries()))
        asked = [Terms(tuple(WORDS[at : at + 3]), ()) for at in range(0, 27, 3)]
        found = [
            await index.match(terms, limit, where) for terms in asked for where in FILTERS for limit in (1, 10, 60)
        ]
        await index.close()
        return found

    return asyncio.run(told())


@pytest.mark.parametrize(("few", "stretches"), [(0, 16), (0, 0), (5_000, 0), (5_000, 16)])
def test_sifted_or_looked_up_or_in_ranges(
    tmp_path: Path, few: int, stretches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = answers(tmp_path / "usual")
    assert sum(len(ranking.keys) for ranking in usual) > 1_000
    monkeypatch.setattr(search, "LARGE", 100)
    monkeypatch.setattr(search, "LONG", 5)
    for name, number in (("SET_PER_CUBE_ROOT", few), ("STRETCHES", stretches)):
        monkeypatch.setattr(search, name, number)
    for ranking, same in zip(answers(tmp_path / "other"), usual, strict=True):
        assert ranking.keys.tolist() == same.keys.tolist()
        assert np.array_equal(ranking.scores, same.scores)


def test_a_character_of_a_large_base_is_left_out_earlier() -> None:
    assert [shared.most_frequent(entries) for entries in (1_000, 100_000, 500_000, 1_000_000)] == [
        2_000,
        10_000,
        50_000,
        50_000,
    ]


@pytest.mark.parametrize(("rows", "share", "is_set"), [(10_000, 2, False), (10_000, 50, True), (1_000_000, 10, False)])
def test_many_rows_of_a_small_base_are_sifted(rows: int, share: int, is_set: bool) -> None:
    allowed = np.arange(rows) % share == 0
    assert search._is_set(allowed, rows // share) is is_set


class Searcher:
    """Of tantivy's, what a search uses. Hits are row numbers, best first; how many were fetched each time is noted."""

    def __init__(self, rows: list[int]) -> None:
        self.ranked = [(float(len(rows) - at), row) for at, row in enumerate(rows)]
        self.fetched: list[int] = []

    def search(self, query: object, limit: int, *, count: bool) -> SimpleNamespace:
        self.fetched.append(limit)
        return SimpleNamespace(hits=self.ranked[:limit])

    def fast_field_values(self, name: str, addresses: list[int]) -> list[int]:
        return addresses


def test_where_fewer_pass_than_were_expected_no_more_is_fetched_than_it_takes() -> None:
    rows = np.arange(10_000)
    allowed = (rows % 100 == 0) & (rows >= 2_500)  # a hundredth, but none of the first hits
    searcher = Searcher(rows.tolist())
    view = tantivy_index.KeywordView(None, searcher, len(rows))
    sieve = search.Sieve(rows, allowed, few=None, share=0.01)
    slots, scores = search._search(view, None, 30, sieve)
    assert slots.tolist()[:30] == list(range(2_500, 5_500, 100))
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    first, second = searcher.fetched
    assert first == 3_616
    assert second == int(first * 1.5 * 30 / 12)  # 12 of them passed
