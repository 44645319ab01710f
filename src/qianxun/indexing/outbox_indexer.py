"""From the outbox to the index.

    outbox ──► prepare what is not yet chunked ──► records ──► apply to the index ──► settle and acknowledge

Rows are taken in commit order, by one process at a time: where several work on one database, by the one that has the
base's lease (`bases.lease`). A document that cannot be prepared is retried later or quarantined; the queue goes on.
A crash at any point is safe: rows are removed only after the index durably has them, and applying twice changes
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Container, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import numpy as np
from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, Version, in_preparing_thread
from qianxun.bases.lease import WriteTurn
from qianxun.core.errors import IndexUnusable, LeaseLost, ModelError, ModelUnavailable, NotFound, RecordsUnavailable
from qianxun.core.log_types import IndexTime
from qianxun.core.ports import EmbeddingModel, Index
from qianxun.core.system.gc_pause import bulk_step
from qianxun.core.types import Document, IndexBatch, IndexEntry, Prepared, Vector
from qianxun.core.vectors import embed, rounded
from qianxun.indexing.prepare import prepare_for
from qianxun.records import bases, chunks, document_retries, documents, outbox, pairs
from qianxun.records.chunks import EntrySource
from qianxun.records.document_retries import LONGEST_WAIT
from qianxun.records.outbox import OutboxEntry
from qianxun.text.headings import read_under_headings, under_headings

log = logging.getLogger(__name__)

# A keyword commit costs the same for many rows as for few, and leaves a segment that every search has to visit: this is
# room for what `ingest` stores at once and a little more, lest the rest of a batch be a segment of its own.
BATCH_ROWS = 30_000
BATCH_CHUNKS = 20_000  # … but they must fit in memory: fifty long novels, a few hundred megabytes
ALONG_ROWS = 64  # of other writers, applied with one's own: their chunks are read back, which takes long for many
PREPARE_TOGETHER = 16
ATTEMPTS = 3  # after that a document is quarantined; an unreachable model is retried without limit
FIRST_WAIT = timedelta(seconds=2)
NEWEST = 3  # chunks by which an index shows on opening that it was made of these records
SAME = 0.98  # the cosine of a vector and itself, however coarsely an index keeps it
TURN_SECONDS = 0.03  # between two looks at a lease that another process has
ADDED_CHARACTERS = 1_000  # of questions, to the words of one chunk


@dataclass(frozen=True, slots=True)
class FreshEntries:
    """Entries of the index that were just written: the vectors of one model, the words of one analysis."""

    model: str
    dimension: int
    analysis: str
    entries: Mapping[Version, Sequence[IndexEntry]]
    seconds: float = 0.0  # that preparing them took

    def suits(self, base: OpenBase) -> bool:
        """A rebuild may have changed the model, or the dictionary, since."""
        return (self.model, self.dimension, self.analysis) == (
            base.model_name,
            base.model.dimension if base.model else 0,
            base.analyser.version,
        )

    def share(self, rows: Sequence[OutboxEntry]) -> float:
        """The share of it that these rows are."""
        own = sum((row.document_key, row.generation) in self.entries for row in rows)
        return own / len(self.entries) if own else 0.0


@dataclass(frozen=True, slots=True)
class Drained:
    """What one pass over the outbox did."""

    applied: int
    failed: int


async def drain(
    base: OpenBase, fresh: FreshEntries | None = None, *, upto: int | None = None, preparing: bool = True
) -> Drained:
    """Applies everything in the outbox, or everything ``upto`` a sequence and a little of what others prepared since.

    ``fresh`` spares reading back chunks that were just written. Without ``preparing`` it stops before the first
    document that has still to be chunked and embedded: quick enough for opening a base. While another process has the
    base's lease that one does it: with ``upto`` this returns once it is done, by either.
    """
    while True:
        try:
            async with base.lease.turn() as turn:
                if turn is not None:
                    return await _drain(base, turn, fresh, upto, preparing=preparing)
        except LeaseLost as error:
            log.warning("base %s: what is left is another process's: %s", base.id, error)
        if upto is None or not await asyncio.to_thread(_has_left, base, upto):
            return Drained(0, 0)
        await asyncio.sleep(TURN_SECONDS)


def _has_left(base: OpenBase, upto: int) -> bool:
    with base.records.reading() as tx:
        return outbox.has_any(tx, base.id, upto)


async def _drain(
    base: OpenBase, turn: WriteTurn, fresh: FreshEntries | None, upto: int | None, *, preparing: bool
) -> Drained:
    applied = failed = 0
    async with base.indexing:
        await bar(base, turn)
        while True:
            # Not from the watermark on: a crash may have left rows that the index has but that were never settled.
            rows = await asyncio.to_thread(_pending, base, fresh, upto)
            if not preparing:
                rows = list(takewhile(lambda row: not row.is_unprepared, rows))
            if not rows:
                return Drained(applied, failed)
            failures = await _drain_rows(base, turn, rows, fresh)
            failed += failures
            applied += len(rows) - failures


@asynccontextmanager
async def waited_turn(base: OpenBase) -> AsyncIterator[WriteTurn]:
    """The right to write to the base's index, once no other process has it."""
    while True:
        async with base.lease.turn() as turn:
            if turn is not None:
                async with base.indexing:
                    yield turn
                return
        await asyncio.sleep(TURN_SECONDS)


async def bar(base: OpenBase, turn: WriteTurn) -> None:
    """Has the index refuse what a process still writes that did not give its lease back."""
    if not turn.is_barred:
        await apply_fenced(base, base.index, IndexBatch(await base.index.watermark(), fence=turn.fence), turn)
        turn.is_barred = True


async def apply_fenced(base: OpenBase, index: Index, batch: IndexBatch, turn: WriteTurn) -> None:
    """The one way into an index. Raises LeaseLost where another process has taken over."""
    if not getattr(base.backend, "compares_fences", False):
        await base.lease.confirm(turn)
    await index.apply(batch)


async def _drain_rows(base: OpenBase, turn: WriteTurn, rows: Sequence[OutboxEntry], fresh: FreshEntries | None) -> int:
    """Prepares these rows and applies them. Returns how many documents failed."""
    started = time.perf_counter()
    failures = 0
    if any(row.is_unprepared for row in rows):
        failures = await _prepare_rows(base, turn, rows)
        rows = await asyncio.to_thread(_as_they_are_now, base, rows)
        if not rows:  # another process had the lease meanwhile, and has applied them
            raise LeaseLost(f"知识库 {base.id} 的变更已由另一个进程做完")
    await unbroken(_apply(base, turn, rows, fresh))
    base.terms.note_write()
    base.graph.note_write()
    with bulk_step():
        share = fresh.share(rows) if fresh is not None else 0.0
        number = len({row.document_key for row in rows})
    seconds = time.perf_counter() - started + (share * fresh.seconds if fresh is not None else 0.0)
    base.indexed(IndexTime(base.id, number, seconds, failures))
    return failures


def _pending(base: OpenBase, fresh: FreshEntries | None, upto: int | None) -> list[OutboxEntry]:
    """The next rows, as many as fit in memory together."""
    with base.records.reading() as tx, bulk_step():
        known = fresh.entries if fresh is not None else {}
        rows = _unclaimed(base, tx, known)
        rows = rows if upto is None else _own_and_next(rows, upto)
        unread = [row.document_key for row in rows if (row.document_key, row.generation) not in known]
        sizes = chunks.counts(tx, unread)
    total = 0
    for taken, row in enumerate(rows):
        total += sizes.get(row.document_key, 0)
        if taken and total > BATCH_CHUNKS:
            return rows[:taken]
    return rows


def _unclaimed(base: OpenBase, tx: Connection, own: Container[Version]) -> list[OutboxEntry]:
    """The first rows without those that another task, or process, is preparing: it will apply them itself."""
    after = 0
    elsewhere = outbox.claimed_elsewhere(tx, base.id, base.lease.process) if base.lease.is_shared else ()
    while page := outbox.pending(tx, base.id, after, BATCH_ROWS):
        versions = ((row.document_key, row.generation) for row in page)
        rows = [
            row
            for row, version in zip(page, versions, strict=True)
            if version in own or (version not in base.claims and not (row.is_unprepared and row.is_among(elsewhere)))
        ]
        if rows:
            return rows
        after = page[-1].sequence
    return []


def _own_and_next(rows: Sequence[OutboxEntry], upto: int) -> list[OutboxEntry]:
    """The rows up to a sequence; and, if there are any, the next few that are prepared already.

    A commit takes about as long for many rows as for one: the first of several waiting writers works for the others.
    """
    own = list(takewhile(lambda row: row.sequence <= upto, rows))
    if not own:
        return []
    others = islice(rows, len(own), len(own) + ALONG_ROWS)
    return own + list(takewhile(lambda row: not row.is_unprepared, others))


async def _prepare_rows(base: OpenBase, turn: WriteTurn, rows: Sequence[OutboxEntry]) -> int:
    """Chunks and embeds what was stored without it. Returns how many documents failed."""
    waiting = sorted({(row.document_key, row.generation) for row in rows if row.is_unprepared})
    failures = 0
    for start in range(0, len(waiting), PREPARE_TOGETHER):
        group = waiting[start : start + PREPARE_TOGETHER]
        if len(group) > 1 and await _prepared(base, group) is None:
            continue
        # Together they failed, or there is only one.
        for version in group:
            error = await _prepared(base, [version])
            if error is not None and not isinstance(error, NotFound):  # that one was overtaken: no failure of its own
                failures += 1
                await asyncio.to_thread(_fail, base, turn, *version, error)
    return failures


async def _prepared(base: OpenBase, versions: Sequence[Version]) -> Exception | None:
    """Prepares these versions together. Returns the error, if there was one."""

    def load() -> list[Document]:
        with base.records.reading() as tx:
            return [documents.load(tx, key, generation) for key, generation in versions]

    def store(ready: Sequence[Prepared]) -> None:
        with base.records.writing() as tx:
            documents.complete(tx, base.id, [(key, at, done) for (key, at), done in zip(versions, ready, strict=True)])

    try:
        found = await asyncio.to_thread(load)
    except NotFound as error:
        return error
    try:
        ready = await in_preparing_thread(base, prepare_for, base, found)
    except Exception as error:  # the outer door of one document: whatever a model throws must not stop the queue
        return error
    await asyncio.to_thread(store, ready)
    return None


def _fail(base: OpenBase, turn: WriteTurn, document_key: int, generation: int, error: Exception) -> None:
    outage = isinstance(error, ModelUnavailable | RecordsUnavailable)  # registered models are looked up there
    with base.records.writing() as tx, turn.required(tx):
        done = document_retries.failures(tx, document_key, outages=outage) + 1
        retry_at = datetime.now(UTC) + _wait(done) if outage or done < ATTEMPTS else None
        document_retries.fail(tx, document_key, generation, f"{type(error).__name__}: {error}", retry_at, outage=outage)
    log.warning(
        "document %s of base %s, generation %s: attempt %s failed (%s); %s",
        *(document_key, base.id, generation, done, error),
        f"next try at {retry_at:%H:%M:%S}" if retry_at else "quarantined",
    )


def _wait(attempts: int) -> timedelta:
    doublings = min(attempts - 1, 16)
    return min(FIRST_WAIT * (1 << doublings), LONGEST_WAIT)


async def unbroken(work: Coroutine[Any, Any, object]) -> None:
    """Carries work to its end even when the caller is cancelled meanwhile.

    A thread cannot be stopped: abandoned halfway, it would write to the index after the next indexer had begun.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _apply(base: OpenBase, turn: WriteTurn, rows: Sequence[OutboxEntry], fresh: FreshEntries | None) -> None:
    # A delete may have overtaken some of these; its own row comes later, and until then the records drop the hits.
    last = max(rows[-1].sequence, await base.index.watermark())
    with bulk_step():
        ready = {(row.document_key, row.generation) for row in rows if row.is_ready}
        # An update that is not ready (it failed, or was overtaken) leaves the version that serves where it is.
        replaced = [(row.document_key, row.generation) for row in rows if row.kind == "updated" and row.is_ready]
        removed = {row.document_key for row in rows if row.kind == "deleted"}.union(key for key, _ in replaced)
    entries = await asyncio.to_thread(_entries, base, ready, fresh)
    batch = IndexBatch(sequence=last, removed=tuple(sorted(removed)), entries=entries, fence=turn.fence)
    await apply_fenced(base, base.index, batch, turn)
    await asyncio.to_thread(_acknowledge, base, turn, [row.sequence for row in rows], replaced)


def _as_they_are_now(base: OpenBase, rows: Sequence[OutboxEntry]) -> list[OutboxEntry]:
    """The same rows beside the present state of their documents: what was prepared a moment ago is ready now."""
    sequences = {row.sequence for row in rows}
    with base.records.reading() as tx:
        found = outbox.pending(tx, base.id, rows[0].sequence - 1, BATCH_ROWS)
    return [row for row in found if row.sequence in sequences]


def _entries(base: OpenBase, ready: set[Version], fresh: FreshEntries | None) -> tuple[IndexEntry, ...]:
    written = fresh.entries if fresh is not None and fresh.suits(base) else {}
    known = tuple(entry for version in sorted(ready & written.keys()) for entry in written[version])
    unknown = sorted(key for key, _ in ready - written.keys())
    if not unknown:
        return known
    with base.records.reading() as tx:
        material: Sequence[EntrySource] = chunks.material(tx, unknown, base.model_name)
    try:
        material = with_vectors(base, base.model, material)
    except ModelError as error:
        log.error("chunks of base %s enter the index without a vector; rebuild it later: %s", base.id, error)
    return known + entries_of(base, material)


def with_vectors(
    base: OpenBase, model: EmbeddingModel | None, material: Sequence[EntrySource]
) -> Sequence[EntrySource]:
    """Embeds what has no vector of this model yet (it was stored under another one), and stores the vectors.

    A chunk and a question may have the same key: their fields differ.
    """
    missing = missing_vectors(model, material)
    if model is None or not missing:
        return material
    vectors = rounded(embed([read_under_headings(piece.text, piece.headings) for piece in missing], model))
    with base.records.writing() as tx:
        for field, write in (("content", chunks.write_vectors), ("question", pairs.write_vectors)):
            own = [at for at, piece in enumerate(missing) if piece.field == field]
            write(tx, base.id, model.name, [missing[at].key for at in own], vectors[own])
    found = {(piece.field, piece.key): vector for piece, vector in zip(missing, vectors, strict=True)}
    return [piece._replace(vector=found.get((piece.field, piece.key), piece.vector)) for piece in material]


def missing_vectors(model: EmbeddingModel | None, material: Iterable[EntrySource]) -> list[EntrySource]:
    """What has no vector of this model."""
    if model is None:
        return []
    return [piece for piece in material if piece.vector is None or len(piece.vector) != model.dimension]


def entries_of(base: OpenBase, material: Iterable[EntrySource]) -> tuple[IndexEntry, ...]:
    """Analyses texts for search: the only place where an index entry is made.

    A question enters by its vector alone, and not at all without one; its words enter with the chunk it belongs to.
    """
    with bulk_step():
        pieces = [piece for piece in material if piece.field == "content" or piece.vector is not None]
        searched = [searched_text(piece) if piece.field == "content" else "" for piece in pieces]
        terms = base.analyser.index_terms(searched)
        return tuple(
            IndexEntry(piece.key, piece.document_key, words, grams, piece.vector, piece.attributes, piece.field)
            for piece, (words, grams) in zip(pieces, terms, strict=True)
        )


def searched_text(piece: EntrySource) -> str:
    """A chunk's text below its headings, followed by keywords and questions that are not part of the text.

    Expansion by questions as in Nogueira et al. 2019 (doc2query), bounded, so that a chunk with very many does not
    become a long text in which no word weighs much.
    """
    text = under_headings(piece.text, piece.headings)
    if not piece.questions and not piece.keywords:
        return text
    added: list[str] = []
    for question in dict.fromkeys(piece.questions):
        if question not in piece.text and sum(map(len, added)) + len(question) <= ADDED_CHARACTERS:
            added.append(question)
    words = [word for word in piece.keywords if word not in piece.text]
    return "\n".join((text, *words, *added))


def _acknowledge(base: OpenBase, turn: WriteTurn, sequences: Sequence[int], replaced: Sequence[Version]) -> None:
    with base.records.writing() as tx, turn.required(tx):
        if replaced:
            documents.settle(tx, replaced)
        if min(sequences) < bases.indexed_sequence(tx, base.id):
            bases.revise(tx, base.id)  # later rows went first: the last sequence does not tell the two states apart
        outbox.acknowledge(tx, base.id, sequences)


async def retry_due(base: OpenBase) -> int:
    """Puts documents whose retry is due back into the queue. Returns how many."""

    def enqueue() -> int:
        with base.records.writing() as tx:
            return document_retries.enqueue_due(tx, base.id, datetime.now(UTC))

    return await asyncio.to_thread(enqueue)


async def needs_rebuild(base: OpenBase) -> bool:
    """Whether only a rebuild can repair the index: it has missed changes that the outbox no longer has (an index
    restored from an old copy), has more than was ever written, or was built of other records."""

    def forgotten() -> tuple[int, list[tuple[int, Vector]]]:
        with base.records.reading() as tx:
            newest = chunks.newest_vectors(tx, base.id, base.model_name, NEWEST) if base.model is not None else []
            return bases.indexed_sequence(tx, base.id), newest

    # In this order: another process may be applying what is written meanwhile.
    first, newest = await asyncio.to_thread(forgotten)
    watermark = await base.index.watermark()
    if not first <= watermark <= await base.records.read(outbox.last_sequence):
        return True
    with suppress(IndexUnusable):  # damage is found by searches
        return bool(await unlike(base.index, newest))
    return False


async def unlike(index: Index, known: Sequence[tuple[int, Vector]]) -> list[int]:
    """The keys under which an index has another vector than the stored one. Those it lacks do not count."""
    found = []
    for key, vector in known:
        length = float(np.linalg.norm(vector))
        if length > 0:
            (cosine,) = await index.cosines(vector / np.float32(length), np.array([key], dtype=np.int64))
            if cosine < SAME:  # not so where it is not a number
                found.append(key)
    return found
