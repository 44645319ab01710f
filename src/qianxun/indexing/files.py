"""Files in: source → parse → document; the rest of the way is that of every document (`indexing.add`).

`add_files` takes files and folders, `add_file` one uploaded file.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.codec.passage import PATH
from qianxun.core.errors import BadInput, MissingExtra, Refused, Unreadable
from qianxun.core.ingest_types import Excluded, Labels, Refusal, Report, Step, Watch
from qianxun.core.ports import nothing
from qianxun.core.types import Accepted, Document, ParsedFile, Submission
from qianxun.indexing.add import Accept, add_submissions, in_batches, store, stream
from qianxun.indexing.inbox import ATTEMPTS, Inbox, Upload
from qianxun.indexing.maintenance import keep_up
from qianxun.indexing.read import PARSER_VERSION, checked_metadata, fingerprint
from qianxun.ingest.assemble import assemble
from qianxun.ingest.ignore import IGNORE_FILE
from qianxun.ingest.sources import Source, discover, document_id
from qianxun.records import document_heads, documents
from qianxun.records.governance import access

AHEAD = 8  # files that are parsed, or wait for a parser, while the one before them is indexed
NAME_BYTES, SUFFIX_BYTES = 180, 20  # of an uploaded file's name: every file system takes as much

UNREAD = (Refused, MissingExtra, BadInput)  # why a file is not taken in
ON_RECORD = ("pending", "indexed")  # an unchanged file of any other state (failed, waiting for a retry) is read again

Parsed: TypeAlias = tuple[Submission | Refusal, tuple[str, ...]]  # and the parser's warnings


async def add_files(
    base: OpenBase,
    paths: Sequence[Path],
    labels: Labels,
    watch: Watch = nothing,
    *,
    exclude: Sequence[str] = (),
    restore: bool = True,
) -> Report:
    """Adds files and folders; searchable when it returns. A file that cannot be read is refused with its reason, and
    listed as failed until it can.

    What an earlier call gave with a file stays where ``labels`` say nothing else. ``exclude`` has the patterns of files
    that are left out; without ``restore`` a document that people deleted stays deleted.
    """
    looked = await asyncio.to_thread(_look, base, paths, labels, exclude, restore)
    for refusal in looked.refused:
        _note_refusal(watch, refusal)
    watch(Step("found", len(looked.changed)))
    watch(Step("unchanged", looked.unchanged))
    warnings, unreadable = [*looked.warnings], list[Refusal]()

    def follow(step: Step) -> None:
        if step.kind == "warned":
            warnings.append(step.reason)
        watch(step)

    async def submissions() -> AsyncIterator[Submission]:
        async for outcome, about in _parse_all(base, looked.changed, watch):
            warnings.extend(about)
            if isinstance(outcome, Refusal):
                unreadable.append(outcome)
            else:
                yield outcome

    accepted = await add_submissions(base, in_batches(submissions()), follow)
    await keep_up(base)  # what an earlier, interrupted run left pending
    for refusal in unreadable:
        _note_refusal(watch, refusal)
    return replace(
        _counted(accepted, unchanged=looked.unchanged),
        refused=(*looked.refused, *unreadable),
        warnings=tuple(warnings),
        excluded=looked.excluded,
        deleted=looked.deleted,
    )


@dataclass(frozen=True, slots=True)
class _Looked:
    """What there is below the paths, before any of it is read."""

    changed: Sequence[_Changed]
    unchanged: int
    refused: Sequence[Refusal]
    warnings: Sequence[str]
    excluded: int
    deleted: tuple[Path, ...]  # by people, and left so


def _look(base: OpenBase, paths: Sequence[Path], labels: Labels, exclude: Sequence[str], restore: bool) -> _Looked:
    found = list(discover(paths, exclude))
    refusals = [item for item in found if isinstance(item, Refusal)]
    refused = [refusal for refusal in refusals if not refusal.passed_over]
    _remember_unopened(base, refused, labels, restore)
    there = [item for item in found if isinstance(item, Source)]
    deleted = set() if restore else _deleted(base, [source.id for source in there])
    sources = [source for source in there if source.id not in deleted]
    changed = _changed(base, sources, labels)
    if labels.access is not None:
        _relabel(base, {source.id for source in sources}.difference(one.source.id for one in changed), labels.access)
    return _Looked(
        changed,
        len(sources) - len(changed),
        refused,
        [f"{refusal.path}：{refusal.reason}" for refusal in refusals if refusal.passed_over],
        sum(isinstance(item, Excluded) for item in found),
        tuple(source.path for source in there if source.id in deleted),
    )


def _relabel(base: OpenBase, unchanged: Collection[str], labels: Sequence[str]) -> None:
    """Gives access labels to documents that have not changed otherwise: nothing of them is read again."""
    if unchanged:
        with base.records.writing() as tx:
            access.set_labels(tx, base.id, sorted(unchanged), labels)


def _counted(accepted: Sequence[Accepted], unchanged: int) -> Report:
    """What became of the files that were read, beside those that were ``unchanged``."""
    written = [one for one in accepted if one.outcome in ("created", "updated")]
    return Report(
        added=len(written),
        unchanged=unchanged + len(accepted) - len(written),
        chunks=sum(len(one.chunk_keys) for one in written),
        updated=sum(one.outcome == "updated" for one in written),
    )


def _deleted(base: OpenBase, doc_ids: Sequence[str]) -> set[str]:
    """Those of the documents that people deleted."""
    with base.records.reading() as tx:
        heads = document_heads.heads(tx, base.id, doc_ids)
    return {doc_id for doc_id, head in heads.items() if head.is_withdrawn}


def _note_refusal(watch: Watch, refusal: Refusal) -> None:
    watch(Step("refused", name=str(refusal.path), reason=refusal.reason))


@dataclass(frozen=True, slots=True)
class _Changed:
    """A file to read, with the labels that its document gets."""

    source: Source
    labels: Labels
    fingerprint: str


def _changed(base: OpenBase, sources: Sequence[Source], labels: Labels) -> list[_Changed]:
    """The sources whose content, labels or chunking differ from the stored ones."""

    def described(source: Source, labels: Labels) -> _Changed:
        return _Changed(source, labels, fingerprint(base, source.fingerprint, source.name, PARSER_VERSION, labels))

    with base.records.reading() as tx:
        known = document_heads.heads(tx, base.id, [source.id for source in sources])
        found = [
            one
            for one in (described(source, labels) for source in sources)
            if not _is_stored(one, known.get(one.source.id))
        ]
        stored = document_heads.stored_labels(tx, base.id, [one.source.id for one in found if one.source.id in known])
    changed = []
    for one in found:
        if (earlier := stored.get(one.source.id)) is not None:
            one = described(one.source, merged_labels(earlier, labels))
        if not _is_stored(one, known.get(one.source.id)):
            changed.append(one)
    return changed


def _is_stored(one: _Changed, head: document_heads.Head | None) -> bool:
    return head is not None and head.fingerprint == one.fingerprint and head.status in ON_RECORD


def merged_labels(earlier: Labels, labels: Labels) -> Labels:
    """What people gave stays until they give something else: metadata name by name, tags all together."""
    return Labels(
        labels.user_id or earlier.user_id,
        labels.project_id or earlier.project_id,
        labels.content_type or earlier.content_type,
        labels.tags or earlier.tags,
        {**earlier.metadata, **labels.metadata},
        labels.access,
    )


async def _parse_all(base: OpenBase, sources: Sequence[_Changed], watch: Watch) -> AsyncIterator[Parsed]:
    """Parses a few files at a time; yields in the order of the sources."""
    waiting = iter(sources)
    ahead: deque[tuple[Source, asyncio.Task[Parsed]]] = deque()
    try:
        while True:
            for one in islice(waiting, AHEAD - len(ahead)):
                ahead.append((one.source, asyncio.create_task(_parse(base, one))))
            if not ahead:
                return
            source, task = ahead.popleft()
            parsed = await task
            watch(Step("parsed", name=source.name))
            yield parsed
    finally:
        for _, task in ahead:
            task.cancel()


async def _parse(base: OpenBase, one: _Changed) -> Parsed:
    source = one.source
    try:
        document, warnings = await _read_file(base, source, one.labels)
    except UNREAD as error:
        await asyncio.to_thread(_remember, base, one, str(error))
        return Refusal(source.path, str(error)), ()
    return Submission(document, one.fingerprint), tuple(f"{source.name}：{warning}" for warning in warnings)


async def _read_file(base: OpenBase, source: Source, labels: Labels) -> tuple[Document, tuple[str, ...]]:
    """The document in a file, and the parser's warnings. Raises Refused, MissingExtra or BadInput."""
    parsed = await base.parsers.read(source.path, base.about.tenant)
    document = _document(source, parsed, labels)
    await asyncio.to_thread(documents.check, document)
    if not document.content:
        raise Unreadable(f"{source.name}：没有可用的文字", hint="若是扫描件，请确认图像清晰后重试")
    return document, parsed.warnings


def _document(source: Source, parsed: ParsedFile, labels: Labels) -> Document:
    text = assemble(parsed)
    title = {"title": parsed.title} if parsed.title else {}
    path = {PATH: source.relative_path} if source.relative_path else {}
    return Document(
        id=source.id,
        content=text.content,
        name=source.name,
        content_type=labels.content_type,
        user_id=labels.user_id,
        project_id=labels.project_id,
        tags=labels.tags,
        metadata=checked_metadata({"format": parsed.format, **title, **path, **parsed.metadata, **labels.metadata}),
        structure=text,
        pairs=parsed.pairs,
        source=os.path.abspath(source.path),
        label_names=tuple(labels.metadata),
        access=labels.access,
    )


# ── files that cannot be read ────────────────────────────────────────────────────────────────────


def _remember(base: OpenBase, one: _Changed, reason: str, origin: str = "") -> None:
    """Lists a file as failed; ``origin`` is where an uploaded one came from."""
    extension = Path(one.source.name).suffix[1:].lower()
    try:
        document = _document(one.source, ParsedFile((), extension), one.labels)
        document = replace(document, source=origin or document.source)
        documents.check(document)
    except BadInput:  # neither could its name or labels be stored, which is then what the caller is told
        return
    with base.records.writing() as tx:
        documents.note_unreadable(tx, base.id, Submission(document, one.fingerprint), reason)


def _remember_unopened(base: OpenBase, refused: Sequence[Refusal], labels: Labels, restore: bool) -> None:
    """Of the paths that were refused before anything was read: files only, since a folder becomes no document."""
    reasons = {
        document_id(refusal.path): refusal
        for refusal in refused
        if os.path.isfile(refusal.path) and refusal.path.name != IGNORE_FILE
    }
    deleted = set() if restore else _deleted(base, list(reasons))
    sources = [
        Source(refusal.path, refusal.path.name, doc_id, fingerprint="", bytes=0)
        for doc_id, refusal in reasons.items()
        if doc_id not in deleted
    ]
    for one in _changed(base, sources, labels):
        _remember(base, one, reasons[one.source.id].reason)


# ── one uploaded file ────────────────────────────────────────────────────────────────────────────


async def add_file(
    base: OpenBase,
    path: Path,
    labels: Labels,
    *,
    name: str,
    source: str = "",
    relative_path: str = "",
    doc_id: str = "",
    keep_labels: bool = False,
    restore: bool = True,
    wait: bool = True,
    on_accepted: Accept = nothing,
    inbox: Inbox | None = None,
) -> Accepted:
    """Adds the file at ``path``, which users know by its ``name``. Raises Refused, MissingExtra or BadInput; one that
    was received, but cannot be read, is listed as failed. With an ``inbox`` it is durable before it is read.

    ``source`` says where it came from, ``relative_path`` where it is in the folder that it was sent with. Without a
    ``doc_id`` the same name of the same owner is the same document. With ``keep_labels`` what was given with it earlier
    stays where ``labels`` say nothing else. Without ``restore`` a document that people deleted stays deleted: that is
    then the outcome.
    """
    file = await asyncio.to_thread(_uploaded, path, name, doc_id or upload_id(name, labels))
    known, earlier = await asyncio.to_thread(_stored, base, file.id)
    if known is not None and known.is_withdrawn and not restore:
        return Accepted(file.id, known.key, known.generation, "deleted")
    if keep_labels and earlier is not None:
        labels = merged_labels(earlier, labels)
    mark = fingerprint(base, file.fingerprint, name, PARSER_VERSION, labels)
    if known is not None and known.status == "indexed" and known.fingerprint == mark:
        if labels.access is not None:
            await asyncio.to_thread(_relabel, base, [file.id], labels.access)
        return Accepted(file.id, known.key, known.generation, "unchanged")
    origin, generation = source or name, known.generation if known else 0
    upload = Upload(base.about.tenant, base.id, file.id, name, labels, origin, relative_path, generation)
    async with inbox.until_stored(upload, file.path) if inbox else nullcontext(nothing) as stored:
        changed = _Changed(replace(file, relative_path=relative_path), labels, mark)
        submission, warnings = await _read_upload(base, changed, origin)
        accepted = await _add_read(base, submission, (stored, on_accepted), wait=wait)
        return replace(accepted, warnings=warnings)


async def _add_read(base: OpenBase, submission: Submission, on_accepted: Sequence[Accept], *, wait: bool) -> Accepted:
    def accepted_now() -> None:
        for notify in on_accepted:
            notify()

    if wait:
        (accepted,) = await add_submissions(base, in_batches(stream([submission])), on_accepted=accepted_now)
    else:
        (accepted,) = await store(base, [submission])
    return accepted


async def _read_upload(base: OpenBase, one: _Changed, origin: str) -> tuple[Submission, tuple[str, ...]]:
    """An uploaded file as its document, and the parser's warnings. Raises Refused, MissingExtra or BadInput, and lists
    it as failed."""
    with TemporaryDirectory(prefix="qianxun-") as folder:
        # Parsers go by the name: its extension says what to try, its stem what an unnamed table is called.
        link = Path(folder) / _file_name(one.source.name)
        link.symlink_to(one.source.path)
        linked = replace(one, source=replace(one.source, path=link))
        try:
            document, warnings = await _read_file(base, linked.source, linked.labels)
        except UNREAD as error:
            await asyncio.to_thread(_remember, base, linked, str(error), origin)
            raise
    return Submission(replace(document, source=origin), one.fingerprint), warnings


async def read_again(base: OpenBase, upload: Upload, path: Path) -> None:
    """Takes in an upload that was received, but not read, unless its document was given anew since."""
    known, _ = await asyncio.to_thread(_stored, base, upload.doc_id)
    if (known.generation if known else 0) == upload.generation:
        await add_file(
            base,
            path,
            upload.labels,
            name=upload.name,
            source=upload.source,
            relative_path=upload.relative_path,
            doc_id=upload.doc_id,
            wait=False,
        )


async def give_up(base: OpenBase, upload: Upload, path: Path) -> None:
    """Lists an upload as failed whose reading was cut off again and again."""
    file = await asyncio.to_thread(_uploaded, path, upload.name, upload.doc_id)
    mark = fingerprint(base, file.fingerprint, upload.name, PARSER_VERSION, upload.labels)
    reason = f"读这个文件时服务中断了 {ATTEMPTS} 次：请检查文件，重新上传"
    await asyncio.to_thread(_remember, base, _Changed(file, upload.labels, mark), reason, upload.source)


def upload_id(name: str, labels: Labels) -> str:
    """The id of an uploaded document: one name, of one user's one project, is one document."""
    return hashlib.blake2b(repr((labels.user_id, labels.project_id, name)).encode(), digest_size=10).hexdigest()


def _uploaded(path: Path, name: str, doc_id: str) -> Source:
    if not _file_name(name):
        raise BadInput("上传的文件没有名称", hint="给出带扩展名的文件名")
    found = next(discover([path]), None) if path.is_file() else None
    if not isinstance(found, Source):
        reason = found.reason if isinstance(found, Refusal) else "文件不见了"
        raise Unreadable(f"{name}：{reason}", hint="请重新上传")
    return replace(found, path=path.absolute(), name=name, id=doc_id)


def _file_name(name: str) -> str:
    """The last part of a name as one that a folder can hold: nothing in it leads out of the folder."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(sign for sign in last if sign.isprintable()).strip(". ")
    stem, suffix = os.path.splitext(shown)
    short = stem.encode("utf-8", "ignore")[:NAME_BYTES].decode("utf-8", "ignore")
    return short + suffix.encode("utf-8", "ignore")[:SUFFIX_BYTES].decode("utf-8", "ignore")


def _stored(base: OpenBase, doc_id: str) -> tuple[document_heads.Head | None, Labels | None]:
    with base.records.reading() as tx:
        labels = document_heads.stored_labels(tx, base.id, [doc_id])
        return document_heads.heads(tx, base.id, [doc_id]).get(doc_id), labels.get(doc_id)
