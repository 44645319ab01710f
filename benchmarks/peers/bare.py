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


def _codes(vectors: Any) -> Any:
    """One-bit codes of all rows, as the index keeps them."""
    import faiss
    import numpy as np

    codes = faiss.IndexRaBitQ(vectors.shape[1], faiss.METRIC_INNER_PRODUCT)
    codes.qb = 4
    faiss.copy_array_to_vector(np.ascontiguousarray(vectors.mean(axis=0)), codes.center)
    codes.is_trained = True
    codes.add(vectors)
    return codes


def _query(schema: Any, analyser: Any, text: str) -> Any:
    from tantivy import Occur, Query

    terms = analyser.analyse_query(text)
    clauses = [(Occur.Should, Query.term_query(schema, "words", word, "freq")) for word in dict.fromkeys(terms.words)]
    for gram in dict.fromkeys(terms.grams):
        clauses.append((Occur.Should, Query.boost_query(Query.term_query(schema, "grams", gram, "freq"), GRAM_WEIGHT)))
    return Query.boolean_query(clauses)


def open_(material: Material, folder: Path) -> Answer:
    import faiss
    import numpy as np
    import tantivy

    from qianxun.chinese import Analyser
    from qianxun.index.vectors import CANDIDATES, OVERSAMPLING
    from qianxun.pipelines.recall import DEPTH

    index = tantivy.Index.open(str(_keyword_folder(folder)))
    searcher, vectors, analyser = index.searcher(), material.vectors(), Analyser()
    codes = _codes(vectors)
    faiss.omp_set_num_threads(1)
    queries = {each.text: _query(index.schema, analyser, each.text) for each in material.questions()}
    proposed = max(CANDIDATES, OVERSAMPLING * DEPTH)

    def ask(question: Question) -> list[str]:
        matched = searcher.search(queries[question.text], DEPTH, count=False).hits
        _, found = codes.search(question.vector[None, :], proposed)
        scores = vectors[found[0]] @ question.vector
        nearest = found[0][np.argsort(-scores)[:DEPTH]]
        return [str(row) for row in nearest[:5]] + [str(score) for score, _ in matched[:5]]

    return lambda questions: [ask(question) for question in questions]


if __name__ == "__main__":
    main(Contender(build, open_, ("qianxun", "faiss", "tantivy")))
