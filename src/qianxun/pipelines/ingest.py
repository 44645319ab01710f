"""The way in: source → parse → preprocess → chunk → embed → records → index.

`take_files` is the whole way for files and folders; `take` the same from documents on. A write is acknowledged when
its records transaction commits; whatever fails after that is taken up again from the outbox.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qianxun.errors import MissingExtra, ModelError, Refused
from qianxun.ingest.assemble import assemble
from qianxun.ingest.sandbox import ParserPool
from qianxun.ingest.sources import Refusal, Source, discover
from qianxun.ingest.structure import read_structure
from qianxun.pipelines.base import OpenBase
from qianxun.pipelines.indexing import Drained, Fresh, drain
from qianxun.pipelines.prepare import prepare
from qianxun.records import documents, outbox
from qianxun.records.chunks import Material
from qianxun.records.rows import attributes_from
from qianxun.types import Accepted, Document, Metadata, ParsedFile, Submission

BATCH_DOCUMENTS = 5_000
BATCH_CHARACTERS = 2_000_000
BATCH_EMBEDDED = 30_000  # characters where a model embeds them: seconds of work, and Ctrl-C loses no more
AHEAD = 8  # files parsed or waiting for a parser while the one before them is taken in
PARSER_VERSION = "1"  # part of a file's fingerprint: a better parser reads unchanged files again


@dataclass(frozen=True, slots=True)
class Labels:
    """What the caller says of every file of one `add`."""

    user_id: str = ""
    project_id: str = ""
    content_type: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """Progress, for people: what has happened since the last one."""

    kind: str  # found | unchanged | refused | parsed | cut (chunks to embed) | embedded | waiting | added
    count: int = 1
    name: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one `add`. ``chunks`` counts those of added documents."""

    added: int = 0
    unchanged: int = 0
    refused: tuple[Refusal, ...] = ()
    chunks: int = 0
    waiting: int = 0  # accepted, but not searchable yet: the model could not be reached
    warnings: tuple[str, ...] = ()


Watch = Callable[[Step], None]


def _unwatched(_: Step) -> None:
    return None


# ── files ────────────────────────────────────────────────────────────────────────────────────────


async def take_files(
    base: OpenBase, paths: Sequence[Path], parsers: ParserPool, labels: Labels, watch: Watch = _unwatched
) -> Report:
    """Files and folders in. A bad file is refused with its reason and costs nothing but itself."""
    found = await asyncio.to_thread(lambda: list(discover(paths)))
    sources = [item for item in found if isinstance(item, Source)]
    report = _refuse(Report(), [item for item in found if isinstance(item, Refusal)], watch)
    changed = await asyncio.to_thread(_changed, base, sources, labels)
    report = replace(report, unchanged=len(sources) - len(changed))
    watch(Step("found", len(changed)))
    watch(Step("unchanged", report.unchanged))
    async for batch in _batched(_parse_all(changed, parsers, labels, watch), _most(base)):
        report = _refuse(report, [item for item in batch if isinstance(item, Refusal)], watch)
        accepted = await take(base, [item for item in batch if isinstance(item, Submission)], watch)
        report = _count(report, accepted)
    await drain(base)  # whatever an earlier, interrupted run left behind
    return report


def _refuse(report: Report, refusals: Sequence[Refusal], watch: Watch) -> Report:
    for refusal in refusals:
        watch(Step("refused", name=str(refusal.path), reason=refusal.reason))
    return replace(report, refused=report.refused + tuple(refusals))


def _count(report: Report, accepted: Sequence[Accepted]) -> Report:
    written = [one for one in accepted if one.outcome in ("created", "updated")]
    return replace(
        report,
        added=report.added + len(written),
        unchanged=report.unchanged + len(accepted) - len(written),
        chunks=report.chunks + sum(len(one.chunk_keys) for one in written),
    )


def _changed(base: OpenBase, sources: Sequence[Source], labels: Labels) -> list[tuple[Source, str]]:
    """The sources whose content, labels or way of cutting differ from what the records hold, with fingerprints."""
    with base.records.reading() as tx:
        known = documents.heads(tx, base.id, [source.id for source in sources])
    changed = []
    for source in sources:
        mark = fingerprint(base, source.fingerprint, source.name, PARSER_VERSION, labels)
        head = known.get(source.id)
        if head is None or head.fingerprint != mark or head.status in ("deleted", "quarantined"):
            changed.append((source, mark))
    return changed


async def _parse_all(
    sources: Sequence[tuple[Source, str]], parsers: ParserPool, labels: Labels, watch: Watch
) -> AsyncIterator[Submission | Refusal]:
    """Parses a few files at a time, and answers in the order of the sources."""
    tasks = [asyncio.create_task(_parse(*each, parsers, labels)) for each in sources[:AHEAD]]
    try:
        for at, (source, _) in enumerate(sources):
            if at + AHEAD < len(sources):
                tasks.append(asyncio.create_task(_parse(*sources[at + AHEAD], parsers, labels)))
            parsed = await tasks[at]
            watch(Step("parsed", name=source.name))
            yield parsed
    finally:
        for task in tasks:
            task.cancel()


async def _parse(source: Source, mark: str, parsers: ParserPool, labels: Labels) -> Submission | Refusal:
    try:
        parsed = await parsers.parse(source.path)
    except (Refused, MissingExtra) as error:
        return Refusal(source.path, str(error))
    document = _document(source, parsed, labels)
    if not document.content:
        return Refusal(source.path, "文件中没有可用的文字；若是扫描件，请确认图像清晰后重试")
    return Submission(document, mark)


def _document(source: Source, parsed: ParsedFile, labels: Labels) -> Document:
    text = assemble(parsed)
    title = {"title": parsed.title} if parsed.title else {}
    return Document(
        id=source.id,
        content=text.content,
        name=source.name,
        content_type=labels.content_type,
        user_id=labels.user_id,
        project_id=labels.project_id,
        tags=labels.tags,
        metadata={"format": parsed.format, **title, **parsed.metadata, **labels.metadata},
        structure=text,
        pairs=parsed.pairs,
        source=str(source.path),
    )


async def _batched(items: AsyncIterator[Submission | Refusal], most: int) -> AsyncIterator[list[Submission | Refusal]]:
    batch: list[Submission | Refusal] = []
    size = 0
    async for item in items:
        batch.append(item)
        size += len(item.document.content) if isinstance(item, Submission) else 0
        if len(batch) >= BATCH_DOCUMENTS or size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def submission(base: OpenBase, document: Document, generation: int | None = None) -> Submission:
    """A document as the records take it: its text cleaned, its structure known, its fingerprint taken."""
    if document.structure is None:
        text = read_structure(document.content, document.format)
        document = replace(document, content=text.content, structure=text)
    labels = Labels(document.user_id, document.project_id, document.content_type, document.tags, document.metadata)
    return Submission(document, fingerprint(base, document.content, document.name, document.format, labels), generation)


async def take(base: OpenBase, submissions: Iterable[Submission], watch: Watch = _unwatched) -> list[Accepted]:
    """Chunks, embeds, stores and indexes documents: acknowledged and searchable when it returns.

    While one batch enters the index the next is prepared. When the model cannot embed documents they are stored all
    the same, and the indexer tries again later.
    """
    accepted: list[Accepted] = []
    applying: asyncio.Task[Drained] | None = None
    offered = iter(submissions)
    try:
        while batch := await asyncio.to_thread(_next_batch, offered, _most(base)):
            ready = await _ready(base, batch, watch)
            stored, upto = await asyncio.to_thread(_accept, base, ready)
            accepted += stored
            if applying is not None:
                await applying
            applying = asyncio.create_task(drain(base, _fresh(ready, stored), upto=upto))
            watch(Step("added", len(stored)))
        if applying is not None:
            await applying
    finally:
        if applying is not None:
            applying.cancel()
    return accepted


def _most(base: OpenBase) -> int:
    return BATCH_CHARACTERS if base.model is None else BATCH_EMBEDDED


def _next_batch(offered: Iterator[Submission], most: int) -> list[Submission]:
    batch: list[Submission] = []
    size = 0
    while len(batch) < BATCH_DOCUMENTS and size < most:
        following = next(offered, None)
        if following is None:
            break
        batch.append(following)
        size += len(following.document.content)
    return batch


async def _ready(base: OpenBase, submissions: Sequence[Submission], watch: Watch) -> list[Submission]:
    try:
        return await asyncio.to_thread(_prepare, base, submissions, watch)
    except ModelError as error:
        watch(Step("waiting", len(submissions), reason=str(error)))
        return list(submissions)


async def accept(base: OpenBase, submissions: Sequence[Submission]) -> list[Accepted]:
    """Stores documents and returns: they are durable now, and searchable once the indexer has come by."""
    accepted, _ = await asyncio.to_thread(_accept, base, submissions)
    return accepted


def _prepare(base: OpenBase, submissions: Sequence[Submission], watch: Watch) -> list[Submission]:
    """Prepares what is new; what the records hold already passes through and will be found unchanged."""
    with base.records.reading() as tx:
        known = documents.heads(tx, base.id, [each.document.id for each in submissions])
    new = [each for each in submissions if not _is_known(each, known.get(each.document.id))]
    prepared = prepare(
        [each.document for each in new],
        base.splitter,
        base.model,
        by_meaning=base.by_meaning,
        on_cut=lambda count: watch(Step("cut", count)),
        on_embedded=lambda count: watch(Step("embedded", count)),
    )
    done = {id(each): replace(each, prepared=work) for each, work in zip(new, prepared, strict=True)}
    return [done.get(id(each), each) for each in submissions]


def _is_known(submission: Submission, head: documents.Head | None) -> bool:
    return head is not None and head.status == "indexed" and head.fingerprint == submission.fingerprint


def _accept(base: OpenBase, submissions: Sequence[Submission]) -> tuple[list[Accepted], int]:
    """What the records did, and the last outbox sequence there is then."""
    with base.records.writing() as tx:
        return documents.accept(tx, base.id, submissions), outbox.last_sequence(tx)


def _fresh(submissions: Sequence[Submission], accepted: Sequence[Accepted]) -> Fresh:
    """The chunks that were just written, so that the indexer need not read them back."""
    fresh: dict[tuple[int, int], list[Material]] = {}
    model = ""
    for each, result in zip(submissions, accepted, strict=True):
        if each.prepared is None or not result.chunk_keys:
            continue
        model = each.prepared.model
        attributes = attributes_from(each.document)
        vectors = each.prepared.vectors
        fresh[result.document_key, result.generation] = [
            Material(key, result.document_key, piece.text, None if vectors is None else vectors[at], attributes)
            for at, (key, piece) in enumerate(zip(result.chunk_keys, each.prepared.pieces, strict=True))
        ]
    return Fresh(model, fresh)


def fingerprint(base: OpenBase, content: str, name: str, reading: str, labels: Labels) -> str:
    """Equal only for the same content, labels and way of cutting: such a document need not be taken in again."""
    splitter = base.splitter
    cutting = (splitter.chunk_size, splitter.chunk_overlap, base.by_meaning)
    said = (labels.user_id, labels.project_id, labels.content_type, labels.tags, sorted(labels.metadata.items()))
    told = repr((cutting, name, reading, said)).encode()
    digest = hashlib.blake2b(told, digest_size=20)
    digest.update(content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
