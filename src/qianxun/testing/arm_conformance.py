"""What every arm of retrieval must do, as a test class to inherit.

    class TestExactPhrase(ArmConformance):
        query = "“报销比例为百分之八十五”"
        expected = 2                          # the key of the text in `TEXTS` that the query is about

        def arm(self) -> RetrieverArm:
            return ExactPhraseArm()

By default it searches `TEXTS` through a `TextContext`. An arm that needs an index overrides `context`, and one that
reads vectors `vector`. Optional ability: ``filters`` (it applies ``query.where`` itself).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pytest

from qianxun.core.errors import RetrieverUnavailable
from qianxun.core.ports import ArmContext, RetrieverArm
from qianxun.core.types import (
    BM25,
    EVERYTHING,
    NOTHING,
    Attributes,
    Bm25,
    Chunk,
    Eq,
    Filter,
    Query,
    Ranking,
    Vector,
    matches,
)
from qianxun.testing.model_conformance import HOSTILE, Conformance
from qianxun.text.chinese import analyse_query

TEXTS: Final = {
    1: "机油更换周期为五千公里或六个月。",
    2: "参保人员住院费用的报销比例为百分之八十五。",
    3: "儿童的入学年龄为年满六周岁。",
    4: "门诊费用的报销比例为百分之六十，住院费用另算。",
    5: "ＡＢＣ１２３ 型號的發票須隨報銷單一併提交。",
}


@dataclass(frozen=True)
class TextContext:
    """A base of a few texts without an index: chunk k belongs to document "d{k}"."""

    rows: Mapping[int, str]

    @property
    def index(self) -> Any:
        raise RetrieverUnavailable("这里没有索引", hint="在测试类里覆盖 context()")

    @property
    def bm25(self) -> Bm25:
        return BM25

    @property
    def is_local(self) -> bool:
        return True

    async def texts(self, where: Filter = EVERYTHING) -> AsyncIterator[Sequence[tuple[int, str]]]:
        yield [(key, text) for key, text in sorted(self.rows.items()) if matches(where, self._chunk(key).attributes)]

    async def chunks(self, keys: Sequence[int]) -> Mapping[int, Chunk]:
        return {key: self._chunk(key) for key in keys if key in self.rows}

    async def chunks_of_questions(self, keys: Sequence[int]) -> Mapping[int, int]:
        return {}

    def _chunk(self, key: int) -> Chunk:
        text = self.rows[key]
        doc = f"d{key}"
        attributes = Attributes(doc_id=doc)
        return Chunk(key, f"c_1_{doc}_0", doc, doc, 0, text, 0, len(text), "text", (), None, 1, attributes)


class ArmConformance(Conformance):
    OPTIONAL = frozenset({"filters"})
    query: ClassVar[str] = "住院费用的报销比例"
    expected: ClassVar[int] = 2  # a key that the query must find
    document: ClassVar[str] = "d2"  # … of this document

    def arm(self) -> RetrieverArm:
        raise NotImplementedError

    def context(self) -> ArmContext:
        return TextContext(TEXTS)

    def vector(self, text: str) -> Vector | None:
        return None

    def search(self, text: str, limit: int = 10, where: Filter = EVERYTHING) -> Ranking:
        arm, query = self.arm(), Query(text, analyse_query(text), self.vector(text), where)
        return asyncio.run(arm.search(query, limit, self.context())) if arm.applies_to(query) else NOTHING

    # ── required ─────────────────────────────────────────────────────────────────────────────────

    def test_it_describes_itself(self) -> None:
        arm = self.arm()
        assert arm.name.isidentifier()
        assert len(arm.label) == len(arm.unit) == 2
        assert all(isinstance(text, str) and text for text in (*arm.label, *arm.unit))
        assert 0.0 <= arm.weight < float("inf")

    def test_it_finds_what_the_query_is_about(self) -> None:
        assert self.expected in self.search(self.query).keys

    def test_results_are_sorted_unique_and_bounded(self) -> None:
        found = self.search(self.query)
        assert len(found.keys) == len(found.scores) == len(set(found.keys.tolist()))
        assert np.isfinite(found.scores).all()
        rows = list(zip((-found.scores).tolist(), found.keys.tolist(), strict=True))
        assert rows == sorted(rows), "best first, ties by key"

    def test_a_shorter_list_is_the_beginning_of_a_longer_one(self) -> None:
        found = self.search(self.query).keys.tolist()
        for limit in range(1, len(found) + 1):
            assert self.search(self.query, limit).keys.tolist() == found[:limit]

    def test_the_same_search_gives_the_same_ranking(self) -> None:
        assert self.search(self.query) == self.search(self.query)

    def test_calibrated_scores_are_shares_in_the_same_order(self) -> None:
        arm, found = self.arm(), self.search(self.query)
        scores = arm.calibrate(found)
        assert len(scores) == len(found)
        assert ((scores >= 0.0) & (scores <= 1.0)).all()
        assert (np.diff(scores) <= 0.0).all()

    @pytest.mark.parametrize("text", [text for text in HOSTILE if text.strip()])
    def test_no_query_breaks_it(self, text: str) -> None:
        assert len(self.search(text)) <= 10

    # ── optional ─────────────────────────────────────────────────────────────────────────────────

    def test_a_filter_holds(self) -> None:
        self.need("filters")
        assert self.arm().applies_filters
        only = Eq("doc_id", self.document)
        assert self.search(self.query, where=only).keys.tolist() == [self.expected]
        assert len(self.search(self.query, where=Eq("doc_id", "nowhere"))) == 0
