"""A search for tables alone, or for prose alone: filtered before the search, in every mode, also after a rebuild."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qianxun import Document, Engine
from qianxun.core.types import Eq, Not, Recall
from qianxun.testing.scripted import HashEmbedding

PAGE = """# 报销比例

下表列出住院与门诊的报销比例，以当年公布的为准。

| 类别 | 报销比例 |
| --- | --- |
| 住院 | 85% |
| 门诊 | 70% |
"""


def kinds(recall: Recall) -> set[str]:
    return {each.chunk.kind for each in recall.found}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "fulltext"])
def test_only_chunks_of_the_kind_are_returned(tmp_path: Path, mode: str) -> None:
    async def story() -> None:
        model = HashEmbedding()
        async with Engine.open(tmp_path, models={model.name: model}, background=False) as engine:
            base = await engine.create_knowledge_base("医保", model=model.name)
            await engine.add_documents(base.id, [Document("手册", PAGE, format="markdown")])
            for _ in range(2):  # as it was taken in, then as the records give it back
                asked = {"mode": mode, "doc_ids": ["手册"]}
                assert kinds(await engine.retrieve(base.id, "报销比例", **asked)) == {"text", "table"}
                table = await engine.retrieve(base.id, "报销比例", where=Eq("kind", "table"), **asked)
                prose = await engine.retrieve(base.id, "报销比例", where=Not(Eq("kind", "table")), **asked)
                assert (kinds(table), kinds(prose)) == ({"table"}, {"text"})
                assert not table.degraded
                await engine.admin.rebuild(base.id)

    asyncio.run(story())


def test_a_document_can_be_named_in_a_search_for_its_tables(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            base = await engine.create_knowledge_base("医保", model="none")
            await engine.add_documents(base.id, [Document("手册", PAGE, name="手册.md", format="markdown")])
            found = await engine.retrieve(base.id, "@手册 报销比例", where=Eq("kind", "table"), mode="fulltext")
            assert kinds(found) == {"table"}
            assert not found.degraded

    asyncio.run(story())
