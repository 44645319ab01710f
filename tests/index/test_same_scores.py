"""A score does not depend on how an index came to be: after any additions, replacements and removals, batches and
merges, the embedded index answers, to the last bit, as one that was built of what is left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.types import (
    BM25,
    EVERYTHING,
    Attributes,
    Bm25,
    Eq,
    Filter,
    IndexBatch,
    IndexEntry,
    IndexStamp,
    Not,
    Ranking,
    TermCounts,
    Terms,
)
from qianxun.index import shared
from qianxun.index.embedded import index as embedded
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.extents import load_state
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.index.embedded.keywords import live_scores, search
from qianxun.index.embedded.reader import create_reader
from qianxun.index.embedded.rows import TOKENS

STAMP = IndexStamp("", 0, "1")
VOCABULARY = [*"医保报销比例住院发票抬头的一是在不了有和人这中大为上个国我", "医保", "报销", "住院", "比例", "发票"]
RARE = [chr(code) for code in range(0x4E00, 0x4E00 + 400)]
CONSTANTS = (BM25, BM25, BM25, Bm25(1.5, 0.75), Bm25(0.6, 0.3))
FILTERS: Sequence[Filter] = (EVERYTHING, EVERYTHING, Eq("user_id", "u1"), Not(Eq("user_id", "u1")))


def some_text(chance: random.Random) -> str:
    length = chance.choice((0, 1, 3, 9, 20, 60, 300))
    common, rare = chance.choices(VOCABULARY, k=length), chance.choices(RARE, k=length // 2)
    return " ".join([*common, *rare, *["報"] * chance.choice((0, 0, 0, 0, 700 if length > 20 else 2))])


class Work:
    """Batches of additions, replacements and removals, and what they leave, in the order in which it came."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.left: dict[int, IndexEntry] = {}
        self._sequence = self._key = 0

    def batch(self, most: int) -> IndexBatch:
        self._sequence += 1
        removed = self.chance.sample(range(1, 40), self.chance.choice((0, 0, 1, 4, 12)))
        entries = [self._entry() for _ in range(self.chance.choice((0, 1, most // 8, most)))]
        self.left = {key: entry for key, entry in self.left.items() if entry.document not in removed}
        for entry in entries:
            self.left.pop(entry.key, None)
            self.left[entry.key] = entry
        return IndexBatch(self._sequence, tuple(removed), tuple(entries))

    def _entry(self) -> IndexEntry:
        if self.left and self.chance.random() < 0.2:
            key = self.chance.choice(list(self.left))  # comes anew, as after a correction
        else:
            self._key += 1
            key = self._key
        text, user = some_text(self.chance), Attributes("文档", user_id=f"u{self.chance.randrange(3)}")
        return IndexEntry(key, self.chance.randrange(1, 40), text, text, None, user)


def questions(chance: random.Random, number: int) -> Iterator[tuple[Terms, Filter, Bm25, int]]:
    for _ in range(number):
        words = (*chance.sample(VOCABULARY, chance.randrange(4)), *chance.sample(RARE, 1))
        grams = (*chance.sample(VOCABULARY, chance.randrange(6)), *chance.sample(RARE, chance.randrange(3)), "報")
        limit = chance.choice((1, 5, 20, 500))
        yield Terms(words, grams), chance.choice(FILTERS), chance.choice(CONSTANTS), limit


Answers = list[tuple[list[int], list[float], float | None, TermCounts]]


async def answers(index: EmbeddedIndex, seed: int, number: int = 60) -> Answers:
    found = []
    for terms, where, bm25, limit in questions(random.Random(seed), number):
        ranking: Ranking = await index.match(terms, limit, where, bm25=bm25)
        counts = await index.count(terms)
        found.append((ranking.keys.tolist(), ranking.scores.tolist(), ranking.ceiling, counts))
    return found


async def built(folder: Path, entries: Sequence[IndexEntry], dead_least: int = 1_000) -> EmbeddedIndex:
    index = await create(folder, dead_least=dead_least).build(1, STAMP)
    assert isinstance(index, EmbeddedIndex)
    if entries:
        await index.apply(IndexBatch(1, (), tuple(entries)))
    return index


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what happens in large bases happens in these: characters that are left out, lists that are not read."""
    monkeypatch.setattr(shared, "FREQUENT_LEAST", 30)
    monkeypatch.setattr(live_scores, "SHORT", 15)
    monkeypatch.setattr(live_scores, "BUDGET", 20)
    monkeypatch.setattr(live_scores, "LONGEST", 40)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
@pytest.mark.parametrize("dead_least", [1_000, 20])
def test_after_random_work_as_an_index_of_what_is_left(
    tmp_path: Path, seed: int, dead_least: int, small_sizes: None
) -> None:
    async def story() -> None:
        chance = random.Random(seed)
        work = Work(chance)
        worked = await built(tmp_path / "worked", (), dead_least)
        compared = 0
        for step in range(45):
            await worked.apply(work.batch(chance.choice((4, 40))))
            if step % 11 == 10:
                fresh = await built(tmp_path / f"fresh{step}", list(work.left.values()))
                for _ in range(2):  # also from lists that are in memory by now
                    assert await answers(worked, step) == await answers(fresh, step)
                compared += len(work.left)
                await fresh.close()
        assert compared > 100
        await worked.close()

    asyncio.run(story())


def test_also_once_segments_have_merged(tmp_path: Path) -> None:
    """tantivy then has no dead entries any more, but lengths that it estimated."""

    async def story() -> None:
        work = Work(random.Random(3))
        worked = await built(tmp_path / "worked", ())
        segments = 0
        for _ in range(60):
            await worked.apply(work.batch(40))
            view = worked._keyword_view()[1]
            segments, before = view.searcher.num_segments, segments
            if segments < before and view.documents == view.searcher.num_docs == len(work.left):
                break
        else:
            raise AssertionError("there was always something dead")
        live = live_scores.live_statistics(view, worked._view.rows, worked._view.pending)
        assert live is not None
        assert not live_scores.are_counted(live, Terms(("医保",), ("报",)))
        fresh = await built(tmp_path / "fresh", list(work.left.values()))
        assert await answers(worked, 1) == await answers(fresh, 1)
        for index in (worked, fresh):
            await index.close()

    asyncio.run(story())


def test_a_process_that_only_reads_scores_alike(tmp_path: Path, small_sizes: None) -> None:
    async def story() -> None:
        work = Work(random.Random(8))
        backend = create(tmp_path)
        worked = await backend.build(1, STAMP)
        await backend.switch(1, worked)
        for _ in range(12):
            await worked.apply(work.batch(20))
        await worked.apply(IndexBatch(99, (1, 2, 3), ()))  # which the keyword index has not deleted yet
        reader = await create_reader(tmp_path).open(1, STAMP)
        assert isinstance(reader, EmbeddedIndex)
        assert isinstance(worked, EmbeddedIndex)
        assert len(worked._view.pending) == len(reader._view.pending) > 0
        left = [entry for entry in work.left.values() if entry.document not in (1, 2, 3)]
        fresh = await built(tmp_path / "fresh", left)
        expected = await answers(fresh, 5)
        assert await answers(reader, 5) == expected
        assert await answers(worked, 5) == expected
        for index in (reader, worked, fresh):
            await index.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "change", [{"live_statistics": lambda *_: None}, {"MOST_ENTRIES": 1}], ids=["control", "large"]
)
def test_the_statistics_of_tantivy_would_give_other_scores(
    change: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the live statistics the comparison fails. A large base does without them."""
    for name, value in change.items():
        monkeypatch.setattr(live_scores, name, value)

    async def story() -> None:
        work = Work(random.Random(1))
        worked = await built(tmp_path / "worked", ())
        for _ in range(10):
            await worked.apply(work.batch(20))
        fresh = await built(tmp_path / "fresh", list(work.left.values()))
        assert await answers(worked, 1) != await answers(fresh, 1)
        for index in (worked, fresh):
            await index.close()

    asyncio.run(story())


def test_where_nothing_died_nothing_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        work = Work(random.Random(2))
        entries = [work._entry() for _ in range(50)]
        index = await built(tmp_path / "one", list({entry.key: entry for entry in entries}.values()))
        await index.match(Terms(("医保",), ("报",)), 5)
        view, searched = index._keyword_view()
        assert live_scores.live_statistics(searched, view.rows, view.pending) is None
        assert view.rows.populations.get(live_scores.LIVE) is None
        await index.close()

    asyncio.run(story())


def test_rows_of_an_earlier_version_are_scored_as_it_did(tmp_path: Path) -> None:
    """They have no counts of tokens, also when others come after them; once these are all there are, they count."""

    async def story() -> None:
        index = await built(tmp_path, [IndexEntry(1, 1, "医保 报销", "医 保", None, Attributes("甲"))])
        await index.close()
        state = index._state
        embedded.save_state(index.folder, state.without([TOKENS]))
        (index.folder / state.folder / TOKENS).unlink()
        opened = EmbeddedIndex(index.folder, load_state(index.folder), embedded.Options(), index._recently_used)
        later = tuple(IndexEntry(key, key, "医保 发票", "发", None, Attributes("乙")) for key in (2, 3))
        await opened.apply(IndexBatch(2, (), later))
        await opened.apply(IndexBatch(3, (3,), ()))
        assert (await opened.match(Terms(("医保",)), 5)).keys.tolist() == [1, 2]
        view, searched = opened._keyword_view()
        assert live_scores.live_statistics(searched, view.rows, view.pending) is None
        await opened.apply(IndexBatch(4, (1,), ()))
        view, searched = opened._keyword_view()
        live = live_scores.live_statistics(searched, view.rows, view.pending)
        assert live is not None
        assert (live.documents, live.averages["words"]) == (1, np.float32(6))
        await opened.close()

    asyncio.run(story())


def test_a_term_that_occurs_more_often_than_a_list_has_room_for(tmp_path: Path) -> None:
    async def story() -> None:
        entries = [
            IndexEntry(key, key, " ".join(["报"] * (250 * key)), "", None, Attributes("甲")) for key in range(1, 6)
        ]
        entries += [IndexEntry(key, key, "销", "", None, Attributes("甲")) for key in range(10, 90)]
        dead = [IndexEntry(9, 9, "报 销", "", None, Attributes("乙"))]
        worked = await built(tmp_path / "worked", [*dead, *entries])
        await worked.apply(IndexBatch(2, (9,), ()))
        fresh = await built(tmp_path / "fresh", entries)
        rankings = [await index.match(Terms(("报",)), 5) for index in (worked, fresh)]
        assert rankings[0].scores.tolist() == rankings[1].scores.tolist()
        assert len(set(rankings[0].scores.tolist())) == 5
        assert search.count(worked._keyword_view()[1], Terms(("报",))).words == {"报": 6}
        for index in (worked, fresh):
            await index.close()

    asyncio.run(story())


def test_many_that_die_at_once_are_deleted_in_the_keyword_index_at_once(tmp_path: Path) -> None:
    """Each that waits is looked up by every search."""

    async def story() -> None:
        entries = [IndexEntry(key, key, "医保 报销", "医 保", None, Attributes("甲")) for key in range(1, 300)]
        worked = await built(tmp_path / "worked", entries)
        again = tuple(IndexEntry(key + 1_000, key, "发票", "发", None, Attributes("乙")) for key in range(1, 151))
        await worked.apply(IndexBatch(2, tuple(range(1, 151)), again))
        assert len(worked._view.pending) == 0
        assert await worked.watermark() == 2
        await worked.apply(IndexBatch(3, (160, 161), ()))
        assert len(worked._view.pending) == 2
        left = [entry for entry in (*entries[150:], *again) if entry.document not in (160, 161)]
        fresh = await built(tmp_path / "fresh", left)
        terms = Terms(("医保", "发票"), ("医", "发"))
        one, other = [await index.match(terms, 500) for index in (worked, fresh)]
        assert (one.keys.tolist(), one.scores.tolist(), one.ceiling) == (
            other.keys.tolist(),
            other.scores.tolist(),
            other.ceiling,
        )
        for index in (worked, fresh):
            await index.close()

    asyncio.run(story())
