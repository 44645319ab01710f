"""Questions with their answers: each belongs to the chunk that answers it, and is deleted with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, select

from qianxun.core.types import Keys, Prepared, QAPair, Vector, Vectors
from qianxun.core.unicode import storable
from qianxun.records import checksums
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import (
    delete_in,
    in_slices,
    insert_rows,
    keys_of,
    reading_damage,
    select_in,
)
from qianxun.records.schema import ChunkRow, DocumentRow, PairRow, PairVectorRow, VectorRow
from qianxun.records.stored_vectors import sound_vector, vector_rows

GIVEN = "given"
PAIR = (
    "key", "knowledge_base_id", "document_key", "generation", "position", "chunk_key", "question", "answer", "origin",
    "chunk_digest",
)  # fmt: skip
VECTOR = ("pair_key", "model", "vector", "checksum")


class AttachedQuestion(NamedTuple):
    """A question with the key of the chunk that answers it."""

    key: int
    document_key: int
    chunk_key: int
    question: str
    vector: Vector | None
    is_damaged: bool = False  # has a stored vector that is not what was written, and is given none


def digest_of(text: str) -> str:
    """Identifies a chunk's text among those that a model has generated questions for."""
    return blake2b(text.encode(), digest_size=20).hexdigest()


# ── write ────────────────────────────────────────────────────────────────────────────────────────


def write(
    tx: Connection,
    knowledge_base: int,
    prepared: Sequence[tuple[int, int, Prepared]],
    chunk_keys: Mapping[int, Sequence[int]],
) -> dict[int, range]:
    """Inserts the questions of (document, generation) for their chunks. Returns the pair keys by document."""
    with_pairs = [item for item in prepared if item[2].questions]
    if not with_pairs:
        return {}
    first = allocate(tx, "pair", sum(len(work.questions) for _, _, work in with_pairs)).start
    ranges: dict[int, range] = {}
    found: list[tuple[Any, ...]] = []
    vectors: list[tuple[Any, ...]] = []
    for document_key, generation, work in with_pairs:
        own = ranges[document_key] = range(first, first + len(work.questions))
        first = own.stop
        owner = (knowledge_base, document_key, generation)
        found.extend(_rows(owner, own, work, chunk_keys[document_key]))
        if work.question_vectors is not None:
            vectors.extend(vector_rows(own, work.model, work.question_vectors))
    insert_rows(tx, PairRow, (*PAIR, "checksum"), checksums.with_checksums(PAIR, checksums.PAIR, found))
    insert_rows(tx, PairVectorRow, VECTOR, vectors)
    return ranges


def _rows(
    owner: tuple[int, int, int], keys: range, work: Prepared, chunk_keys: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    for at, (key, question) in enumerate(zip(keys, work.questions, strict=True)):
        digest = None if question.origin == GIVEN else digest_of(work.pieces[question.piece].text)
        texts = (storable(question.pair.question), storable(question.pair.answer))  # a model may write anything
        yield (key, *owner, at, chunk_keys[question.piece], *texts, question.origin, digest)


def write_vectors(tx: Connection, knowledge_base: int, model: str, keys: Sequence[int], vectors: Vectors) -> None:
    """Adds vectors of another model. Deleted questions get none."""
    write_model_vectors(tx, PairVectorRow, PairRow, knowledge_base, model, keys, vectors)


def write_model_vectors(
    tx: Connection,
    vector_table: type[VectorRow] | type[PairVectorRow],
    owner: type[ChunkRow] | type[PairRow],
    knowledge_base: int,
    model: str,
    keys: Sequence[int],
    vectors: Vectors,
) -> None:
    """Vectors of chunks or pairs under one model, in the place of those they had; for those that still exist."""
    key_name = "chunk_key" if vector_table is VectorRow else "pair_key"
    delete_in(tx, vector_table, getattr(vector_table, key_name), keys, vector_table.model == model)
    own = select(owner.key).where(owner.knowledge_base_id == knowledge_base)
    existing = {row.key for row in select_in(tx, own, owner.key, keys)}
    rows = [row for row in vector_rows(keys, model, vectors) if row[0] in existing]
    insert_rows(tx, vector_table, (key_name, "model", "vector", "checksum"), rows)


def drop_other_vectors(tx: Connection, knowledge_base: int, model: str) -> None:
    own = select(PairRow.key).where(PairRow.knowledge_base_id == knowledge_base)
    tx.execute(delete(PairVectorRow).where(PairVectorRow.pair_key.in_(own), PairVectorRow.model != model))


def remove(tx: Connection, condition: Any) -> None:
    """The pairs that meet a condition on `PairRow`, with their vectors."""
    doomed = select(PairRow.key).where(condition)
    tx.execute(delete(PairVectorRow).where(PairVectorRow.pair_key.in_(doomed)))
    tx.execute(delete(PairRow).where(condition))


# ── read ─────────────────────────────────────────────────────────────────────────────────────────


def chunks_of(tx: Connection, knowledge_base: int, pair_keys: Iterable[int]) -> dict[int, int]:
    """Pair → the chunk that answers it. A deleted pair has no entry."""
    query = select(PairRow.key, PairRow.chunk_key).where(
        PairRow.knowledge_base_id == knowledge_base, PairRow.chunk_key.is_not(None)
    )
    return {row.key: row.chunk_key for row in select_in(tx, query, PairRow.key, pair_keys)}


def load_of_documents(tx: Connection, document_keys: Sequence[int], model: str) -> list[AttachedQuestion]:
    """The served questions of these documents, in key order."""
    found: list[AttachedQuestion] = []
    for part in in_slices(document_keys):
        found.extend(_attached(tx, model, PairRow.document_key.in_(part)))
    return found


def load_of_chunks(tx: Connection, knowledge_base: int, first: int, last: int, model: str) -> list[AttachedQuestion]:
    """The served questions of the chunks from ``first`` to ``last``, in key order."""
    within = (PairRow.knowledge_base_id == knowledge_base) & PairRow.chunk_key.between(first, last)
    return _attached(tx, model, within)


def _attached(tx: Connection, model: str, condition: Any) -> list[AttachedQuestion]:
    stored = (PairVectorRow.vector, PairVectorRow.checksum)
    columns = (PairRow.key, PairRow.document_key, PairRow.chunk_key, PairRow.question, *stored)
    query = (
        _served(*columns)
        .outerjoin(PairVectorRow, (PairVectorRow.pair_key == PairRow.key) & (PairVectorRow.model == model))
        .where(condition)
    )
    found = []
    with reading_damage(tx):
        rows = tx.execute(query).all()
    for key, document, chunk, question, stored_vector, checksum in rows:
        vector = sound_vector(key, stored_vector, checksum)
        is_damaged = stored_vector is not None and vector is None
        found.append(AttachedQuestion(key, document, chunk, question, vector, is_damaged))
    return found


def made_for(tx: Connection, knowledge_base: int, origin: str, texts: Sequence[str]) -> dict[str, tuple[QAPair, ...]]:
    """Text → the questions that this model has generated for it before."""
    by_digest = {digest_of(text): text for text in texts}
    query = select(PairRow.chunk_digest, PairRow.question, PairRow.answer).where(
        PairRow.knowledge_base_id == knowledge_base, PairRow.origin == origin
    )
    found: dict[str, dict[str, QAPair]] = {}
    for part in in_slices(list(by_digest)):
        for row in tx.execute(query.where(PairRow.chunk_digest.in_(part)).order_by(PairRow.key)):
            # Several chunks may have the same text, each with the same questions.
            found.setdefault(by_digest[row.chunk_digest], {})[row.question] = QAPair(row.question, row.answer)
    return {text: tuple(pairs.values()) for text, pairs in found.items()}


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def _served(*columns: Any) -> Any:
    return (
        select(*columns)
        .join(DocumentRow, (DocumentRow.key == PairRow.document_key) & (DocumentRow.served == PairRow.generation))
        .where(PairRow.chunk_key.is_not(None))
        .order_by(PairRow.key)
    )


def served_keys(tx: Connection, knowledge_base: int) -> Keys:
    """The questions of an index with vectors that is up to date."""
    return keys_of(tx, _served(PairRow.key).where(PairRow.knowledge_base_id == knowledge_base))


def without_vector(tx: Connection, knowledge_base: int, model: str) -> Keys:
    missing = (
        _served(PairRow.key)
        .outerjoin(PairVectorRow, (PairVectorRow.pair_key == PairRow.key) & (PairVectorRow.model == model))
        .where(PairRow.knowledge_base_id == knowledge_base, PairVectorRow.pair_key.is_(None))
    )
    return keys_of(tx, missing)
