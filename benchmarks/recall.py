"""What each part of a hybrid search costs, in CPU time per question, and what the codes lose.

    python -m benchmarks.recall [--quick]

The parts are those of `index` and `records`, called on this thread for 200 candidates per arm, as the pipeline asks for
them; the whole pipeline stands beside its peers in `benchmarks.side_by_side`. Recall is measured on vectors from the
model alone, forced through codes: the share of the true nearest 10 and 200 that a search finds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.passages import MODEL, passages
from benchmarks.peers.material import embedded, questions, spread
from qianxun.core.options import BM25
from qianxun.core.types import EVERYTHING, Attributes, IndexBatch, IndexEntry, IndexStamp, Terms, Vectors
from qianxun.index.embedded.backend import create
from qianxun.index.embedded.index import EmbeddedIndex
from qianxun.models.local.embedding import LocalEmbedding
from qianxun.text.chinese import analyse_query, index_grams, index_words

DEPTH = 200  # candidates per arm
BATCH = 5_000
ROUNDS = 3  # the best of them counts: others use the machine too
CACHE = Path(__file__).resolve().parents[1] / ".bench-cache"


async def built(
    folder: Path, vectors: Vectors, texts: Sequence[str], exact_limit: int
) -> tuple[EmbeddedIndex, IndexStamp]:
    stamp = IndexStamp("bench", vectors.shape[1], "1")
    backend = create(folder, exact_limit=exact_limit)
    index = await backend.build(1, stamp)
    for start in range(0, len(vectors), BATCH):
        rows = enumerate(vectors[start : start + BATCH], start)
        entries = (
            IndexEntry(key, key, *_tokens(texts[key] if texts else ""), vector, Attributes(str(key)))
            for key, vector in rows
        )
        await index.apply(IndexBatch(start + 1, (), tuple(entries)))
    await backend.switch(1, index)
    assert isinstance(index, EmbeddedIndex)
    return index, stamp


def _tokens(text: str) -> tuple[str, str]:
    return index_words(text), index_grams(text)


def cpu_ms(asked: int, work: Callable[[int], Any]) -> float:
    """CPU milliseconds of this process per question."""
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for number in range(asked):
            work(number)
        took.append(time.process_time() - start)
    return round(min(took) / asked * 1000, 3)


def parts(index: EmbeddedIndex, terms: Sequence[Terms], vectors: Vectors, texts: Sequence[str]) -> dict[str, float]:
    asked = len(terms)
    return {
        "analyse": cpu_ms(asked, lambda n: analyse_query(texts[n])),
        "nearest": cpu_ms(asked, lambda n: index._nearest(vectors[n], DEPTH, EVERYTHING, "content")),
        "match": cpu_ms(asked, lambda n: index._match(terms[n], DEPTH, EVERYTHING, "any", BM25)),
    }


async def reopened(folder: Path, stamp: IndexStamp, terms: Terms, vector: Any) -> float:
    """CPU milliseconds to open an index and answer its first question in both ways."""
    start = time.process_time()
    index = await create(folder).open(1, stamp)
    await index.nearest(vector, DEPTH)
    await index.match(terms, DEPTH)
    took = time.process_time() - start
    await index.close()
    return round(took * 1000, 1)


async def recalls(folder: Path, real: Vectors, asked: Vectors) -> dict[str, float]:
    index, _ = await built(folder, real, (), exact_limit=1_000)
    told = {}
    for limit in (10, DEPTH):
        found = 0
        for vector in asked:
            truth = np.argsort(-(real @ vector), kind="stable")[:limit]
            found += int(np.isin(truth, (await index.nearest(vector, limit)).keys).sum())
        told[f"recall@{limit}"] = round(found / (limit * len(asked)), 4)
    return told


async def _measured(folder: Path, count: int, real: Vectors, texts: Sequence[str], asked: Vectors) -> dict[str, Any]:
    told = questions(len(asked))
    terms = [analyse_query(text) for text in told]
    index, stamp = await built(folder / "all", spread(real, count), texts, exact_limit=50_000)
    cpu = parts(index, terms, asked, told)
    await index.close()
    first = await reopened(folder / "all", stamp, terms[0], asked[0])
    quality = await recalls(folder / "real", real, asked)
    return {"rows": count, "real": len(real), "cpu_ms": cpu, "reopen_cpu_ms": first, **quality}


def measure(quick: bool) -> dict[str, Any]:
    count, real, asked = (5_000, 1_500, 20) if quick else (100_000, 10_000, 200)
    model = LocalEmbedding(MODEL.name, MODEL)
    texts = [text for _, text in passages(count)]
    CACHE.mkdir(exist_ok=True)
    vectors = embedded(texts, real, CACHE / "embedded.npy", model)
    asked_vectors = np.stack([model.embed_query(text) for text in questions(asked)])
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder), count, vectors, texts, asked_vectors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    print(json.dumps(measure(parser.parse_args().quick), indent=1))


if __name__ == "__main__":
    main()
