"""The bare engine calls: one tantivy query and one faiss search with exact scores, over what `ours` has built.

As many candidates per arm as the pipeline asks for. No segmentation of the question, no fusion, no text: the questions
are turned into tantivy queries before the clock starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.harness import Answer, Contender, Material, Question, main

GRAM_WEIGHT = 0.5  # as in the index


def build(material: Material, folder: Path) -> None:
    """Nothing of its own: it reads what `ours` has built."""


def _keyword_folder(folder: Path) -> Path:
    (found,) = (folder.parent / "ours" / "data" / "index").glob("*/*/keywords")
    return found


def _query(schema: Any, analyser: Any, text: str) -> Any:
    from tantivy import Occur, Query

    terms = analyser.analyse_query(text)
    clauses = [(Occur.Should, Query.term_query(schema, "words", word, "freq")) for word in dict.fromkeys(terms.words)]
    for gram in dict.fromkeys(terms.grams):
        clauses.append((Occur.Should, Query.boost_query(Query.term_query(schema, "grams", gram, "freq"), GRAM_WEIGHT)))
    return Query.boolean_query(clauses)


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
    import tantivy

    from qianxun.chinese import Analyser
    from qianxun.index import codes
    from qianxun.pipelines.recall import DEPTH

    index = tantivy.Index.open(str(_keyword_folder(folder)))
    searcher, vectors, analyser = index.searcher(), material.vectors(), Analyser()
    queries = {each.text: _query(index.schema, analyser, each.text) for each in material.questions()}
    centers = codes.centers_of(vectors)
    coded = codes.coded(centers, codes.encode(centers, vectors), 0).index
    chosen = faiss.IVFRaBitQSearchParameters(nprobe=max(1, int(codes.PROBED * coded.nlist)), qb=codes.QUERY_BITS)
    faiss.omp_set_num_threads(1)

    def ask(question: Question) -> list[str]:
        matched = searcher.search(queries[question.text], DEPTH, count=False).hits
        _, found = coded.search(question.vector[None, :], min(codes.POOL, len(vectors)), params=chosen)
        proposed = found[0][found[0] >= 0]
        scores = _products(vectors[proposed], question.vector)
        nearest = proposed[np.argsort(-scores)[:DEPTH]]
        return [str(row) for row in nearest[:5]] + [str(score) for score, _ in matched[:5]]

    return lambda questions: [ask(question) for question in questions]


if __name__ == "__main__":
    main(Contender(build, open_, ("qianxun", "faiss", "tantivy")))
