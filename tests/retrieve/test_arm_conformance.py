"""Our own arms keep what every arm promises, over a real base."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.core.ports import RetrieverArm
from qianxun.core.types import EVERYTHING, Document, Filter, QAPair, Query, Ranking
from qianxun.retrieve.arms import STANDARD, SearchContext
from qianxun.testing.arm_conformance import TEXTS, ArmConformance
from qianxun.testing.scripted import HashEmbedding
from qianxun.text.chinese import analyse_query
from tests.answer.asked import Opened

ARMS = {arm.name: arm for arm in STANDARD}
MODEL = HashEmbedding()


class OverABase(ArmConformance):
    abilities = frozenset({"filters"})
    name = ""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def base(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        pair = QAPair("住院费用的报销比例是多少", TEXTS[2])
        documents = [Document(f"d{key}", text, pairs=(pair,) if key == 2 else ()) for key, text in TEXTS.items()]
        with Opened(tmp_path_factory.mktemp("arms"), documents) as opened:
            cls.opened = opened
            (chunk,) = opened.run(opened.engine.chunks(opened.kb, "d2"))
            cls.expected = chunk.key
            yield

    opened: Opened

    def arm(self) -> RetrieverArm:
        return ARMS[self.name]

    def search(self, text: str, limit: int = 10, where: Filter = EVERYTHING) -> Ranking:
        query = Query(text, analyse_query(text), MODEL.embed_query(text), where)

        async def found() -> Ranking:
            base = await self.opened.engine.base(self.opened.kb)
            return await self.arm().search(query, limit, SearchContext(base, base.serving))

        return self.opened.run(found())


class TestVector(OverABase):
    name = "vector"


class TestKeyword(OverABase):
    name = "keyword"


class TestQuestions(OverABase):
    name = "qa"
