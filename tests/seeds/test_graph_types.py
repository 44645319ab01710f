"""Document 002, "图谱上下文组装": 糖尿病 is a disease, 胰岛素 a medicine that treats it, without a model, too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from qianxun.engine.engine import Engine
from qianxun.engine.settings import GraphSettings, Settings, Vectorization
from tests.indexing.opened import doc

TEXT = "糖尿病患者的主要症状是多饮、多尿，部分患者伴有多汗。胰岛素用于治疗糖尿病。"


async def shown(settings: Settings) -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    """The types of the entities by name, and the relations."""
    async with Engine.open(settings=settings, background=False) as engine:
        known = await engine.knowledge_bases()
        kb = known[0].id if known else (await engine.create_knowledge_base("医学")).id
        if not known:
            await engine.add_documents(kb, [doc("甲", TEXT)])
        graph = await engine.graph(kb)
        names = {entity.id: entity.name for entity in graph.entities}
        rows = [graph.relation(row) for row in range(len(graph.relations))]
        assert (await engine.admin.verify(kb)).is_clean
        types = {entity.name: entity.type for entity in graph.entities}
        return types, {(names[row.source], row.type, names[row.target]) for row in rows}


def test_types_and_relations_are_those_of_the_document_and_follow_another_lexicon(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "data"), vectorization=Vectorization(model="none"))
    types, relations = asyncio.run(shown(settings))
    assert (types["糖尿病"], types["胰岛素"], types["多汗"]) == ("DISEASE", "MEDICINE", "SYMPTOM")
    assert {("胰岛素", "治疗", "糖尿病"), ("糖尿病", "症状", "多汗"), ("糖尿病", "症状", "多饮")} <= relations

    own = tmp_path / "own.toml"
    own.write_text('[types.HORMONE]\nwords = "胰岛素"\n', encoding="utf-8")
    types, relations = asyncio.run(shown(replace(settings, graph=GraphSettings(lexicon=str(own)))))
    assert types["胰岛素"] == "HORMONE"  # the same base, read again
    assert "DISEASE" not in types.values()
    assert "症状" not in {kind for _, kind, _ in relations}
