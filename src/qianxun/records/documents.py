"""The life of a document: accept, complete, settle, delete. `document_retries` has what fails and is tried again.

The life of one generation:

    accept ──► pending ──► (prepare: chunk, embed) ──► complete ──► indexed
                  ▲               │ fails
                  └── retrying ◄──┴──► quarantined

A file that cannot be read has no text to accept: it is ``failed``, with its reason, until it can (`note_unreadable`).
`accept` and `complete` may be one transaction (a document that comes prepared). Every step checks the generation it
was given against the document's: work that was overtaken by a newer version or a delete changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, select, update

from qianxun.core.errors import BadInput, NotFound
from qianxun.core.types import Accepted, Document, Outcome, Prepared, Submission
from qianxun.core.unicode import is_storable, storable
from qianxun.records import checksums, document_retries, pairs, rows, tables
from qianxun.records.chunks import remove_chunks, remove_older_chunks, replace_chunks, write_chunks
from qianxun.records.database.counters import CounterName, allocate
from qianxun.records.database.statements import in_slices, insert_rows, select_in
from qianxun.records.document_heads import Head, check_id, heads
from qianxun.records.governance import access, audit, corrections, document_corrections, quotas, validity, webhooks
from qianxun.records.outbox import append
from qianxun.records.rows import is_endless
from qianxun.records.schema import (
    Base,
    ChunkRow,
    DocumentRow,
    PairRow,
    TableRow,
    ValidityRow,
    VersionRow,
)

OWNER = ("knowledge_base_id", "document_key", "generation")
UNLINKED = ("key", *OWNER, "position", "question", "answer", "origin")  # a pair without a chunk yet
DOCUMENT = (
    "key", "knowledge_base_id", "doc_id", "generation", "served", "status", "attempts", "outages", "created_at",
    "updated_at",
)  # fmt: skip
AUDITED_IDS = 100  # documents of one batch that the audit log names; of the others it has the number
FIELD_LIMITS = {"user_id": 128, "project_id": 128, "content_type": 64}


@dataclass(frozen=True, slots=True)
class _Decision:
    submission: Submission
    outcome: Outcome
    key: int
    generation: int
    known: bool  # the document has a row already
    was_purged: bool = False  # … which has a digest in the place of its id


# ── accept ───────────────────────────────────────────────────────────────────────────────────────


def accept(
    tx: Connection, knowledge_base: int, submissions: Sequence[Submission], *, retry: bool = False
) -> list[Accepted]:
    """Stores documents: each whole, with its outbox row, or (unchanged, stale) not at all.

    With ``retry`` an unchanged document that waits for its next attempt is stored anew, and so need not wait.
    """
    accepted: list[Accepted] = []
    for wave in _waves(submissions):
        accepted.extend(_accept_wave(tx, knowledge_base, wave, retry))
    _note_accepted(tx, knowledge_base, accepted)
    return accepted


def _note_accepted(tx: Connection, knowledge_base: int, accepted: Sequence[Accepted]) -> None:
    """One entry of the audit log for all that came together."""
    counts = {kind: sum(one.outcome == kind for one in accepted) for kind in ("created", "updated")}
    written = [one.doc_id for one in accepted if one.outcome in counts]
    if written:
        subject = written[0] if len(written) == 1 else ""
        details = {**counts, "documents": written[:AUDITED_IDS]}
        audit.append(tx, "", "document.add", subject, knowledge_base=knowledge_base, details=details)


def _waves(submissions: Sequence[Submission]) -> Iterator[list[Submission]]:
    """Runs without a document twice, so that each can be written in bulk."""
    wave: list[Submission] = []
    seen: set[str] = set()
    for submission in submissions:
        if submission.document.id in seen:
            yield wave
            wave, seen = [], set()
        wave.append(submission)
        seen.add(submission.document.id)
    if wave:
        yield wave


def _accept_wave(tx: Connection, knowledge_base: int, wave: list[Submission], retry: bool) -> list[Accepted]:
    for submission in wave:
        check(submission.document)
    wave = document_corrections.apply(tx, knowledge_base, wave)
    decisions = _decide(tx, wave, heads(tx, knowledge_base, [s.document.id for s in wave]), retry)
    work = [d for d in decisions if d.outcome in ("created", "updated")]
    if work:
        _write_documents(tx, knowledge_base, work)
        _write_versions(tx, knowledge_base, work)
        append(tx, knowledge_base, [(d.key, d.generation, d.outcome) for d in work])
    # Also of those that are unchanged but for their labels.
    access.note_accepted(tx, knowledge_base, [(d.key, d.submission.document) for d in decisions if _labels(d)])
    ready = [(d.key, d.generation, d.submission.prepared) for d in work if d.submission.prepared is not None]
    keys = write_chunks(tx, knowledge_base, ready)
    pair_keys = pairs.write(tx, knowledge_base, ready, keys)
    for key, generation, prepared in ready:
        if prepared.corrected_rows:
            tables.correct_rows(tx, key, generation, prepared.corrected_rows)
    if work:
        quotas.require_room(tx, knowledge_base)
    return [_accepted(d, keys.get(d.key, range(0)), pair_keys.get(d.key, range(0))) for d in decisions]


def _labels(decision: _Decision) -> bool:
    """Whether who may see it has to be worked out."""
    is_given = decision.submission.document.access is not None and decision.outcome == "unchanged"
    return is_given or decision.outcome in ("created", "updated")


def _accepted(decision: _Decision, chunk_keys: range, pair_keys: range) -> Accepted:
    doc_id = decision.submission.document.id
    return Accepted(doc_id, decision.key, decision.generation, decision.outcome, chunk_keys, pair_keys)


def check(document: Document) -> None:
    """Raises BadInput for what no database could store."""
    check_id(document.id)
    if not is_storable("".join([text for _, text in _texts(document)])):
        bad = next(name for name, text in _texts(document) if not is_storable(text))
        raise BadInput(f"文档的 {storable(bad)[:80]} 含有空字符（NUL）或不成对的代理字符", hint="先去除这些字符再提交")
    for name, value in document.metadata.items():
        if any(is_endless(item) for item in (value if isinstance(value, tuple) else (value,))):
            raise BadInput(f"文档的 metadata.{name[:80]} 不是有限的数", hint="去掉 NaN 和无穷大再提交")
    for name, limit in FIELD_LIMITS.items():
        if len(getattr(document, name)) > limit:
            raise BadInput(f"{name} 不得超过 {limit} 个字符", hint="缩短后再提交")


def _texts(document: Document) -> Iterator[tuple[str, str]]:
    """Every text of a document that a database has to store, under the name of its field."""
    for name in ("content", "name", "content_type", "user_id", "project_id", "source"):
        yield name, getattr(document, name)
    yield from (("tags", tag) for tag in document.tags)
    yield from (("pairs", text) for pair in document.pairs for text in (pair.question, pair.answer))
    yield from (("structure", text) for text in rows.structure_texts(document.structure))
    for name, value in document.metadata.items():
        yield "metadata", name
        yield from ((f"metadata.{name}", str(item)) for item in (value if isinstance(value, tuple) else (value,)))


def _decide(tx: Connection, wave: list[Submission], known: Mapping[str, Head], retry: bool) -> list[_Decision]:
    fresh = iter(allocate(tx, "document", sum(1 for s in wave if s.document.id not in known)))
    decisions = []
    for submission in wave:
        head = known.get(submission.document.id)
        if head is None:
            decisions.append(_Decision(submission, "created", next(fresh), submission.generation or 1, False))
            continue
        outcome, generation = _outcome(submission, head, retry)
        decisions.append(_Decision(submission, outcome, head.key, generation, True, head.is_purged))
    return decisions


def _outcome(submission: Submission, head: Head, retry: bool) -> tuple[Outcome, int]:
    if submission.generation is not None and submission.generation <= head.generation:
        return "stale", head.generation
    # A quarantined document is tried again even when it has not changed: what failed may work now.
    settled = head.status in ("indexed", "pending") or (head.status == "retrying" and not retry)
    if submission.generation is None and settled and head.fingerprint == submission.fingerprint:
        return "unchanged", head.generation
    return "created" if head.status == "deleted" else "updated", submission.generation or head.generation + 1


def _write_documents(tx: Connection, knowledge_base: int, work: list[_Decision]) -> None:
    now = datetime.now(UTC)
    created = [
        (d.key, knowledge_base, d.submission.document.id, d.generation, d.generation, "indexed", 0, 0, now, now)
        if d.submission.prepared
        else (d.key, knowledge_base, d.submission.document.id, d.generation, 0, "pending", 0, 0, now, now)
        for d in work
        if not d.known
    ]
    insert_rows(tx, DocumentRow, DOCUMENT, created)
    for again in (d for d in work if d.was_purged):
        own = DocumentRow.key == again.key
        tx.execute(update(DocumentRow).where(own).values(doc_id=again.submission.document.id))
    _move_heads(tx, [d for d in work if d.known and d.submission.prepared], now, served=True)
    _move_heads(tx, [d for d in work if d.known and not d.submission.prepared], now, served=False)


def _move_heads(tx: Connection, work: list[_Decision], now: datetime, *, served: bool) -> None:
    if not work:
        return
    state: dict[str, Any] = {"generation": bindparam("to"), "attempts": 0, "outages": 0}
    state |= {"retry_at": None, "reason": None}
    state |= {"status": "indexed", "served": bindparam("to")} if served else {"status": "pending"}
    statement = update(DocumentRow).where(DocumentRow.key == bindparam("at")).values(updated_at=now, **state)
    tx.execute(statement, [{"at": d.key, "to": d.generation} for d in work])


def _write_versions(tx: Connection, knowledge_base: int, work: list[_Decision]) -> None:
    versions: list[tuple[Any, ...]] = []
    tables: list[tuple[Any, ...]] = []
    unlinked: list[tuple[Any, ...]] = []  # pairs without chunks yet
    for d in work:
        document = d.submission.document
        owner = (knowledge_base, d.key, d.generation)
        versions.append((*owner, d.submission.fingerprint, *rows.version_values(document)))
        spans = document.structure.tables if document.structure else ()
        tables.extend((*owner, at, *rows.table_values(span)) for at, span in enumerate(spans))
        if d.submission.prepared is None:
            given = enumerate(document.pairs)
            unlinked.extend((*owner, at, pair.question, pair.answer, pairs.GIVEN) for at, pair in given)
    _drop_overtaken(tx, [d.key for d in work if d.known])
    validity.write(tx, knowledge_base, [(d.key, d.generation, d.submission.document) for d in work])
    _insert(tx, VersionRow, (*OWNER, "fingerprint", *rows.VERSION), checksums.VERSION, versions)
    _insert(tx, TableRow, ("key", *OWNER, "position", *rows.TABLE), checksums.TABLE, _numbered(tx, "table", tables))
    _insert(tx, PairRow, UNLINKED, checksums.PAIR, _numbered(tx, "pair", unlinked))


def _insert(
    tx: Connection, model: type[Base], names: Sequence[str], covered: Sequence[str], found: Sequence[tuple[Any, ...]]
) -> None:
    insert_rows(tx, model, (*names, "checksum"), checksums.with_checksums(names, covered, found))


def _numbered(tx: Connection, name: CounterName, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if not found:
        return []
    return [(key, *row) for key, row in zip(allocate(tx, name, len(found)), found, strict=True)]


def _drop_overtaken(tx: Connection, document_keys: Sequence[int]) -> None:
    """Deletes versions that are neither the newest nor have chunks: those may still be in an index."""
    for part in in_slices(document_keys):
        for table in (VersionRow, ValidityRow, TableRow, PairRow):
            newest = select(DocumentRow.generation).where(DocumentRow.key == table.document_key).scalar_subquery()
            own = (ChunkRow.document_key == table.document_key) & (ChunkRow.generation == table.generation)
            overtaken = table.document_key.in_(part) & (table.generation != newest) & ~exists().where(own)
            if table is PairRow:
                pairs.remove(tx, overtaken)
            else:
                tx.execute(delete(table).where(overtaken))


# ── prepare ──────────────────────────────────────────────────────────────────────────────────────


def load(tx: Connection, document_key: int, generation: int) -> Document:
    """A version as it was accepted, with its structure."""
    at = {"document_key": document_key, "generation": generation}
    version = tx.execute(select(VersionRow.__table__).filter_by(**at)).first()
    head = tx.execute(select(DocumentRow.doc_id, DocumentRow.own_access).filter_by(key=document_key)).first()
    if version is None or head is None:
        raise NotFound(f"文档 {document_key} 没有第 {generation} 版", hint="它可能已被更新或删除")
    tables = tx.execute(select(TableRow.__table__).filter_by(**at).order_by(TableRow.position)).all()
    given = select(PairRow.__table__).filter_by(**at, origin=pairs.GIVEN).order_by(PairRow.position)
    document = rows.document_of(head.doc_id, version, tables, tx.execute(given).all())
    return document if head.own_access is None else replace(document, access=tuple(head.own_access))


def complete(
    tx: Connection, knowledge_base: int, prepared: Sequence[tuple[int, int, Prepared]]
) -> dict[int, tuple[range, range]]:
    """Stores the chunks of (document, generation). Returns the keys of chunks and of questions by document.

    Overtaken work is dropped.
    """
    query = select(DocumentRow.key, DocumentRow.generation).where(DocumentRow.status.in_(("pending", "retrying")))
    query = query.with_for_update()  # so that no correction comes between the next two statements
    pending = {tuple(row) for row in select_in(tx, query, DocumentRow.key, [key for key, _, _ in prepared])}
    newest = corrections.revisions(tx, knowledge_base, [key for key, _ in pending])
    ready = [
        (key, generation, work)
        for key, generation, work in prepared
        if (key, generation) in pending and newest.get(key, 0) == work.corrections
    ]
    # Corrected since it was prepared: that is done again.
    again = pending.difference((key, generation) for key, generation, _ in ready)
    append(tx, knowledge_base, [(*version, "updated") for version in sorted(again)])
    keys = write_chunks(tx, knowledge_base, ready)
    for key, generation, work in ready:
        if work.questions:  # they replace the pairs without chunks
            pairs.remove(tx, (PairRow.document_key == key) & (PairRow.generation == generation))
        _note_corrections(tx, key, generation, work, keys[key])
    pair_keys = pairs.write(tx, knowledge_base, ready, keys)
    state = {"status": "indexed", "reason": None, "retry_at": None, "updated_at": datetime.now(UTC)}
    for part in in_slices([key for key, _, _ in ready]):  # each at the generation that was prepared: see above
        tx.execute(update(DocumentRow).where(DocumentRow.key.in_(part)).values(served=DocumentRow.generation, **state))
    return {key: (own, pair_keys.get(key, range(0))) for key, own in keys.items()}


def _note_corrections(tx: Connection, key: int, generation: int, work: Prepared, chunk_keys: Sequence[int]) -> None:
    """What became of a document's corrections, where it has any."""
    if not work.corrections:
        return
    corrections.note_outcomes(tx, work.outcomes, work.pieces, chunk_keys)
    tables.correct_rows(tx, key, generation, work.corrected_rows)


def rework(tx: Connection, knowledge_base: int, key: int, generation: int, work: Prepared) -> None:
    """Puts other chunks in the place of those of a served version, at the same generation. Chunks that stay what they
    were keep their keys, and so are found all the time; the others cannot be returned from this commit on."""
    chunk_keys = replace_chunks(tx, knowledge_base, key, generation, work)
    pairs.remove(tx, (PairRow.document_key == key) & (PairRow.generation == generation))
    pairs.write(tx, knowledge_base, [(key, generation, work)], {key: chunk_keys})
    _note_corrections(tx, key, generation, work, chunk_keys)
    append(tx, knowledge_base, [(key, generation, "updated")])


def prepare_again(tx: Connection, knowledge_base: int, document_keys: Sequence[int]) -> int:
    """Has the chunks of these documents made anew from their text, at the same generation. Returns how many."""
    query = select(DocumentRow.key, DocumentRow.generation).where(
        DocumentRow.knowledge_base_id == knowledge_base,
        DocumentRow.status == "indexed",
        DocumentRow.served == DocumentRow.generation,
    )
    found = [(row.key, row.generation, "updated") for row in select_in(tx, query, DocumentRow.key, document_keys)]
    for key, _, _ in found:
        remove_chunks(tx, key)
        tx.execute(update(DocumentRow).where(DocumentRow.key == key).values(status="pending", served=0))
    append(tx, knowledge_base, found)
    return len(found)


def settle(tx: Connection, versions: Sequence[tuple[int, int]]) -> None:
    """Deletes what these (document, generation) have replaced; call once they are in the index.

    A still newer version may be stored by then: the one given is served until that one is settled.
    """
    remove_older_chunks(tx, versions)
    _drop_overtaken(tx, [key for key, _ in versions])


# ── a file that cannot be read ───────────────────────────────────────────────────────────────────


def note_unreadable(tx: Connection, knowledge_base: int, submission: Submission, reason: str) -> None:
    """Remembers a file that could not be read, as a version without text; the index has nothing to do for it.

    The version that serves goes on serving. One on its way into the index is not overtaken: it would be lost.
    """
    doc_id = submission.document.id
    known = heads(tx, knowledge_base, [doc_id])
    head = known.get(doc_id)
    is_same = head is not None and head.fingerprint == submission.fingerprint
    if head is not None and (head.status in ("pending", "retrying") or (head.status == "indexed" and is_same)):
        return
    if head is not None and is_same:
        key, generation = head.key, head.generation
    else:
        work = _decide(tx, [submission], known, retry=False)
        _write_documents(tx, knowledge_base, work)
        _write_versions(tx, knowledge_base, work)
        key, generation = work[0].key, work[0].generation
    document_retries.fail(tx, key, generation, reason, None, final="failed")


# ── delete ───────────────────────────────────────────────────────────────────────────────────────


def remove(
    tx: Connection, knowledge_base: int, doc_id: str, generation: int | None = None, *, reason: str | None = None
) -> bool:
    """Deletes a document: from this commit on it cannot be returned. Returns whether anything changed.

    With a generation from the caller's event stream, a delete that arrives before its create leaves a tombstone, and
    one that arrives after a newer version changes nothing. At the same generation the delete wins.
    """
    head = heads(tx, knowledge_base, [doc_id]).get(doc_id)
    now = datetime.now(UTC)
    if head is None:
        if generation is not None:
            check_id(doc_id)
            _write_tombstone(tx, knowledge_base, doc_id, generation, now)
        return False
    if generation is not None and generation < head.generation:
        return False
    already = head.status == "deleted"
    reason = head.reason if already and reason is None else reason
    at = generation if generation is not None else head.generation + (not already)
    tx.execute(
        update(DocumentRow)
        .where(DocumentRow.key == head.key)
        .values(status="deleted", generation=at, served=0, retry_at=None, reason=reason, updated_at=now)
    )
    if already:
        return False
    remove_chunks(tx, head.key)
    pairs.remove(tx, PairRow.document_key == head.key)
    for table in (VersionRow, ValidityRow, TableRow):
        tx.execute(delete(table).where(table.document_key == head.key))
    corrections.set_aside(tx, knowledge_base, doc_id, "文档已被删除；它回来时再按原文核对")
    append(tx, knowledge_base, [(head.key, at, "deleted")])
    audit.append(tx, "", "document.delete", doc_id, knowledge_base=knowledge_base)
    webhooks.enqueue(tx, knowledge_base, "document.deleted", [{"doc_id": doc_id}])
    return True


def _write_tombstone(tx: Connection, knowledge_base: int, doc_id: str, generation: int, now: datetime) -> None:
    (key,) = allocate(tx, "document", 1)
    insert_rows(tx, DocumentRow, DOCUMENT, [(key, knowledge_base, doc_id, generation, 0, "deleted", 0, 0, now, now)])
