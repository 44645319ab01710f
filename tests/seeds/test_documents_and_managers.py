"""Document 004, 3.1, 3.3, 4 and 5.1: documents, the manager, the search engine and the event handler as it has them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qianxun import (
    ChunkSplitter,
    Document,
    EmbeddingEngine,
    Engine,
    HybridSearchEngine,
    KnowledgeBaseManager,
    RAGIndexEventHandler,
    Reranker,
    TextPreprocessor,
    VectorDocument,
)
from qianxun.core.errors import BadInput
from qianxun.testing.scripted import HashEmbedding, ScriptedReranker

CHAPTER = "第一章 林黛玉初进荣国府。\n\n贾母接着，一把搂入怀中。"
OWNER = {"user_id": "u1", "project_id": "p1"}


class MilvusClient:
    """The client of the document over a list: what it stores are the entities, what it gives are its tuples."""

    def __init__(self) -> None:
        self.entities: list[dict[str, Any]] = []

    def insert(self, vector_docs: list[VectorDocument]) -> list[str]:
        self.entities += [doc.to_milvus_entity() for doc in vector_docs]
        return [doc.id for doc in vector_docs]

    def search(
        self, query_vector: list[float], top_k: int = 10, filters: dict[str, Any] | None = None
    ) -> list[tuple[str, float, dict[str, Any]]]:
        def passes(entity: dict[str, Any]) -> bool:
            wanted = (filters or {}).items()
            return all(entity[name] in (value if isinstance(value, list) else [value]) for name, value in wanted)

        hits = [
            (
                entity["id"],
                float(np.dot(query_vector, entity["embedding"])),
                {
                    **{name: entity[name] for name in ("document_id", "chunk_text", "user_id", "content_type")},
                    "metadata": json.loads(entity["metadata_json"]),
                },
            )
            for entity in self.entities
            if passes(entity)
        ]
        return sorted(hits, key=lambda hit: -hit[1])[:top_k]

    def delete_by_document_id(self, document_id: str) -> None:
        self.entities = [entity for entity in self.entities if entity["document_id"] != document_id]


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def test_the_order_of_the_document_is_understood() -> None:
    document = Document("d2", "u1", "p1", "text", "chapter")
    assert (document.id, document.user_id, document.project_id) == ("d2", "u1", "p1")
    assert (document.content, document.content_type, document.metadata) == ("text", "chapter", {})
    assert isinstance(document.created_at, datetime)
    assert isinstance(document.updated_at, datetime)
    moment = datetime(2025, 10, 27)
    whole = Document("d2", "u1", "p1", "text", "chapter", {"format": "html"}, moment, moment)
    assert (whole.metadata, whole.created_at, whole.updated_at) == ({"format": "html"}, moment, moment)
    named = Document(id="d2", user_id="u1", project_id="p1", content="text", content_type="chapter", created_at=moment)
    assert (replace(named, metadata=whole.metadata), named.created_at) == (whole, moment)
    assert Document("d2", "u1", "p1", content="text", content_type="chapter") == document


def test_an_id_and_a_text_are_a_document() -> None:
    document = Document("faq-1", "门诊报销比例为 60%。", user_id="u1")
    assert (document.content, document.user_id) == ("门诊报销比例为 60%。", "u1")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("d2", "u1", "p1"), {}),  # which is the text?
        (("d2", "u1", "p1", "text"), {}),  # (id, content, name, format), or no content_type?
        (("d2", "正文", "名称", "markdown"), {"content_type": "chapter"}),
        (("d2", "u1", "p1", "text", "chapter"), {"content": "别的"}),
        (("d2", "u1", "p1", "text", {"format": "html"}), {}),
        (("d2", "u1", "p1", "text", "chapter", {}, None, None, "多的"), {}),
    ],
)
def test_what_could_be_meant_otherwise_is_refused(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="Document"):
        Document(*given, **named)


def test_a_vector_document_becomes_the_entity_of_the_document() -> None:
    metadata = {**OWNER, "content_type": "chapter", "offset": 0, "卷": "一"}
    entity = VectorDocument("d1_0", "d1", 0, "林黛玉", np.array([0.5, 0.25], np.float32), metadata).to_milvus_entity()
    assert json.loads(entity.pop("metadata_json")) == metadata
    assert entity == {
        "id": "d1_0",
        "document_id": "d1",
        "chunk_index": 0,
        "chunk_text": "林黛玉",
        "embedding": [0.5, 0.25],
        **OWNER,
        "content_type": "chapter",
    }


# ── over a vector database of the user's own ─────────────────────────────────────────────────────


class CutOff(HashEmbedding):
    is_off = False

    def embed_passages(self, texts: Sequence[str]) -> Any:
        if self.is_off:
            raise ConnectionError("no route to host")
        return super().embed_passages(texts)


def test_the_managers_of_the_document_run_over_its_milvus_client() -> None:
    async def story() -> None:
        model = CutOff()
        vectorizer, vector_db = EmbeddingEngine(model=model), MilvusClient()
        kb_manager = KnowledgeBaseManager(vectorizer, vector_db)
        assert await kb_manager.index_document(Document("d1", "u1", "p1", CHAPTER, "chapter")) == 1
        html = Document("d2", "u1", "p1", "<p>门诊报销</p><script>x()</script>", "setting", {"format": "html"})
        assert await kb_manager.batch_index([html, Document("d3", "u2", "p1", CHAPTER, "chapter")]) == {
            "d2": 1,
            "d3": 1,
        }
        assert [entity["chunk_text"] for entity in vector_db.entities][1] == "门诊报销"

        hybrid = HybridSearchEngine(vectorizer, vector_db, semantic_weight=0.7, keyword_weight=0.3)
        results = await hybrid.search("林黛玉", "u1", "p1", top_k=10)
        assert [result.document_id for result in results] == ["d1", "d2"]
        assert "林黛玉" in results[0].highlights[0]
        assert results[0].metadata["offset"] == 0
        assert [result.document_id for result in await hybrid.search("林黛玉", "u2", "p1")] == ["d3"]
        assert [one.document_id for one in await hybrid.search("林黛玉", "u1", "p1", 10, ["setting"], False)] == ["d2"]

        handler = RAGIndexEventHandler(kb_manager)
        event = {"document_id": "d1", **OWNER, "content": "宝玉挨打。", "content_type": "chapter", "metadata": {}}
        model.is_off = True
        await handler.handle_document_updated(event)  # logged, not raised
        assert [entity["chunk_text"] for entity in vector_db.entities if entity["document_id"] == "d1"] == [CHAPTER]
        model.is_off = False
        await handler.handle_document_updated(event)
        await handler.handle_document_deleted({"document_id": "d2"})
        assert [entity["chunk_text"] for entity in vector_db.entities] == [CHAPTER, "宝玉挨打。"]

    asyncio.run(story())


def test_own_steps_and_whose_it_is_are_kept() -> None:
    async def story() -> None:
        vector_db = MilvusClient()
        kb_manager = KnowledgeBaseManager(
            EmbeddingEngine(model=HashEmbedding()), vector_db, TextPreprocessor(), ChunkSplitter(20, 0)
        )
        stolen = Document("d1", "u1", "p1", "一二三四五六七八九十。" * 3, "chapter", {"user_id": "u2"})
        assert await kb_manager.index_document(stolen) == 3
        assert {entity["user_id"] for entity in vector_db.entities} == {"u1"}

    asyncio.run(story())


# ── over a knowledge base ────────────────────────────────────────────────────────────────────────


def test_the_same_calls_run_over_a_knowledge_base_and_rerank_its_results(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            kb = (await engine.create_knowledge_base("小说", model="fake-64")).id
            vectorizer, vector_db = EmbeddingEngine(model=HashEmbedding()), await engine.base(kb)
            kb_manager = KnowledgeBaseManager(vectorizer, vector_db)
            dated = Document("d1", "u1", "p1", CHAPTER, "chapter", created_at=datetime(2025, 10, 27))
            assert await kb_manager.index_document(dated) == 1
            handler = RAGIndexEventHandler(kb_manager)
            event = {"document_id": "d2", **OWNER, "content": "林黛玉葬花。", "content_type": "chapter"}
            await handler.handle_document_created(event)

            hybrid = HybridSearchEngine(vectorizer, vector_db)
            results = await hybrid.search("林黛玉", "u1", "p1")
            assert {result.document_id for result in results} == {"d1", "d2"}
            (dated_result,) = [result for result in results if result.document_id == "d1"]
            assert dated_result.metadata["created_at"] == "2025-10-27T00:00:00"

            model = ScriptedReranker(lambda query, text: float("葬花" in text), share=1.0)
            reranked = Reranker(model).rerank("林黛玉", await hybrid.search("林黛玉", "u1", "p1"))
            assert [(result.document_id, result.score) for result in reranked] == [("d2", 1.0), ("d1", 0.0)]

            with pytest.raises(BadInput, match="fake-64"):
                KnowledgeBaseManager(EmbeddingEngine(model=HashEmbedding(32)), vector_db)
            with pytest.raises(BadInput, match="chunker"):
                KnowledgeBaseManager(vectorizer, vector_db, chunker=ChunkSplitter())
            with pytest.raises(BadInput, match="semantic_weight"):
                HybridSearchEngine(vector_db, 0.7, 0.3)  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="delete_by_document_id"):
                KnowledgeBaseManager(vectorizer, object())  # type: ignore[arg-type]

    asyncio.run(story())
