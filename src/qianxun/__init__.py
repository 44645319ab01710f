"""Qianxun 千寻: Chinese-first recall for RAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qianxun.answer.generate import AnswerGenerator
    from qianxun.blocking import open_blocking
    from qianxun.client import Client
    from qianxun.engine import Engine
    from qianxun.errors import QianxunError
    from qianxun.example_library import import_from_excel
    from qianxun.example_search import multi_table_search, search_in_table, search_with_fallback, vector_db_search
    from qianxun.examples.formatting import format_for_prompt, format_retrieved_examples
    from qianxun.examples.ranking import merge_and_rank_results, quality_filter
    from qianxun.examples.search import ExampleLibrary
    from qianxun.graph.context import assemble_graph_context
    from qianxun.integrations.hybrid_retriever import HybridRetriever
    from qianxun.integrations.rag_anything import RAGAnythingAdapter
    from qianxun.pipelines.events import RAGIndexEventHandler
    from qianxun.pipelines.hybrid_search import HybridSearchEngine
    from qianxun.pipelines.ingest import Labels
    from qianxun.pipelines.knowledge_base import KnowledgeBaseManager
    from qianxun.rank.rerank import Reranker, ResultRanker, rank_results
    from qianxun.settings import Settings
    from qianxun.types import Document
    from qianxun.workflow.graph_builder import GraphBuilder
    from qianxun.workflow.nodes.retrieval_node import make_retrieval_node, retrieval_node
    from qianxun.workflow.query_workflow import create_query_workflow

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
    "Client": "qianxun.client",
    "Document": "qianxun.types",
    "Engine": "qianxun.engine",
    "ExampleLibrary": "qianxun.examples.search",
    "GraphBuilder": "qianxun.workflow.graph_builder",
    "HybridRetriever": "qianxun.integrations.hybrid_retriever",
    "HybridSearchEngine": "qianxun.pipelines.hybrid_search",
    "KnowledgeBaseManager": "qianxun.pipelines.knowledge_base",
    "Labels": "qianxun.pipelines.ingest",
    "QianxunError": "qianxun.errors",
    "RAGAnythingAdapter": "qianxun.integrations.rag_anything",
    "RAGIndexEventHandler": "qianxun.pipelines.events",
    "Reranker": "qianxun.rank.rerank",
    "ResultRanker": "qianxun.rank.rerank",
    "Settings": "qianxun.settings",
    "assemble_graph_context": "qianxun.graph.context",
    "create_query_workflow": "qianxun.workflow.query_workflow",
    "format_for_prompt": "qianxun.examples.formatting",
    "format_retrieved_examples": "qianxun.examples.formatting",
    "import_from_excel": "qianxun.example_library",
    "make_retrieval_node": "qianxun.workflow.nodes.retrieval_node",
    "merge_and_rank_results": "qianxun.examples.ranking",
    "multi_table_search": "qianxun.example_search",
    "open_blocking": "qianxun.blocking",
    "quality_filter": "qianxun.examples.ranking",
    "rank_results": "qianxun.rank.rerank",
    "retrieval_node": "qianxun.workflow.nodes.retrieval_node",
    "search_in_table": "qianxun.example_search",
    "search_with_fallback": "qianxun.example_search",
    "vector_db_search": "qianxun.example_search",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qianxun' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
