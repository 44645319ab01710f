"""The arm of questions: over a real index, with a table of questions in place of the records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import Index
from qianxun.core.types import (
    EVERYTHING,
    Attributes,
    Eq,
    Filter,
    IndexBatch,
    IndexEntry,
    IndexStamp,
    Query,
    Ranking,
    Terms,
)
from qianxun.index.embedded.backend import EmbeddedBackend
from qianxun.index.embedded.index import Options
from qianxun.retrieve.arms.qa import QUESTION_LEAD, QuestionArm
from qianxun.testing.scripted import HashEmbedding

MODEL = HashEmbedding()
STAMP = IndexStamp(MODEL.name, MODEL.dimension, "zh-3")
Work = Callable[[Index], Awaitable[None]]


def run(folder: Path, work: Work) -> None:
    async def story() -> None:
        index = await EmbeddedBackend(folder, Options()).build(1001, STAMP)
        await work(index)
        await index.close()

    asyncio.run(story())


def question(key: int, text: str, document: int = 1, user: str = "张三") -> IndexEntry:
    attributes = Attributes(f"d{document}", user_id=user)
    return IndexEntry(key, document, "", "", MODEL.embed_query(text), attributes, "question")


def content(key: int, text: str, document: int = 1) -> IndexEntry:
    return IndexEntry(key, document, text, text, MODEL.embed_query(text), Attributes(f"d{document}"))


def asked(text: str, where: Filter = EVERYTHING) -> Query:
    return Query(text, Terms(()), MODEL.embed_query(text), where)


class Table:
    """Question → chunk; counts how often it is read."""

    def __init__(self, chunks: Mapping[int, int]) -> None:
        self.chunks = dict(chunks)
        self.reads: list[int] = []

    async def __call__(self, keys: Sequence[int]) -> Mapping[int, int]:
        self.reads.append(len(keys))
        return {key: self.chunks[key] for key in keys if key in self.chunks}


class Asking:
    """The arm over this index and table, which is all that it uses of a context."""

    name = QuestionArm.name

    def __init__(self, index: Index, table: Callable[[Sequence[int]], Awaitable[Mapping[int, int]]]) -> None:
        self.index = index
        self.chunks_of_questions = table

    async def search(self, query: Query, limit: int) -> Ranking:
        return await QuestionArm().search(query, limit, cast(Any, self))


def test_a_chunk_scores_as_its_best_question_and_stands_once(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        texts = {1: "住院能报多少钱", 2: "住院报销多少", 3: "生孩子有补贴吗"}
        await index.apply(IndexBatch(1, entries=tuple(question(key, text) for key, text in texts.items())))
        arm = Asking(index, Table({1: 70, 2: 70, 3: 50}))
        found = await arm.search(asked("住院报销多少"), 10)
        assert arm.name == "qa"
        assert found.keys.tolist() == [70, 50]
        assert found.scores[0] == pytest.approx(1.0 - QUESTION_LEAD, abs=1e-5)
        assert found.raw is not None
        assert found.raw[0] == pytest.approx(1.0, abs=1e-5)

    run(tmp_path, story)


def test_the_score_is_the_cosine_less_the_lead_and_the_cosine_is_kept(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        await index.apply(IndexBatch(1, entries=(question(1, "住院能报多少钱"),)))
        found = await Asking(index, Table({1: 7})).search(asked("住院报多少"), 5)
        cosine = float(MODEL.embed_query("住院能报多少钱") @ MODEL.embed_query("住院报多少"))
        assert found.raw is not None
        assert found.raw[0] == pytest.approx(cosine, abs=1e-5)
        assert found.scores[0] == pytest.approx(cosine - QUESTION_LEAD, abs=1e-5)

    run(tmp_path, story)


def test_the_limit_speaks_of_chunks_however_many_questions_they_have(tmp_path: Path) -> None:
    """A hundred near questions belong to one chunk; the next chunks are found behind them."""

    async def story(index: Index) -> None:
        near = [question(key, f"住院报销多少{key}") for key in range(1, 101)]
        far = [question(key, f"生育津贴{key}") for key in range(101, 106)]
        await index.apply(IndexBatch(1, entries=(*near, *far)))
        table = Table({key: 7 if key <= 100 else key for key in range(1, 106)})
        found = await Asking(index, table).search(asked("住院报销多少"), 3)
        assert len(found) == 3
        assert found.keys[0] == 7
        assert len(set(found.keys.tolist())) == 3
        assert sum(table.reads) <= 105  # no question is looked up twice
        more = await Asking(index, table).search(asked("住院报销多少"), 5)
        assert more.keys[:3].tolist() == found.keys.tolist()

    run(tmp_path, story)


def test_chunks_are_not_questions_and_filters_hold(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        theirs = question(2, "住院报销多少", document=2, user="李四")
        await index.apply(IndexBatch(1, entries=(content(9, "住院报销多少"), question(1, "住院报多少"), theirs)))
        arm = Asking(index, Table({1: 10, 2: 20}))
        assert (await arm.search(asked("住院报销多少"), 5)).keys.tolist() == [20, 10]
        assert (await arm.search(asked("住院报销多少", Eq("user_id", "张三")), 5)).keys.tolist() == [10]
        assert len(await arm.search(asked("住院报销多少", Eq("user_id", "王五")), 5)) == 0
        await index.apply(IndexBatch(2, removed=(2,)))
        assert (await arm.search(asked("住院报销多少"), 5)).keys.tolist() == [10]

    run(tmp_path, story)


def test_a_base_without_questions_asks_the_records_nothing(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        table = Table({})
        arm = Asking(index, table)
        assert len(await arm.search(asked("住院"), 5)) == 0
        await index.apply(IndexBatch(1, entries=(content(9, "住院报销多少"),)))
        assert len(await arm.search(asked("住院"), 5)) == 0
        assert len(await arm.search(asked("住院"), 0)) == 0
        assert table.reads == []

    run(tmp_path, story)


def test_questions_that_are_not_of_record_are_passed_over(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        await index.apply(IndexBatch(1, entries=tuple(question(key, f"住院报销{key}") for key in range(1, 11))))
        found = await Asking(index, Table({10: 3})).search(asked("住院报销"), 2)
        assert found.keys.tolist() == [3]

    run(tmp_path, story)


def test_a_question_that_is_replaced_meanwhile_is_found_in_its_new_version(tmp_path: Path) -> None:
    """The index is asked, then the old question leaves the records, then the new one is in both."""

    async def story(index: Index) -> None:
        await index.apply(IndexBatch(1, entries=(question(1, "住院报销"),)))
        held = {2: 22}

        async def chunk_of(keys: Sequence[int]) -> Mapping[int, int]:
            if 1 in keys:
                await index.apply(IndexBatch(2, removed=(1,), entries=(question(2, "住院报销"),)))
            return {key: held[key] for key in keys if key in held}

        found = await Asking(index, chunk_of).search(asked("住院报销"), 2)
        assert found.keys.tolist() == [22]

    run(tmp_path, story)


def test_without_a_query_vector_the_arm_says_so(tmp_path: Path) -> None:
    async def story(index: Index) -> None:
        with pytest.raises(RetrieverUnavailable):
            await Asking(index, Table({})).search(Query("住院", Terms(()), None), 5)

    run(tmp_path, story)
