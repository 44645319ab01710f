"""The communities of a base's graph as documents come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qianxun.core.types import EVERYTHING, Document, Eq
from qianxun.engine.engine import Engine
from qianxun.graph.context import BUDGET
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.text.tokens import context_tokens

TEXTS = {
    "医学": "《伤寒论》的作者是张仲景。《金匮要略》的作者是张仲景。张仲景是河南南阳人。",
    "文学": "《红楼梦》的作者是曹雪芹。《石头记》的作者是曹雪芹。曹雪芹是江苏南京人。",
    "史学": "《史记》的作者是司马迁。《报任安书》的作者是司马迁。司马迁是陕西韩城人。",
}


def told(graph: KnowledgeGraph) -> set[frozenset[str]]:
    return {frozenset(str(graph.ids[row]) for row in group) for group in graph.communities.groups()}


def test_communities_are_those_of_the_documents_that_are_there_and_unchanged_ones_are_not_looked_for_again(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            base = (await engine.create_knowledge_base("书", model="none")).id
            for name in ("医学", "文学"):
                await engine.add_documents(base, [Document(name, TEXTS[name], name=name)])
            two = await engine.graph(base)
            before = told(two)
            assert any(len(group) > 1 for group in before)
            await engine.add_documents(base, [Document("史学", TEXTS["史学"], name="史学")])
            three = await engine.graph(base)
            assert told(three) > before  # what was there is as it was
            filtered = await engine.graph(base, where=Eq("doc_id", "文学"))
            assert told(filtered) < before
            assert filtered.communities.runs == 0  # the component is known from the whole graph
            await engine.delete_document(base, "史学")
            again = await engine.graph(base)
            assert told(again) == before
            assert again.communities.runs == 0

    asyncio.run(main())


def test_what_global_search_tells_stands_at_its_sources_and_a_filter_holds(tmp_path: Path) -> None:
    async def main() -> None:
        async with Engine.open(tmp_path, background=False) as engine:
            base = (await engine.create_knowledge_base("书", model="none")).id
            await engine.add_documents(base, [Document(name, text, name=name) for name, text in TEXTS.items()])
            texts = {chunk.key: chunk.text for name in TEXTS for chunk in await engine.chunks(base, name)}
            owners = {chunk.key: name for name in TEXTS for chunk in await engine.chunks(base, name)}
            for where, allowed in ((EVERYTHING, set(TEXTS)), (Eq("doc_id", "医学"), {"医学"})):
                told = (await engine.gather(base, "这些书的作者是谁", mode="global", where=where)).context
                assert told.communities
                for each in told.communities:
                    quoted = [texts[place.chunk][place.start : place.end] for place in each.sources]
                    assert "\n".join(quoted) == each.summary
                    assert each.summary
                    assert {owners[place.chunk] for place in each.sources} <= allowed
                assert context_tokens(told) <= BUDGET

    asyncio.run(main())
