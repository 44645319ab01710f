"""The words of a base that related words are looked for among, each with its vector under the base's model.

They belong to the base as its chunks do, and go with it. Nothing is lost with them: they are learnt anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Select, delete, func, select

from qianxun.core.types import Vectors
from qianxun.records.database.bulk import insert_rows
from qianxun.records.database.slices import in_slices
from qianxun.records.pairs import VECTOR_TYPE
from qianxun.records.schema import ChunkRow, DocumentRow, TermRow

LONGEST: Final = 64  # characters, as the column has it
TERM: Final = ("knowledge_base_id", "model", "term", "vector")
PAGE: Final = 500  # chunks that are read at once


# ── what a base says ─────────────────────────────────────────────────────────────────────────────


def chunk_count(tx: Connection, knowledge_base: int) -> int:
    """How many chunks serve."""
    return int(tx.execute(_served(knowledge_base, func.count())).scalar_one())


def texts(tx: Connection, knowledge_base: int, after: int, *, every: int = 1) -> list[tuple[int, str]]:
    """The next page of served chunks, (key, text) in key order; with ``every`` only each so-many-th of them."""
    query = _served(knowledge_base, ChunkRow.key, ChunkRow.text).where(ChunkRow.key > after)
    if every > 1:
        query = query.where(ChunkRow.key % every == 0)
    return [(row.key, row.text) for row in tx.execute(query.order_by(ChunkRow.key).limit(PAGE))]


def _served(knowledge_base: int, *columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(ChunkRow)
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .where(ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.generation == DocumentRow.served)
    )


# ── what was learnt of it ────────────────────────────────────────────────────────────────────────


def held(tx: Connection, knowledge_base: int, model: str, dimension: int) -> set[str]:
    """The terms with a vector of this dimension; the others are to be learnt anew."""
    size = func.length(TermRow.vector) == dimension * VECTOR_TYPE.itemsize
    return set(tx.execute(_own(knowledge_base, model, TermRow.term).where(size)).scalars())


def learnt(tx: Connection, knowledge_base: int, model: str, dimension: int) -> tuple[tuple[str, ...], Vectors]:
    """The terms in their own order, and a row of vectors for each. A vector of another dimension is left out."""
    size = dimension * VECTOR_TYPE.itemsize
    rows = tx.execute(_own(knowledge_base, model, TermRow.term, TermRow.vector))
    found = sorted((row.term, row.vector) for row in rows if len(row.vector) == size)
    vectors = np.frombuffer(b"".join(vector for _, vector in found), dtype=VECTOR_TYPE)
    return tuple(term for term, _ in found), vectors.reshape(len(found), dimension)


def keep(tx: Connection, knowledge_base: int, model: str, terms: Sequence[str], vectors: Vectors) -> None:
    """Each term once, with its vector, in the place of what was held of it. The base must be there."""
    forget(tx, knowledge_base, model, terms)
    written = np.asarray(vectors, dtype=VECTOR_TYPE)
    rows = [(knowledge_base, model, term, row.tobytes()) for term, row in zip(terms, written, strict=True)]
    insert_rows(tx, TermRow, TERM, rows)


def forget(tx: Connection, knowledge_base: int, model: str, terms: Collection[str]) -> None:
    for part in in_slices(sorted(terms)):
        own = (TermRow.knowledge_base_id == knowledge_base) & (TermRow.model == model)
        tx.execute(delete(TermRow).where(own, TermRow.term.in_(part)))


def forget_other_models(tx: Connection, knowledge_base: int, model: str) -> None:
    tx.execute(delete(TermRow).where(TermRow.knowledge_base_id == knowledge_base, TermRow.model != model))


def _own(knowledge_base: int, model: str, *columns: Any) -> Select[Any]:
    return select(*columns).where(TermRow.knowledge_base_id == knowledge_base, TermRow.model == model)
