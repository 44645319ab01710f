"""Files and documents on their way into a service: a few at a time, each read piece by piece, then waited for."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from qianxun.core.errors import BadInput, MissingExtra, NotFound, Refused, Unreadable
from qianxun.core.ingest_types import Excluded, Labels, Refusal, Report, Step, Watch
from qianxun.core.limits import SOURCE_LIMIT
from qianxun.core.types import Accepted, Document, DocumentState
from qianxun.core.unicode import is_unicode
from qianxun.doors.client.connection import Request, Upload
from qianxun.doors.client.payloads import SentDocument, segment, written_labels
from qianxun.engine.local_files import Source, discover

AT_ONCE = 4  # enough that the service parses one file while another is on its way
AHEAD = 256  # files that were sent while an earlier one is not searchable yet: the service indexes them together
FIRST_LOOK, LAST_LOOK = 0.02, 0.5  # seconds between two looks at a file that is not searchable yet

GRACE = 10.0  # seconds for all that is left, once one was found that waits for its model
WRITTEN = ("created", "updated")
ON_THEIR_WAY = ("pending", "retrying")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FileToSend:
    """A file of this machine with what the service is to know of it."""

    path: Path
    name: str
    source: str = ""
    doc_id: str = ""
    labels: Labels = field(default_factory=Labels)
    keep_labels: bool = False  # what was given with it earlier stays where ``labels`` say nothing else
    restore: bool = True  # also where people deleted its document
    relative_path: str = ""  # in the folder that it is sent with


@dataclass(frozen=True, slots=True)
class FilesToSend:
    """The files at and below some paths, without those that ``exclude`` or an ignore file leaves out."""

    paths: Sequence[Path]
    labels: Labels
    exclude: Sequence[str] = ()
    restore: bool = True


class Receiver(Protocol):
    async def send_file(self, knowledge_base: int, file: FileToSend, *, wait: bool) -> SentDocument: ...
    async def send_document(self, knowledge_base: int, document: Document, *, wait: bool) -> SentDocument: ...
    async def document(self, knowledge_base: int, doc_id: str) -> DocumentState: ...


def sent_file(documents: str, file: FileToSend, *, wait: bool) -> Request:
    """The request that sends a file; opened, and checked to be there, when it is sent."""
    name, doc_id = file.name, file.doc_id
    places = {"source": file.source, "relative_path": file.relative_path}
    written = {"name": name, **{key: value for key, value in places.items() if value}, **written_labels(file.labels)}
    params = {"wait": str(wait).lower(), **({"keep_labels": "true"} if file.keep_labels else {})}
    params |= {} if file.restore else {"restore": "false"}
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"文件名 {name!r} 不是合法的文字", hint="改名后再上传") from error
    return Request(
        "PUT" if doc_id else "POST",
        f"{documents}/{segment(doc_id)}" if doc_id else documents,
        params=params,
        upload=Upload(name, partial(_opened, file.path)),
        fields={key: value if isinstance(value, str) else json.dumps(value) for key, value in written.items()},
        takes_long=True,
    )


@dataclass
class _Steady:
    """A file for as long as it keeps the length that it was opened with: that was promised to the service."""

    file: BinaryIO
    name: str
    length: int
    at: int = 0

    def read(self, size: int = -1) -> bytes:
        piece = self.file.read(size)
        self.at += len(piece)
        if self.at > self.length or (not piece and self.at < self.length):
            raise Unreadable(f"{self.name}：文件在上传时变了", hint="等它写完，再上传一次")
        return piece

    def seek(self, to: int) -> int:
        self.at = self.file.seek(to)
        return self.at

    def fileno(self) -> int:
        return self.file.fileno()

    def close(self) -> None:
        self.file.close()


def _opened(path: Path) -> _Steady:
    try:
        file = path.open("rb")
        return _Steady(file, path.name, os.fstat(file.fileno()).st_size)
    except OSError as error:
        reason = f"{path.name}：读不了这个文件（{type(error).__name__}）"
        raise Unreadable(reason, hint="检查它是否还在、有没有权限") from error


async def send_files(
    receiver: Receiver, knowledge_base: int, files: FilesToSend, watch: Watch, longest: float
) -> Report:
    """Every file at and below the paths. A bad one is refused with its reason and costs nothing but itself.

    Waits for them to be searchable, for none of them longer than ``longest`` seconds.
    """
    found = await asyncio.to_thread(lambda: list(discover(files.paths, files.exclude)))
    sources = [item for item in found if isinstance(item, Source)]
    refusals = [item for item in found if isinstance(item, Refusal)]
    report = Report(
        warnings=tuple(f"{refusal.path}：{refusal.reason}" for refusal in refusals if refusal.passed_over),
        excluded=sum(isinstance(item, Excluded) for item in found),
    )
    for refusal in (refusal for refusal in refusals if not refusal.passed_over):
        report = _refused(report, refusal, watch)
    watch(Step("found", len(sources)))
    until = math.inf
    async with aclosing(_in_order(sources, partial(_send, receiver, knowledge_base, files), AT_ONCE)) as outcomes:
        async for source, became in outcomes:
            if isinstance(became, Refusal):
                report = _refused(report, became, watch)
            elif became.accepted.outcome == "deleted":
                report = replace(report, deleted=(*report.deleted, source.path))
            else:
                state = await _settled(receiver, knowledge_base, became, min(until, time.monotonic() + longest))
                report = _taken(report, source, became.accepted, state, watch)
            if report.waiting and until == math.inf:
                until = time.monotonic() + GRACE
            watch(Step("parsed", name=source.name))
    return report


async def send_documents(
    receiver: Receiver, knowledge_base: int, batch: Sequence[Document], longest: float
) -> list[Accepted]:
    """Documents in; searchable when it returns, unless that takes more than ``longest`` seconds or a model is away."""
    is_ordered = len({one.id for one in batch}) < len(batch)  # of two with one id the later one counts
    send = partial(receiver.send_document, knowledge_base, wait=False)
    async with aclosing(_in_order(batch, send, 1 if is_ordered else AT_ONCE)) as outcomes:
        sent = [outcome async for _, outcome in outcomes]
    found, until = [], time.monotonic() + longest
    for one in sent:
        state = await _settled(receiver, knowledge_base, one, until)
        until = min(until, time.monotonic() + GRACE) if state and state.status in ON_THEIR_WAY else until
        chunks = state.chunks if state and one.accepted.outcome in WRITTEN else 0
        found.append(replace(one.accepted, chunk_keys=range(chunks)))
    return found


async def _in_order(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], at_once: int
) -> AsyncGenerator[tuple[T, R], None]:
    """Each item with what the work on it gave, in their order; a few are worked on at a time."""
    turns = asyncio.Semaphore(at_once)

    async def in_turn(item: T) -> R:
        async with turns:
            return await work(item)

    waiting = iter(items)
    ahead: deque[tuple[T, asyncio.Task[R]]] = deque()
    try:
        while True:
            ahead.extend((item, asyncio.create_task(in_turn(item))) for item in islice(waiting, AHEAD - len(ahead)))
            if not ahead:
                return
            item, task = ahead[0]
            yield item, await task
            ahead.popleft()
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


async def _send(receiver: Receiver, knowledge_base: int, files: FilesToSend, source: Source) -> SentDocument | Refusal:
    """Sent without waiting for the index, which takes many files at once in little more time than one."""
    path, labels, restore = source.path, files.labels, files.restore
    shown = source.relative_path if len(source.relative_path) <= SOURCE_LIMIT else ""
    file = FileToSend(path, source.name, _source_of(path), source.id, labels, True, restore, shown)
    try:
        return await receiver.send_file(knowledge_base, file, wait=False)
    except (Refused, MissingExtra, BadInput) as error:
        return Refusal(source.path, str(error))


def _source_of(path: Path) -> str:
    """The path on this machine; "" for one that cannot be sent: too long, or no Unicode."""
    absolute = os.path.abspath(path)
    return absolute if is_unicode(absolute) and len(absolute) <= SOURCE_LIMIT else ""


async def _settled(
    receiver: Receiver, knowledge_base: int, sent: SentDocument, deadline: float
) -> DocumentState | None:
    """Where the document stands once the index has seen it, or at the deadline. None: there is nothing to wait for."""
    accepted, pause = sent.accepted, FIRST_LOOK
    if sent.is_searchable and accepted.outcome not in WRITTEN:
        return None
    while True:
        try:
            state = await receiver.document(knowledge_base, accepted.doc_id)
        except NotFound:  # deleted in the meantime
            return None
        if state.status != "pending" or state.generation > accepted.generation or time.monotonic() >= deadline:
            return state
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_LOOK)


def _refused(report: Report, refusal: Refusal, watch: Watch) -> Report:
    watch(Step("refused", name=str(refusal.path), reason=refusal.reason))
    return replace(report, refused=(*report.refused, refusal))


def _taken(report: Report, source: Source, accepted: Accepted, state: DocumentState | None, watch: Watch) -> Report:
    """Counted once it is stored, with a warning where it is not searchable."""
    is_written = accepted.outcome in WRITTEN
    watch(Step("added" if is_written else "unchanged"))
    updated = report.updated + (accepted.outcome == "updated")
    unchanged = report.unchanged + (not is_written)
    about = tuple(f"{source.name}：{warning}" for warning in accepted.warnings)
    report = replace(report, added=report.added + is_written, updated=updated, unchanged=unchanged)
    report = replace(report, warnings=(*report.warnings, *about))
    if state is None or state.status == "deleted":
        return report
    if state.status in ("quarantined", "failed"):
        warning = f"{source.name}：{state.reason}"
        watch(Step("warned", reason=warning))
        return replace(report, warnings=(*report.warnings, warning))
    if state.status in ON_THEIR_WAY:
        if not report.waiting:
            watch(Step("waiting", reason=state.reason or "服务还没有为它建好索引"))
        return replace(report, waiting=report.waiting + 1)
    return replace(report, chunks=report.chunks + is_written * state.chunks)
