"""Qianxun 千寻: Chinese-first recall for RAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qianxun.engine import Engine
    from qianxun.errors import QianxunError
    from qianxun.pipelines.events import RAGIndexEventHandler
    from qianxun.pipelines.ingest import Labels
    from qianxun.pipelines.knowledge_base import KnowledgeBaseManager
    from qianxun.settings import Settings
    from qianxun.types import Document

__all__ = ["Document", "Engine", "KnowledgeBaseManager", "Labels", "QianxunError", "RAGIndexEventHandler", "Settings"]

# Looked up on first use: a parser child and `--help` need none of the engine.
_HOMES = {
    "Document": "qianxun.types",
    "Engine": "qianxun.engine",
    "KnowledgeBaseManager": "qianxun.pipelines.knowledge_base",
    "Labels": "qianxun.pipelines.ingest",
    "QianxunError": "qianxun.errors",
    "RAGIndexEventHandler": "qianxun.pipelines.events",
    "Settings": "qianxun.settings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qianxun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
