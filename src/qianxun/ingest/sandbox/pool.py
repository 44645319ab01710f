"""Reading documents in worker processes: a malicious one costs one message, never the batch or the service.

Workers are pooled, because importing the libraries takes longer than most files. A worker that dies, stops responding
or replies with garbage is killed and replaced; every worker is replaced after a number of files.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from qianxun.core.documents import ContentFormat, ParsedFile, Text
from qianxun.core.errors import (
    BadInput,
    MissingExtra,
    QianxunError,
    Refused,
    TooLarge,
    TooSlow,
    Unreadable,
    UnsupportedFile,
)
from qianxun.core.filters import Metadata
from qianxun.core.limits import MIB
from qianxun.core.system.fair_slots import FairSlots
from qianxun.ingest.parse.sniff import OldFormat
from qianxun.ingest.sandbox.convert import converted
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import from_json
from qianxun.ingest.sandbox.text_messages import TextReader

Result = TypeVar("Result")
Output: TypeAlias = Literal["text", "parsed", "recognised", "picture"]

_ALIVE, _PART, _PARSED, _REFUSED = b".", b"*", b"+", b"-"
_REFUSALS: Final[dict[str, type[QianxunError]]] = {
    kind.word: kind for kind in (BadInput, Refused, UnsupportedFile, TooLarge, TooSlow, Unreadable)
}
_SLICE: Final = 64 * 1024  # characters, or bytes, that are written at once
_IMPORT_ROOT: Final = str(Path(__file__).parents[3])
_START_SECONDS: Final = 60.0  # a loaded machine imports slowly; not counted against the file


class RawText(NamedTuple):
    """A document as it came: ``table`` has what its metadata say of the table that it is."""

    content: str
    format: ContentFormat
    name: str = ""
    table: Metadata = {}  # noqa: RUF012  # nobody writes to it


class _Died(Exception):
    """The worker ended without a reply."""


class ParserPool:
    """Workers that read documents, at most ``workers`` at once, started when first needed.

    Where several tenants have documents, each is served in turn.
    """

    def __init__(self, workers: int, limits: ParseLimits) -> None:
        self._limits = limits
        self._slots = FairSlots(workers)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    async def read(self, path: Path, tenant: str = "") -> ParsedFile:
        """A file with its text, and no blocks. Raises Refused, naming the file and what to do, or MissingExtra."""
        return await self._of_file(path, tenant, lambda worker, file: worker.read_file(file, self._limits))

    async def read_texts(self, texts: Sequence[RawText], tenant: str = "") -> list[Text]:
        """The texts to store for contents that came as text. Raises Refused or BadInput for all, if one is refused."""
        longest = max((len(text.content) for text in texts), default=0)
        if longest > self._limits.file_bytes:
            raise TooLarge(f"正文超过 {self._limits.file_bytes // MIB} MB", hint="请拆分成几个文档")
        async with self._slots.slot(tenant), self._worker() as worker:
            return await worker.read_texts(texts, self._limits)

    async def parse(self, path: Path) -> ParsedFile:
        """The blocks of a file. Raises as `read` does."""
        return await self._of_file(path, "", lambda worker, file: worker.parse(file, self._limits))

    async def recognise(self, path: Path) -> ParsedFile:
        """The text of a picture; no blocks where it has none. Raises as `read` does."""
        async with self._worker_for(path) as worker:
            return await worker.parse(path, self._limits, "recognised")

    async def picture(self, path: Path) -> bytes:
        """A picture for a vision model: one upright, reduced JPEG without any metadata. Raises as `read` does."""
        async with self._worker_for(path) as worker:
            return await worker.request({"path": _absolute(path), "output": "picture"}, self._limits)

    async def _of_file(self, path: Path, tenant: str, work: Callable[[_Worker, Path], Awaitable[Result]]) -> Result:
        """What a worker makes of a file; of one in an old format, by way of a converted copy."""
        try:
            async with self._worker_for(path, tenant) as worker:
                return await work(worker, path)
        except OldFormat as old:
            async with self._converted(path, old, tenant) as copy, self._worker_for(copy, tenant) as worker:
                return await work(worker, copy)

    @property
    def reads_pictures(self) -> bool:
        """Whether the text of pictures is recognised at all."""
        return self._limits.ocr

    @asynccontextmanager
    async def _converted(self, path: Path, old: OldFormat, tenant: str) -> AsyncIterator[Path]:
        """The file as one that is parsed; a conversion takes the place of a worker while it runs."""
        try:
            async with AsyncExitStack() as stack:
                async with self._slots.slot(tenant):
                    copy = await stack.enter_async_context(converted(path, old, self._limits))
                yield copy
        except Refused as refusal:
            raise _naming(path, refusal) from refusal

    @asynccontextmanager
    async def _worker_for(self, path: Path, tenant: str = "") -> AsyncIterator[_Worker]:
        """A worker for a file that may be parsed; refusals name the file."""
        try:
            _check_file(path, self._limits)
            async with self._slots.slot(tenant), self._worker() as worker:
                yield worker
        except (MissingExtra, OldFormat):
            raise
        except Refused as refusal:
            raise _naming(path, refusal) from refusal

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[_Worker]:
        """A worker for one file. It is reused only after a valid reply."""
        worker = self._idle.pop() if self._idle else await self._start()
        try:
            yield worker
        finally:
            if worker.is_reusable and worker.served < self._limits.files_per_worker:
                self._idle.append(worker)
            else:
                self._all.discard(worker)
                await worker.stop()

    async def _start(self) -> _Worker:
        worker = await _Worker.start()
        self._all.add(worker)
        return worker

    async def aclose(self) -> None:
        """Ends every worker; a file that is being parsed is abandoned."""
        workers, self._all = self._all, set()
        self._idle.clear()
        await asyncio.gather(*(worker.stop() for worker in workers))


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.served = 0
        self.is_reusable = False

    @classmethod
    async def start(cls) -> _Worker:
        # Nothing of this process's environment: no key, no proxy, no path that could change what is imported.
        # Installed packages (site-packages) are importable: the parsers of plug-ins run here, too.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-s", "-P", "-B", "-X", "utf8", "-m", "qianxun.ingest.sandbox.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": _IMPORT_ROOT},
            cwd="/",
            limit=MIB,  # of what is read ahead
            start_new_session=True,  # Ctrl-C is this process's to handle
            close_fds=True,
        )  # fmt: skip
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def parse(self, path: Path, limits: ParseLimits, output: Output = "parsed") -> ParsedFile:
        body = await self.request({"path": _absolute(path), "output": output}, limits)
        self.is_reusable = False
        with _understood():
            parsed = await asyncio.to_thread(from_json, body)  # a large workbook takes a second
        self.is_reusable = True
        return parsed

    async def read_file(self, path: Path, limits: ParseLimits) -> ParsedFile:
        reader = TextReader()
        await self.request({"path": _absolute(path), "output": "text"}, limits, on_part=reader.read)
        return self._complete(reader.file)

    async def read_texts(self, texts: Sequence[RawText], limits: ParseLimits) -> list[Text]:
        reader = TextReader()
        fields = {"texts": [text[1:] for text in texts]}
        await self.request(fields, limits, [text.content for text in texts], reader.read)
        return self._complete(reader.texts if len(reader.texts) == len(texts) else None)

    def _complete(self, result: Result | None) -> Result:
        if result is None:
            self.is_reusable = False
            raise _garbage()
        return result

    async def request(
        self,
        fields: dict[str, Any],
        limits: ParseLimits,
        contents: Sequence[str] = (),
        on_part: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Sends a request, with the contents of its texts; the last part of the reply."""
        self.is_reusable = False
        first = self.served == 0
        self.served += 1
        try:
            async with asyncio.timeout(limits.total_seconds + _START_SECONDS):
                await self._send({**fields, "limits": asdict(limits)}, contents)
                body = await self._reply(limits, _START_SECONDS if first else 0.0, on_part)
        except TimeoutError as late:
            raise TooSlow("解析超时", hint="文件过大或结构异常：请拆分，或调大 parsing.seconds") from late
        except (_Died, BrokenPipeError, ConnectionResetError) as death:
            raise _refusal_for(await self.stop()) from death
        self.is_reusable = True
        return body

    async def _send(self, fields: dict[str, Any], contents: Sequence[str]) -> None:
        assert self._process.stdin is not None
        waiting = bytearray(_framed(json.dumps(fields).encode("ascii")))
        for content in contents:
            for start in range(0, len(content), _SLICE):
                waiting += _framed(content[start : start + _SLICE].encode("utf-8", "surrogatepass"))
                if len(waiting) >= _SLICE:
                    self._process.stdin.write(waiting)
                    waiting = bytearray()
                    await self._process.stdin.drain()
            waiting += _framed(b"")
        self._process.stdin.write(waiting)
        await self._process.stdin.drain()

    async def _reply(self, limits: ParseLimits, grace: float, on_part: Callable[[bytes], None] | None) -> bytes:
        left = limits.result_bytes
        while True:
            async with asyncio.timeout(limits.seconds + grace):
                kind, body = await self._receive(left)
            left -= len(body)
            if kind == _PARSED:
                return body
            if kind == _REFUSED:
                raise self._refusal(body)
            if kind == _PART and on_part is not None:
                with _understood():
                    on_part(body)
            elif kind != _ALIVE:
                raise _garbage()
            grace = 0.0

    async def _receive(self, most: int) -> tuple[bytes, bytes]:
        assert self._process.stdout is not None
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(8), "big")
            if not 1 <= size <= most + MIB:
                raise TooLarge("解析结果过大", hint="请拆分文件")
            kind = await self._process.stdout.readexactly(1)
            return kind, await self._process.stdout.readexactly(size - 1)
        except asyncio.IncompleteReadError as cut:
            raise _Died from cut

    def _refusal(self, body: bytes) -> QianxunError:
        try:
            fields = json.loads(body)
            word, message, hint = str(fields["word"]), str(fields["message"]), str(fields["hint"])
        except (ValueError, KeyError, TypeError) as invalid:
            raise _garbage() from invalid
        # After an unexpected error a worker ends itself; the next one starts clean.
        self.is_reusable = fields.get("sound") is True
        if word == OldFormat.word:
            return OldFormat(str(fields.get("target")))
        if word == MissingExtra.word:
            return MissingExtra(str(fields.get("package")), str(fields.get("extra")))
        return _REFUSALS.get(word, Unreadable)(message, hint=hint)

    async def stop(self) -> int:
        """Kills the worker if it still runs; its exit code, negative for a signal."""
        self.is_reusable = False
        if self._process.returncode is None:
            # A worker that closed its pipe is ending by itself: its exit code is worth a moment's wait.
            try:
                async with asyncio.timeout(0.5 if self._closed else 0):
                    await self._process.wait()
            except TimeoutError:
                self._kill()
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    @property
    def _closed(self) -> bool:
        return self._process.stdout is not None and self._process.stdout.at_eof()

    def _kill(self) -> None:
        try:
            self._process.kill()
        except ProcessLookupError:
            return


def _absolute(path: Path) -> str:
    return os.path.join(os.getcwd(), path)  # a `..` stays in it: after a link it leads to another file


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(8, "big") + body


def _garbage() -> Unreadable:
    return Unreadable("解析进程的回答无法理解", hint="文件可能有害，请检查来源")


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as invalid:
        raise _garbage() from invalid


def _naming(path: Path, refusal: Refused) -> Refused:
    name = f"{path.name}："
    return refusal if refusal.message.startswith(name) else type(refusal)(name + refusal.message, hint=refusal.hint)


def _check_file(path: Path, limits: ParseLimits) -> None:
    """Before anything is opened: a FIFO would block, a device would never end."""
    try:
        found = path.stat()
    except FileNotFoundError as failure:
        raise Unreadable("文件不存在", hint="请检查路径") from failure
    except OSError as failure:
        raise Unreadable("读不了文件", hint="请检查路径与权限") from failure
    if not stat.S_ISREG(found.st_mode):
        raise UnsupportedFile("不是普通文件", hint="请添加普通文件或文件夹")
    if found.st_size == 0:
        raise Unreadable("文件是空的", hint="请检查文件是否写完")
    if found.st_size > limits.file_bytes:
        raise TooLarge(f"文件超过 {limits.file_bytes // MIB} MB", hint="请拆分文件，或调大 parsing.file_megabytes")


def _refusal_for(code: int) -> Refused:
    """The refusal for a file whose worker died with this exit code."""
    if code == -signal.SIGXCPU:
        return TooSlow("解析用时超限", hint="内容可能结构异常；若没有，请拆分后再试")
    if code == -signal.SIGKILL:
        return TooLarge("解析进程被系统终止，多半是内存不足", hint="请拆分文件，或在内存更大的机器上添加")
    if code in (-signal.SIGABRT, -signal.SIGTRAP):
        return TooLarge("解析进程异常中止，多半是内存超限", hint="请拆分文件")
    return Unreadable("解析进程崩溃", hint="文件可能已损坏或有害，请重新导出")
