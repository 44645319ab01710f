"""Qianxun 千寻: Chinese-first recall for RAG.

Start with `Engine` (or `open_blocking` for code that does not await, `Client` for a running service): knowledge bases,
adding, searching, asking, deleting. The other names are tools for one knowledge base, the steps of indexing (cleaning,
chunking, embedding), the example library, and adapters for LangGraph, LangChain and LlamaIndex. All are imported on
first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qianxun.answer.generate import AnswerGenerator
    from qianxun.core.documents import Document, VectorDocument
    from qianxun.core.errors import QianxunError
    from qianxun.core.ingest_types import Labels
    from qianxun.doors.client import Client
    from qianxun.doors.frameworks.hybrid_retriever import HybridRetriever
    from qianxun.doors.frameworks.layered_retriever import LayeredRetriever, search_tables, search_texts
    from qianxun.doors.frameworks.rag_anything import RAGAnythingAdapter
    from qianxun.doors.workflow.graph_builder import FlowState, GraphBuilder
    from qianxun.doors.workflow.nodes.retrieval_node import make_retrieval_node, retrieval_node
    from qianxun.doors.workflow.query_workflow import create_query_workflow
    from qianxun.engine.blocking import open_blocking
    from qianxun.engine.engine import Engine
    from qianxun.engine.example_library import (
        get_embedding_model,
        import_from_excel,
        insert_greeting_examples,
        insert_qa_examples,
        insert_query_examples,
        insert_record_examples,
        multi_table_search,
        search_in_table,
        search_with_fallback,
        vector_db_search,
    )
    from qianxun.engine.settings import Settings
    from qianxun.engine.standalone_models import EmbeddingEngine, Reranker
    from qianxun.examples.insert import vectorize_text
    from qianxun.examples.library import RETRIEVAL_CONFIG, ExampleLibrary
    from qianxun.examples.results import (
        format_for_prompt,
        format_retrieved_examples,
        merge_and_rank_results,
        quality_filter,
    )
    from qianxun.examples.schema import DEFAULT_TABLE_NAMES, GreetingExample, QAExample, QueryExample, RecordExample
    from qianxun.graph.context import assemble_graph_context
    from qianxun.index.milvus.client import MilvusClient
    from qianxun.indexing.events import RAGIndexEventHandler
    from qianxun.indexing.knowledge_base import KnowledgeBaseManager
    from qianxun.ingest.chunk import ChunkSplitter
    from qianxun.ingest.preprocess import TextPreprocessor
    from qianxun.rank.rerank import ResultRanker, rank_results
    from qianxun.retrieve.hybrid_search import HybridSearchEngine, SearchResult
    from qianxun.retrieve.request import RetrievalRequest, RetrievalResult, Retrieve, Retriever

__all__ = [
    "DEFAULT_TABLE_NAMES", "RETRIEVAL_CONFIG", "AnswerGenerator", "ChunkSplitter", "Client", "Document",
    "EmbeddingEngine", "Engine", "ExampleLibrary", "FlowState", "GraphBuilder", "GreetingExample",
    "HybridRetriever", "HybridSearchEngine", "KnowledgeBaseManager", "Labels", "LayeredRetriever", "MilvusClient",
    "QAExample", "QianxunError", "QueryExample", "RAGAnythingAdapter", "RAGIndexEventHandler", "RecordExample",
    "Reranker", "ResultRanker", "RetrievalRequest", "RetrievalResult", "Retrieve", "Retriever", "SearchResult",
    "Settings", "TextPreprocessor", "VectorDocument", "assemble_graph_context", "create_query_workflow",
    "format_for_prompt", "format_retrieved_examples", "get_embedding_model", "import_from_excel",
    "insert_greeting_examples", "insert_qa_examples", "insert_query_examples", "insert_record_examples",
    "make_retrieval_node", "merge_and_rank_results", "multi_table_search", "open_blocking", "quality_filter",
    "rank_results", "retrieval_node", "search_in_table", "search_tables", "search_texts", "search_with_fallback",
    "vector_db_search", "vectorize_text",
]  # fmt: skip

# Imported on first use: a parser's child process and `--help` need none of the engine.
_MODULES = {
    "answer.generate": ("AnswerGenerator",),
    "core.documents": ("Document", "VectorDocument"),
    "core.errors": ("QianxunError",),
    "core.ingest_types": ("Labels",),
    "doors.client": ("Client",),
    "doors.frameworks.hybrid_retriever": ("HybridRetriever",),
    "doors.frameworks.layered_retriever": ("LayeredRetriever", "search_tables", "search_texts"),
    "doors.frameworks.rag_anything": ("RAGAnythingAdapter",),
    "doors.workflow.graph_builder": ("FlowState", "GraphBuilder"),
    "doors.workflow.nodes.retrieval_node": ("make_retrieval_node", "retrieval_node"),
    "doors.workflow.query_workflow": ("create_query_workflow",),
    "engine.blocking": ("open_blocking",),
    "engine.engine": ("Engine",),
    "engine.example_library": (
        "get_embedding_model",
        "import_from_excel",
        "insert_greeting_examples",
        "insert_qa_examples",
        "insert_query_examples",
        "insert_record_examples",
        "multi_table_search",
        "search_in_table",
        "search_with_fallback",
        "vector_db_search",
    ),
    "engine.standalone_models": ("EmbeddingEngine", "Reranker"),
    "engine.settings": ("Settings",),
    "examples.insert": ("vectorize_text",),
    "examples.library": ("RETRIEVAL_CONFIG", "ExampleLibrary"),
    "examples.results": ("format_for_prompt", "format_retrieved_examples", "merge_and_rank_results", "quality_filter"),
    "examples.schema": ("DEFAULT_TABLE_NAMES", "GreetingExample", "QAExample", "QueryExample", "RecordExample"),
    "graph.context": ("assemble_graph_context",),
    "index.milvus.client": ("MilvusClient",),
    "indexing.events": ("RAGIndexEventHandler",),
    "indexing.knowledge_base": ("KnowledgeBaseManager",),
    "ingest.chunk": ("ChunkSplitter",),
    "ingest.preprocess": ("TextPreprocessor",),
    "rank.rerank": ("ResultRanker", "RetrievalRequest", "RetrievalResult", "Retrieve", "Retriever", "rank_results"),
    "retrieve.hybrid_search": ("HybridSearchEngine", "SearchResult"),
    "retrieve.request": ("RetrievalRequest", "RetrievalResult", "Retrieve", "Retriever"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'qianxun' has no attribute {name!r}")
    return getattr(importlib.import_module(f"qianxun.{_HOMES[name]}"), name)
