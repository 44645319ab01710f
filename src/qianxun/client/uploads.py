"""Files on their way into a service: each read piece by piece, a few at a time, one that is bad costs only itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from qianxun.client.connection import Request, Upload
from qianxun.client.writing import segment, written_labels
from qianxun.errors import BadInput, MissingExtra, Refused, Unreadable
from qianxun.ingest.sources import Refusal, Source, discover
from qianxun.pipelines.ingest import Labels, Report, Step, Watch
from qianxun.types import Accepted

AT_ONCE = 4  # enough that the service parses one file while another is on its way


class Receiver(Protocol):
    async def add_file(
        self, knowledge_base: int, path: Path, *, name: str, doc_id: str, labels: Labels, wait: bool
    ) -> Accepted: ...


def sent_file(documents: str, path: Path, *, name: str, doc_id: str, labels: Labels, wait: bool) -> Request:
    """The request that sends a file; opened, and checked to be there, when it is sent."""
    told = {"name": name, **written_labels(labels)}
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"文件名 {name!r} 不是合法的文字", hint="改名后再上传") from error
    return Request(
        "PUT" if doc_id else "POST",
        f"{documents}/{segment(doc_id)}" if doc_id else documents,
        params={"wait": str(wait).lower()},
        upload=Upload(name, partial(_opened, path)),
        fields={key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()},
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
    receiver: Receiver, knowledge_base: int, paths: Sequence[Path], labels: Labels, watch: Watch
) -> Report:
    """Every file at and below the paths. A bad one is refused with its reason and costs nothing but itself."""
    found = await asyncio.to_thread(lambda: list(discover(paths)))
    sources = [item for item in found if isinstance(item, Source)]
    refusals = [item for item in found if isinstance(item, Refusal)]
    report = Report(warnings=tuple(f"{each.path}：{each.reason}" for each in refusals if each.passed_over))
    for refusal in (each for each in refusals if not each.passed_over):
        report = _with(report, refusal, watch)
    watch(Step("found", len(sources)))
    async for outcome in _sent(receiver, knowledge_base, sources, labels):
        watch(Step("parsed", name=outcome.source.name))
        report = _with(report, outcome.became, watch)
    return report


@dataclass(frozen=True, slots=True)
class _Sent:
    source: Source
    became: Accepted | Refusal


async def _sent(
    receiver: Receiver, knowledge_base: int, sources: Sequence[Source], labels: Labels
) -> AsyncIterator[_Sent]:
    """In the order of the sources, a few on their way at a time."""
    ahead: list[asyncio.Task[_Sent]] = []
    waiting = iter(sources)
    try:
        while True:
            for source in waiting:
                ahead.append(asyncio.create_task(_send(receiver, knowledge_base, source, labels)))
                if len(ahead) >= AT_ONCE:
                    break
            if not ahead:
                return
            yield await ahead.pop(0)
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


async def _send(receiver: Receiver, knowledge_base: int, source: Source, labels: Labels) -> _Sent:
    try:
        became: Accepted | Refusal = await receiver.add_file(
            knowledge_base, source.path, name=source.name, doc_id=source.id, labels=labels, wait=True
        )
    except (Refused, MissingExtra, BadInput) as error:
        became = Refusal(source.path, str(error))
    return _Sent(source, became)


def _with(report: Report, became: Accepted | Refusal, watch: Watch) -> Report:
    if isinstance(became, Refusal):
        watch(Step("refused", name=str(became.path), reason=became.reason))
        return replace(report, refused=(*report.refused, became))
    if became.outcome not in ("created", "updated"):
        watch(Step("unchanged"))
        return replace(report, unchanged=report.unchanged + 1)
    watch(Step("added"))
    return replace(report, added=report.added + 1, chunks=report.chunks + len(became.chunk_keys))
