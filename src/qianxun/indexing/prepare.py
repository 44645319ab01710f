"""Chunk and embed: from documents to what the records store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from qianxun.core.ports import EmbeddingModel, nothing
from qianxun.core.types import Document, Piece, Prepared, QAPair, Question, Text, Vectors
from qianxun.ingest.boundaries import semantic_cuts
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.questions import attach
from qianxun.models.embedding import embed
from qianxun.text.headings import read_under_headings

Progress = Callable[[int], None]
Ask: TypeAlias = Callable[[Sequence[Piece]], tuple[str, Sequence[tuple[QAPair, ...]]]]
"""Makes questions: pieces → (who made them, the questions of each piece)."""


def prepare(
    documents: Sequence[Document],
    splitter: ChunkSplitter,
    model: EmbeddingModel | None,
    *,
    by_meaning: bool = False,
    ask: Ask | None = None,
    on_cut: Progress = nothing,
    on_embedded: Progress = nothing,
) -> list[Prepared]:
    """One `Prepared` per document, in order; all their chunks and questions are embedded together, in slices."""
    pieces = [cut(document, splitter, model if by_meaning else None) for document in documents]
    asked: list[tuple[Question, ...]] = [()] * len(documents)
    if any(document.pairs for document in documents):
        pieces, asked = _attached(documents, pieces)
    if ask is not None:
        asked = [given + made for given, made in zip(asked, _made(pieces, ask), strict=True)]
    if model is None:
        return [Prepared(found, None, questions=questions) for found, questions in zip(pieces, asked, strict=True)]
    texts = [read_under_headings(piece.text, piece.headings) for found in pieces for piece in found]
    first_question = len(texts)
    texts.extend(each.pair.question for questions in asked for each in questions)
    on_cut(len(texts))
    return _shared_out(pieces, asked, embed(texts, model, on_embedded), first_question, model.name)


def _attached(
    documents: Sequence[Document], pieces: Sequence[tuple[Piece, ...]]
) -> tuple[list[tuple[Piece, ...]], list[tuple[Question, ...]]]:
    """The questions that came with the documents, each with the piece that answers it."""
    attached = [
        attach(document.pairs, found) if document.pairs else (found, ())
        for document, found in zip(documents, pieces, strict=True)
    ]
    return [found for found, _ in attached], [questions for _, questions in attached]


def _made(pieces: Sequence[tuple[Piece, ...]], ask: Ask) -> list[tuple[Question, ...]]:
    """The questions that a model makes of the pieces of all documents."""
    origin, made = ask([piece for found in pieces for piece in found])
    replies = iter(made)
    return [tuple(Question(pair, at, origin) for at in range(len(found)) for pair in next(replies)) for found in pieces]


def _shared_out(
    pieces: Sequence[tuple[Piece, ...]],
    asked: Sequence[tuple[Question, ...]],
    vectors: Vectors,
    first_question: int,
    model: str,
) -> list[Prepared]:
    """To every document its own vectors."""
    prepared: list[Prepared] = []
    start, start_question = 0, first_question
    for found, questions in zip(pieces, asked, strict=True):
        own = vectors[start : start + len(found)]
        start += len(found)
        if questions:
            of_questions = vectors[start_question : start_question + len(questions)]
            start_question += len(questions)
            prepared.append(Prepared(found, own, model, questions, of_questions))
        else:
            prepared.append(Prepared(found, own, model))
    return prepared


def cut(document: Document, splitter: ChunkSplitter, meaning: EmbeddingModel | None) -> tuple[Piece, ...]:
    text = document.structure or Text(document.content)
    if meaning is None:
        return splitter.pieces(text)
    return splitter.pieces(text, cuts=semantic_cuts(text, meaning))
