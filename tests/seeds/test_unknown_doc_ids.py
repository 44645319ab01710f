"""Document 003, 4 and 6: `doc_ids` narrow a search; one that names no document is reported, as an unknown @name is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qianxun.core.types import Document, Eq
from qianxun.engine.settings import Search
from tests.answer.asked import Opened
from tests.http.asking import asking

# As the document has it, without its comments.
REQUEST = """
{
    "query": "RAG 阈值配置",
    "retrieval_mode": "hybrid",
    "retrieval_config": {
        "top_k": 10,
        "score_threshold": 0.6,
        "hybrid_strategy": {"type": "weighted", "weights": {"vector": 0.7, "keyword": 0.3}, "rerank_model_id": 0}
    },
    "doc_ids": ["doc_123"]
}
"""
LIBRARY = [
    Document("doc_1", "RAG 的阈值配置默认为 0.7。", name="RAG系统设计.pdf", user_id="张三"),
    Document("doc_2", "关键词检索没有阈值。", name="配置指南.md", user_id="李四"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with Opened(tmp_path_factory.mktemp("ids"), LIBRARY, search=Search(cache_entries=0)) as opened:
        yield opened


def notes(shelf: Opened, *doc_ids: str, **options: Any) -> list[tuple[str, str]]:
    recall = shelf.ask("RAG 阈值配置", doc_ids=doc_ids, **options)
    return [(note.part, note.reason) for note in recall.degraded]


def test_an_unknown_id_is_reported_and_nothing_else_is_searched(shelf: Opened) -> None:
    recall = shelf.ask("RAG 阈值配置", doc_ids=("doc_123",))
    assert recall.found == ()
    ((part, reason),) = notes(shelf, "doc_123")
    assert part == "document"
    assert "“doc_123”" in reason


def test_known_ids_are_searched_without_a_note(shelf: Opened) -> None:
    assert notes(shelf, "doc_1", "doc_2") == []
    assert shelf.ask("RAG 阈值配置", doc_ids=("doc_1",)).found[0].chunk.doc_id == "doc_1"


def test_beside_a_known_one_only_the_unknown_is_reported(shelf: Opened) -> None:
    ((_, reason),) = notes(shelf, "doc_1", "没有")
    assert "“没有”" in reason
    assert "doc_1" not in reason
    assert shelf.ask("RAG 阈值配置", doc_ids=("doc_1", "没有")).found[0].chunk.doc_id == "doc_1"


def test_what_a_filter_hides_is_reported_like_what_does_not_exist(shelf: Opened) -> None:
    hidden = notes(shelf, "doc_2", where=Eq("user_id", "张三"))
    missing = notes(shelf, "doc_9", where=Eq("user_id", "张三"))
    assert [(part, reason.replace("doc_2", "doc_9")) for part, reason in hidden] == missing


def test_many_unknown_ids_are_one_short_note(shelf: Opened) -> None:
    ((_, reason),) = notes(shelf, *(f"{number}{'长' * 200}" for number in range(90)))
    assert "等 90 个" in reason
    assert len(reason) < 500


def test_the_request_of_the_document_over_http(tmp_path: Path) -> None:
    async def story() -> None:
        async with asking(tmp_path) as at:
            kb = await at.base(*LIBRARY)
            answer = await at.post(f"/v1/retrieval/{kb}", json.loads(REQUEST))
            assert answer.status_code == 200
            data = answer.json()["data"]
            assert data["chunks"] == []
            ((part, reason),) = [(note["part"], note["reason"]) for note in data["degraded"]]
            assert part == "document"
            assert "doc_123" in reason

    asyncio.run(story())
