"""Chunk and embed: from documents to what the records store, with the questions that a base's qa model makes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import ModelError, NotFound
from qianxun.core.governance.corrections import Correction
from qianxun.core.ports import ChatModel, EmbeddingModel, nothing
from qianxun.core.system.gc_pause import bulk_step
from qianxun.core.types import Document, Piece, Prepared, QAPair, Question, Text, Vectors
from qianxun.core.vectors import embed, rounded
from qianxun.ingest.boundaries import semantic_cuts
from qianxun.ingest.chunk import ChunkSplitter
from qianxun.ingest.corrections import CorrectedPieces, correct
from qianxun.ingest.questions import attach, make_questions
from qianxun.records import pairs
from qianxun.records.governance import corrections
from qianxun.text.headings import read_under_headings

log = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[int], None]
Warn: TypeAlias = Callable[[str], None]
MakeQuestions: TypeAlias = Callable[[Sequence[Piece]], tuple[str, Sequence[tuple[QAPair, ...]]]]
"""Pieces → (the model that made the questions, the questions of each piece)."""
Attached: TypeAlias = tuple[tuple[Piece, ...], tuple[Question, ...]]
"""The pieces of a document, and the questions that they answer."""
Known: TypeAlias = Mapping[str, tuple[int, Sequence[Correction]]]
"""Document → the newest change of its corrections, and those that are active."""


def prepare_for(
    base: OpenBase,
    documents: Sequence[Document],
    *,
    warn: Warn = nothing,
    on_cut: Progress = nothing,
    on_embedded: Progress = nothing,
) -> list[Prepared]:
    """`prepare` as a base is configured. ``warn`` is called with why questions could not be made."""
    questions = question_maker(base, warn) if documents else None
    with base.records.reading() as tx:
        known = corrections.by_document(tx, base.id, [document.id for document in documents])
    return prepare(
        documents,
        base.splitter,
        base.model,
        by_meaning=base.by_meaning,
        questions=questions,
        corrected=known,
        on_cut=on_cut,
        on_embedded=on_embedded,
    )


def prepare(
    documents: Sequence[Document],
    splitter: ChunkSplitter,
    model: EmbeddingModel | None,
    *,
    by_meaning: bool = False,
    questions: MakeQuestions | None = None,
    corrected: Known | None = None,
    on_cut: Progress = nothing,
    on_embedded: Progress = nothing,
) -> list[Prepared]:
    """One `Prepared` per document, in order; all their chunks and questions are embedded together, in slices.

    ``corrected`` are the corrections of documents, by id, each with the newest change of them.
    """
    with nullcontext() if by_meaning else bulk_step():  # no model may keep the collector waiting
        cut = [_cut(document, splitter, model if by_meaning else None) for document in documents]
        attached = [
            attach(document.pairs, pieces) if document.pairs else (pieces, ())
            for document, pieces in zip(documents, cut, strict=True)
        ]
        marks = [_corrected(document, *own, corrected or {}) for document, own in zip(documents, attached, strict=True)]
        attached = [(mark.pieces, mark.questions) for mark in marks]
    if questions is not None:
        made = _made([pieces for pieces, _ in attached], questions)
        attached = [(pieces, own + more) for (pieces, own), more in zip(attached, made, strict=True)]
    if model is None:
        ready = [Prepared(pieces, None, questions=own) for pieces, own in attached]
        return _with_outcomes(ready, documents, marks, corrected or {})
    ready = embedded(attached, model, on_cut=on_cut, on_embedded=on_embedded)
    return _with_outcomes(ready, documents, marks, corrected or {})


def embedded(
    attached: Sequence[Attached],
    model: EmbeddingModel,
    *,
    on_cut: Progress = nothing,
    on_embedded: Progress = nothing,
) -> list[Prepared]:
    """The pieces and questions of documents with their vectors; all are embedded together, in slices."""
    texts = [read_under_headings(piece.text, piece.headings) for pieces, _ in attached for piece in pieces]
    chunk_count = len(texts)
    texts.extend(question.pair.question for _, own in attached for question in own)
    on_cut(len(texts))
    return _with_vectors(attached, rounded(embed(texts, model, on_embedded)), chunk_count, model.name)


def _cut(document: Document, splitter: ChunkSplitter, meaning: EmbeddingModel | None) -> tuple[Piece, ...]:
    text = document.structure or Text(document.content)
    if meaning is None:
        return splitter.pieces(text)
    return splitter.pieces(text, cuts=semantic_cuts(text, meaning))


def _corrected(
    document: Document, pieces: tuple[Piece, ...], questions: tuple[Question, ...], known: Known
) -> CorrectedPieces:
    if document.id not in known:
        return CorrectedPieces(pieces, questions)
    return correct(document.structure or Text(document.content), pieces, questions, known[document.id][1])


def _with_outcomes(
    ready: list[Prepared], documents: Sequence[Document], marks: Sequence[CorrectedPieces], known: Known
) -> list[Prepared]:
    if not known:
        return ready
    return [
        replace(one, corrections=known[document.id][0], outcomes=mark.outcomes, corrected_rows=mark.corrected_rows)
        if document.id in known
        else one
        for one, document, mark in zip(ready, documents, marks, strict=True)
    ]


def _made(pieces: Sequence[tuple[Piece, ...]], make: MakeQuestions) -> list[tuple[Question, ...]]:
    """The questions that a model makes of the pieces of all documents."""
    origin, made = make([piece for own in pieces for piece in own])
    replies = iter(made)
    return [tuple(Question(pair, at, origin) for at in range(len(own)) for pair in next(replies)) for own in pieces]


@bulk_step()
def _with_vectors(attached: Sequence[Attached], vectors: Vectors, chunk_count: int, model: str) -> list[Prepared]:
    prepared: list[Prepared] = []
    start, start_question = 0, chunk_count
    for pieces, questions in attached:
        own = vectors[start : start + len(pieces)]
        start += len(pieces)
        if questions:
            of_questions = vectors[start_question : start_question + len(questions)]
            start_question += len(questions)
            prepared.append(Prepared(pieces, own, model, questions, of_questions))
        else:
            prepared.append(Prepared(pieces, own, model))
    return prepared


# ── questions made by a model ────────────────────────────────────────────────────────────────────


def question_maker(base: OpenBase, warn: Warn = nothing) -> MakeQuestions | None:
    """How this base makes questions; None if it has no qa model.

    A failure is logged and passed to ``warn``: the document is indexed without these questions.
    """
    name = base.about.config.get("qa_model")
    if not name:
        return None

    def complain(reason: str) -> None:
        log.warning("base %s: %s", base.id, reason)
        warn(reason)

    def make(pieces: Sequence[Piece]) -> tuple[str, Sequence[tuple[QAPair, ...]]]:
        try:
            model = _qa_model(base, str(name))
        except (ModelError, NotFound) as error:
            complain(f"没有生成问题：{error}")
            return "", [()] * len(pieces)
        origin = f"model:{model.name}"[:220]
        return origin, _questions(base, model, origin, pieces, complain)

    return make


def _qa_model(base: OpenBase, name: str) -> ChatModel:
    if base.models is None:
        raise NotFound(f"没有名为“{name}”的 qa 模型", hint="在设置中登记这个模型，或去掉知识库的 qa_model")
    return base.models.chat(name, "qa")


def _questions(
    base: OpenBase, model: ChatModel, origin: str, pieces: Sequence[Piece], complain: Warn
) -> list[tuple[QAPair, ...]]:
    """Questions made of a text before are used again; the model is called once for each other text."""
    with base.records.reading() as tx:
        known = pairs.made_for(tx, base.id, origin, [piece.text for piece in pieces])
    unknown = {piece.text: piece for piece in pieces if piece.text not in known}
    failures: list[ModelError] = []
    made = make_questions(model, list(unknown.values()), on_failure=lambda _, error: failures.append(error))
    if failures:
        complain(f"{len(failures)} 个分块没有生成问题：{failures[0]}")
    known |= dict(zip(unknown, made, strict=True))
    return [known[piece.text] for piece in pieces]
