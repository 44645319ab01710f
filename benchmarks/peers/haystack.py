"""Haystack: InMemoryDocumentStore with its BM25 and embedding retrievers, joined by reciprocal rank in a Pipeline.

Its BM25 cuts text with a regular expression, so it is given text with blanks between jieba's words. FactTables with
``save_to_disk``, which is one JSON file.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main


def build(material: Material, folder: Path) -> None:
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(
        bm25_tokenization_regex=r"(?u)\S+", embedding_similarity_function="dot_product", return_embedding=False
    )
    store.write_documents(
        [
            Document(id=passage.id, content=passage.words, embedding=vector.tolist())
            for passage, vector in zip(material.passages(), material.vectors(), strict=True)
        ]
    )
    store.save_to_disk(str(folder / "store.json"))


def open_(material: Material, folder: Path) -> Answer:
    import jieba
    from haystack import Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore.load_from_disk(str(folder / "store.json"))
    hybrid = Pipeline()
    hybrid.add_component("keywords", InMemoryBM25Retriever(store, top_k=TOP_K))
    hybrid.add_component("dense", InMemoryEmbeddingRetriever(store, top_k=TOP_K))
    hybrid.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=TOP_K))
    hybrid.connect("keywords", "joiner")
    hybrid.connect("dense", "joiner")

    def ask(question: Question) -> list[str]:
        words = " ".join(jieba.lcut(question.text))
        told = hybrid.run({"keywords": {"query": words}, "dense": {"query_embedding": question.vector.tolist()}})
        return [document.content for document in told["joiner"]["documents"]]

    return lambda questions: [ask(question) for question in questions]


MODULES = ("jieba", "haystack", "haystack.components.joiners", "haystack.components.retrievers.in_memory")

if __name__ == "__main__":
    main(Contender(build, open_, MODULES))
