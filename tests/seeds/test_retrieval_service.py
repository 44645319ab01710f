"""Document 003, 3.1, 7.1 and the other interfaces: its request and result, its log table, its list of models."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import inspect

from qianxun import RetrievalRequest, RetrievalResult, Retrieve
from qianxun.core.errors import BadQuery
from qianxun.core.types import Document
from qianxun.engine.engine import Engine
from qianxun.testing.scripted import HashEmbedding
from tests.http.asking import asking

LIBRARY = [
    Document("123", "RAG 的阈值配置默认为 0.7。", name="RAG系统设计.pdf", content_type="chapter"),
    Document("124", "阈值配置说明：可按知识库修改。", name="配置指南.md", content_type="guide"),
]


def test_a_request_gives_results_and_is_logged(tmp_path: Path) -> None:
    async def story() -> None:
        async with Engine.open(tmp_path, models={"fake-64": HashEmbedding()}, background=False) as engine:
            kb = (await engine.create_knowledge_base("设计", model="fake-64")).id
            await engine.add_documents(kb, LIBRARY)
            req = RetrievalRequest(
                query="RAG 阈值配置",
                knowledge_base_id=kb,
                top_k=10,
                score_threshold=0.0,
                doc_ids=["123"],
                filters={"content_type": ["chapter"]},
                mode="hybrid",
                hybrid_weights={"vector": 0.7, "keyword": 0.3},
                use_rerank=False,
                rerank_model_id=0,
            )
            results = await Retrieve(engine, req)
            assert [(type(one), one.chunk_id, one.content) for one in results] == [
                (RetrievalResult, f"c_{kb}_123_0", LIBRARY[0].content)
            ]
            assert (results[0].source, results[0].metadata["doc_name"]) == ("hybrid", "RAG系统设计.pdf")
            assert len(await Retrieve(engine, RetrievalRequest("阈值配置", kb))) == 2
            with pytest.raises(BadQuery, match="rerank_model_id"):
                await Retrieve(engine, RetrievalRequest("阈值配置", kb, use_rerank=True))

            (_, entry) = await engine.logs.list()
            assert (entry.query, type(entry.time_cost_ms)) == ("RAG 阈值配置", int)
            with engine.records.reading() as tx:
                indexes = {
                    one["name"]: one["column_names"] for one in inspect(tx).get_indexes("knowledge_retrieval_log")
                }
                (column,) = [
                    one["type"]
                    for one in inspect(tx).get_columns("knowledge_retrieval_log")
                    if one["name"] == "time_cost_ms"
                ]
            assert indexes["idx_kb_created"] == ["knowledge_base_id", "created_at"]
            assert str(column) == "INTEGER"

    asyncio.run(story())


FIELDS = (
    "id", "user_id", "config_name", "api_key", "base_url", "model_name", "model_type", "model_dim", "max_tokens",
    "temperature", "top_p", "timeout", "status", "is_default", "created_at", "updated_at",
)  # fmt: skip


def test_the_models_of_a_user_are_listed_as_documented(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            model = {
                "config_name": "重排",
                "base_url": "https://api.example.com/v1",
                "model_name": "bge-reranker-large",
                "model_type": "rerank",
                "api_key": "sk-secret",
            }
            assert (await at.post("/user/api/7", model)).status_code == 201
            answer = (await at.http.get("/user/api/7/rerank")).json()
            assert (answer["total"], [set(FIELDS) <= set(one) for one in answer["list"]]) == (1, [True])
            assert answer["data"] == {"total": answer["total"], "list": answer["list"]}
            assert "sk-secret" not in str(answer)
            assert (await at.http.get("/user/api/7/chat")).json()["list"] == []

    asyncio.run(story())
