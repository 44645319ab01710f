"""Keeping records and index in step: open, rebuild, verify."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from qianxun.bases.base import OpenBase, Serving, stamp_for
from qianxun.bases.lease import WriteTurn
from qianxun.core.errors import IndexUnusable, LeaseLost, ModelError
from qianxun.core.ingest_types import Finding, Verdict
from qianxun.core.log_types import IndexRebuild
from qianxun.core.ports import EmbeddingModel, Index, nothing
from qianxun.core.types import IndexBatch, IndexEntry, Keys, Vector
from qianxun.graph.build import extract_missing_facts, is_graph_enabled
from qianxun.indexing.outbox_indexer import (
    Drained,
    FreshEntries,
    apply_fenced,
    drain,
    entries_of,
    missing_vectors,
    needs_rebuild,
    unbroken,
    unlike,
    waited_turn,
    with_vectors,
)
from qianxun.indexing.rule_vectors import store_rule_vectors
from qianxun.records import bases, checksums, chunks, documents, graph, listing, outbox, pairs, terms
from qianxun.records.chunks import EntrySource
from qianxun.records.database import open as database
from qianxun.records.governance import validity

log = logging.getLogger(__name__)

REBUILD_PAGE = 1000  # chunks that are read, and embedded where the model is another, before progress is reported
REBUILD_ENTRIES = 25_000  # entered into the index at once: see `indexing.BATCH_ROWS`
SAMPLE = 100  # vectors that `verify` compares: so many of the newest chunks, and so many spread over all
LOOKS = 5  # how often `verify` waits for a moment without writes
CATCH_UP_SECONDS = 30.0  # seconds that it waits for documents to be prepared: their model may never answer


Progress = Callable[[int], None]


# ── rebuild ──────────────────────────────────────────────────────────────────────────────────────


async def rebuild(base: OpenBase, model: EmbeddingModel | None, on_chunks: Progress = nothing) -> int:
    """Rebuilds the index from the records beside the old one, and switches. Returns the number of chunks.

    Chunks and vectors that are not what was written are made anew first, where the text of their document is sound.
    Under another model than the base's the chunks are embedded again, and the base has that model after the switch.
    Searches use the old index until then; writes wait in the outbox. Raises LeaseLost where another process took over.
    """
    async with waited_turn(base) as turn:
        total, mended = await _rebuild(base, turn, model, on_chunks)
    await drain(base, preparing=mended > 0)
    return total


async def rebuild_unless(base: OpenBase, is_sound: Callable[[], Awaitable[bool]]) -> None:
    """Rebuilds an index that was found unusable, unless another process has done so by the time it is our turn, or
    has given the base other settings: then it is to be opened anew."""
    async with waited_turn(base) as turn:
        if base.lease.is_shared:
            about = await base.records.read(lambda tx: bases.get(tx, base.id, tenant=base.about.tenant))
            if about != base.about:
                raise LeaseLost(f"知识库 {base.id} 的设置已由另一个进程改变", hint="请重试")
            if await is_sound():
                return
        base.rebuilding(IndexRebuild(base.about.name, await base.records.read(lambda tx: chunks.count(tx, base.id))))
        await _rebuild(base, turn, base.model, nothing)
    await drain(base, preparing=False)


async def _rebuild(
    base: OpenBase, turn: WriteTurn, model: EmbeddingModel | None, on_chunks: Progress
) -> tuple[int, int]:
    """The number of chunks, and of documents that are to be prepared anew."""
    # Raises if the base was deleted while this waited: nothing would delete an index that is begun now.
    # The outbox may have rows that are in the records already: applying those again later changes nothing.
    sequence = await asyncio.to_thread(_indexed_sequence, base)
    mended = await asyncio.to_thread(_mend, base)
    await asyncio.to_thread(_read_validity, base)
    built = await base.backend.build(base.id, stamp_for(base.about, model, base.analyser))
    try:
        total = await _fill(base, built, model, on_chunks)
        await asyncio.to_thread(store_rule_vectors, base, model)
        await apply_fenced(base, built, IndexBatch(sequence=sequence, fence=turn.fence), turn)
    except BaseException:
        await built.close()
        raise
    await unbroken(_switch(base, turn, Serving(built, model)))
    turn.is_barred = True
    return total, mended


def _mend(base: OpenBase) -> int:
    """Puts documents with damaged chunks back into the queue. Returns how many."""
    with base.records.reading() as tx:
        keys = checksums.mendable(tx, base.id)
    if not keys:
        return 0
    log.error("base %s: the chunks of %s documents are not what was written and are made anew", base.id, len(keys))
    with base.records.writing() as tx:
        return documents.prepare_again(tx, base.id, keys)


def _read_validity(base: OpenBase) -> None:
    """Notes when documents are in force that were accepted before programs read it."""
    last, read = 0, 0
    while True:
        with base.records.writing() as tx:
            last, fresh = validity.read_unread(tx, base.id, last, REBUILD_PAGE)
        read += fresh
        if not last:
            break
    if read:
        log.info("base %s: read of %s documents when they are in force", base.id, read)


async def _switch(base: OpenBase, turn: WriteTurn, fresh: Serving) -> None:
    """Searches change to the new index first: the backend's switch removes the files of the old one.

    A change of the model is in the records before that: whoever opens the base next knows which index to expect.
    """
    await asyncio.to_thread(_change_model, base, turn, fresh.model)
    old, base.serving = base.serving, fresh
    await old.retire()
    await base.backend.switch(base.id, fresh.index)
    await asyncio.to_thread(_revise, base)


async def _fill(base: OpenBase, built: Index, model: EmbeddingModel | None, on_chunks: Progress) -> int:
    total = 0
    after = 0
    waiting: list[IndexEntry] = []
    while page := await asyncio.to_thread(_page, base, model.name if model else "", after):
        waiting += await asyncio.to_thread(_entries, base, model, page)
        if len(waiting) >= REBUILD_ENTRIES:
            await built.apply(IndexBatch(sequence=0, entries=tuple(waiting)))
            waiting.clear()
        keys = [piece.key for piece in page if piece.field == "content"]
        total += len(keys)
        after = keys[-1]
        on_chunks(len(keys))
    await built.apply(IndexBatch(sequence=0, entries=tuple(waiting)))
    return total


def _indexed_sequence(base: OpenBase) -> int:
    with base.records.reading() as tx:
        return bases.indexed_sequence(tx, base.id)


def _page(base: OpenBase, model: str, after: int) -> list[EntrySource]:
    with base.records.reading() as tx:
        return chunks.page(tx, base.id, model, after, REBUILD_PAGE)


def _entries(base: OpenBase, model: EmbeddingModel | None, page: list[EntrySource]) -> tuple[IndexEntry, ...]:
    if damaged := [piece.key for piece in page if piece.is_damaged]:
        log.error("base %s: %s vectors are not what was written, such as that of %s", base.id, len(damaged), damaged[0])
    try:
        return entries_of(base, with_vectors(base, model, page))
    except ModelError as error:
        # A vector that was lost takes no other with it; those that the model has never made are what it is there for.
        if not all(piece.is_damaged for piece in missing_vectors(model, page)):
            raise
        log.error("base %s: chunks enter the index without their damaged vectors; rebuild it later: %s", base.id, error)
        return entries_of(base, page)


def _change_model(base: OpenBase, turn: WriteTurn, model: EmbeddingModel | None) -> None:
    name, dimension = (model.name, model.dimension) if model else ("", 0)
    if (base.about.embedding_model, base.about.dimension) == (name, dimension):
        return
    with base.records.writing() as tx, turn.required(tx):
        bases.change_model(tx, base.id, name, dimension, tenant=base.about.tenant)
        chunks.drop_other_vectors(tx, base.id, name)
        terms.remove_other_models(tx, base.id, name)
        base.about = bases.get(tx, base.id, tenant=base.about.tenant)


def _revise(base: OpenBase) -> None:
    with base.records.writing() as tx:
        graph.drop_orphans(tx, base.id)
        bases.revise(tx, base.id)  # another index may answer otherwise


# ── verify ───────────────────────────────────────────────────────────────────────────────────────


async def verify(base: OpenBase) -> Verdict:
    """Compares the index with the records, key by key, and the vectors of a sample, after it has caught up.

    Under constant writes there may be no moment at which both can be compared; then it reports what is pending, and so
    it does where documents wait for a model that does not answer.
    """
    for _ in range(LOOKS):
        is_late = False
        with suppress(IndexUnusable):  # what the index cannot take is found below
            is_late = await _is_late(drain(base))
        if is_graph_enabled(base):
            await extract_missing_facts(base)
        async with AsyncExitStack() as stack:
            # The index does not change; the records are read in one transaction.
            while await _is_late(stack.enter_async_context(waited_turn(base))):
                snapshot = await asyncio.to_thread(_look, base)
                if snapshot.waiting:  # for whoever has the turn
                    return _verdict(base, snapshot, snapshot.findings)
            if is_graph_enabled(base):
                await extract_missing_facts(base)  # of chunks that entered the index since: from here on none does
            snapshot = await asyncio.to_thread(_look, base)
            findings = (*snapshot.findings, *await _check_index(base, snapshot))
        if is_late or not snapshot.waiting:
            break
    return _verdict(base, snapshot, findings)


async def _is_late(work: Awaitable[object]) -> bool:
    """Whether it was given up, since it takes too long."""
    try:
        async with asyncio.timeout(CATCH_UP_SECONDS):
            await work
    except TimeoutError:
        return True
    return False


def _verdict(base: OpenBase, snapshot: _Snapshot, findings: tuple[Finding, ...]) -> Verdict:
    return Verdict(base.about.name, snapshot.tally.get("indexed", 0), snapshot.tally["chunks"], findings)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The records at one moment. The keys are what the index should have, once nothing is pending."""

    findings: tuple[Finding, ...]
    waiting: int
    chunk_keys: Keys
    question_keys: Keys
    sample: Sequence[tuple[int, Vector]]  # key and vector
    tally: Mapping[str, int]


def _look(base: OpenBase) -> _Snapshot:
    from qianxun.graph.extract.chunk import facts_origin  # not needed for searches

    with base.records.reading() as tx:
        waiting = outbox.depth(tx, base.id)
        unread = 0
        if is_graph_enabled(base) and not waiting:
            unread = graph.unread_count(tx, base.id, facts_origin(base.analyser, base.lexicon))
        findings = tuple(_waiting(waiting) if waiting else _check_chunks(base, tx, unread))
        damage = [Finding("corrupt", 1, detail=problem) for problem in database.integrity_problems(tx)]
        damage += checksums.damaged_rows(tx, base.id)
        chunk_keys, question_keys = chunks.served_keys(tx, base.id), pairs.served_keys(tx, base.id)
        spread = chunk_keys[:: max(len(chunk_keys) // SAMPLE, 1)]
        sampled = np.union1d(spread, chunk_keys[-SAMPLE:]).tolist() if base.model is not None else []
        sample = chunks.vectors_of(tx, base.model_name, sampled)
        return _Snapshot((*damage, *findings), waiting, chunk_keys, question_keys, sample, listing.tally(tx, base.id))


def _waiting(count: int) -> Iterator[Finding]:
    yield Finding("waiting", count, detail="变更尚未进入索引")


def _check_chunks(base: OpenBase, tx: Any, unread: int) -> Iterator[Finding]:
    yield from _keys("orphan_chunk", chunks.orphans(tx, base.id))
    yield from _keys("orphan_facts", graph.orphans(tx, base.id))
    if unread:
        yield Finding("chunk_without_facts", unread)
    if base.model is not None:
        yield from _keys("chunk_without_vector", chunks.without_vector(tx, base.id, base.model_name))
        yield from _keys("question_without_vector", pairs.without_vector(tx, base.id, base.model_name))


async def _check_index(base: OpenBase, snapshot: _Snapshot) -> list[Finding]:
    try:
        await base.index.check()
        inventory = await base.index.inventory()
        others = await unlike(base.index, snapshot.sample)
    except IndexUnusable as error:
        return [Finding("corrupt", 1, detail=str(error))]
    if snapshot.waiting:
        return []
    findings = _compare("keywords", snapshot.chunk_keys, inventory.keywords)
    if base.model is not None:
        vectors, none = inventory.vectors, np.empty(0, np.int64)
        findings += _compare("vectors", snapshot.chunk_keys, vectors.get("content", none))
        findings += _keys("other_vector", np.array(others, dtype=np.int64))
        findings += _compare(
            "questions", snapshot.question_keys, inventory.vectors.get("question", np.empty(0, np.int64))
        )
    return findings


def _compare(part: str, expected: Keys, indexed: Keys) -> list[Finding]:
    missing = np.setdiff1d(expected, indexed)
    surplus = np.setdiff1d(indexed, expected)
    return [*_keys("missing_in_index", missing, part), *_keys("not_in_records", surplus, part)]


def _keys(kind: str, keys: Keys, detail: str = "") -> Iterator[Finding]:
    if len(keys):
        yield Finding(kind, len(keys), tuple(int(key) for key in keys[:5]), detail)


# ── catch up ─────────────────────────────────────────────────────────────────────────────────────────


async def catch_up(base: OpenBase) -> None:
    """Brings the index up to date with the records, by a rebuild if it cannot be done from the outbox.

    Documents that have still to be chunked and embedded are left to the background indexer.
    """
    if await needs_rebuild(base):
        log.warning("index of base %s is older or newer than its records, or of others: rebuilding it", base.id)

        async def is_in_step() -> bool:
            return not await needs_rebuild(base)

        await rebuild_unless(base, is_in_step)
    await keep_up(base, preparing=False)


async def keep_up(
    base: OpenBase, fresh: FreshEntries | None = None, *, upto: int | None = None, preparing: bool = True
) -> Drained:
    """`drain`; an index that turns out to be damaged is rebuilt on the way."""
    try:
        return await drain(base, fresh, upto=upto, preparing=preparing)
    except IndexUnusable as error:
        if base.serving.is_retired:
            raise
        log.warning("index of base %s is rebuilt from the records: %s", base.id, error)
    await rebuild_unless(base, lambda: is_readable(base))
    return await drain(base, fresh, upto=upto, preparing=preparing)


async def is_readable(base: OpenBase) -> bool:
    """Whether the index can be read by now."""
    try:
        await base.index.watermark()
    except IndexUnusable:
        return False
    return True


async def is_sound(base: OpenBase) -> bool:
    """Whether everything in the index can be read."""
    try:
        await base.index.check()
    except IndexUnusable:
        return False
    return True
