"""Chunks: written with their vectors, joined to hits, walked for a rebuild, checked by `verify`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Dialect, bindparam, delete, func, literal_column, select, update

from qianxun.core.codec.plain import plain, read
from qianxun.core.types import Attributes, Chunk, Corrected, Keys, Piece, Prepared, Vector, VectorField, Vectors
from qianxun.core.unicode import is_storable
from qianxun.records import checksums, chunk_texts, graph, pairs, rows
from qianxun.records.chunk_texts import SAME_VERSION, TEXT, own_text, short_contents
from qianxun.records.database.counters import allocate
from qianxun.records.database.restrict import permitted_in
from qianxun.records.database.statements import (
    Compiled,
    compiled,
    delete_in,
    in_slices,
    insert_rows,
    keys_of,
    padded_keys,
    reading_damage,
    select_in,
    served_chunks,
)
from qianxun.records.pairs import AttachedQuestion, write_model_vectors
from qianxun.records.schema import ChunkRow, DocumentRow, GraphFactsRow, VectorRow, VersionRow
from qianxun.records.stored_vectors import sound_vector, sound_vectors, vector_rows

log = logging.getLogger(__name__)

CHUNK = (
    "key", "knowledge_base_id", "document_key", "generation", "position", "start", "end", "kind", "page",
    "table_position", "headings", "text", "checksum", "corrected",
)  # fmt: skip
VECTOR = ("chunk_key", "model", "vector", "checksum")
KIND_SAMPLE = 400  # chunks


class EntrySource(NamedTuple):
    """The source of an index entry: a chunk with the questions it answers, or one of these questions."""

    key: int
    document_key: int
    text: str
    vector: Vector | None
    attributes: Attributes
    field: VectorField = "content"
    questions: tuple[str, ...] = ()  # of a chunk, in the order of their keys
    keywords: tuple[str, ...] = ()  # that people gave a chunk
    headings: tuple[str, ...] = ()  # above a chunk
    is_damaged: bool = False  # has a stored vector that is not what was written, and is given none


def chunk_id(knowledge_base: int, doc_id: str, position: int) -> str:
    return f"c_{knowledge_base}_{doc_id}_{position}"


# ── write ────────────────────────────────────────────────────────────────────────────────────────


def write_chunks(
    tx: Connection, knowledge_base: int, prepared: Sequence[tuple[int, int, Prepared]]
) -> dict[int, range]:
    """Inserts the chunks of (document, generation) with their vectors. Returns the chunk keys by document."""
    total = sum(len(work.pieces) for _, _, work in prepared)
    if not total:
        return {key: range(0) for key, _, _ in prepared}
    keys = allocate(tx, "chunk", total)
    contents = short_contents(tx, prepared)
    ranges: dict[int, range] = {}
    chunk_rows: list[tuple[Any, ...]] = []
    first = keys.start
    for document_key, generation, work in prepared:
        own = range(first, first + len(work.pieces))
        first = own.stop
        ranges[document_key] = own
        content = contents.get((document_key, generation))
        chunk_rows.extend(_chunk_rows(knowledge_base, document_key, generation, own, work, content))
    insert_rows(tx, ChunkRow, CHUNK, chunk_rows)
    insert_rows(tx, VectorRow, VECTOR, _vector_rows((ranges[key], work) for key, _, work in prepared))
    return ranges


def _vector_rows(prepared: Iterable[tuple[range, Prepared]]) -> list[tuple[Any, ...]]:
    """All those of a model together: one by one, most of the time would be numpy's for beginning."""
    together: dict[tuple[str, int], tuple[list[int], list[Vectors]]] = {}
    for keys, work in prepared:
        if work.vectors is not None:
            own_keys, matrices = together.setdefault((work.model, work.vectors.shape[1]), ([], []))
            own_keys.extend(keys)
            matrices.append(work.vectors)
    return [
        row
        for (model, _), (keys, matrices) in together.items()
        for row in vector_rows(keys, model, np.concatenate(matrices))
    ]


def _chunk_rows(
    knowledge_base: int, document_key: int, generation: int, keys: Sequence[int], work: Prepared, content: str | None
) -> Iterator[tuple[Any, ...]]:
    for at, (key, piece) in enumerate(zip(keys, work.pieces, strict=True)):
        place = (at, piece.start, piece.end, piece.kind, piece.page)
        headings, corrected = list(piece.headings), plain(piece.corrected)
        checksum = checksums.chunk_checksum(key, generation, *place, headings, piece.text, corrected)
        texts = (headings, own_text(piece, content), checksum, corrected)
        yield (key, knowledge_base, document_key, generation, *place, piece.table, *texts)


def replace_chunks(
    tx: Connection, knowledge_base: int, document_key: int, generation: int, work: Prepared
) -> list[int]:
    """Makes these pieces the chunks of a version. Those that it has already keep their keys. Returns all keys."""
    stored: dict[Any, list[int]] = {}
    for row in chunk_texts.rows_of_version(tx, document_key, generation):
        above = tuple(row.headings)
        stored.setdefault(
            (row.start, row.end, row.kind, row.page, row.table_position, above, row.text, _keywords(row.corrected)), []
        ).append(row.key)
    reused = [own.pop(0) if (own := stored.get(_identity(piece))) else 0 for piece in work.pieces]  # 0: it is new
    _remove(tx, [key for left in stored.values() for key in left])
    fresh = iter(allocate(tx, "chunk", reused.count(0)) if 0 in reused else ())
    keys = [key or next(fresh) for key in reused]
    content = short_contents(tx, [(document_key, generation, work)]).get((document_key, generation))
    rows_of = list(_chunk_rows(knowledge_base, document_key, generation, keys, work, content))
    for key, values in zip(reused, rows_of, strict=True):
        if key:
            named = dict(zip(CHUNK, values, strict=True))
            place = {name: named[name] for name in ("position", "checksum", "corrected")}
            tx.execute(update(ChunkRow).where(ChunkRow.key == key).values(**place))
    written = [at for at, key in enumerate(reused) if not key]
    insert_rows(tx, ChunkRow, CHUNK, [rows_of[at] for at in written])
    if work.vectors is not None:
        rows_written = vector_rows([keys[at] for at in written], work.model, work.vectors[written])
        insert_rows(tx, VectorRow, VECTOR, rows_written)
    return keys


def _identity(piece: Piece) -> Any:
    """What a chunk is to an index: with another one of these it is another chunk."""
    place = (piece.start, piece.end, piece.kind, piece.page, piece.table, piece.headings, piece.text)
    return (*place, piece.corrected.keywords if piece.corrected is not None else ())


def _keywords(corrected: Mapping[str, Any] | None) -> tuple[str, ...]:
    return tuple(corrected["keywords"]) if corrected else ()


def write_vectors(
    tx: Connection, knowledge_base: int, model: str, keys: Sequence[int], vectors: np.ndarray[Any, Any]
) -> None:
    """Adds vectors of another model, for a rebuild that changes the model. Deleted chunks get none."""
    write_model_vectors(tx, VectorRow, ChunkRow, knowledge_base, model, keys, vectors)


def remove_chunks(tx: Connection, document_key: int) -> None:
    _remove(tx, list(tx.execute(select(ChunkRow.key).where(ChunkRow.document_key == document_key)).scalars()))


def remove_older_chunks(tx: Connection, versions: Sequence[tuple[int, int]]) -> None:
    """The chunks of these documents from before the generation given."""
    newest = dict(sorted(versions))
    columns = select(ChunkRow.key, ChunkRow.document_key, ChunkRow.generation)
    found = select_in(tx, columns, ChunkRow.document_key, newest)
    doomed = [row.key for row in found if row.generation < newest[row.document_key]]
    graph.carry_over(tx, doomed, newest)
    _remove(tx, doomed)


def _remove(tx: Connection, doomed: Sequence[int]) -> None:
    delete_in(tx, VectorRow, VectorRow.chunk_key, doomed)
    delete_in(tx, GraphFactsRow, GraphFactsRow.chunk_key, doomed)
    delete_in(tx, ChunkRow, ChunkRow.key, doomed)


# ── read ─────────────────────────────────────────────────────────────────────────────────────────


def _joined(*columns: Any) -> Any:
    """Chunks joined to their own version of the document: text and attributes are always of one generation."""
    return select(*columns).join(DocumentRow, DocumentRow.key == ChunkRow.document_key).join(VersionRow, SAME_VERSION)


_CHUNK = (*checksums.CORRECTED_CHUNK, ChunkRow.checksum, VersionRow.name)
_ENTRY = (ChunkRow.key, ChunkRow.document_key, TEXT, ChunkRow.kind, ChunkRow.headings, ChunkRow.corrected)
_ATTRIBUTES = (DocumentRow.doc_id, *rows.ATTRIBUTES)


def by_keys(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> dict[int, Chunk]:
    """The chunks by key; a key whose chunk has been deleted, or is not what was written, has no entry."""
    found = _seen(tx, _page_query, knowledge_base, keys)
    return {row[0]: _chunk(knowledge_base, row) for row in found if _is_sound(row)}


def _seen(
    tx: Connection, query: Callable[[Dialect, int, int | None], Compiled], knowledge_base: int, keys: Iterable[int]
) -> Iterator[Sequence[Any]]:
    """The rows of a query for chunks, compiled for so many keys and sets of labels; of what may be seen."""
    sets = permitted_in(tx)
    shown = {} if sets is None else {f"set_{at}": number for at, number in enumerate(sets)}
    for part in in_slices(list(keys)):
        padded = padded_keys(part)
        numbered = {f"key_{at}": key for at, key in enumerate(padded)}
        made = query(tx.dialect, len(padded), None if sets is None else len(sets))
        yield from made.rows(tx, {"knowledge_base": knowledge_base, **numbered, **shown})


def _is_sound(row: Sequence[Any]) -> bool:
    """Whether a row of `_CHUNK` is what was written."""
    is_sound = checksums.is_sound_chunk(row[10], row[:10])
    if not is_sound:
        log.error("the text of chunk %s does not match its checksum and is not given out; see qianxun verify", row[0])
    return is_sound


def damaged_keys(tx: Connection, keys: Sequence[int]) -> list[int]:
    """Those of the chunks that are not what was written."""
    return [key for part in in_slices(keys) for key, _ in checksums.damaged_chunks(tx, ChunkRow.key.in_(part))]


def existing_keys(tx: Connection, knowledge_base: int, keys: Iterable[int]) -> set[int]:
    """Those of the keys whose chunks have not been deleted."""
    return {row[0] for row in _seen(tx, _existing_query, knowledge_base, keys)}


@lru_cache
def _existing_query(dialect: Dialect, size: int, sets: int | None) -> Compiled:
    """Not joined: SQLite would begin with all documents of the base."""
    documents = (
        select(DocumentRow.key)
        .join(VersionRow, VersionRow.document_key == DocumentRow.key)
        .where(
            DocumentRow.key == ChunkRow.document_key,
            DocumentRow.knowledge_base_id == bindparam("knowledge_base", type_=DocumentRow.knowledge_base_id.type),
            VersionRow.generation == ChunkRow.generation,
        )
    )
    if sets is not None:
        documents = documents.where(DocumentRow.access_set.in_(_sets(sets)))
    query = select(ChunkRow.key).where(documents.exists(), ChunkRow.key.in_(_keys(size)))
    return compiled(query, dialect, is_restricted=sets is not None)


def _keys(size: int) -> list[Any]:
    return [bindparam(f"key_{at}", type_=ChunkRow.key.type) for at in range(size)]


def _sets(number: int) -> list[Any]:
    return [bindparam(f"set_{at}", type_=DocumentRow.access_set.type) for at in range(number)]


@lru_cache
def _page_query(dialect: Dialect, size: int, sets: int | None) -> Compiled:
    """The condition is on the document's base: on the chunk's, SQLite would look every one up in the index of bases
    first, which takes two thirds as long again; and not by an index of bases, or for a hundred keys it would begin
    with all documents. Of documents in so many sets of labels; None: in any."""
    own = DocumentRow.knowledge_base_id + literal_column("0") == bindparam("knowledge_base")
    query = _joined(*_CHUNK, *_ATTRIBUTES).where(own, ChunkRow.key.in_(_keys(size)))
    if sets is not None:
        query = query.where(DocumentRow.access_set.in_(_sets(sets)))
    return compiled(query, dialect, is_restricted=sets is not None)


def document_chunks(tx: Connection, knowledge_base: int, doc_id: str) -> list[Chunk]:
    """The served chunks of a document, in order."""
    if not is_storable(doc_id):
        return []
    query = _joined(*_CHUNK, *_ATTRIBUTES).where(
        DocumentRow.knowledge_base_id == knowledge_base,
        DocumentRow.doc_id == doc_id,
        ChunkRow.generation == DocumentRow.served,
    )
    with reading_damage(tx):
        found = tx.execute(query.order_by(ChunkRow.position)).all()
    return [_chunk(knowledge_base, row) for row in found if _is_sound(row)]


def _chunk(knowledge_base: int, row: Sequence[Any]) -> Chunk:
    """By position: faster than by the names of a row."""
    key, generation, position, start, end, kind, page, headings, text, corrected, _, name, doc_id, *about = row
    user_id, project_id, content_type, tags, metadata = about
    return Chunk(
        key=key,
        chunk_id=chunk_id(knowledge_base, doc_id, position),
        doc_id=doc_id,
        doc_name=name,
        index=position,
        text=text,
        start=start,
        end=end,
        kind=kind,
        headings=tuple(headings),
        page=page,
        generation=generation,
        attributes=Attributes(doc_id, user_id, project_id, content_type, tuple(tags), rows.metadata_of(metadata), kind),
        corrected=None if corrected is None else read(Corrected, corrected),
    )


def material(tx: Connection, document_keys: Sequence[int], model: str) -> list[EntrySource]:
    """The served chunks of these documents, as the index needs them, then the questions they answer."""
    found: list[EntrySource] = []
    for part in in_slices(document_keys):
        found.extend(_material(tx, model, ChunkRow.document_key.in_(part), None))
    return with_questions(found, pairs.load_of_documents(tx, document_keys, model))


def page(tx: Connection, knowledge_base: int, model: str, after: int, limit: int) -> list[EntrySource]:
    """The next served chunks of a base in key order, then the questions they answer: a walk for a rebuild."""
    condition = (ChunkRow.knowledge_base_id == knowledge_base) & (ChunkRow.key > after)
    found = _material(tx, model, condition, limit)
    if not found:
        return []
    return with_questions(found, pairs.load_of_chunks(tx, knowledge_base, found[0].key, found[-1].key, model))


def with_questions(found: list[EntrySource], questions: Sequence[AttachedQuestion]) -> list[EntrySource]:
    """Chunks with the questions they answer, and after them these questions as entries of their own."""
    if not questions:
        return found
    by_chunk: dict[int, list[AttachedQuestion]] = {}
    for question in questions:
        by_chunk.setdefault(question.chunk_key, []).append(question)
    for at, piece in enumerate(found):
        if own := by_chunk.get(piece.key):
            found[at] = piece._replace(questions=tuple(question.question for question in own))
    attributes = {piece.key: piece.attributes for piece in found}
    return found + [
        EntrySource(
            one.key,
            one.document_key,
            one.question,
            one.vector,
            attributes[one.chunk_key],
            "question",
            is_damaged=one.is_damaged,
        )
        for one in questions
        if one.chunk_key in attributes
    ]


def _material(tx: Connection, model: str, condition: Any, limit: int | None) -> list[EntrySource]:
    query = (
        _joined(*_ENTRY, VectorRow.vector, VectorRow.checksum, *_ATTRIBUTES)
        .outerjoin(VectorRow, (VectorRow.chunk_key == ChunkRow.key) & (VectorRow.model == model))
        .where(condition, ChunkRow.generation == DocumentRow.served)
        .order_by(ChunkRow.key)
        .limit(limit)
    )
    # One object for each kind of chunk of a document: an index stores it once for all of them.
    shared: dict[tuple[int, str], Attributes] = {}
    found = []
    with reading_damage(tx):
        stored = tx.execute(query).all()
    for row in stored:
        alike = (row.document_key, row.kind)
        if alike not in shared:
            shared[alike] = rows.attributes_of(row.doc_id, row, row.kind)
        vector = sound_vector(row.key, row.vector, row.checksum)
        is_damaged = row.vector is not None and vector is None
        above = tuple(row.headings)
        words = _keywords(row.corrected)
        piece = EntrySource(row.key, row.document_key, row.text, vector, shared[alike], keywords=words, headings=above)
        found.append(piece._replace(is_damaged=True) if is_damaged else piece)
    return found


def drop_other_vectors(tx: Connection, knowledge_base: int, model: str) -> None:
    own = select(ChunkRow.key).where(ChunkRow.knowledge_base_id == knowledge_base)
    tx.execute(delete(VectorRow).where(VectorRow.chunk_key.in_(own), VectorRow.model != model))
    pairs.drop_other_vectors(tx, knowledge_base, model)


def table_share(tx: Connection, knowledge_base: int) -> float:
    """The share of tables among a base's chunks, from a sample that is even in the order of their keys."""
    own = ChunkRow.knowledge_base_id == knowledge_base
    # Each by itself: for both at once SQLite goes through all chunks of the base, .1 s at a million, at every change.
    ends = (select(end(ChunkRow.key)).where(own).scalar_subquery() for end in (func.min, func.max))
    first, last = tx.execute(select(*ends)).one()
    if first is None:
        return 0.0
    sample = sorted({first + (last - first) * at // (KIND_SAMPLE - 1) for at in range(KIND_SAMPLE)})
    kinds = [row.kind for row in select_in(tx, select(ChunkRow.kind).where(own), ChunkRow.key, sample)]
    return kinds.count("table") / len(kinds)


def exact_table_share(tx: Connection, knowledge_base: int) -> float:
    """The same, counted."""
    query = select(ChunkRow.kind, func.count().label("number")).where(ChunkRow.knowledge_base_id == knowledge_base)
    counts = {row.kind: row.number for row in tx.execute(query.group_by(ChunkRow.kind))}
    return counts.get("table", 0) / sum(counts.values()) if counts else 0.0


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def served_keys(tx: Connection, knowledge_base: int) -> Keys:
    return keys_of(tx, served_chunks(knowledge_base, ChunkRow.key).order_by(ChunkRow.key))


def newest_vectors(tx: Connection, knowledge_base: int, model: str, limit: int) -> list[tuple[int, Vector]]:
    """Of the served chunks with the highest keys: key and vector."""
    query = (
        served_chunks(knowledge_base, ChunkRow.key, VectorRow.vector, VectorRow.checksum)
        .join(VectorRow, (VectorRow.chunk_key == ChunkRow.key) & (VectorRow.model == model))
        .order_by(ChunkRow.key.desc())
        .limit(limit)
    )
    return sound_vectors(tx.execute(query))


def vectors_of(tx: Connection, model: str, keys: Sequence[int]) -> list[tuple[int, Vector]]:
    """Key and vector of those of these chunks that have one."""
    query = select(VectorRow.chunk_key, VectorRow.vector, VectorRow.checksum).where(VectorRow.model == model)
    return sound_vectors(select_in(tx, query, VectorRow.chunk_key, keys))


def count(tx: Connection, knowledge_base: int) -> int:
    query = select(func.count()).select_from(ChunkRow).where(ChunkRow.knowledge_base_id == knowledge_base)
    return tx.execute(query).scalar_one()


def counts(tx: Connection, document_keys: Sequence[int]) -> dict[int, int]:
    """The number of served chunks by document."""
    query = (
        select(ChunkRow.document_key, func.count().label("number"))
        .join(DocumentRow, DocumentRow.key == ChunkRow.document_key)
        .where(ChunkRow.generation == DocumentRow.served)
        .group_by(ChunkRow.document_key)
    )
    return {row.document_key: row.number for row in select_in(tx, query, ChunkRow.document_key, document_keys)}


def orphans(tx: Connection, knowledge_base: int) -> Keys:
    """Chunks that belong to no served version: there are none once the index has caught up."""
    query = (
        select(ChunkRow.key)
        .outerjoin(
            DocumentRow, (DocumentRow.key == ChunkRow.document_key) & (DocumentRow.served == ChunkRow.generation)
        )
        .where(ChunkRow.knowledge_base_id == knowledge_base, DocumentRow.key.is_(None))
        .order_by(ChunkRow.key)
    )
    return keys_of(tx, query)


def without_vector(tx: Connection, knowledge_base: int, model: str) -> Keys:
    query = (
        select(ChunkRow.key)
        .outerjoin(VectorRow, (VectorRow.chunk_key == ChunkRow.key) & (VectorRow.model == model))
        .where(ChunkRow.knowledge_base_id == knowledge_base, VectorRow.chunk_key.is_(None))
        .order_by(ChunkRow.key)
    )
    return keys_of(tx, query)
