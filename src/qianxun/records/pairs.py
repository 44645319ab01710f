"""Questions with their answers: each belongs to the chunk that answers it, and goes when that chunk goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, select

from qianxun.core.types import Keys, Prepared, QAPair, Vector
from qianxun.core.unicode import storable
from qianxun.records.database.bulk import insert_rows
from qianxun.records.database.counters import allocate
from qianxun.records.database.slices import in_slices
from qianxun.records.schema import DocumentRow, PairRow, PairVectorRow

GIVEN = "given"
VECTOR_TYPE = np.dtype("<f4")
PAIR = (
    "key", "knowledge_base_id", "document_key", "generation", "position", "chunk_key", "question", "answer", "origin",
    "chunk_digest",
)  # fmt: skip
VECTOR = ("pair_key", "model", "vector")


class Attached(NamedTuple):
    """A question beside the chunk that answers it."""

    key: int
    document_key: int
    chunk_key: int
    question: str
    vector: Vector | None


def digest_of(text: str) -> str:
    """The name of a chunk's text among the texts that a model was asked about."""
    return blake2b(text.encode(), digest_size=20).hexdigest()


# ── write ────────────────────────────────────────────────────────────────────────────────────────


def write(
    tx: Connection,
    knowledge_base: int,
    prepared: Sequence[tuple[int, int, Prepared]],
    chunk_keys: Mapping[int, range],
) -> dict[int, range]:
    """The questions of (document, generation), tied to their chunks; answers each document's pair keys."""
    asked = [each for each in prepared if each[2].questions]
    if not asked:
        return {}
    first = allocate(tx, "pair", sum(len(work.questions) for _, _, work in asked)).start
    ranges: dict[int, range] = {}
    found: list[tuple[Any, ...]] = []
    vectors: list[tuple[Any, ...]] = []
    for document_key, generation, work in asked:
        own = ranges[document_key] = range(first, first + len(work.questions))
        first = own.stop
        owner = (knowledge_base, document_key, generation)
        found.extend(_rows(owner, own, work, chunk_keys[document_key]))
        vectors.extend(_vector_rows(own, work))
    insert_rows(tx, PairRow, PAIR, found)
    insert_rows(tx, PairVectorRow, VECTOR, vectors)
    return ranges


def _rows(owner: tuple[int, int, int], keys: range, work: Prepared, chunk_keys: range) -> Iterator[tuple[Any, ...]]:
    for at, (key, asked) in enumerate(zip(keys, work.questions, strict=True)):
        digest = None if asked.origin == GIVEN else digest_of(work.pieces[asked.piece].text)
        said = (storable(asked.pair.question), storable(asked.pair.answer), asked.origin)  # a model may say anything
        yield (key, *owner, at, chunk_keys[asked.piece], *said, digest)


def _vector_rows(keys: range, work: Prepared) -> Iterator[tuple[Any, ...]]:
    if work.question_vectors is None:
        return
    for key, vector in zip(keys, np.asarray(work.question_vectors, dtype=VECTOR_TYPE), strict=True):
        yield (key, work.model, vector.tobytes())


def write_vectors(
    tx: Connection, knowledge_base: int, model: str, keys: Sequence[int], vectors: np.ndarray[Any, Any]
) -> None:
    """Vectors of another model beside the present ones. Questions that have gone since they were read get none."""
    held: set[int] = set()
    for part in in_slices(keys):
        tx.execute(delete(PairVectorRow).where(PairVectorRow.pair_key.in_(part), PairVectorRow.model == model))
        own = select(PairRow.key).where(PairRow.knowledge_base_id == knowledge_base, PairRow.key.in_(part))
        held.update(tx.execute(own).scalars())
    keyed = zip(keys, np.asarray(vectors, dtype=VECTOR_TYPE), strict=True)
    insert_rows(tx, PairVectorRow, VECTOR, [(key, model, vector.tobytes()) for key, vector in keyed if key in held])


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
    """Pair → the chunk that answers it. A pair that is not of record any more has no entry."""
    found: dict[int, int] = {}
    query = select(PairRow.key, PairRow.chunk_key).where(
        PairRow.knowledge_base_id == knowledge_base, PairRow.chunk_key.is_not(None)
    )
    for part in in_slices(list(pair_keys)):
        found.update((row.key, row.chunk_key) for row in tx.execute(query.where(PairRow.key.in_(part))))
    return found


def of_documents(tx: Connection, document_keys: Sequence[int], model: str) -> list[Attached]:
    """The served questions of these documents, in key order."""
    found: list[Attached] = []
    for part in in_slices(document_keys):
        found.extend(_attached(tx, model, PairRow.document_key.in_(part)))
    return found


def of_chunks(tx: Connection, knowledge_base: int, first: int, last: int, model: str) -> list[Attached]:
    """The served questions of the chunks from ``first`` to ``last``, in key order."""
    within = (PairRow.knowledge_base_id == knowledge_base) & PairRow.chunk_key.between(first, last)
    return _attached(tx, model, within)


def _attached(tx: Connection, model: str, condition: Any) -> list[Attached]:
    columns = (PairRow.key, PairRow.document_key, PairRow.chunk_key, PairRow.question, PairVectorRow.vector)
    query = (
        select(*columns)
        .join(DocumentRow, (DocumentRow.key == PairRow.document_key) & (DocumentRow.served == PairRow.generation))
        .outerjoin(PairVectorRow, (PairVectorRow.pair_key == PairRow.key) & (PairVectorRow.model == model))
        .where(condition, PairRow.chunk_key.is_not(None))
        .order_by(PairRow.key)
    )
    return [
        Attached(key, document, chunk, question, None if held is None else np.frombuffer(held, dtype=VECTOR_TYPE))
        for key, document, chunk, question, held in tx.execute(query)
        if chunk is not None
    ]


def made_for(tx: Connection, knowledge_base: int, origin: str, texts: Sequence[str]) -> dict[str, tuple[QAPair, ...]]:
    """Text → the questions that this model has made of it before, for those of the texts that it was asked about."""
    by_digest = {digest_of(text): text for text in texts}
    query = select(PairRow.chunk_digest, PairRow.question, PairRow.answer).where(
        PairRow.knowledge_base_id == knowledge_base, PairRow.origin == origin
    )
    found: dict[str, dict[str, QAPair]] = {}
    for part in in_slices(list(by_digest)):
        for row in tx.execute(query.where(PairRow.chunk_digest.in_(part)).order_by(PairRow.key)):
            # The same text may stand in several chunks, each with the same questions.
            found.setdefault(by_digest[row.chunk_digest], {})[row.question] = QAPair(row.question, row.answer)
    return {text: tuple(pairs.values()) for text, pairs in found.items()}


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def _served(knowledge_base: int) -> Any:
    return (
        select(PairRow.key)
        .join(DocumentRow, (DocumentRow.key == PairRow.document_key) & (DocumentRow.served == PairRow.generation))
        .where(PairRow.knowledge_base_id == knowledge_base, PairRow.chunk_key.is_not(None))
        .order_by(PairRow.key)
    )


def served_keys(tx: Connection, knowledge_base: int) -> Keys:
    """The questions that an index with vectors holds once it has caught up."""
    return np.fromiter(tx.execute(_served(knowledge_base)).scalars(), dtype=np.int64)


def without_vector(tx: Connection, knowledge_base: int, model: str) -> Keys:
    lacking = (
        _served(knowledge_base)
        .outerjoin(PairVectorRow, (PairVectorRow.pair_key == PairRow.key) & (PairVectorRow.model == model))
        .where(PairVectorRow.pair_key.is_(None))
    )
    return np.fromiter(tx.execute(lacking).scalars(), dtype=np.int64)
