"""Chunk and embed: from documents to what the records store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qianxun.ingest.boundaries import meaning_cuts
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.models.checks import unit_rows
from qianxun.ports import EmbeddingModel
from qianxun.types import Document, Piece, Prepared, Text, Vectors

EMBED_SLICE = 64  # texts per call: large enough for good batches, small enough for progress and Ctrl-C

Progress = Callable[[int], None]


def _silent(_: int) -> None:
    return None


def prepare(
    documents: Sequence[Document],
    splitter: ChunkSplitter,
    model: EmbeddingModel | None,
    *,
    by_meaning: bool = False,
    on_cut: Progress = _silent,
    on_embedded: Progress = _silent,
) -> list[Prepared]:
    """One `Prepared` per document, in order; all their chunks are embedded together, in slices."""
    pieces = [cut(document, splitter, model if by_meaning else None) for document in documents]
    if model is None:
        return [Prepared(found, None) for found in pieces]
    on_cut(sum(map(len, pieces)))
    vectors = embed([piece.text for found in pieces for piece in found], model, on_embedded)
    prepared: list[Prepared] = []
    start = 0
    for found in pieces:
        prepared.append(Prepared(found, vectors[start : start + len(found)], model.name))
        start += len(found)
    return prepared


def cut(document: Document, splitter: ChunkSplitter, meaning: EmbeddingModel | None) -> tuple[Piece, ...]:
    text = document.structure or Text(document.content)
    if meaning is None:
        return splitter.pieces(text)
    return splitter.pieces(text, cuts=meaning_cuts(text, meaning))


def embed(texts: Sequence[str], model: EmbeddingModel, on_embedded: Progress = _silent) -> Vectors:
    """One unit vector per text. A reply of the wrong count or dimension, or with what is no number, raises."""
    vectors = np.empty((len(texts), model.dimension), dtype=np.float32)
    for start in range(0, len(texts), EMBED_SLICE):
        part = texts[start : start + EMBED_SLICE]
        reply = np.asarray(model.embed_passages(part))
        vectors[start : start + len(part)] = unit_rows(reply, len(part), model.dimension, model.name)
        on_embedded(len(part))
    return vectors
