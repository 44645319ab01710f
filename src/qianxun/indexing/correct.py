"""Corrections made, undone and moved. `add_correction` is the function to read first.

The record of a correction and what it does to the chunks of its document are one transaction: from then on every
process serves the corrected text. Cutting and embedding come before it; where the document, or its corrections, have
changed meanwhile, it is done again. Chunks that stay what they were keep their keys and vectors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import numpy as np
from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, in_preparing_thread
from qianxun.core.errors import BadInput, ModelError, NotFound
from qianxun.core.governance.actor import current_actor
from qianxun.core.governance.corrections import (
    ACTIVE,
    AUTHOR_LIMIT,
    OF_DOCUMENTS,
    OF_QUESTIONS,
    Anchor,
    Correction,
    CorrectionQuery,
    CorrectionState,
    NewCorrection,
    checked_correction,
)
from qianxun.core.ports import EmbeddingModel
from qianxun.core.types import Chunk, Document, Prepared, Vector, Vectors
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.prepare import prepare, question_maker
from qianxun.indexing.read import checked_metadata
from qianxun.indexing.rule_vectors import store_rule_vectors
from qianxun.ingest.anchors import SearchedText, anchor_of
from qianxun.records import chunks, document_heads, documents, outbox
from qianxun.records.database.counters import allocate
from qianxun.records.document_heads import Head
from qianxun.records.governance import audit, corrections, document_corrections
from qianxun.text.headings import read_under_headings

log = logging.getLogger(__name__)

TRIES: Final = 20  # a document that is written without a pause may have to be looked at again
SEE_CHUNKS: Final = "检索结果与文档页里有片段的编号（chunk_id）"

After = Callable[[Sequence[Correction]], list[Correction]]
"""The active corrections of a document → those after the change."""
Write = Callable[[Connection], None]


async def add_correction(base: OpenBase, new: NewCorrection, *, state: CorrectionState = "applied") -> Correction:
    """Records a correction and applies it: every search sees it when this returns.

    Raises NotFound for a chunk or document that does not exist, BadInput for what cannot be applied. A ``proposed``
    one is only recorded.
    """
    new = checked_correction(new)
    if new.kind == "metadata":
        checked_metadata(new.change.metadata)
    own = await in_preparing_thread(base, _anchored, base, new)
    if state == "proposed":
        return await _store(base, replace(own, state=state))
    return await _apply(base, own)


async def set_state(base: OpenBase, number: int, state: CorrectionState, by: str = "") -> Correction:
    """Undoes a correction, or applies one that was proposed or undone. Raises NotFound, and BadInput where it cannot be
    applied any more."""
    known = await base.records.read(lambda tx: corrections.get(tx, base.id, number))
    if known.state == state:
        return known
    stated = replace(known, state=state)

    def write(tx: Connection) -> None:
        corrections.set_state(tx, base.id, number, state, by=by or current_actor()[:AUTHOR_LIMIT])
        _note(tx, known, "undo" if state == "undone" else "apply")

    if known.state == "proposed" and state == "undone":
        await base.records.write(write)
        return await base.records.read(lambda tx: corrections.get(tx, base.id, number))

    def after(active: Sequence[Correction]) -> list[Correction]:
        others = [one for one in active if one.id != number]
        return sorted([*others, stated], key=lambda one: one.id) if state in ACTIVE else others

    await _rework(base, known.doc_id, after, write, wanted=stated)
    return await base.records.read(lambda tx: corrections.get(tx, base.id, number))


async def move_correction(base: OpenBase, number: int, chunk_ids: Sequence[str]) -> Correction:
    """Gives a correction that needs a look the chunks that it is about from now on."""
    known = await base.records.read(lambda tx: corrections.get(tx, base.id, number))
    if known.anchor is None:
        raise BadInput("这条更正说的是整个文档，没有片段可换", hint="撤销它，再对别的文档另做一条")
    given = NewCorrection(known.kind, tuple(chunk_ids), "", known.change)
    moved = await in_preparing_thread(base, _anchored, base, checked_correction(given))
    moved = replace(known, doc_id=moved.doc_id, anchor=moved.anchor, change=moved.change, state="applied")
    if moved.doc_id != known.doc_id:
        raise BadInput("换到的片段在另一个文档里", hint="撤销它，再对那个片段另做一条")

    def after(active: Sequence[Correction]) -> list[Correction]:
        return sorted([*(one for one in active if one.id != number), moved], key=lambda one: one.id)

    def write(tx: Connection) -> None:
        corrections.move(tx, number, moved.doc_id, moved.anchor)
        _note(tx, moved, "move")

    await _rework(base, known.doc_id, after, write, wanted=moved)
    return await base.records.read(lambda tx: corrections.get(tx, base.id, number))


async def import_corrections(base: OpenBase, given: Sequence[Correction]) -> list[Correction]:
    """Records corrections of another base, or of this one, and applies those whose words are here; the others need a
    look. One that the base has already is not taken twice."""
    taken = []
    for one in sorted(given, key=lambda one: one.id):
        query = CorrectionQuery(doc_id=one.doc_id, kind=one.kind)
        known = await base.records.read(partial(corrections.listed, knowledge_base=base.id, query=query))
        if any(_is_same(one, other) for other in known):
            continue
        taken.append(await (_apply(base, one, must=False) if one.is_active else _store(base, one)))
    return taken


def _note(tx: Connection, one: Correction, done: str) -> None:
    """In the audit log, which has no text of a document."""
    about = {"kind": one.kind, "doc_id": one.doc_id}
    audit.append(tx, "", f"correction.{done}", str(one.id), knowledge_base=one.knowledge_base_id, details=about)


def _is_same(one: Correction, other: Correction) -> bool:
    return (one.is_active, one.change, _place(one)) == (other.is_active, other.change, _place(other))


def _place(one: Correction) -> tuple[str, int] | None:
    return None if one.anchor is None else (one.anchor.quote, one.anchor.place)


# ── anchors ──────────────────────────────────────────────────────────────────────────────────────


def _anchored(base: OpenBase, new: NewCorrection) -> Correction:
    """The correction of what the request names. Raises NotFound."""
    who = new.author or current_actor()[:AUTHOR_LIMIT]
    made = partial(Correction, 0, base.id, author=who, origin=new.origin, created_at=datetime.now(UTC))
    with base.records.reading() as tx:
        if new.kind in OF_DOCUMENTS:
            head = document_heads.heads(tx, base.id, [new.doc_id]).get(new.doc_id)
            if head is None or head.status == "deleted":
                raise NotFound(
                    f"知识库 {base.id} 中没有文档“{new.doc_id[:80]}”", hint="用 qianxun kb show 查看已有的文档"
                )
            return made(new.doc_id, new.kind, new.change)
        own = [chunk_named(tx, base.id, chunk_id) for chunk_id in new.chunk_ids]
        first, last = own[0], own[-1]
        head = document_heads.heads(tx, base.id, [first.doc_id])[first.doc_id]
        document = documents.load(tx, head.key, head.served)
    if new.kind == "join" and [(one.doc_id, one.index - first.index) for one in own] != [
        (first.doc_id, at) for at in range(len(own))
    ]:
        raise BadInput("要合并的片段不是同一个文档里相邻的几个", hint="按次序给出相邻片段的编号")
    anchor = _anchor(document, first, last)
    change = new.change if new.kind != "split" else replace(new.change, parts=_bare_parts(first, new.change.parts))
    return made(first.doc_id, new.kind, change, anchor)


def chunk_named(tx: Connection, knowledge_base: int, chunk_id: str) -> Chunk:
    """A served chunk by its public id. Raises NotFound."""
    head, _, position = chunk_id.rpartition("_")
    doc_id = head.removeprefix(f"c_{knowledge_base}_")
    if head != doc_id and position.isascii() and position.isdigit():
        for chunk in chunks.document_chunks(tx, knowledge_base, doc_id):
            if chunk.chunk_id == chunk_id:
                return chunk
    raise NotFound(f"没有片段“{chunk_id[:300]}”", hint=SEE_CHUNKS)


def _anchor(document: Document, first: Chunk, last: Chunk) -> Anchor:
    text = SearchedText(document.content, ())
    if first.end == first.start:  # a question with its answer that is not in the text
        return Anchor(first.text, headings=first.headings, digest=text.digest, chunk_id=first.chunk_id)
    return replace(anchor_of(text, first.start, last.end, first.chunk_id), headings=first.headings)


def _bare_parts(chunk: Chunk, parts: tuple[str, ...]) -> tuple[str, ...]:
    """What a chunk is split into, without the table header that stands above its text and is not part of it."""
    lead = chunk.text[: max(len(chunk.text) - (chunk.end - chunk.start), 0)].strip()
    is_with_lead = bool(lead) and "".join("".join(parts).split()) == "".join(chunk.text.split())
    if not is_with_lead or not parts[0].startswith(lead):
        return parts
    return (parts[0].removeprefix(lead).strip(), *parts[1:])


# ── records and chunks, in one transaction ───────────────────────────────────────────────────────


async def _store(base: OpenBase, own: Correction) -> Correction:
    unnumbered = replace(own, id=0)
    return (await base.records.write(lambda tx: corrections.add(tx, base.id, [unnumbered])))[0]


async def _apply(base: OpenBase, own: Correction, *, must: bool = True) -> Correction:
    """Records a correction and applies it. Where its words are not there: raises BadInput, or (not ``must``) sets it
    aside."""
    number = await base.records.write(lambda tx: allocate(tx, "correction", 1).start)
    numbered = replace(own, id=number, knowledge_base_id=base.id)

    def write(tx: Connection) -> None:
        corrections.add(tx, base.id, [numbered])
        _note(tx, numbered, "add")

    await _rework(base, own.doc_id, lambda active: [*active, numbered], write, wanted=numbered if must else None)
    return await base.records.read(lambda tx: corrections.get(tx, base.id, number))


@dataclass(frozen=True, slots=True)
class _Read:
    """A document as it is served, with its corrections; None where it does not exist, or is not served."""

    head: Head | None
    document: Document | None
    newest: int
    active: Sequence[Correction]


async def _rework(base: OpenBase, doc_id: str, after: After, write: Write, *, wanted: Correction | None = None) -> None:
    """Writes a change of a document's corrections together with the chunks that follow from it."""
    for _ in range(TRIES):
        known = await base.records.read(lambda tx: _read(tx, base.id, doc_id))
        active = after(known.active)
        work = None
        if known.document is not None:
            work = await in_preparing_thread(base, _prepared, base, known, active)
            if wanted is not None and wanted.state == "applied":
                _require_applied(work, wanted)
        change = _Change(base.id, doc_id, known, work, active, write)
        written = await base.records.write(change.written)
        if written is not None:
            await keep_up(base, upto=written)
            if any(one.kind in OF_QUESTIONS for one in active):
                await in_preparing_thread(base, store_rule_vectors, base, base.model)
            return
    raise BadInput(f"文档“{doc_id[:80]}”一直在变，没有更正", hint="等它的写入结束后再试")


def _read(tx: Connection, knowledge_base: int, doc_id: str) -> _Read:
    head = document_heads.heads(tx, knowledge_base, [doc_id]).get(doc_id)
    newest, active = corrections.by_document(tx, knowledge_base, [doc_id]).get(doc_id, (0, []))
    is_served = head is not None and head.served > 0
    document = documents.load(tx, head.key, head.served) if head is not None and is_served else None
    return _Read(head, document, newest, active)


def _require_applied(work: Prepared, wanted: Correction) -> None:
    reason = next(
        (outcome.reason for outcome in work.outcomes if outcome.id == wanted.id and outcome.state != "applied"), ""
    )
    if reason:
        raise BadInput(f"更正用不上：{reason}", hint="看看文档如今的内容，再对现在的片段更正")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a document's corrections that is ready to be written."""

    knowledge_base: int
    doc_id: str
    known: _Read
    work: Prepared | None
    active: Sequence[Correction]
    write: Write

    def written(self, tx: Connection) -> int | None:
        """The outbox sequence up to which the change is; None where the document is another by now."""
        base = self.knowledge_base
        head = document_heads.lock(tx, base, self.doc_id)
        newest, _ = corrections.by_document(tx, base, [self.doc_id]).get(self.doc_id, (0, []))
        if (head, newest) != (self.known.head, self.known.newest):
            return None
        self.write(tx)
        if head is None or head.status == "deleted":
            corrections.set_aside(tx, base, self.doc_id, "没有这个文档；它来时再按原文核对")
            return outbox.last_sequence(tx)
        generations = sorted({head.served, head.generation} - {0})
        versions = [(head.key, at, documents.load(tx, head.key, at)) for at in generations]
        document_corrections.rewrite(tx, base, versions, self.known.active, self.active)
        if self.work is not None:
            documents.rework(tx, base, head.key, head.served, replace(self.work, corrections=1))
        return outbox.last_sequence(tx)


# ── preparing ────────────────────────────────────────────────────────────────────────────────────


def _prepared(base: OpenBase, known: _Read, active: Sequence[Correction]) -> Prepared:
    """The served version with these corrections; what was embedded before is not again."""
    document, model = known.document, base.model
    assert known.head is not None
    assert document is not None
    with base.records.reading() as tx:
        stored = chunks.material(tx, [known.head.key], base.model_name) if model is not None else []
    vectors = {
        read_under_headings(one.text, one.headings) if one.field == "content" else one.text: one.vector
        for one in stored
        if one.vector is not None and model is not None and len(one.vector) == model.dimension
    }

    def ready(embedding: EmbeddingModel | None) -> Prepared:
        (found,) = prepare(
            [document],
            base.splitter,
            embedding,
            by_meaning=base.by_meaning,
            questions=question_maker(base),
            corrected={document.id: (1, active)},
        )
        return found

    if model is None:
        return ready(None)
    try:
        return ready(_KnownVectors(model, vectors))
    except ModelError as error:
        if base.by_meaning:  # the model cuts, too
            raise
        log.warning("base %s: chunks of a corrected document are stored without vectors: %s", base.id, error)
        return ready(None)


@dataclass(frozen=True, slots=True)
class _KnownVectors:
    """An embedding model that is only called for texts whose vectors are not stored."""

    model: EmbeddingModel
    vectors: dict[str, Vector]

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def dimension(self) -> int:
        return self.model.dimension

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        unknown = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        found = dict(zip(unknown, self.model.embed_passages(unknown), strict=True)) if unknown else {}
        return np.array([self.vectors.get(text, found.get(text)) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        return self.model.embed_query(text)
