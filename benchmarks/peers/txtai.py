"""txtai: Embeddings with ``hybrid`` and ``content``, and its own choices for everything else (faiss, BM25 terms).

Its BM25 is given text with blanks between jieba's words and told to cut at blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.harness import TOP_K, Answer, Contender, Material, Question, main


def _configuration(transform: Any) -> dict[str, Any]:
    return {
        "method": "external",
        "transform": transform,
        "content": True,
        "hybrid": True,
        "scoring": {"method": "bm25", "terms": True, "normalize": True, "tokenizer": {"whitespace": True}},
    }


def build(material: Material, folder: Path) -> None:
    from txtai import Embeddings

    passages, vectors = material.passages(), material.vectors()
    rows = {passage.words: row for row, passage in enumerate(passages)}

    def transform(texts: Sequence[str]) -> Any:
        return vectors[[rows[text] for text in texts]]

    embeddings = Embeddings(_configuration(transform))
    embeddings.index((passage.id, passage.words, None) for passage in passages)
    embeddings.config.pop("transform")  # a function cannot be kept
    embeddings.save(str(folder / "txtai"))


def open_(material: Material, folder: Path) -> Answer:
    import jieba
    import numpy as np
    from txtai import Embeddings

    looked_up: dict[str, Any] = {}

    def transform(texts: Sequence[str]) -> Any:
        return np.stack([looked_up[text] for text in texts])

    embeddings = Embeddings()
    embeddings.load(str(folder / "txtai"), config={"transform": transform})

    def answer(questions: Sequence[Question]) -> list[list[str]]:
        found = []
        for question in questions:
            words = " ".join(jieba.lcut(question.text))
            looked_up[words] = question.vector
            found.append([row["text"] for row in embeddings.search(words, TOP_K)])
        return found

    return answer


MODULES = ("jieba", "txtai", "faiss")

if __name__ == "__main__":
    main(Contender(build, open_, MODULES))
