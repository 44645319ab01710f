"""Documents 001, 5 and 002: what `search_texts`, `search_tables` and `assemble_graph_context` return, to the key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qianxun import Engine, LayeredRetriever, assemble_graph_context, open_blocking, search_tables, search_texts
from qianxun.core.errors import BadInput
from qianxun.core.layered_types import LayeredRecall
from qianxun.core.types import Document

KEYS = {
    "doc": object,
    "score": float,
    "strategy": str,
    "layer": int,
    "content": str,
    "metadata": dict,
    "doc_id": str,
    "document_name": str,
    "match_details": str,
}
TABLE = "# 报销比例\n\n| 项目 | 比例 |\n| --- | --- |\n| 门诊 | 60% |\n| 住院 | 85% |\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")

    async def fill() -> None:
        async with Engine.open(folder, background=False) as engine:
            kb = (await engine.create_knowledge_base("医保", model="none")).id
            documents = [
                Document("手册", "住院费用的报销比例为百分之八十五。", name="手册.md", metadata={"年份": 2024}),
                Document("比例", TABLE, name="比例.md", format="markdown"),
            ]
            await engine.add_documents(kb, documents)

    asyncio.run(fill())
    return folder


def check(results: list[dict[str, Any]]) -> dict[str, Any]:
    assert results
    for result in results:
        assert list(result) == list(KEYS)
        assert all(isinstance(result[key], kind) for key, kind in KEYS.items())
    return results[0]


def test_the_calls_of_the_document_give_its_dictionaries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIANXUN_DATA", str(folder))
    text = check(search_texts("住院报销比例", top_k=3))
    assert (text["doc_id"], text["document_name"], text["metadata"]) == ("手册", "手册.md", {"年份": 2024})
    assert (text["doc"].page_content, text["doc"].metadata) == (text["content"], {"年份": 2024})
    assert "报销" in text["match_details"]
    table = check(search_tables("住院的报销比例", top_k=3, knowledge_base="医保"))
    assert (table["doc_id"], "85%" in table["content"]) == ("比例", True)


def test_over_an_engine_and_typed_as_the_engine_has_it(folder: Path) -> None:
    with open_blocking(folder, background=False) as rag:
        retriever = LayeredRetriever(rag)
        assert check(retriever.search_texts("住院报销比例"))["doc_id"] == "手册"
        assert check(asyncio.run(retriever.asearch_tables("报销比例", 1)))["doc_id"] == "比例"
        assert isinstance(rag.search_texts(rag.knowledge_base("医保").id, "住院报销比例"), LayeredRecall)

    async def story() -> None:
        async with Engine.open(folder, background=False) as engine:
            retriever = LayeredRetriever(engine, "医保")
            assert check(await retriever.asearch_texts("住院报销比例"))["strategy"] == "keyword"
            with pytest.raises(BadInput, match="asearch_texts"):
                retriever.search_texts("住院报销比例")

    asyncio.run(story())


def test_a_graph_context_is_the_dictionary_of_the_document() -> None:
    expected = {
        "entities": [
            {"id": "e1", "name": "糖尿病", "type": "DISEASE"},
            {"id": "e2", "name": "胰岛素", "type": "MEDICINE"},
        ],
        "relationships": [
            {"source": "e2", "target": "e1", "type": "TREATS"},
        ],
    }
    assert assemble_graph_context(expected["entities"], expected["relationships"]) == expected
    by_relevance = assemble_graph_context(expected["entities"], relevance={"e2": 1.0, "e1": 0.5})
    assert [entity["id"] for entity in by_relevance["entities"]] == ["e2", "e1"]
    with pytest.raises(BadInput, match="type"):
        assemble_graph_context([{"id": "e1", "name": "糖尿病"}])
