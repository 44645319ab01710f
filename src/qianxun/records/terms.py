"""The vocabulary of a base with vectors, in which related words are searched; deleted with the base."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Select, delete, func, select

from qianxun.core.types import Vectors
from qianxun.records.chunk_texts import SAME_VERSION, TEXT
from qianxun.records.database.statements import delete_in, insert_rows, served_chunks
from qianxun.records.schema import ChunkRow, TermRow, VersionRow
from qianxun.records.stored_vectors import SINGLE

LONGEST: Final = 64  # characters, as the column has it
TERM: Final = ("knowledge_base_id", "model", "term", "vector")
PAGE: Final = 500  # chunks that are read at once


# ── the texts of a base ─────────────────────────────────────────────────────────────────────────────


def chunk_count(tx: Connection, knowledge_base: int) -> int:
    """The number of served chunks."""
    return int(tx.execute(served_chunks(knowledge_base, func.count())).scalar_one())


def texts(tx: Connection, knowledge_base: int, after: int, *, every: int = 1) -> list[tuple[int, str]]:
    """The next page of served chunks, (key, text) in key order; with ``every`` only each so-many-th of them."""
    query = served_chunks(knowledge_base, ChunkRow.key, TEXT).join(VersionRow, SAME_VERSION).where(ChunkRow.key > after)
    if every > 1:
        query = query.where(ChunkRow.key % every == 0)
    return [(row.key, row.text) for row in tx.execute(query.order_by(ChunkRow.key).limit(PAGE))]


# ── learnt terms ────────────────────────────────────────────────────────────────────────


def stored(tx: Connection, knowledge_base: int, model: str, dimension: int) -> set[str]:
    """The terms with a vector of this dimension; the others have to be learnt anew."""
    size = func.length(TermRow.vector) == dimension * SINGLE.itemsize
    return set(tx.execute(_own(knowledge_base, model, TermRow.term).where(size)).scalars())


def learnt(tx: Connection, knowledge_base: int, model: str, dimension: int) -> tuple[tuple[str, ...], Vectors]:
    """The terms in their own order, and a row of vectors for each. A vector of another dimension is left out."""
    size = dimension * SINGLE.itemsize
    rows = tx.execute(_own(knowledge_base, model, TermRow.term, TermRow.vector))
    found = sorted((row.term, row.vector) for row in rows if len(row.vector) == size)
    vectors = np.frombuffer(b"".join(vector for _, vector in found), dtype=SINGLE)
    return tuple(term for term, _ in found), vectors.reshape(len(found), dimension)


def store(tx: Connection, knowledge_base: int, model: str, terms: Sequence[str], vectors: Vectors) -> None:
    """Stores each term once with its vector, replacing an older one. The base must exist."""
    remove(tx, knowledge_base, model, terms)
    written = np.asarray(vectors, dtype=SINGLE)
    rows = [(knowledge_base, model, term, row.tobytes()) for term, row in zip(terms, written, strict=True)]
    insert_rows(tx, TermRow, TERM, rows)


def remove(tx: Connection, knowledge_base: int, model: str, terms: Collection[str]) -> None:
    own = (TermRow.knowledge_base_id == knowledge_base) & (TermRow.model == model)
    delete_in(tx, TermRow, TermRow.term, sorted(terms), own)


def remove_other_models(tx: Connection, knowledge_base: int, model: str) -> None:
    tx.execute(delete(TermRow).where(TermRow.knowledge_base_id == knowledge_base, TermRow.model != model))


def _own(knowledge_base: int, model: str, *columns: Any) -> Select[Any]:
    return select(*columns).where(TermRow.knowledge_base_id == knowledge_base, TermRow.model == model)
