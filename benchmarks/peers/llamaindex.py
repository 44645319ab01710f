"""LlamaIndex: BM25Retriever and VectorStoreIndex under QueryFusionRetriever (one query, reciprocal rank).

As its guide to reciprocal rank fusion has it, vectors are kept in its own store in memory. Tuned: in faiss.
BM25Retriever cuts text with a regular expression, so it is given text with blanks between jieba's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main

WORD = r"(?u)\S+"


def _embedding(looked_up: dict[str, Any]) -> Any:
    from llama_index.core.embeddings import MockEmbedding

    class Precomputed(MockEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return list(looked_up[query])

    return Precomputed(embed_dim=512)


def _faiss_store(kept: str = "") -> Any:
    import faiss
    from llama_index.vector_stores.faiss import FaissVectorStore

    if kept:
        return FaissVectorStore.from_persist_dir(kept)
    return FaissVectorStore(faiss_index=faiss.IndexFlatIP(512))


def build(material: Material, folder: Path, *, in_faiss: bool) -> None:
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    passages, vectors = material.passages(), material.vectors()
    nodes = [
        TextNode(id_=passage.id, text=passage.words, embedding=vector.tolist())
        for passage, vector in zip(passages, vectors, strict=True)
    ]
    storage = StorageContext.from_defaults(vector_store=_faiss_store() if in_faiss else None)
    index = VectorStoreIndex(nodes, storage_context=storage, embed_model=_embedding({}))
    index.storage_context.persist(str(folder / "storage"))
    for node in nodes:
        node.embedding = None
    keywords = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=TOP_K, skip_stemming=True, token_pattern=WORD)
    keywords.persist(str(folder / "bm25"))


def _hybrid(folder: Path, looked_up: dict[str, Any], in_faiss: bool) -> Any:
    from llama_index.core import StorageContext, load_index_from_storage
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    kept = str(folder / "storage")
    storage = StorageContext.from_defaults(vector_store=_faiss_store(kept) if in_faiss else None, persist_dir=kept)
    index = load_index_from_storage(storage, embed_model=_embedding(looked_up))
    keywords = BM25Retriever.from_persist_dir(str(folder / "bm25"))
    keywords.token_pattern, keywords.skip_stemming = WORD, True  # what it was built with, and does not keep
    return QueryFusionRetriever(
        [index.as_retriever(similarity_top_k=TOP_K), keywords],
        llm=MockLLM(),  # never asked: there is one query
        num_queries=1,
        similarity_top_k=TOP_K,
        mode="reciprocal_rerank",
        use_async=False,
    )


def open_(material: Material, folder: Path, *, in_faiss: bool) -> Answer:
    import jieba

    looked_up: dict[str, Any] = {}
    hybrid = _hybrid(folder, looked_up, in_faiss)

    def answer(questions: Sequence[Question]) -> list[list[str]]:
        found = []
        for question in questions:
            words = " ".join(jieba.lcut(question.text))
            looked_up[words] = question.vector.tolist()
            found.append([each.node.get_content() for each in hybrid.retrieve(words)])
        return found

    return answer


def _contender(in_faiss: bool, *modules: str) -> Contender:
    return Contender(partial(build, in_faiss=in_faiss), partial(open_, in_faiss=in_faiss), modules)


MODULES = ("jieba", "llama_index.core", "llama_index.retrievers.bm25")

if __name__ == "__main__":
    main(_contender(False, *MODULES), tuned=_contender(True, *MODULES, "llama_index.vector_stores.faiss", "faiss"))
