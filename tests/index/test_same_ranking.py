"""All indexes rank alike: the same keys, scores within a thousandth, whatever was added and removed before."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.ports import Index, IndexBackend
from qianxun.core.types import (
    BM25,
    Attributes,
    Bm25,
    Eq,
    Filter,
    IndexBatch,
    IndexEntry,
    IndexStamp,
    Not,
    Ranking,
    Terms,
)
from qianxun.index import shared
from qianxun.index.embedded import backend as embedded
from qianxun.index.milvus import index as milvus
from qianxun.index.milvus import terms as milvus_terms
from qianxun.index.postgres import check as postgres_check
from qianxun.index.postgres import index as postgres
from qianxun.index.postgres import postings as postgres_postings
from qianxun.testing.index_material import unit
from qianxun.text.chinese import analyse_query, index_grams, index_words
from tests.shared import DATA, needs_data

STAMP = IndexStamp("测试模型", 16, "1")


def entry_of(key: int, text: str, document: int | None = None) -> IndexEntry:
    attributes = Attributes(f"文档{key}", user_id=f"用户{key % 3}")
    return IndexEntry(key, document or key, index_words(text), index_grams(text), unit(key), attributes)


async def both(folder: Path, other: IndexBackend) -> tuple[Index, Index]:
    made = []
    for backend in (embedded.create(folder), other):
        index = await backend.build(1, STAMP)
        await backend.switch(1, index)
        made.append(index)
    return made[0], made[1]


def assert_alike(first: Ranking, second: Ranking) -> None:
    assert first.keys.tolist() == second.keys.tolist()
    assert first.scores == pytest.approx(second.scores, abs=1e-3)
    assert first.ceiling == pytest.approx(second.ceiling, abs=1e-3)


@pytest.mark.long
@needs_data
def test_on_cmrc2018(tmp_path: Path, index_url: str, schema: str) -> None:
    """500 passages and 90 questions of the set; docs/decisions/0010-postgres-index.md has all of it."""
    compare_on_cmrc2018(tmp_path, postgres.create(index_url, schema=schema, dead_least=5), 500, 90)


@needs_data
@pytest.mark.parametrize(("passages", "number"), [(60, 6), pytest.param(400, 40, marks=pytest.mark.long)])
def test_milvus_on_cmrc2018(tmp_path: Path, milvus_uri: str, schema: str, passages: int, number: int) -> None:
    """docs/decisions/0021-milvus-index.md has all of it."""
    compare_on_cmrc2018(tmp_path, milvus.create(milvus_uri, prefix=schema), passages, number)


def compare_on_cmrc2018(folder: Path, other: IndexBackend, passages: int, number: int) -> None:
    cmrc = DATA / "beir" / "cmrc2018"
    texts = [json.loads(line)["text"] for line in _lines(cmrc / "corpus.jsonl", passages)]
    questions = [json.loads(line)["text"] for line in _lines(cmrc / "queries.jsonl", number)]

    async def story() -> None:
        indexes = await both(folder, other)
        for start in range(0, len(texts), 250):
            batch = tuple(entry_of(key, texts[key]) for key in range(start, min(start + 250, len(texts))))
            await asyncio.gather(*(index.apply(IndexBatch(start + 1, (), batch)) for index in indexes))
        await other.switch(1, indexes[1])  # which puts it in order
        for number, question in enumerate(questions):
            where: Filter = (Eq("user_id", "用户1"), Not(Eq("user_id", "用户1")), Not(Eq("user_id", "")))[number % 3]
            assert_alike(*[await index.match(analyse_query(question), 30, where) for index in indexes])
            assert_alike(*[await index.nearest(unit(10_000 + number), 15, where) for index in indexes])
        assert await indexes[0].likeness() == await indexes[1].likeness()
        for index in indexes:
            await index.close()

    asyncio.run(story())


def _lines(path: Path, count: int) -> Sequence[str]:
    with path.open(encoding="utf-8") as lines:
        return [next(lines) for _ in range(count)]


VOCABULARY = [*"医保报销比例住院发票抬头的一是在不了有和人这中大为上个国我", "医保", "报销", "住院", "比例", "发票"]


def some_text(chance: random.Random) -> str:
    return " ".join(chance.choices(VOCABULARY, k=chance.choice((0, 1, 3, 20, 60, 300))))


@pytest.mark.parametrize(("frequent", "block"), [(10, 1 << 5), (2_000, 1 << 16)])
def test_after_random_work_as_an_index_of_what_is_left(
    tmp_path: Path, index_url: str, schema: str, frequent: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead are never counted: it scores as one that never had them.

    Half of the work is done in a build that is not yet current, which is put in order when it becomes so.
    """
    monkeypatch.setattr(shared, "FREQUENT_LEAST", frequent)
    for module in (postgres_postings, postgres_check):
        monkeypatch.setattr(module, "BLOCK", block)
    chance = random.Random(frequent)

    async def story() -> None:
        fresh = await embedded.create(tmp_path).build(1, STAMP)
        backend = postgres.create(index_url, schema=schema, dead_least=5)
        worked = await backend.build(1, STAMP)
        living: dict[int, IndexEntry] = {}
        for sequence in range(1, 40):
            if sequence == 20:
                await backend.switch(1, worked)
                await worked.check()
            removed = chance.sample(range(1, 20), 4)
            words = [some_text(chance) for _ in range(chance.choice((1, 4, 12)))]
            entries = [
                IndexEntry(100 * sequence + at, chance.choice(removed), text, text, None, Attributes("文档"))
                for at, text in enumerate(words)
            ]
            living = {key: held for key, held in living.items() if held.document not in removed}
            living |= {entry.key: entry for entry in entries}
            await worked.apply(IndexBatch(sequence, tuple(removed), tuple(entries)))
        await fresh.apply(IndexBatch(1, (), tuple(living.values())))
        await worked.check()
        for _ in range(60):
            words, grams = chance.sample(VOCABULARY, 3), chance.sample(VOCABULARY, 4)
            for require in ("any", "all"):
                asked = Terms((*words, "没有"[: chance.randrange(3)] or words[0]), tuple(grams))
                bm25 = chance.choice((BM25, Bm25(1.5, 0.75), Bm25(0.6, 0.3)))
                assert_alike(*[await index.match(asked, 200, require=require, bm25=bm25) for index in (fresh, worked)])
        await fresh.close()
        await worked.close()

    asyncio.run(story())


@pytest.mark.parametrize("coordinates", [milvus_terms.TERM_BITS, 700])
def test_milvus_after_random_work_as_an_index_of_what_is_left(
    tmp_path: Path, milvus_uri: str, schema: str, coordinates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the chunks have become much longer than the first ones were, by which its vectors are weighed; and
    where there are so few coordinates that terms meet at theirs."""
    monkeypatch.setattr(shared, "FREQUENT_LEAST", 10)
    monkeypatch.setattr(milvus_terms, "TERM_BITS", coordinates)
    monkeypatch.setattr(milvus_terms, "hashed", milvus_terms.hashed.__wrapped__)
    monkeypatch.setattr(milvus_terms, "SUM_AFTER", 300)
    monkeypatch.setattr(milvus_terms, "FEW_CHANGES", 20)
    chance = random.Random(5)

    async def story() -> None:
        fresh = await embedded.create(tmp_path).build(1, STAMP)
        backend = milvus.create(milvus_uri, prefix=schema, purge_seconds=0)
        worked = await backend.build(1, STAMP)
        await backend.switch(1, worked)
        living: dict[int, IndexEntry] = {}
        for sequence in range(1, 16):
            removed = chance.sample(range(1, 20), 4)
            texts = ["医保 报销"] if sequence == 1 else [some_text(chance) for _ in range(chance.choice((1, 4, 12)))]
            entries = [
                IndexEntry(100 * sequence + at, chance.choice(removed), text, text, None, Attributes("文档"))
                for at, text in enumerate(texts)
            ]
            living = {key: held for key, held in living.items() if held.document not in removed}
            living |= {entry.key: entry for entry in entries}
            await worked.apply(IndexBatch(sequence, tuple(removed), tuple(entries)))
        await fresh.apply(IndexBatch(1, (), tuple(living.values())))
        await worked.check()
        for number in range(30):
            wanted = Terms(tuple(chance.sample(VOCABULARY, 3)), tuple(chance.sample(VOCABULARY, 4)))
            bm25 = chance.choice((BM25, Bm25(1.5, 0.75), Bm25(0.6, 0.3)))
            require = ("any", "all")[number % 2]
            assert_alike(*[await index.match(wanted, 200, require=require, bm25=bm25) for index in (fresh, worked)])
        await fresh.close()
        await worked.close()

    asyncio.run(story())


@pytest.mark.parametrize("name", ["postgres", "milvus"])
def test_a_rounded_length_stands_for_the_lengths_below_the_next(
    tmp_path: Path, name: str, schema: str, request: pytest.FixtureRequest
) -> None:
    """Lengths are kept in a byte: exact up to 40, then ever coarser. All round them alike."""
    if name == "milvus":
        other = milvus.create(request.getfixturevalue("milvus_uri"), prefix=schema)
    else:
        other = postgres.create(request.getfixturevalue("index_url"), schema=schema)

    async def story() -> None:
        indexes = await both(tmp_path, other)
        lengths = np.unique(np.geomspace(1, 5_000, 60).astype(int)).tolist()
        entries = tuple(
            IndexEntry(length, length, " ".join(["甲", *["乙"] * (length - 1)]), "", None, Attributes("文档"))
            for length in lengths
        )
        for index in indexes:
            await index.apply(IndexBatch(1, (), entries))
        assert_alike(*[await index.match(Terms(("甲",)), 100) for index in indexes])
        for index in indexes:
            await index.close()

    asyncio.run(story())


@pytest.mark.parametrize("name", ["postgres", "milvus"])
def test_a_server_answers_to_the_last_bit_as_if_what_was_removed_had_never_been(
    name: str, schema: str, request: pytest.FixtureRequest
) -> None:
    """As `test_same_scores` has it of the embedded index."""
    if name == "milvus":
        backend = milvus.create(request.getfixturevalue("milvus_uri"), prefix=schema, purge_seconds=0)
    else:
        backend = postgres.create(request.getfixturevalue("index_url"), schema=schema, dead_least=5)
    chance = random.Random(11)

    async def story() -> None:
        worked, fresh = await backend.build(1, STAMP), await backend.build(2, STAMP)
        await backend.switch(1, worked)
        await backend.switch(2, fresh)
        left: dict[int, IndexEntry] = {}
        for sequence in range(1, 14):
            removed = chance.sample(range(1, 20), 4)
            entries = [
                IndexEntry(100 * sequence + at, chance.choice(removed), text, text, None, Attributes("文档"))
                for at, text in enumerate(some_text(chance) for _ in range(chance.choice((1, 4, 12))))
            ]
            left = {key: one for key, one in left.items() if one.document not in removed}
            left |= {entry.key: entry for entry in entries}
            await worked.apply(IndexBatch(sequence, tuple(removed), tuple(entries)))
        await fresh.apply(IndexBatch(1, (), tuple(left.values())))
        for _ in range(25):
            terms = Terms(tuple(chance.sample(VOCABULARY, 3)), tuple(chance.sample(VOCABULARY, 4)))
            bm25 = chance.choice((BM25, Bm25(1.5, 0.75)))
            one, other = [await index.match(terms, 200, bm25=bm25) for index in (worked, fresh)]
            assert (one.keys.tolist(), one.scores.tolist(), one.ceiling) == (
                other.keys.tolist(),
                other.scores.tolist(),
                other.ceiling,
            )
            assert await worked.count(terms) == await fresh.count(terms)
        for index in (worked, fresh):
            await index.close()

    asyncio.run(story())
