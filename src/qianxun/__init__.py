"""Qianxun 千寻: Chinese-first recall for RAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qianxun.client import Client
    from qianxun.engine import Engine
    from qianxun.errors import QianxunError
    from qianxun.pipelines.events import RAGIndexEventHandler
    from qianxun.pipelines.hybrid_search import HybridSearchEngine
    from qianxun.pipelines.ingest import Labels
    from qianxun.pipelines.knowledge_base import KnowledgeBaseManager
    from qianxun.rank.rerank import Reranker, ResultRanker, rank_results
    from qianxun.settings import Settings
    from qianxun.types import Document

__all__ = [
    "Client",
    "Document",
    "Engine",
    "HybridSearchEngine",
    "KnowledgeBaseManager",
    "Labels",
    "QianxunError",
    "RAGIndexEventHandler",
    "Reranker",
    "ResultRanker",
    "Settings",
    "rank_results",
]

# Looked up on first use: a parser child and `--help` need none of the engine.
_HOMES = {
    "Client": "qianxun.client",
    "Document": "qianxun.types",
    "Engine": "qianxun.engine",
    "HybridSearchEngine": "qianxun.pipelines.hybrid_search",
    "KnowledgeBaseManager": "qianxun.pipelines.knowledge_base",
    "Labels": "qianxun.pipelines.ingest",
    "QianxunError": "qianxun.errors",
    "RAGIndexEventHandler": "qianxun.pipelines.events",
    "Reranker": "qianxun.rank.rerank",
    "ResultRanker": "qianxun.rank.rerank",
    "Settings": "qianxun.settings",
    "rank_results": "qianxun.rank.rerank",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qianxun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
