"""LanceDB: a table with a full-text index, hybrid search, RRFReranker.

Its guide to hybrid search builds no vector index (vectors are compared exactly until `create_index` is called), and its
guide to vector indexes finds one unnecessary up to about 100,000 rows. Tuned: with one, IVF_PQ, its default.
Its own jieba tokenizer reads a dictionary from its model home; it is given the one that the package jieba carries.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main


def _dictionary(folder: Path) -> None:
    """Where Lance looks for jieba's dictionary."""
    import jieba

    home = folder / "language_models"
    (home / "jieba" / "default").mkdir(parents=True, exist_ok=True)
    kept = home / "jieba" / "default" / "dict.txt"
    if not kept.exists():
        shutil.copyfile(Path(jieba.__file__).with_name("dict.txt"), kept)
    os.environ["LANCE_LANGUAGE_MODEL_HOME"] = str(home)


def build(material: Material, folder: Path, *, vectors_indexed: bool) -> None:
    import lancedb
    import pyarrow as pa

    _dictionary(folder)
    passages, vectors = material.passages(), material.vectors()
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    rows = pa.table(
        {
            "id": [passage.id for passage in passages],
            "text": [passage.text for passage in passages],
            "vector": flat,
        }
    )
    table = lancedb.connect(folder / "lance").create_table("passages", rows)
    if vectors_indexed:
        table.create_index(metric="cosine", vector_column_name="vector")
    table.create_fts_index(
        "text", base_tokenizer="jieba/default", stem=False, remove_stop_words=False, ascii_folding=False
    )
    table.wait_for_index([index.name for index in table.list_indices()])


def open_(material: Material, folder: Path) -> Answer:
    os.environ["LANCE_LANGUAGE_MODEL_HOME"] = str(folder / "language_models")
    import lancedb
    from lancedb.rerankers import RRFReranker

    table: Any = lancedb.connect(folder / "lance").open_table("passages")
    reranker = RRFReranker()

    def ask(question: Question) -> list[str]:
        search = table.search(query_type="hybrid").vector(question.vector).text(question.text)
        found = search.rerank(reranker).select(["id", "text"]).limit(TOP_K).to_arrow()
        return list(found.column("text").to_pylist())

    return lambda questions: [ask(question) for question in questions]


MODULES = ("lancedb", "lancedb.rerankers", "lancedb.remote.table", "pyarrow", "numpy")

if __name__ == "__main__":
    main(
        Contender(partial(build, vectors_indexed=False), open_, MODULES),
        tuned=Contender(partial(build, vectors_indexed=True), open_, MODULES),
    )
