"""The names of the user's documents are importable from `qianxun`, and cost nothing until they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import qianxun
from tests.examples.libraries import MODEL

NAMES = {
    "000": (
        "DEFAULT_TABLE_NAMES",
        "RETRIEVAL_CONFIG",
        "FlowState",
        "QAExample",
        "RecordExample",
        "QueryExample",
        "GreetingExample",
        "get_embedding_model",
        "vectorize_text",
        "import_from_excel",
        "insert_qa_examples",
        "insert_record_examples",
        "insert_query_examples",
        "insert_greeting_examples",
        "retrieval_node",
        "vector_db_search",
        "multi_table_search",
        "search_in_table",
        "search_with_fallback",
        "merge_and_rank_results",
        "quality_filter",
        "format_retrieved_examples",
        "format_for_prompt",
    ),
    "001": ("search_texts", "search_tables"),
    "002": (
        "create_query_workflow",
        "RAGAnythingAdapter",
        "HybridRetriever",
        "ResultRanker",
        "rank_results",
        "assemble_graph_context",
        "AnswerGenerator",
    ),
    "003": ("RetrievalRequest", "RetrievalResult", "Retrieve", "Retriever"),
    "004": (
        "TextPreprocessor",
        "ChunkSplitter",
        "EmbeddingEngine",
        "Document",
        "VectorDocument",
        "KnowledgeBaseManager",
        "SearchResult",
        "HybridSearchEngine",
        "Reranker",
        "RAGIndexEventHandler",
    ),
}


@pytest.mark.parametrize("name", [name for names in NAMES.values() for name in names])
def test_a_name_of_the_documents_is_importable(name: str) -> None:
    assert name in qianxun.__all__
    value = getattr(qianxun, name)
    assert name.isupper() or getattr(value, "__name__", name) in (name, "ResultRanker")


def test_the_page_on_the_documents_names_them_all() -> None:
    page = (
        (Path(__file__).resolve().parents[2] / "docs" / "seeds.md").read_text("utf-8").replace("insert_*_examples", "")
    )
    missing = [name for names in NAMES.values() for name in names if name not in page]
    assert [name for name in missing if not name.startswith("insert_")] == []


def test_the_constants_are_those_of_the_document() -> None:
    assert list(qianxun.DEFAULT_TABLE_NAMES) == [
        "qa_examples",
        "record_examples",
        "query_examples",
        "greeting_examples",
    ]
    assert qianxun.RETRIEVAL_CONFIG == {"top_k_per_table": 5, "global_top_k": 15, "similarity_threshold": 0.7}


def test_the_models_have_the_tables_of_the_document() -> None:
    from qianxun import GreetingExample, QAExample, QueryExample, RecordExample

    tables = [model.__tablename__ for model in (QAExample, RecordExample, QueryExample, GreetingExample)]  # type: ignore[attr-defined]
    assert tables == [f"gd2502_{name}" for name in qianxun.DEFAULT_TABLE_NAMES]


def test_the_steps_of_indexing_run_as_the_document_has_them() -> None:
    from qianxun import ChunkSplitter, EmbeddingEngine, TextPreprocessor, vectorize_text

    preprocessor, chunker = TextPreprocessor(), ChunkSplitter(chunk_size=500, chunk_overlap=50)
    vectorizer = EmbeddingEngine(model=MODEL)
    cleaned_text = preprocessor.preprocess("<p>林黛玉初进荣国府。</p><script>x()</script>", content_type="html")
    chunks = chunker.split(cleaned_text)
    chunk_texts = [chunk[0] for chunk in chunks]
    embeddings = vectorizer.encode(chunk_texts)
    assert (chunk_texts, embeddings.shape) == (["林黛玉初进荣国府。"], (1, MODEL.dimension))
    assert vectorize_text(chunk_texts[0], MODEL) == pytest.approx(embeddings[0].tolist())


def test_importing_qianxun_imports_no_other_package() -> None:
    code = (
        "import sys; before = set(sys.modules); import qianxun; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['qianxun']"
