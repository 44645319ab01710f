"""The one way in for documents: read → accept → chunk and embed → index.

`indexing.read` reads documents, whichever way they came: by their text (`add_documents`, `store_documents`) or by an
event (`indexing.events`); `indexing.files` reads files. A document is accepted when its transaction in the records
commits, before anything slow begins: what fails after that, or is cut off, is done from the outbox. Words and graph
facts are learnt in the background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from qianxun.bases.base import Claims, OpenBase, Version, in_preparing_thread
from qianxun.bases.lease import RENEWALS
from qianxun.core.errors import ModelError, QianxunError
from qianxun.core.ingest_types import Step, Watch
from qianxun.core.ports import nothing
from qianxun.core.system.gc_pause import bulk_step
from qianxun.core.system.memory import trim_soon
from qianxun.core.types import (
    Accepted,
    Document,
    Prepared,
    Submission,
)
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.outbox_indexer import FreshEntries, entries_of, unbroken
from qianxun.indexing.prepare import prepare_for
from qianxun.indexing.read import read_documents
from qianxun.records import documents, outbox
from qianxun.records.chunks import EntrySource, with_questions
from qianxun.records.pairs import AttachedQuestion
from qianxun.records.rows import attributes_from

log = logging.getLogger(__name__)

ACCEPT_DOCUMENTS = 2_000  # accepted in one transaction
ACCEPT_CHARACTERS = 1_000_000  # … or so many characters
GROUP_DOCUMENTS = 500  # prepared together
GROUP_CHARACTERS = 60_000  # … or so many characters: some seconds of embedding on two cores
BATCH_DOCUMENTS = 25_000  # completed in one transaction and indexed in one commit: see `outbox_indexer.BATCH_ROWS`
BATCH_CHARACTERS = 8_000_000  # … or so many characters, which must fit in memory several times over
BATCH_SECONDS = 3.0  # … or what a model has embedded in that time, which a process that is killed loses
BATCH_AGE = 30.0  # … or, in seconds, what was prepared so long ago: files may be read slowly, and be searched for
TRIM_CHUNKS = 2_000  # of one call: the memory that they took is given back afterwards
ELSEWHERE_SECONDS = 0.1  # between two looks whether another process has prepared what it claims


Accept: TypeAlias = Callable[[], None]
"""Called when a batch is stored."""


async def add_documents(
    base: OpenBase, batch: Sequence[Document], watch: Watch = nothing, on_accepted: Accept = nothing
) -> list[Accepted]:
    """Adds documents; they are stored and searchable when it returns. Raises BadInput or Refused, and stores nothing.

    Documents that the model cannot embed now are stored all the same, and retried in the background; so are those of
    a caller that is cancelled.
    """
    batches = in_batches(stream(await read_documents(base, batch)), ACCEPT_DOCUMENTS, ACCEPT_CHARACTERS)
    return await add_submissions(base, batches, watch, on_accepted)


async def store_documents(base: OpenBase, batch: Sequence[Document]) -> list[Accepted]:
    """Stores documents; they become searchable once the background indexer has prepared them. Raises BadInput."""
    return await store(base, await read_documents(base, batch))


async def store(base: OpenBase, submissions: Sequence[Submission]) -> list[Accepted]:
    async with base.committing.slot(base.about.tenant):
        accepted, _ = await asyncio.to_thread(_store, base, submissions)
    return accepted


async def stream(submissions: Iterable[Submission]) -> AsyncIterator[Submission]:
    for submission in submissions:
        yield submission


async def in_batches(
    submissions: AsyncIterator[Submission], documents: int = GROUP_DOCUMENTS, characters: int = GROUP_CHARACTERS
) -> AsyncIterator[list[Submission]]:
    """What is stored in one transaction: at most so many documents, or a few more characters."""
    batch: list[Submission] = []
    size = 0
    async for submission in submissions:
        batch.append(submission)
        size += len(submission.document.content)
        if len(batch) >= documents or size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


async def add_submissions(
    base: OpenBase,
    batches: AsyncIterator[Sequence[Submission]],
    watch: Watch = nothing,
    on_accepted: Accept = nothing,
) -> list[Accepted]:
    """Stores each batch at once, then chunks, embeds and indexes it. While one enters the index the next is prepared.

    Where very many documents are under way they wait in the outbox and not in memory.
    """
    async with _room(base) as has_room:
        adding = _Adding(base, watch)
        try:
            async for batch in batches:
                work = await adding.accept(batch, claim=has_room)
                on_accepted()
                await adding.index(work)
            await adding.finish()
        finally:
            await adding.close()
            if sum(len(one.chunk_keys) for one in adding.accepted) >= TRIM_CHUNKS:
                trim_soon()
    return adding.accepted


@asynccontextmanager
async def _room(base: OpenBase) -> AsyncIterator[bool]:
    """Whether documents may stay in memory until they are indexed."""
    tenant = base.about.tenant
    if not base.in_memory.is_free(tenant):
        yield False
        return
    async with base.in_memory.slot(tenant):
        yield True


Stored: TypeAlias = tuple[int, Document, Version]
"""The place of a document among all that were given, the document, what it is stored as."""
Ready: TypeAlias = tuple[Stored, Prepared]


class _Adding:
    """Documents on their way from the records into the index."""

    def __init__(self, base: OpenBase, watch: Watch) -> None:
        self.accepted: list[Accepted] = []
        self._base, self._watch = base, watch
        self._upto = 0  # the last outbox sequence of what was accepted
        self._claimed: set[Version] = set()
        self._begin_batch()
        self._is_left = False  # something to the indexer, or to another task
        self._applying: asyncio.Task[None] | None = None
        self._elsewhere = SharedClaims(base)

    def _begin_batch(self) -> None:
        self._ready: list[Ready] = []
        self._characters = 0
        self._since, self._spent, self._embedding = time.monotonic(), 0.0, 0.0

    async def accept(self, batch: Sequence[Submission], *, claim: bool) -> list[Stored]:
        """Stores a batch. Returns what is to be prepared by this task; without ``claim`` nothing is."""
        first = len(self.accepted)
        await unbroken(self._store(batch, claim))  # else claims would be left that nobody releases
        with bulk_step():
            stored = [(first + at, one.document, version_of(self.accepted[first + at])) for at, one in enumerate(batch)]
            written = [one for one in stored if one[2] in self._claimed]
        if len(written) < len(stored):
            self._is_left = True
            self._watch(Step("added", len(stored) - len(written)))
        return written

    async def _store(self, batch: Sequence[Submission], claim: bool) -> None:
        async with self._base.committing.slot(self._base.about.tenant):
            claims = self._base.claims if claim else None
            storing = partial(_store, self._base, batch, claims, self._elsewhere, retry=True)
            stored, self._upto = await asyncio.to_thread(storing)
        self._elsewhere.extend_from_now_on()
        self.accepted += stored
        if claim:
            with bulk_step():
                self._claimed |= _newest(stored)

    async def index(self, work: Sequence[Stored]) -> None:
        """Chunks and embeds; what is large by then, or has taken a while, is stored and enters the index."""
        for group in _grouped(work):
            started = time.monotonic()
            if not self._ready:
                self._since = started  # not when the batch before was stored: that one's turn may come late
            prepared = await self._prepared(group)
            self._ready += zip(group, prepared, strict=False)
            self._characters += sum(len(document.content) for _, document, _ in group) if prepared else 0
            self._spent += time.monotonic() - started
            if self._is_due():
                await self._complete()

    def _is_due(self) -> bool:
        return (
            len(self._ready) >= BATCH_DOCUMENTS
            or self._characters >= BATCH_CHARACTERS
            or self._embedding >= BATCH_SECONDS
            or time.monotonic() - self._since >= BATCH_AGE
        )

    async def _prepared(self, group: Sequence[Stored]) -> Sequence[Prepared]:
        """Empty if the model cannot be used: the documents are then left to the indexer."""
        found = [document for _, document, _ in group]
        try:
            prepared: list[Prepared]
            prepared, seconds = await in_preparing_thread(self._base, _prepare, self._base, found, self._watch)
            self._embedding += seconds
            return prepared
        except ModelError as error:
            self._watch(Step("waiting", len(group), reason=str(error)))
            self._release(version for _, _, version in group)
            self._is_left = True
            return ()

    async def _complete(self) -> None:
        """Stores what was prepared, and begins to enter it into the index."""
        ready, spent = self._ready, self._spent
        self._begin_batch()
        async with self._base.committing.slot(self._base.about.tenant):
            keys = await asyncio.to_thread(_complete, self._base, ready)
        with bulk_step():
            for (at, _, (key, _)), _ in ready:
                if key in keys:  # and was not overtaken
                    one = self.accepted[at]
                    self.accepted[at] = Accepted(one.doc_id, one.document_key, one.generation, one.outcome, *keys[key])
        self._watch(Step("added", len(ready)))
        fresh = await asyncio.to_thread(_fresh, self._base, ready, self.accepted)
        self._release(version for (_, _, version), _ in ready if version not in fresh.entries)
        if self._applying is not None:
            await self._applying
        self._applying = asyncio.create_task(self._apply(replace(fresh, seconds=spent)))

    async def _apply(self, fresh: FreshEntries) -> None:
        """Claimed until then: another indexer would read back from the records what is here."""
        try:
            await keep_up(self._base, fresh, upto=self._upto)
        finally:
            self._release(fresh.entries)

    async def finish(self) -> None:
        """Returns once everything that was accepted is in the index, by whomever."""
        if self._ready:
            await self._complete()
        if self._applying is not None:
            await self._applying
        if self._is_left:
            await self._elsewhere.release()
            await self._base.claims.released(map(version_of, self.accepted))
            await keep_up(self._base, upto=self._upto)
            while await asyncio.to_thread(_is_prepared_elsewhere, self._base, self.accepted):
                await asyncio.sleep(ELSEWHERE_SECONDS)
                await keep_up(self._base, upto=self._upto)

    async def close(self) -> None:
        self._release(tuple(self._claimed))
        await self._elsewhere.release()
        if self._applying is not None:
            self._applying.cancel()
            await asyncio.wait([self._applying])  # a batch that is entering the index enters it whole

    def _release(self, versions: Iterable[Version]) -> None:
        released = set(versions)
        self._claimed -= released
        self._base.claims.release(released)


class SharedClaims:
    """What `Claims` are within a process, for the other processes on the database. Used by one call that adds."""

    def __init__(self, base: OpenBase) -> None:
        self._base = base
        self._firsts: list[int] = []
        self._extending: asyncio.Task[None] | None = None

    def take(self, tx: Connection, before: int, after: int) -> None:
        """In the transaction that appends these rows to the outbox."""
        lease = self._base.lease
        if lease.is_shared and after > before:
            outbox.claim(tx, self._base.id, range(before + 1, after + 1), lease.process, lease.seconds)
            self._firsts.append(before + 1)

    def extend_from_now_on(self) -> None:
        if self._firsts and self._extending is None:
            self._extending = asyncio.create_task(self._extend())

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self._base.lease.seconds / RENEWALS)
            await self._leasing(partial(outbox.extend_claims, seconds=self._base.lease.seconds))

    async def release(self) -> None:
        """Others may take what is left."""
        if self._extending is not None:
            self._extending.cancel()
            await asyncio.wait([self._extending])
            self._extending = None
        if self._firsts:
            await self._leasing(outbox.release_claims)
            self._firsts = []

    async def _leasing(self, work: Callable[[Connection, Sequence[int]], None]) -> None:
        def leasing() -> None:
            with self._base.records.records.leasing() as tx:
                work(tx, self._firsts)

        try:
            await asyncio.to_thread(leasing)
        except (QianxunError, SQLAlchemyError) as error:  # they lapse: another process then does the same work
            log.warning("claims on the outbox of base %s are left to lapse: %s", self._base.id, error)


def _is_prepared_elsewhere(base: OpenBase, accepted: Sequence[Accepted]) -> bool:
    """Whether another process is at work on one of these."""
    if not base.lease.is_shared:
        return False
    with base.records.reading() as tx:
        return outbox.has_version(tx, base.id, {version_of(one) for one in accepted})


def version_of(accepted: Accepted) -> Version:
    return accepted.document_key, accepted.generation


def _newest(accepted: Sequence[Accepted]) -> set[Version]:
    """What was written; of a document that was given twice, the last."""
    return set({one.document_key: one.generation for one in accepted if one.outcome in ("created", "updated")}.items())


def _grouped(work: Sequence[Stored]) -> Iterator[list[Stored]]:
    """What is prepared together."""
    group: list[Stored] = []
    size = 0
    for one in work:
        if group and (size >= GROUP_CHARACTERS or len(group) >= GROUP_DOCUMENTS):
            yield group
            group, size = [], 0
        group.append(one)
        size += len(one[1].content)
    if group:
        yield group


def _prepare(base: OpenBase, found: Sequence[Document], watch: Watch) -> tuple[list[Prepared], float]:
    """Also the seconds that their embedding took: on a busy machine cutting takes long, too, but is soon done again."""
    cut_at = embedded_at = 0.0

    def on_cut(count: int) -> None:
        nonlocal cut_at, embedded_at
        watch(Step("cut", count))
        cut_at = embedded_at = time.monotonic()

    def on_embedded(count: int) -> None:
        nonlocal embedded_at
        embedded_at = time.monotonic()
        watch(Step("embedded", count))

    warn = partial(_warn, watch)
    prepared = prepare_for(base, found, warn=warn, on_cut=on_cut, on_embedded=on_embedded)
    return prepared, embedded_at - cut_at


def _warn(watch: Watch, reason: str) -> None:
    watch(Step("warned", reason=reason))


def _store(
    base: OpenBase,
    submissions: Sequence[Submission],
    claims: Claims | None = None,
    elsewhere: SharedClaims | None = None,
    *,
    retry: bool = False,
) -> tuple[list[Accepted], int]:
    """What became of each, and the last outbox sequence there is then. Claimed before others can see them."""
    taken: set[Version] = set()
    try:
        with base.records.writing() as tx, bulk_step():
            before = outbox.last_sequence(tx) if elsewhere is not None else 0
            accepted = documents.accept(tx, base.id, submissions, retry=retry)
            after = outbox.last_sequence(tx)
            if claims is not None:
                taken = _newest(accepted)
                claims.take(taken)
                if elsewhere is not None:
                    elsewhere.take(tx, before, after)
            return accepted, after
    except BaseException:
        if claims is not None:
            claims.release(taken)
        raise


def _complete(base: OpenBase, ready: Sequence[Ready]) -> dict[int, tuple[range, range]]:
    with bulk_step():
        work = [(*version, prepared) for (_, _, version), prepared in ready]
        return base.records.run(lambda tx: documents.complete(tx, base.id, work))


def _fresh(base: OpenBase, ready: Sequence[Ready], accepted: Sequence[Accepted]) -> FreshEntries:
    """What was just written, as entries of the index.

    Made here and not while the batch before enters the index: that waits for native code, this is Python's own work,
    and two threads of that only get in each other's way (a third slower together than one after the other).
    """
    # Noted first: of entries during whose making a dictionary came, some were analysed without it.
    model, dimension, analysis = base.model_name, base.model.dimension if base.model else 0, base.analyser.version
    written = [
        (document, prepared, accepted[at])
        for (at, document, _), prepared in ready
        if prepared.model == model and accepted[at].chunk_keys
    ]
    entries = iter(entries_of(base, (piece for row in written for piece in _material(*row))))
    fresh = {version_of(result): tuple(islice(entries, _entry_count(work, result))) for _, work, result in written}
    return FreshEntries(model, dimension, analysis, fresh)


def _material(document: Document, prepared: Prepared, accepted: Accepted) -> Sequence[EntrySource]:
    """The chunks of one document, those of a kind with one value of its attributes, then its questions."""
    attributes = {kind: attributes_from(document, kind) for kind in {piece.kind for piece in prepared.pieces}}
    vectors = prepared.vectors
    found = [
        EntrySource(
            key,
            accepted.document_key,
            piece.text,
            None if vectors is None else vectors[at],
            attributes[piece.kind],
            keywords=piece.corrected.keywords if piece.corrected is not None else (),
            headings=piece.headings,
        )
        for at, (key, piece) in enumerate(zip(accepted.chunk_keys, prepared.pieces, strict=True))
    ]
    return with_questions(found, _attached(prepared, accepted)) if prepared.questions else found


def _attached(prepared: Prepared, accepted: Accepted) -> list[AttachedQuestion]:
    vectors = prepared.question_vectors
    return [
        AttachedQuestion(
            key,
            accepted.document_key,
            accepted.chunk_keys[question.piece],
            question.pair.question,
            None if vectors is None else vectors[at],
        )
        for at, (key, question) in enumerate(zip(accepted.pair_keys, prepared.questions, strict=True))
    ]


def _entry_count(prepared: Prepared, accepted: Accepted) -> int:
    return len(accepted.chunk_keys) + (0 if prepared.question_vectors is None else len(accepted.pair_keys))
