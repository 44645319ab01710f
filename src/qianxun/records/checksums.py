"""Checksums of rows: text, vectors and settings of record say whether they are what was written.

Every row carries the CRC-32 of its own columns, made when it is written and stored beside them. It finds any flipped
bit and any garbage; it is no seal against people who may write to the database. What a checksum covers must never
change: the rows of every database carry it. See docs/decisions/0018-checksums.md for what it costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from zlib import crc32

from sqlalchemy import Connection, null, select

from qianxun.core.ingest_types import Finding
from qianxun.records.chunk_texts import SAME_VERSION, TEXT
from qianxun.records.database.statements import reading_damage
from qianxun.records.schema import (
    Base,
    ChunkRow,
    DocumentRow,
    KnowledgeBaseRow,
    PairRow,
    PairVectorRow,
    TableRow,
    VectorRow,
    VersionRow,
)

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr).encode  # damage may be of any type
_EMPTY = {list: "[]", dict: "{}", type(None): "null"}  # as that writes them
_sorted = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr, sort_keys=True).encode

# The columns of each table that its checksum covers, in this order; those of chunks and vectors are below.
VERSION = (
    "document_key", "generation", "name", "format", "content_type", "user_id", "project_id", "tags", "metadata",
    "source", "fingerprint", "structure", "content",
)  # fmt: skip
TABLE = (
    "document_key", "generation", "position", "start", "end", "title", "source", "notes", "columns", "rows", "texts",
    "row_starts",
)  # fmt: skip
PAIR = ("document_key", "generation", "position", "chunk_key", "question", "answer", "origin")
BASE = ("id", "tenant", "name", "kind", "embedding_model", "dimension", "config")


def chunk_checksum(
    key: int,
    generation: int,
    position: int,
    start: int,
    end: int,
    kind: str,
    page: int | None,
    headings: Sequence[str],
    text: str,
    corrected: Mapping[str, Any] | None = None,
) -> int:
    """Of a chunk. Checked for every result of every search: this takes half as long as `values_checksum`."""
    place = crc32(f"{key},{generation},{position},{start},{end},{kind},{page}".encode())
    own = crc32(text.encode(), crc32("\n".join(headings).encode(), place) if headings else place)
    return own if corrected is None else crc32(_sorted(corrected).encode(), own)


def vector_checksum(key: int, vector: bytes) -> int:
    return crc32(vector, key & 0xFFFFFFFF)


def is_sound_chunk(checksum: int | None, values: Sequence[Any]) -> bool:
    """Whether a chunk is what was written; ``values`` are those of `chunk_checksum`, of any type damage made."""
    try:
        return checksum == chunk_checksum(*values) or checksum is None
    except (TypeError, AttributeError):
        return False


def is_sound_vector(key: int, vector: Any, checksum: int | None) -> bool:
    return isinstance(vector, bytes) and (checksum is None or checksum == vector_checksum(key, vector))


def values_checksum(*values: object) -> int:
    """Of the values of a row, JSON as it is read back."""
    return crc32("\0".join(map(_written, values)).encode())


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if not value and type(value) in _EMPTY:
        return _EMPTY[type(value)]
    return str(value) if type(value) is int else _dumps(value)  # the same: an encoder is slow to start


def with_checksums(
    names: Sequence[str], covered: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Rows with their checksums at the end; ``names`` are those of their columns. What they lack counts as None."""
    places = [names.index(name) if name in names else -1 for name in covered]
    return [(*row, values_checksum(*map((*row, None).__getitem__, places))) for row in rows]


def row_checksum(row: Any, covered: Sequence[str]) -> int:
    return values_checksum(*(row._mapping[name] for name in covered))


# ── check ────────────────────────────────────────────────────────────────────────────────────────

PAGE = 500  # rows that are read at once
EXAMPLES = 5
CHUNK = (  # what `chunk_checksum` takes
    ChunkRow.key, ChunkRow.generation, ChunkRow.position, ChunkRow.start, ChunkRow.end, ChunkRow.kind, ChunkRow.page,
    ChunkRow.headings, TEXT,
)  # fmt: skip
CORRECTED_CHUNK = (*CHUNK, ChunkRow.corrected)  # what it takes since chunks can be corrected

Damaged: TypeAlias = Iterator[tuple[int, int | None]]
"""Keys of rows, and of the documents they belong to."""


def damaged_rows(tx: Connection, knowledge_base: int) -> Iterator[Finding]:
    """Everything of a base that is not what was written, kind by kind, with a few of the documents."""
    for kind, found in (
        ("damaged_settings", _damaged(tx, KnowledgeBaseRow, BASE, KnowledgeBaseRow.id == knowledge_base)),
        ("damaged_document", _damaged(tx, VersionRow, VERSION, VersionRow.knowledge_base_id == knowledge_base)),
        ("damaged_chunk", damaged_chunks(tx, ChunkRow.knowledge_base_id == knowledge_base)),
        ("damaged_table", _damaged(tx, TableRow, TABLE, TableRow.knowledge_base_id == knowledge_base)),
        ("damaged_question", _damaged(tx, PairRow, PAIR, PairRow.knowledge_base_id == knowledge_base)),
        ("damaged_vector", _damaged_vectors(tx, VectorRow, VectorRow.chunk_key, ChunkRow, knowledge_base)),
        ("damaged_vector", _damaged_vectors(tx, PairVectorRow, PairVectorRow.pair_key, PairRow, knowledge_base)),
    ):
        if rows := list(found):
            yield Finding(kind, len(rows), tuple(key for key, _ in rows[:EXAMPLES]), _names(tx, rows))


def mendable(tx: Connection, knowledge_base: int) -> list[int]:
    """The documents with damaged chunks whose own text, tables and questions are what was written: their chunks can be
    made anew."""
    keys = {document for _, document in damaged_chunks(tx, ChunkRow.knowledge_base_id == knowledge_base)}
    for model, covered in ((VersionRow, VERSION), (TableRow, TABLE), (PairRow, PAIR)):
        keys -= {document for _, document in _damaged(tx, model, covered, model.document_key.in_(keys))}
    return sorted(key for key in keys if key is not None)


def _names(tx: Connection, rows: Sequence[tuple[int, int | None]]) -> str:
    """The ids of the first documents among these rows."""
    keys = list(dict.fromkeys(document for _, document in rows if document is not None))[:EXAMPLES]
    return "、".join(tx.execute(select(DocumentRow.doc_id).where(DocumentRow.key.in_(keys))).scalars())


def _damaged(tx: Connection, model: type[Base], covered: Sequence[str], own: Any) -> Damaged:
    columns = model.__table__.c
    first, document = next(iter(columns)), columns["document_key"] if "document_key" in columns else null()
    for key, owner, checksum, *values in _rows(
        tx, select(first, document, columns["checksum"], *(columns[name] for name in covered)).where(own)
    ):
        if checksum is not None and checksum != values_checksum(*values):
            yield key, owner


def damaged_chunks(tx: Connection, condition: Any) -> Damaged:
    query = select(ChunkRow.document_key, ChunkRow.checksum, *CORRECTED_CHUNK).select_from(ChunkRow)
    for document, checksum, *values in _rows(tx, query.outerjoin(VersionRow, SAME_VERSION).where(condition)):
        if not is_sound_chunk(checksum, values):
            yield values[0], document


def _damaged_vectors(tx: Connection, model: Any, key: Any, owner: Any, knowledge_base: int) -> Damaged:
    query = select(key, owner.document_key, model.vector, model.checksum).join(owner, owner.key == key)
    for number, document, vector, checksum in _rows(tx, query.where(owner.knowledge_base_id == knowledge_base)):
        if not is_sound_vector(number, vector, checksum):
            yield number, document


def _rows(tx: Connection, query: Any) -> Iterator[Any]:
    with reading_damage(tx):
        for part in tx.execute(query, execution_options={"yield_per": PAGE}).partitions():
            yield from part
