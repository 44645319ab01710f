"""The one way in for documents: check → read structure → chunk → embed → records → index.

`submission` reads a document, whichever way it came: by its text (`add_documents`, `store_documents`), by an event
(`indexing.events`) or by a file (`indexing.files`). A write is acknowledged when its transaction in the records
commits; what fails after that is retried from the outbox. Words and graph facts are learnt in the background.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from qianxun.bases.base import OpenBase, in_preparing_thread
from qianxun.core.errors import BadInput, ModelError
from qianxun.core.ingest_types import Labels, Step, Watch
from qianxun.core.ports import nothing
from qianxun.core.system.gc_pause import paused_collection
from qianxun.core.types import (
    Accepted,
    ContentFormat,
    Document,
    Metadata,
    MetadataValue,
    Prepared,
    QAPair,
    Scalar,
    Submission,
)
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.outbox_indexer import Drained, Fresh, entries_of, unbroken
from qianxun.indexing.prepare import prepare_for
from qianxun.ingest.assemble import read_structure
from qianxun.ingest.tables.described import is_described, read_described
from qianxun.records import documents, outbox
from qianxun.records.chunks import Material, with_questions
from qianxun.records.pairs import Attached
from qianxun.records.rows import attributes_from

GROUP_DOCUMENTS = 500  # prepared together
GROUP_CHARACTERS = 60_000  # … or so many characters: some seconds of embedding on two cores
BATCH_DOCUMENTS = 10_000  # stored in one transaction and indexed in one commit: see `outbox_indexer.BATCH_ROWS`
BATCH_CHARACTERS = 4_000_000  # … or so many characters, which must fit in memory several times over
BATCH_SECONDS = 3.0  # … or what was prepared in that time
PARSER_VERSION = "5"  # part of a fingerprint: unchanged files, and texts with headings, are read again by a better one


async def add_documents(base: OpenBase, batch: Sequence[Document], watch: Watch = nothing) -> list[Accepted]:
    """Adds documents; they are stored and searchable when it returns. Raises BadInput, and stores nothing of a batch.

    Documents that the model cannot embed now are stored all the same, and retried in the background; so are those of
    a caller that is cancelled.
    """

    async def submissions() -> AsyncIterator[Submission]:
        for start in range(0, len(batch), GROUP_DOCUMENTS):
            for read in await asyncio.to_thread(_read, base, batch[start : start + GROUP_DOCUMENTS]):
                yield read

    return await add_or_store(base, submissions(), watch)


async def store_documents(base: OpenBase, batch: Sequence[Document]) -> list[Accepted]:
    """Stores documents; they become searchable once the background indexer has prepared them. Raises BadInput."""
    return await store(base, await asyncio.to_thread(_read, base, batch))


async def store(base: OpenBase, submissions: Sequence[Submission]) -> list[Accepted]:
    accepted, _ = await asyncio.to_thread(_store, base, submissions)
    return accepted


# ── reading a document ───────────────────────────────────────────────────────────────────────────


def _read(base: OpenBase, batch: Sequence[Document]) -> list[Submission]:
    with paused_collection():
        return [submission(base, document) for document in batch]


def submission(base: OpenBase, document: Document, generation: int | None = None) -> Submission:
    """A document as it is stored: its metadata checked, its text cleaned, its structure and fingerprint known.

    Raises BadInput.
    """
    document = replace(document, metadata=checked_metadata({**document.stated_dates(), **document.metadata}))
    written = document.format if document.structure is not None else content_format(document)
    if document.structure is None:
        read = (
            partial(read_described, metadata=document.metadata) if is_described(document.metadata) else read_structure
        )
        text = read(document.content, written, name=document.name)
        if written != "text" or text.marks or text.tables or text.content != document.content:
            document = replace(document, format=written, content=text.content, structure=text)
    labels = Labels(document.user_id, document.project_id, document.content_type, document.tags, document.metadata)
    has_headings = document.structure is not None and bool(document.structure.marks)
    reading = f"{written}/{PARSER_VERSION}" if has_headings else written
    mark = fingerprint(base, document.content, document.name, reading, labels, document.pairs)
    return Submission(document, mark, generation)


def content_format(document: Document) -> ContentFormat:
    """The document's own format or, where it names none, that of its metadata."""
    named = document.metadata.get("format") if document.format == "text" else None
    return named if named in ("html", "markdown") else document.format  # type: ignore[return-value]  # one of these


def fingerprint(
    base: OpenBase, content: str, name: str, reading: str, labels: Labels, pairs: Sequence[QAPair] = ()
) -> str:
    """Equal only for the same content, labels and chunking: such a document need not be indexed again."""
    chunking = (base.splitter.chunk_size, base.splitter.chunk_overlap, base.by_meaning)
    about = (labels.user_id, labels.project_id, labels.content_type, labels.tags, sorted(labels.metadata.items()))
    digest = hashlib.blake2b(repr((chunking, name, reading, about)).encode(), digest_size=20)
    digest.update(content.encode("utf-8", "surrogatepass"))
    if pairs:
        digest.update(repr([(pair.question, pair.answer) for pair in pairs]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def checked_metadata(metadata: Mapping[Any, Any]) -> Metadata:
    """Metadata as records and index store it: lists as tuples, without the names that have no value.

    Raises BadInput for what could be stored but never indexed: it would keep everything written after it waiting.
    """
    for name in metadata:
        if not isinstance(name, str):
            raise BadInput(f"metadata 的键 {name!r} 不是文字", hint="键写成文字")
    return {name: _metadata_value(name, value) for name, value in metadata.items() if value is not None}


def _metadata_value(name: str, value: Any) -> MetadataValue:
    if isinstance(value, list | tuple):
        return tuple(_scalar(name, item) for item in value)
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):  # and so bool
        return value
    kind = value if isinstance(value, float) else type(value).__name__
    raise BadInput(
        f"metadata.{name[:80]} 的值应为文字、数字、真假，或它们的列表，不能是 {kind}",
        hint="日期写成文字，如 2024-05-01；里面还有键值对的，展开成几个键",
    )


# ── storing and indexing ─────────────────────────────────────────────────────────────────────────


async def add_or_store(
    base: OpenBase, submissions: AsyncIterator[Submission], watch: Watch = nothing
) -> list[Accepted]:
    """`add_submissions`; if it is cancelled, what was read by then is stored first, and indexed by the background."""
    unstored: list[Submission] = []

    async def buffered() -> AsyncIterator[Submission]:
        async for one in submissions:
            unstored.append(one)
            yield one

    def follow(step: Step) -> None:
        if step.kind == "added":  # the oldest ones
            del unstored[: step.count]
        watch(step)

    try:
        return await add_submissions(base, buffered(), follow)
    except asyncio.CancelledError:
        if unstored:
            await unbroken(store(base, unstored))
        raise


async def add_submissions(
    base: OpenBase, submissions: AsyncIterator[Submission], watch: Watch = nothing
) -> list[Accepted]:
    """Chunks, embeds, stores and indexes. While one batch enters the index the next one is prepared.

    A batch is stored when it is large, or when its preparation has taken a while: a process that is stopped loses
    seconds of work and not minutes.
    """
    accepted: list[Accepted] = []
    ready: list[Submission] = []
    applying: asyncio.Task[Drained] | None = None
    since, spent = time.monotonic(), 0.0
    try:
        async for group, is_last in _grouped(submissions):
            started = time.monotonic()
            ready += await _prepared(base, group, watch)
            spent += time.monotonic() - started
            if not (is_last or _is_due(ready, since)):
                continue
            stored, upto = await asyncio.to_thread(_store, base, ready)
            watch(Step("added", len(stored)))
            accepted += stored
            fresh = await asyncio.to_thread(_fresh, base, ready, stored)
            if applying is not None:
                await applying
            applying = asyncio.create_task(keep_up(base, replace(fresh, seconds=spent), upto=upto))
            ready, since, spent = [], time.monotonic(), 0.0
        if applying is not None:
            await applying
    finally:
        if applying is not None:
            applying.cancel()
            await asyncio.wait([applying])  # a batch that is entering the index enters it whole
    return accepted


def _is_due(ready: Sequence[Submission], since: float) -> bool:
    return (
        len(ready) >= BATCH_DOCUMENTS
        or sum(len(one.document.content) for one in ready) >= BATCH_CHARACTERS
        or time.monotonic() - since >= BATCH_SECONDS
    )


async def _grouped(submissions: AsyncIterator[Submission]) -> AsyncIterator[tuple[list[Submission], bool]]:
    """Groups that are prepared together, and whether it is the last one."""
    group: list[Submission] = []
    size = 0
    async for one in submissions:
        if size >= GROUP_CHARACTERS or len(group) >= GROUP_DOCUMENTS:
            yield group, False
            group, size = [], 0
        group.append(one)
        size += len(one.document.content)
    if group:
        yield group, True


async def _prepared(base: OpenBase, group: Sequence[Submission], watch: Watch) -> list[Submission]:
    try:
        prepared: list[Submission] = await in_preparing_thread(base, _prepare, base, group, watch)
        return prepared
    except ModelError as error:
        watch(Step("waiting", len(group), reason=str(error)))
        return list(group)


def _prepare(base: OpenBase, group: Sequence[Submission], watch: Watch) -> list[Submission]:
    """Prepares what is new; what is stored already passes through and will be found unchanged."""
    with base.records.reading() as tx:
        known = documents.heads(tx, base.id, [one.document.id for one in group])
    new = [one for one in group if not _is_known(one, known.get(one.document.id))]
    prepared = prepare_for(
        base,
        [one.document for one in new],
        warn=lambda reason: watch(Step("warned", reason=reason)),
        on_cut=lambda count: watch(Step("cut", count)),
        on_embedded=lambda count: watch(Step("embedded", count)),
    )
    done = {id(one): replace(one, prepared=work) for one, work in zip(new, prepared, strict=True)}
    return [done.get(id(one), one) for one in group]


def _is_known(submission: Submission, head: documents.Head | None) -> bool:
    return head is not None and head.status == "indexed" and head.fingerprint == submission.fingerprint


def _store(base: OpenBase, submissions: Sequence[Submission]) -> tuple[list[Accepted], int]:
    """What became of each, and the last outbox sequence there is then."""
    with base.records.writing() as tx, paused_collection():
        return documents.accept(tx, base.id, submissions), outbox.last_sequence(tx)


def _fresh(base: OpenBase, submissions: Sequence[Submission], accepted: Sequence[Accepted]) -> Fresh:
    """What was just written, as entries of the index.

    Made here and not while the batch before enters the index: that waits for native code, this is Python's own work,
    and two threads of that only get in each other's way (a third slower together than one after the other).
    """
    model, dimension = base.model_name, base.model.dimension if base.model else 0
    written = [
        (one.document, one.prepared, result)
        for one, result in zip(submissions, accepted, strict=True)
        if one.prepared is not None and one.prepared.model == model and result.chunk_keys
    ]
    entries = iter(entries_of(base, (piece for row in written for piece in _material(*row))))
    fresh = {
        (result.document_key, result.generation): tuple(islice(entries, _entry_count(work, result)))
        for _, work, result in written
    }
    return Fresh(model, dimension, base.analyser.version, fresh)


def _material(document: Document, prepared: Prepared, accepted: Accepted) -> Sequence[Material]:
    """The chunks of one document, those of a kind with one value of its attributes, then its questions."""
    attributes = {kind: attributes_from(document, kind) for kind in {piece.kind for piece in prepared.pieces}}
    vectors = prepared.vectors
    found = [
        Material(
            key,
            accepted.document_key,
            piece.text,
            None if vectors is None else vectors[at],
            attributes[piece.kind],
            headings=piece.headings,
        )
        for at, (key, piece) in enumerate(zip(accepted.chunk_keys, prepared.pieces, strict=True))
    ]
    return with_questions(found, _attached(prepared, accepted)) if prepared.questions else found


def _attached(prepared: Prepared, accepted: Accepted) -> list[Attached]:
    vectors = prepared.question_vectors
    return [
        Attached(
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
