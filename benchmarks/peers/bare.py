"""The bare engine calls: one tantivy query and one faiss search with exact scores, over what `ours` has built.

As many candidates per arm as the pipeline asks for. No segmentation of the question, no fusion, no text: the questions
are turned into tantivy queries before the clock starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.harness import Answer, Contender, Material, Question, main
from qianxun.core.types import BM25
from qianxun.index.embedded import codes
from qianxun.index.embedded.index import Options
from qianxun.index.embedded.keywords import search, tantivy_index
from qianxun.retrieve.fuse import DEPTH
from qianxun.text.chinese import analyse_query


def build(material: Material, folder: Path) -> None:
    """Nothing of its own: it reads what `ours` has built."""


def _keyword_folder(folder: Path) -> Path:
    (found,) = (folder.parent / "ours" / "data" / "index").glob("*/*/keywords")
    return found


def _query(view: Any, text: str) -> Any:
    """The very query that the index would put to tantivy."""
    wanted = search.wanted_terms(view, analyse_query(text), Options().gram_weight, BM25)
    return search.text_query(view.schema, wanted, "any")


def _products(rows: Any, vector: Any) -> Any:
    """Not BLAS, which shares so little work out among threads and burns more than the work itself in waiting."""
    import faiss
    import numpy as np

    products = np.empty(len(rows), dtype=np.float32)
    pointers = (faiss.swig_ptr(products), faiss.swig_ptr(vector), faiss.swig_ptr(rows))
    faiss.fvec_inner_products_ny(*pointers, rows.shape[1], len(rows))
    return products


def open_(material: Material, folder: Path) -> Answer:
    import faiss
    import numpy as np

    view, vectors = tantivy_index.Keywords.open(_keyword_folder(folder)).view(), material.vectors()
    queries = {each.text: _query(view, each.text) for each in material.questions()}
    centers = codes.centers_of(vectors)
    coded = codes.coded(centers, codes.encode(centers, vectors), 0).parts[0].index
    chosen = faiss.IVFRaBitQSearchParameters(nprobe=max(1, int(codes.PROBED * coded.nlist)), qb=codes.QUERY_BITS)
    faiss.omp_set_num_threads(1)

    def ask(question: Question) -> list[str]:
        matched = view.searcher.search(queries[question.text], DEPTH, count=False).hits
        _, found = coded.search(question.vector[None, :], min(codes.POOL, len(vectors)), params=chosen)
        proposed = found[0][found[0] >= 0]
        scores = _products(vectors[proposed], question.vector)
        nearest = proposed[np.argsort(-scores)[:DEPTH]]
        return [str(row) for row in nearest[:5]] + [str(score) for score, _ in matched[:5]]

    return lambda questions: [ask(question) for question in questions]


if __name__ == "__main__":
    main(Contender(build, open_, ("qianxun", "faiss", "tantivy")))
