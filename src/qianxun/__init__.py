"""Qianxun 千寻: Chinese-first recall for RAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qianxun.answer.generate import AnswerGenerator
    from qianxun.core.errors import QianxunError
    from qianxun.core.ingest_types import Labels
    from qianxun.core.types import Document
    from qianxun.doors.client import Client
    from qianxun.doors.frameworks.hybrid_retriever import HybridRetriever
    from qianxun.doors.frameworks.rag_anything import RAGAnythingAdapter
    from qianxun.doors.workflow.graph_builder import GraphBuilder
    from qianxun.doors.workflow.nodes.retrieval_node import make_retrieval_node, retrieval_node
    from qianxun.doors.workflow.query_workflow import create_query_workflow
    from qianxun.engine.blocking import open_blocking
    from qianxun.engine.engine import Engine
    from qianxun.engine.example_library import (
        import_from_excel,
        multi_table_search,
        search_in_table,
        search_with_fallback,
        vector_db_search,
    )
    from qianxun.engine.settings import Settings
    from qianxun.examples.formatting import format_for_prompt, format_retrieved_examples
    from qianxun.examples.search.library import ExampleLibrary
    from qianxun.examples.search.ranking import merge_and_rank_results, quality_filter
    from qianxun.graph.context import assemble_graph_context
    from qianxun.indexing.events import RAGIndexEventHandler
    from qianxun.indexing.knowledge_base import KnowledgeBaseManager
    from qianxun.rank.rerank import Reranker, ResultRanker, rank_results
    from qianxun.retrieve.hybrid_search import HybridSearchEngine

__all__ = [
    "AnswerGenerator",
    "Client",
    "Document",
    "Engine",
    "ExampleLibrary",
    "GraphBuilder",
    "HybridRetriever",
    "HybridSearchEngine",
    "KnowledgeBaseManager",
    "Labels",
    "QianxunError",
    "RAGAnythingAdapter",
    "RAGIndexEventHandler",
    "Reranker",
    "ResultRanker",
    "Settings",
    "assemble_graph_context",
    "create_query_workflow",
    "format_for_prompt",
    "format_retrieved_examples",
    "import_from_excel",
    "make_retrieval_node",
    "merge_and_rank_results",
    "multi_table_search",
    "open_blocking",
    "quality_filter",
    "rank_results",
    "retrieval_node",
    "search_in_table",
    "search_with_fallback",
    "vector_db_search",
]

# Looked up on first use: a parser child and `--help` need none of the engine.
_HOMES = {
    "AnswerGenerator": "qianxun.answer.generate",
    "Client": "qianxun.doors.client",
    "Document": "qianxun.core.types",
    "Engine": "qianxun.engine.engine",
    "ExampleLibrary": "qianxun.examples.search.library",
    "GraphBuilder": "qianxun.doors.workflow.graph_builder",
    "HybridRetriever": "qianxun.doors.frameworks.hybrid_retriever",
    "HybridSearchEngine": "qianxun.retrieve.hybrid_search",
    "KnowledgeBaseManager": "qianxun.indexing.knowledge_base",
    "Labels": "qianxun.core.ingest_types",
    "QianxunError": "qianxun.core.errors",
    "RAGAnythingAdapter": "qianxun.doors.frameworks.rag_anything",
    "RAGIndexEventHandler": "qianxun.indexing.events",
    "Reranker": "qianxun.rank.rerank",
    "ResultRanker": "qianxun.rank.rerank",
    "Settings": "qianxun.engine.settings",
    "assemble_graph_context": "qianxun.graph.context",
    "create_query_workflow": "qianxun.doors.workflow.query_workflow",
    "format_for_prompt": "qianxun.examples.formatting",
    "format_retrieved_examples": "qianxun.examples.formatting",
    "import_from_excel": "qianxun.engine.example_library",
    "make_retrieval_node": "qianxun.doors.workflow.nodes.retrieval_node",
    "merge_and_rank_results": "qianxun.examples.search.ranking",
    "multi_table_search": "qianxun.engine.example_library",
    "open_blocking": "qianxun.engine.blocking",
    "quality_filter": "qianxun.examples.search.ranking",
    "rank_results": "qianxun.rank.rerank",
    "retrieval_node": "qianxun.doors.workflow.nodes.retrieval_node",
    "search_in_table": "qianxun.engine.example_library",
    "search_with_fallback": "qianxun.engine.example_library",
    "vector_db_search": "qianxun.engine.example_library",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qianxun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
