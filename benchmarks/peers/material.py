"""Makes what every contender is given, once: passages cut into words, their vectors, questions and theirs.

Embedding 100,000 passages takes the better part of an hour on two cores, so only the first ones are embedded with the
model (`REAL` of them, or as many as an earlier run has kept); each of the others is given the normalised mixture of two
real vectors and a little noise, from a seed. Vectors are of no consequence for speed beyond their spread; quality is
measured elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.passages import MODEL, SHARED, passages
from benchmarks.peers.harness import Material

REAL = 10_000
STEP = 500  # vectors between two savings: an interrupted run goes on where it was
QUESTION_SETS = ("dureader_robust", "cmrc2018")


def questions(count: int) -> list[str]:
    """Real questions of people, no two alike, the sets by turns. Raises ValueError where there are not so many."""
    told = []
    for name in QUESTION_SETS:
        with (SHARED / "data" / "beir" / name / "queries.jsonl").open(encoding="utf-8") as lines:
            told.append([json.loads(line)["text"] for line in lines])
    mixed = [text for pair in zip_longest(*told) for text in pair if text is not None]
    distinct = list(dict.fromkeys(mixed))
    if len(distinct) < count:
        raise ValueError(f"{count} different questions are needed, {len(distinct)} are there: ask fewer passes")
    return distinct[:count]


def embedded(texts: Sequence[str], count: int, kept: Path, model: Any) -> Any:
    """The vectors of the first ``count`` texts, and of more where an earlier run has kept more."""
    held = np.load(kept) if kept.exists() else np.empty((0, model.dimension), np.float32)
    while len(held) < min(count, len(texts)):
        held = np.concatenate([held, model.embed_passages(texts[len(held) : min(len(held) + STEP, count)])])
        np.save(kept, held)
    return held[: len(texts)]


def spread(real: Any, count: int, seed: int = 7) -> Any:
    """``count`` unit vectors: the real ones, then mixtures of two of them with a little noise."""
    rng = np.random.default_rng(seed)
    missing = count - len(real)
    first, second = real[rng.integers(0, len(real), missing)], real[rng.integers(0, len(real), missing)]
    share = rng.uniform(0.55, 0.95, (missing, 1)).astype(np.float32)
    noise = rng.normal(scale=0.3 / np.sqrt(real.shape[1]), size=first.shape).astype(np.float32)
    rows = np.concatenate([real, share * first + (1 - share) * second + noise])
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def prepare(cache: Path, count: int, asked: int, real: int = REAL) -> tuple[Material, int]:
    """The material for ``count`` passages, and how many of its vectors come from the model."""
    import rjieba

    from qianxun.models.local.embedding import LocalEmbedding

    cache.mkdir(parents=True, exist_ok=True)
    model = LocalEmbedding(MODEL.name, MODEL)
    found = passages(count)
    vectors = embedded([text for _, text in found], real, cache / "embedded.npy", model)
    folder = cache / f"material-{count}"
    folder.mkdir(exist_ok=True)
    np.save(folder / "vectors.npy", spread(vectors, len(found)))
    with (folder / "passages.jsonl").open("w", encoding="utf-8") as lines:
        for id_, text in found:
            words = " ".join(word for word in rjieba.cut(text) if not word.isspace())
            lines.write(json.dumps({"id": id_, "text": text, "words": words}, ensure_ascii=False) + "\n")
    _prepare_questions(folder, questions(asked), cache / "questions.npz", model)
    return Material(folder), len(vectors)


def _prepare_questions(folder: Path, texts: Sequence[str], kept: Path, model: Any) -> None:
    if kept.exists() and np.load(kept)["texts"][: len(texts)].tolist() == list(texts):
        vectors = np.load(kept)["vectors"][: len(texts)]
    else:
        vectors = np.stack([model.embed_query(text) for text in texts])
        np.savez(kept, texts=np.array(texts), vectors=vectors)
    np.save(folder / "questions.npy", vectors)
    (folder / "questions.json").write_text(json.dumps(list(texts), ensure_ascii=False), encoding="utf-8")
