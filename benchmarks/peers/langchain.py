"""LangChain: BM25Retriever (jieba as ``preprocess_func``) and FAISS under EnsembleRetriever.

FAISS is kept with ``save_local``. BM25Retriever has no way of being kept, so whoever opens it again builds it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main


class _LookedUp:
    """Embeddings whose vectors were made beforehand."""

    def __init__(self) -> None:
        self.of: dict[str, Sequence[float]] = {}

    def embed_query(self, text: str) -> list[float]:
        return list(self.of[text])


def _embeddings(looked_up: _LookedUp) -> object:
    from langchain_core.embeddings import Embeddings

    class Precomputed(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [looked_up.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return looked_up.embed_query(text)

    return Precomputed()


def build(material: Material, folder: Path) -> None:
    from langchain_community.vectorstores import FAISS

    passages, vectors = material.passages(), material.vectors()
    pairs = [(passage.text, vector.tolist()) for passage, vector in zip(passages, vectors, strict=True)]
    ids = [passage.id for passage in passages]
    store = FAISS.from_embeddings(pairs, _embeddings(_LookedUp()), ids=ids)
    store.save_local(str(folder / "faiss"))


def open_(material: Material, folder: Path) -> Answer:
    import jieba
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS

    looked_up = _LookedUp()
    store = FAISS.load_local(str(folder / "faiss"), _embeddings(looked_up), allow_dangerous_deserialization=True)
    passages = material.passages()
    words = {passage.text: passage.words.split() for passage in passages}
    keywords = BM25Retriever.from_texts(
        [passage.text for passage in passages], preprocess_func=lambda text: words.get(text) or jieba.lcut(text)
    )
    keywords.k = TOP_K
    dense = store.as_retriever(search_kwargs={"k": TOP_K})
    hybrid = EnsembleRetriever(retrievers=[keywords, dense], weights=[0.5, 0.5])

    def answer(questions: Sequence[Question]) -> list[list[str]]:
        looked_up.of.update((question.text, question.vector.tolist()) for question in questions)
        return [[found.page_content for found in hybrid.invoke(question.text)[:TOP_K]] for question in questions]

    return answer


MODULES = (
    "jieba",
    "langchain_classic.retrievers",
    "langchain_community.retrievers",
    "langchain_community.vectorstores",
    "faiss",
)

if __name__ == "__main__":
    main(Contender(build, open_, MODULES, persists=False))
