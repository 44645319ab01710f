"""Corrections of record: written, listed, and looked up for the documents that are prepared.

A correction names its document by id: it outlives every version of it, and a document that was deleted and comes back
has its corrections again. `revision` tells whether a document's corrections have changed since it was prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update

from qianxun.core.codec.plain import plain, read
from qianxun.core.errors import NotFound
from qianxun.core.governance.corrections import (
    ACTIVE,
    OF_QUESTIONS,
    Anchor,
    Change,
    Correction,
    CorrectionOutcome,
    CorrectionQuery,
    CorrectionState,
    QuestionRule,
)
from qianxun.core.types import MetadataValue, Piece, Vector
from qianxun.core.unicode import is_storable
from qianxun.records.database.counters import allocate
from qianxun.records.database.statements import select_in
from qianxun.records.schema import ChunkRow, CorrectionRow, DocumentRow
from qianxun.records.stored_vectors import SINGLE, sound_vector

SEE = "用 qianxun corrections list 查看"
_BASE: Final = bindparam("base", type_=CorrectionRow.knowledge_base_id.type)
_FIRST: Final = select(CorrectionRow.id).where(CorrectionRow.knowledge_base_id == _BASE).limit(1)


# ── write ────────────────────────────────────────────────────────────────────────────────────────


def add(tx: Connection, knowledge_base: int, given: Sequence[Correction]) -> list[Correction]:
    """Stores corrections, in order; those without a number get the next ones."""
    stored = []
    for one in given:
        number = one.id or allocate(tx, "correction", 1).start
        (revision,) = allocate(tx, "correction_revision", 1)
        values = {
            "id": number,
            "knowledge_base_id": knowledge_base,
            "doc_id": one.doc_id,
            "kind": one.kind,
            "payload": plain(one.change),
            "anchor": plain(one.anchor),
            "state": one.state,
            "reason": one.reason,
            "author": one.author,
            "origin": one.origin,
            "created_at": one.created_at,
            "undone_by": one.undone_by,
            "undone_at": one.undone_at,
            "original": plain(one.original),
            "revision": revision,
            "chunk_keys": [],
            "vector_model": "",
        }
        tx.execute(insert(CorrectionRow).values(**values))
        stored.append(get(tx, knowledge_base, number))
    return stored


def set_state(
    tx: Connection, knowledge_base: int, number: int, state: CorrectionState, *, by: str = "", reason: str = ""
) -> None:
    """By a person: the document's chunks are to be made anew."""
    (revision,) = allocate(tx, "correction_revision", 1)
    values: dict[str, Any] = {
        "state": state,
        "reason": reason,
        "revision": revision,
        "undone_by": "",
        "undone_at": None,
    }
    if state == "undone":
        values |= {"undone_by": by, "undone_at": datetime.now(UTC), "chunk_keys": []}
    tx.execute(update(CorrectionRow).where(_of(knowledge_base), CorrectionRow.id == number).values(**values))


def move(tx: Connection, number: int, doc_id: str, anchor: Anchor | None) -> None:
    """Gives a correction other words to be about."""
    (revision,) = allocate(tx, "correction_revision", 1)
    values = {"doc_id": doc_id, "anchor": plain(anchor), "state": "applied", "reason": "", "revision": revision}
    tx.execute(update(CorrectionRow).where(CorrectionRow.id == number).values(**values))


def note_outcomes(
    tx: Connection, outcomes: Iterable[CorrectionOutcome], pieces: Sequence[Piece] = (), keys: Sequence[int] = ()
) -> None:
    """What became of corrections in a version that was prepared, and the keys of the chunks that have them."""
    own: dict[int, list[int]] = {}
    for piece, key in zip(pieces, keys, strict=True):
        for number in piece.corrected.ids if piece.corrected is not None else ():
            own.setdefault(number, []).append(key)
    for outcome in outcomes:
        values = {"state": outcome.state, "reason": outcome.reason, "chunk_keys": own.get(outcome.id, [])}
        is_active = CorrectionRow.state.in_(ACTIVE)
        tx.execute(update(CorrectionRow).where(CorrectionRow.id == outcome.id, is_active).values(**values))


def note_original(tx: Connection, number: int, original: Mapping[str, MetadataValue | None]) -> None:
    tx.execute(update(CorrectionRow).where(CorrectionRow.id == number).values(original=plain(dict(original))))


def set_aside(tx: Connection, knowledge_base: int, doc_id: str, reason: str) -> None:
    """Those of a document that has been deleted: they wait for it to come back."""
    own = _of(knowledge_base) & (CorrectionRow.doc_id == doc_id) & CorrectionRow.state.in_(ACTIVE)
    tx.execute(update(CorrectionRow).where(own).values(state="needs_a_look", reason=reason, chunk_keys=[]))


def withdraw(tx: Connection, knowledge_base: int, origin: str) -> None:
    """Takes back what a rating proposed, as far as nobody has decided on it."""
    own = _of(knowledge_base) & (CorrectionRow.origin == origin) & (CorrectionRow.state == "proposed")
    tx.execute(delete(CorrectionRow).where(own))


def link_chunks(tx: Connection, knowledge_base: int) -> None:
    """Notes which chunks have which corrections, by what the chunks say."""
    chosen = select(ChunkRow.key, ChunkRow.corrected).where(
        ChunkRow.knowledge_base_id == knowledge_base, ChunkRow.corrected.is_not(None)
    )
    own: dict[int, list[int]] = {}
    for key, corrected in tx.execute(chosen.order_by(ChunkRow.key)):
        for number in corrected["ids"]:
            own.setdefault(number, []).append(key)
    for number, keys in own.items():
        tx.execute(update(CorrectionRow).where(CorrectionRow.id == number).values(chunk_keys=keys))


def write_vector(tx: Connection, number: int, model: str, vector: Vector) -> None:
    """Of a rule's question."""
    data = vector.astype(SINGLE).tobytes()
    tx.execute(update(CorrectionRow).where(CorrectionRow.id == number).values(vector_model=model, vector=data))


# ── read ─────────────────────────────────────────────────────────────────────────────────────────


def get(tx: Connection, knowledge_base: int, number: int) -> Correction:
    """Raises NotFound."""
    query = select(CorrectionRow.__table__).where(_of(knowledge_base), CorrectionRow.id == number)
    row = tx.execute(query).first() if 0 < number < 2**63 else None
    if row is None:
        raise NotFound(f"知识库 {knowledge_base} 没有编号为 {number} 的更正", hint=SEE)
    return _shown(tx, knowledge_base, [row])[0]


def listed(
    tx: Connection, knowledge_base: int, query: CorrectionQuery, *, limit: int | None = None, after: int = 0
) -> list[Correction]:
    """By number; ``after`` is the one at which the last page ended."""
    chosen = select(CorrectionRow.__table__).where(_of(knowledge_base), CorrectionRow.id > after)
    for column, wanted in (
        (CorrectionRow.state, query.state),
        (CorrectionRow.kind, query.kind),
        (CorrectionRow.doc_id, query.doc_id),
    ):
        if wanted:
            chosen = chosen.where(column == wanted if is_storable(wanted) else column.is_(None))
    found = tx.execute(chosen.order_by(CorrectionRow.id).limit(None if query.chunk_id else limit)).all()
    shown = _shown(tx, knowledge_base, found)
    return [one for one in shown if query.chunk_id in one.chunk_ids][:limit] if query.chunk_id else shown


def counts(tx: Connection, knowledge_base: int) -> dict[str, int]:
    """How many there are in each state."""
    query = select(CorrectionRow.state, func.count()).where(_of(knowledge_base)).group_by(CorrectionRow.state)
    return {row[0]: row[1] for row in tx.execute(query)}


def has_any(tx: Connection, knowledge_base: int) -> bool:
    return tx.execute(_FIRST, {"base": knowledge_base}).first() is not None


def by_document(tx: Connection, knowledge_base: int, doc_ids: Iterable[str]) -> dict[str, tuple[int, list[Correction]]]:
    """Document → the newest change of its corrections, and those that are looked for in its text."""
    if not has_any(tx, knowledge_base):
        return {}
    query = select(CorrectionRow.__table__).where(_of(knowledge_base)).order_by(CorrectionRow.id)
    found: dict[str, tuple[int, list[Correction]]] = {}
    for row in select_in(tx, query, CorrectionRow.doc_id, [doc_id for doc_id in doc_ids if is_storable(doc_id)]):
        newest, own = found.get(row.doc_id, (0, []))
        active = [_correction(row)] if row.state in ACTIVE else []
        found[row.doc_id] = (max(newest, row.revision), own + active)
    return found


def revisions(tx: Connection, knowledge_base: int, document_keys: Sequence[int]) -> dict[int, int]:
    """Document key → the newest change of its corrections; no entry for one that never had any."""
    if not has_any(tx, knowledge_base):
        return {}
    query = (
        select(DocumentRow.key, func.max(CorrectionRow.revision).label("newest"))
        .join(
            DocumentRow,
            (DocumentRow.doc_id == CorrectionRow.doc_id) & (DocumentRow.knowledge_base_id == knowledge_base),
        )
        .where(_of(knowledge_base))
        .group_by(DocumentRow.key)
    )
    return {row.key: row.newest for row in select_in(tx, query, DocumentRow.key, document_keys)}


def rules(tx: Connection, knowledge_base: int) -> list[QuestionRule]:
    """The rules for questions that are applied, the first made first."""
    columns = (CorrectionRow.id, CorrectionRow.kind, CorrectionRow.change, CorrectionRow.chunk_keys)
    chosen = select(*columns, CorrectionRow.vector_model, CorrectionRow.vector).where(
        _of(knowledge_base), CorrectionRow.kind.in_(OF_QUESTIONS), CorrectionRow.state == "applied"
    )
    return [
        QuestionRule(
            row.id,
            row.kind,
            row.payload["question"],
            row.payload["like"],
            tuple(row.chunk_keys),
            row.vector_model,
            sound_vector(row.id, row.vector, None),
        )
        for row in tx.execute(chosen.order_by(CorrectionRow.id))
    ]


def disabling(tx: Connection, knowledge_base: int, doc_id: str, chunk_id: str) -> Correction | None:
    """The correction that took a document, or the chunk that was called so, out of searches."""
    _, own = by_document(tx, knowledge_base, [doc_id]).get(doc_id, (0, []))
    for one in own:
        is_it = one.kind == "disable" and one.anchor is not None and one.anchor.chunk_id == chunk_id
        if one.state == "applied" and (is_it or one.kind == "disable_document"):
            return one
    return None


def disabled_documents(tx: Connection, knowledge_base: int) -> set[str]:
    query = select(CorrectionRow.doc_id).where(
        _of(knowledge_base), CorrectionRow.kind == "disable_document", CorrectionRow.state == "applied"
    )
    return set(tx.execute(query).scalars())


def _of(knowledge_base: int) -> Any:
    return CorrectionRow.knowledge_base_id == knowledge_base


def _shown(tx: Connection, knowledge_base: int, found: Sequence[Row[Any]]) -> list[Correction]:
    """With the ids of the chunks that have them now."""
    keys = sorted({key for row in found for key in row.chunk_keys})
    serving = (ChunkRow.document_key == DocumentRow.key) & (ChunkRow.generation == DocumentRow.served)
    query = select(ChunkRow.key, DocumentRow.doc_id, ChunkRow.position).join(DocumentRow, serving)
    ids = {
        row.key: f"c_{knowledge_base}_{row.doc_id}_{row.position}" for row in select_in(tx, query, ChunkRow.key, keys)
    }
    return [_correction(row, tuple(ids[key] for key in row.chunk_keys if key in ids)) for row in found]


def _correction(row: Row[Any], chunk_ids: tuple[str, ...] = ()) -> Correction:
    return Correction(
        id=row.id,
        knowledge_base_id=row.knowledge_base_id,
        doc_id=row.doc_id,
        kind=row.kind,
        change=read(Change, row.payload),
        anchor=None if row.anchor is None else read(Anchor, row.anchor),
        state=row.state,
        reason=row.reason,
        author=row.author,
        origin=row.origin,
        created_at=row.created_at,
        undone_by=row.undone_by,
        undone_at=row.undone_at,
        original={name: tuple(value) if isinstance(value, list) else value for name, value in row.original.items()},
        chunk_ids=chunk_ids,
    )
