"""A few hundred random steps on an index and on a plain dictionary: both say the same.

`Steps` serves every backend; here it drives the embedded one.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from qianxun.core.ports import Index, IndexBackend
from qianxun.core.types import (
    EVERYTHING,
    And,
    Attributes,
    Eq,
    Filter,
    In,
    IndexBatch,
    IndexEntry,
    Not,
    Or,
    Range,
    Terms,
    VectorField,
    matches,
)
from qianxun.index.embedded.backend import create
from qianxun.testing.index_material import STAMP, keys_of, unit

WORDS = [f"词{number}" for number in range(12)]


@dataclass
class Model:
    """What an index is, without any of its means."""

    entries: dict[tuple[VectorField, int], IndexEntry] = field(default_factory=dict)
    watermark: int = 0

    def apply(self, batch: IndexBatch) -> None:
        kept = {at: held for at, held in self.entries.items() if held.document not in batch.removed}
        self.entries = kept | {(entry.field, entry.key): entry for entry in batch.entries}
        self.watermark = batch.sequence

    def passing(self, where: Filter, lane: VectorField) -> list[IndexEntry]:
        return [held for held in self.entries.values() if held.field == lane and matches(where, held.attributes)]

    def nearest(self, asked: int, limit: int, where: Filter, lane: VectorField) -> list[tuple[int, float]]:
        wanted = unit(asked).astype(np.float64)
        scored = [
            (held.key, round(float(np.dot(held.vector.astype(np.float64), wanted)), 6))
            for held in self.passing(where, lane)
            if held.vector is not None
        ]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def matching(self, words: tuple[str, ...], where: Filter, require: str) -> list[int]:
        every = all if require == "all" else any
        return sorted(
            held.key for held in self.passing(where, "content") if every(word in held.words.split() for word in words)
        )


class Steps:
    """The same random work for an index and its model."""

    def __init__(self, backend: IndexBackend, seed: int) -> None:
        self.chance = random.Random(seed)
        self.backend = backend
        self.model = Model()
        self.next_key = 1

    async def run(self, steps: int) -> None:
        index = await self.backend.build(1, STAMP)
        await self.backend.switch(1, index)
        for _ in range(steps):
            step = self.chance.random()
            if step < 0.25:
                batch = self.batch()
                self.model.apply(batch)
                await index.apply(batch)
            elif step < 0.29:
                await index.close()
                index = await self.backend.open(1, STAMP)
            else:
                await self.compare(index)
        await self.compare_contents(index)
        await index.close()

    def batch(self) -> IndexBatch:
        removed = tuple(self.chance.sample(range(20), self.chance.randrange(4)))
        entries = [self.entry(document) for document in removed for _ in range(self.chance.randrange(6))]
        if self.chance.random() < 0.3 and self.model.entries:
            lane, key = self.chance.choice(list(self.model.entries))
            entries.append(self.entry(self.chance.randrange(20), key, lane))
        return IndexBatch(self.model.watermark + 1, removed, tuple(entries))

    def entry(self, document: int, key: int = 0, lane: VectorField | None = None) -> IndexEntry:
        if not key:
            key, self.next_key = self.next_key, self.next_key + 1
        attributes = Attributes(
            doc_id=f"文档{document}",
            user_id=self.chance.choice(("张三", "李四", "")),
            tags=tuple(self.chance.sample(("甲", "乙", "丙"), self.chance.randrange(3))),
            metadata={"年": self.chance.choice((2020, 2021.5, "2022", True))},
        )
        lane = lane or ("question" if self.chance.random() < 0.2 else "content")
        vector = None if self.chance.random() < 0.1 else unit(self.chance.randrange(200))
        return IndexEntry(key, document, " ".join(self.chance.choices(WORDS, k=5)), "字", vector, attributes, lane)

    def where(self, depth: int = 2) -> Filter:
        parts = (self.where(depth - 1), self.where(depth - 1)) if depth else ()
        leaves: list[Filter] = [
            EVERYTHING,
            Eq("user_id", self.chance.choice(("张三", "王五", ""))),
            In("tags", ("甲", "丙")),
            Range("metadata.年", ge=self.chance.choice((2020.5, 2021, "2021"))),
            Eq("doc_id", f"文档{self.chance.randrange(20)}"),
        ]
        return self.chance.choice([*leaves, And(parts), Or(parts), Not(parts[0])] if parts else leaves)

    async def compare(self, index: Index) -> None:
        where, limit = self.where(), self.chance.choice((1, 3, 10, 500))
        asked = self.chance.randrange(300)
        for lane in ("content", "question"):
            ranking = await index.nearest(unit(asked), limit, where, lane)
            expected = self.model.nearest(asked, limit, where, lane)
            assert keys_of(ranking) == [key for key, _ in expected]
            assert [hit.score for hit in ranking.hits] == pytest.approx([score for _, score in expected], abs=2e-6)
        words = tuple(self.chance.sample(WORDS, 2))
        for require in ("all", "any"):
            matched = await index.match(Terms(words), 1000, where, require)
            assert sorted(keys_of(matched)) == self.model.matching(words, where, require)
            head = await index.match(Terms(words), limit, where, require)
            assert head == matched.head(limit)
        assert await index.watermark() == self.model.watermark

    async def compare_contents(self, index: Index) -> None:
        held = await index.inventory()
        for lane in ("content", "question"):
            expected = sorted(e.key for e in self.model.passing(EVERYTHING, lane) if e.vector is not None)
            assert held.vectors[lane].tolist() == expected
        assert held.keywords.tolist() == sorted(e.key for e in self.model.passing(EVERYTHING, "content"))


@pytest.mark.parametrize("exact_limit", [10_000, 10])
def test_random_work_equals_a_plain_model(tmp_path: Path, exact_limit: int) -> None:
    asyncio.run(Steps(create(tmp_path, exact_limit=exact_limit, dead_least=60), seed=exact_limit).run(220))


def test_scores_are_bm25(tmp_path: Path) -> None:
    """Σ idf · tf·(k1+1) / (tf + k1·(1 − b + b·length/average)), words in full and grams by their weight."""
    texts = ["医保 报销 比例", "医保 医保 卡", "发票 抬头 报销", "社保 卡"]

    def bm25(term: str, text: str) -> float:
        holding = sum(term in other.split() for other in texts)
        idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        average = sum(len(other.split()) for other in texts) / len(texts)
        frequency = Counter(text.split())[term]
        return idf * frequency * 1.4 / (frequency + 0.4 * (0.25 + 0.75 * len(text.split()) / average))

    async def match() -> dict[int, float]:
        index = await create(tmp_path, gram_weight=0.4).build(1, STAMP)
        entries = [IndexEntry(key, key, text, text, None, Attributes(str(key))) for key, text in enumerate(texts)]
        await index.apply(IndexBatch(1, (), tuple(entries)))
        found = await index.match(Terms(("医保", "卡"), ("报销",)), 10)
        return {hit.key: hit.score for hit in found.hits}

    expected = {key: bm25("医保", text) + bm25("卡", text) + 0.4 * bm25("报销", text) for key, text in enumerate(texts)}
    assert asyncio.run(match()) == pytest.approx(expected, abs=2e-4)


def test_codes_find_what_exact_search_finds(tmp_path: Path) -> None:
    """4,000 clustered vectors through codes, whole and filtered: at least 97 of 100 of the true best ten."""
    rng = np.random.default_rng(4)
    near = rng.normal(size=(4000, 64)) + 1.2 * rng.normal(size=(40, 64))[rng.integers(0, 40, 4000)]
    rows = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    owners = [Attributes(doc_id=str(part), user_id=f"用户{part}") for part in range(2)]
    entries = [IndexEntry(key, key, "", "", rows[key], owners[key % 2]) for key in range(4000)]

    async def recall(where: Filter, allowed: np.ndarray) -> float:
        index = await create(tmp_path / str(allowed.sum()), exact_limit=100).build(
            1, type(STAMP)(model="测试模型", dimension=64, analysis="1")
        )
        await index.apply(IndexBatch(1, (), tuple(entries)))
        found = 0
        for asked in range(50):
            scores = np.where(allowed, rows @ rows[asked * 7], -2)
            truth = set(np.argsort(-scores)[:10].tolist())
            found += len(truth & set(keys_of(await index.nearest(rows[asked * 7], 10, where))))
        return found / 500

    assert asyncio.run(recall(EVERYTHING, np.ones(4000, dtype=bool))) >= 0.97
    assert asyncio.run(recall(Eq("user_id", "用户1"), np.arange(4000) % 2 == 1)) >= 0.97
