"""The way in: source → parse → preprocess → chunk → embed → records → index.

`take_files` is the whole way for files and folders; `take` the same from documents on. A write is acknowledged when
its records transaction commits; whatever fails after that is taken up again from the outbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from qianxun.bases.base import OpenBase, in_preparing_thread
from qianxun.core.errors import BadInput, MissingExtra, ModelError, Refused, Unreadable
from qianxun.core.gc_pause import paused_collection
from qianxun.core.ingest_types import Labels, Refusal, Report, Step, Watch
from qianxun.core.ports import nothing
from qianxun.core.types import Accepted, Document, ParsedFile, Prepared, QAPair, Submission
from qianxun.indexing.generated_questions import asker
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.metadata import held_metadata
from qianxun.indexing.outbox_indexer import Drained, Fresh, entries_of
from qianxun.indexing.prepare import prepare
from qianxun.ingest.assemble import assemble, read_structure
from qianxun.ingest.sandbox.pool import ParserPool
from qianxun.ingest.sources import Source, discover
from qianxun.records import documents, outbox
from qianxun.records.chunks import Material, with_questions
from qianxun.records.pairs import Attached
from qianxun.records.rows import attributes_from

GROUP_DOCUMENTS = 500  # prepared in one go
GROUP_CHARACTERS = 60_000  # … or so many characters: some seconds of embedding on two cores
BATCH_DOCUMENTS = 10_000  # stored in one transaction and indexed in one commit: see `indexing.BATCH_ROWS`
BATCH_CHARACTERS = 4_000_000  # … or so many characters, which must fit in memory several times over
BATCH_SECONDS = 3.0  # … or what was prepared in that time
AHEAD = 8  # files parsed or waiting for a parser while the one before them is taken in
NAME_BYTES, SUFFIX_BYTES = 180, 20  # of an uploaded file's name: every file system takes as much
PARSER_VERSION = "4"  # part of a fingerprint: unchanged files, and texts with headings, are read again by a better one


# ── files ────────────────────────────────────────────────────────────────────────────────────────


async def take_files(
    base: OpenBase, paths: Sequence[Path], parsers: ParserPool, labels: Labels, watch: Watch = nothing
) -> Report:
    """Files and folders in. A bad file is refused with its reason and costs nothing but itself."""
    found = await asyncio.to_thread(lambda: list(discover(paths)))
    sources = [item for item in found if isinstance(item, Source)]
    refusals = [item for item in found if isinstance(item, Refusal)]
    report = _refuse(Report(), [refusal for refusal in refusals if not refusal.passed_over], watch)
    changed = await asyncio.to_thread(_changed, base, sources, labels)
    report = replace(report, unchanged=len(sources) - len(changed))
    watch(Step("found", len(changed)))
    watch(Step("unchanged", report.unchanged))
    read = _Read([], [f"{each.path}：{each.reason}" for each in refusals if each.passed_over])
    heard = read.hearing(watch)
    report = _count(report, await _take(base, read.submissions(_parse_all(changed, parsers, labels, watch)), heard))
    await keep_up(base)  # whatever an earlier, interrupted run left behind
    return replace(_refuse(report, read.refused, watch), warnings=tuple(read.warnings))


def _refuse(report: Report, refusals: Sequence[Refusal], watch: Watch) -> Report:
    for refusal in refusals:
        watch(Step("refused", name=str(refusal.path), reason=refusal.reason))
    return replace(report, refused=report.refused + tuple(refusals))


def _count(report: Report, accepted: Sequence[Accepted]) -> Report:
    written = [one for one in accepted if one.outcome in ("created", "updated")]
    return replace(
        report,
        added=report.added + len(written),
        updated=report.updated + sum(one.outcome == "updated" for one in written),
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


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What became of one file."""

    outcome: Submission | Refusal
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """What the parsers, and the steps after them, had to say besides documents."""

    refused: list[Refusal]
    warnings: list[str]

    def hearing(self, watch: Watch) -> Watch:
        """``watch``, with what it is warned of kept for the report."""

        def hear(step: Step) -> None:
            if step.kind == "warned":
                self.warnings.append(step.reason)
            watch(step)

        return hear

    async def submissions(self, files: AsyncIterator[_Parsed]) -> AsyncIterator[Submission]:
        async for parsed in files:
            self.warnings.extend(parsed.warnings)
            if isinstance(parsed.outcome, Refusal):
                self.refused.append(parsed.outcome)
            else:
                yield parsed.outcome


async def _parse_all(
    sources: Sequence[tuple[Source, str]], parsers: ParserPool, labels: Labels, watch: Watch
) -> AsyncIterator[_Parsed]:
    """Parses a few files at a time, and answers in the order of the sources."""
    waiting = iter(sources)
    ahead: deque[tuple[Source, asyncio.Task[_Parsed]]] = deque()
    try:
        while True:
            for source, mark in islice(waiting, AHEAD - len(ahead)):
                ahead.append((source, asyncio.create_task(_parse(source, mark, parsers, labels))))
            if not ahead:
                return
            source, task = ahead.popleft()
            parsed = await task
            watch(Step("parsed", name=source.name))
            yield parsed
    finally:
        for _, task in ahead:
            task.cancel()


async def _parse(source: Source, mark: str, parsers: ParserPool, labels: Labels) -> _Parsed:
    try:
        document, warnings = await _read_file(source, parsers, labels)
    except (Refused, MissingExtra, BadInput) as error:
        return _Parsed(Refusal(source.path, str(error)))
    return _Parsed(Submission(document, mark), tuple(f"{source.name}：{warning}" for warning in warnings))


async def _read_file(source: Source, parsers: ParserPool, labels: Labels) -> tuple[Document, tuple[str, ...]]:
    """The document that a file holds, and what its parser has to say of it. Raises Refused, MissingExtra, BadInput."""
    parsed = await parsers.parse(source.path)
    document = await asyncio.to_thread(_document, source, parsed, labels)
    documents.check(document)
    if not document.content:
        raise Unreadable(f"{source.name}：没有可用的文字", hint="若是扫描件，请确认图像清晰后重试")
    return document, parsed.warnings


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
        metadata=held_metadata({"format": parsed.format, **title, **parsed.metadata, **labels.metadata}),
        structure=text,
        pairs=parsed.pairs,
        source=os.path.abspath(source.path),
    )


# ── one uploaded file ────────────────────────────────────────────────────────────────────────────


async def take_file(
    base: OpenBase,
    path: Path,
    parsers: ParserPool,
    labels: Labels,
    *,
    name: str,
    source: str = "",
    doc_id: str = "",
    wait: bool = True,
) -> Accepted:
    """One file that lies at ``path`` and that people know by its ``name``. Raises Refused, MissingExtra, BadInput.

    ``source`` says where it was before it came here. Without a ``doc_id`` the same name of the same owner is the same
    document, which the file replaces.
    """
    file = await asyncio.to_thread(_uploaded, path, name, doc_id or upload_id(name, labels))
    mark = fingerprint(base, file.fingerprint, name, PARSER_VERSION, labels)
    known = await asyncio.to_thread(_head, base, file.id)
    if known is not None and known.status == "indexed" and known.fingerprint == mark:
        return Accepted(file.id, known.key, known.generation, "unchanged")
    with TemporaryDirectory(prefix="qianxun-") as folder:
        # Parsers go by the name: its extension says what to try, its stem what an unnamed table is called.
        link = Path(folder) / _file_name(name)
        link.symlink_to(file.path)
        document, _ = await _read_file(replace(file, path=link), parsers, labels)
    offered = Submission(replace(document, source=source or name), mark)
    (accepted,) = await (_take(base, _one(offered), nothing) if wait else accept(base, [offered]))
    return accepted


def upload_id(name: str, labels: Labels) -> str:
    """The id of an uploaded document: one name, of one user's one project, is one document."""
    return hashlib.blake2b(repr((labels.user_id, labels.project_id, name)).encode(), digest_size=10).hexdigest()


def _uploaded(path: Path, name: str, doc_id: str) -> Source:
    if not _file_name(name):
        raise BadInput("上传的文件没有名称", hint="给出带扩展名的文件名")
    found = next(discover([path]), None) if path.is_file() else None
    if not isinstance(found, Source):
        raise Unreadable(f"{name}：{found.reason if found else '文件不见了'}", hint="请重新上传")
    return replace(found, path=path.absolute(), name=name, id=doc_id)


def _file_name(name: str) -> str:
    """The last part of a name as one that a folder can hold: nothing in it leads out of the folder."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(sign for sign in last if sign.isprintable()).strip(". ")
    stem, suffix = os.path.splitext(shown)
    kept = stem.encode("utf-8", "ignore")[:NAME_BYTES].decode("utf-8", "ignore")
    return kept + suffix.encode("utf-8", "ignore")[:SUFFIX_BYTES].decode("utf-8", "ignore")


def _head(base: OpenBase, doc_id: str) -> documents.Head | None:
    with base.records.reading() as tx:
        return documents.heads(tx, base.id, [doc_id]).get(doc_id)


async def _one(offered: Submission) -> AsyncIterator[Submission]:
    yield offered


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def submission(base: OpenBase, document: Document, generation: int | None = None) -> Submission:
    """A document as the records take it: its text cleaned, its structure known, its fingerprint taken.

    Raises BadInput.
    """
    document = replace(document, metadata=held_metadata(document.metadata))
    if document.structure is None:
        text = read_structure(document.content, document.format, name=document.name)
        if document.format != "text" or text.tables or text.content != document.content:
            document = replace(document, content=text.content, structure=text)
    labels = Labels(document.user_id, document.project_id, document.content_type, document.tags, document.metadata)
    has_headings = document.structure is not None and bool(document.structure.marks)
    reading = f"{document.format}/{PARSER_VERSION}" if has_headings else document.format
    mark = fingerprint(base, document.content, document.name, reading, labels, document.pairs)
    return Submission(document, mark, generation)


async def take(base: OpenBase, batch: Sequence[Document], watch: Watch = nothing) -> list[Accepted]:
    """Documents in: acknowledged and searchable when it returns.

    When the model cannot embed documents they are stored all the same, and the indexer tries again later.
    """

    async def offered() -> AsyncIterator[Submission]:
        for start in range(0, len(batch), GROUP_DOCUMENTS):
            part = batch[start : start + GROUP_DOCUMENTS]
            for each in await asyncio.to_thread(_submissions, base, part):
                yield each

    return await _take(base, offered(), watch)


def _submissions(base: OpenBase, batch: Sequence[Document]) -> list[Submission]:
    with paused_collection():
        return [submission(base, document) for document in batch]


async def _take(base: OpenBase, offered: AsyncIterator[Submission], watch: Watch) -> list[Accepted]:
    """Chunks, embeds, stores and indexes. While one batch enters the index the next one is made ready.

    A batch is stored when it is large, or when its preparation has taken a while: a process that is stopped loses
    seconds of work and not minutes.
    """
    accepted: list[Accepted] = []
    ready: list[Submission] = []
    applying: asyncio.Task[Drained] | None = None
    since, spent = time.monotonic(), 0.0
    try:
        async for group, is_last in _grouped(offered):
            started = time.monotonic()
            ready += await _ready(base, group, watch)
            spent += time.monotonic() - started
            if not (is_last or _is_due(ready, since)):
                continue
            stored, upto = await asyncio.to_thread(_accept, base, ready)
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
        or sum(len(each.document.content) for each in ready) >= BATCH_CHARACTERS
        or time.monotonic() - since >= BATCH_SECONDS
    )


async def _grouped(offered: AsyncIterator[Submission]) -> AsyncIterator[tuple[list[Submission], bool]]:
    """Groups that are prepared together, and whether it is the last one."""
    group: list[Submission] = []
    size = 0
    async for each in offered:
        if size >= GROUP_CHARACTERS or len(group) >= GROUP_DOCUMENTS:
            yield group, False
            group, size = [], 0
        group.append(each)
        size += len(each.document.content)
    if group:
        yield group, True


async def _ready(base: OpenBase, submissions: Sequence[Submission], watch: Watch) -> list[Submission]:
    try:
        ready: list[Submission] = await in_preparing_thread(base, _prepare, base, submissions, watch)
        return ready
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
        ask=asker(base, lambda reason: watch(Step("warned", reason=reason))) if new else None,
        on_cut=lambda count: watch(Step("cut", count)),
        on_embedded=lambda count: watch(Step("embedded", count)),
    )
    done = {
        id(each): Submission(each.document, each.fingerprint, each.generation, work)
        for each, work in zip(new, prepared, strict=True)
    }
    return [done.get(id(each), each) for each in submissions]


def _is_known(submission: Submission, head: documents.Head | None) -> bool:
    return head is not None and head.status == "indexed" and head.fingerprint == submission.fingerprint


def _accept(base: OpenBase, submissions: Sequence[Submission]) -> tuple[list[Accepted], int]:
    """What the records did, and the last outbox sequence there is then."""
    with base.records.writing() as tx, paused_collection():
        return documents.accept(tx, base.id, submissions), outbox.last_sequence(tx)


def _fresh(base: OpenBase, submissions: Sequence[Submission], accepted: Sequence[Accepted]) -> Fresh:
    """What was just written, as the index wants it.

    Made here and not while the batch before enters the index: that waits for native code, this is Python's own work,
    and two threads of that only get in each other's way (a third slower together than one after the other).
    """
    model, dimension = base.model_name, base.model.dimension if base.model else 0
    analysis = base.analyser.version
    written = [
        (each.document, each.prepared, result)
        for each, result in zip(submissions, accepted, strict=True)
        if each.prepared is not None and each.prepared.model == model and result.chunk_keys
    ]
    entries = iter(entries_of(base, (piece for each in written for piece in _material(*each))))
    fresh = {
        (result.document_key, result.generation): tuple(islice(entries, _entry_count(work, result)))
        for _, work, result in written
    }
    return Fresh(model, dimension, analysis, fresh)


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
            accepted.chunk_keys[each.piece],
            each.pair.question,
            None if vectors is None else vectors[at],
        )
        for at, (key, each) in enumerate(zip(accepted.pair_keys, prepared.questions, strict=True))
    ]


def _entry_count(prepared: Prepared, accepted: Accepted) -> int:
    return len(accepted.chunk_keys) + (0 if prepared.question_vectors is None else len(accepted.pair_keys))


def fingerprint(
    base: OpenBase, content: str, name: str, reading: str, labels: Labels, pairs: Sequence[QAPair] = ()
) -> str:
    """Equal only for the same content, labels and way of cutting: such a document need not be taken in again."""
    splitter = base.splitter
    cutting = (splitter.chunk_size, splitter.chunk_overlap, base.by_meaning)
    said = (labels.user_id, labels.project_id, labels.content_type, labels.tags, sorted(labels.metadata.items()))
    told = repr((cutting, name, reading, said)).encode()
    digest = hashlib.blake2b(told, digest_size=20)
    digest.update(content.encode("utf-8", "surrogatepass"))
    if pairs:
        digest.update(repr([(pair.question, pair.answer) for pair in pairs]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
