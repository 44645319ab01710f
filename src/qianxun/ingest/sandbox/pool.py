"""Parsing in child processes: a poisoned file costs one message, never the batch.

A small pool of children is kept, because importing the libraries takes longer than most files. A child that dies,
falls silent or answers nonsense is killed and replaced; every child is replaced after a number of files.
"""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal, TypeAlias

from qianxun.core.errors import MissingExtra, QianxunError, Refused, TooLarge, TooSlow, Unreadable, UnsupportedFile
from qianxun.core.limits import MIB
from qianxun.core.types import ParsedFile
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.serial import from_json

Wanted: TypeAlias = Literal["parsed", "recognised", "picture"]

_ALIVE, _PARSED, _REFUSED = b".", b"+", b"-"
_REFUSALS: Final[dict[str, type[Refused]]] = {
    kind.word: kind for kind in (Refused, UnsupportedFile, TooLarge, TooSlow, Unreadable)
}
_IMPORT_ROOT: Final = str(Path(__file__).parents[3])
_START_SECONDS: Final = 60.0  # a loaded machine imports slowly; not held against the file


class _Died(Exception):
    """The child ended without an answer."""


class ParserPool:
    """Children that parse files, at most ``workers`` at once, started when first needed."""

    def __init__(self, workers: int, limits: ParseLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(max(workers, 1))
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def parse(self, path: Path) -> ParsedFile:
        """What the file holds. Raises Refused or MissingExtra, in words that name the file and what to do."""
        async with self._asked(path) as child:
            return await child.parse(path, self._limits)

    async def recognise(self, path: Path) -> ParsedFile:
        """The text of a picture; without blocks where none stands in it. Raises as `parse` does."""
        async with self._asked(path) as child:
            return await child.parse(path, self._limits, "recognised")

    async def picture(self, path: Path) -> bytes:
        """A picture as a model that sees may be sent it: one JPEG, upright, reduced, and nothing but its pixels.

        Neither where it was taken nor anything else that its file says goes along. Raises as `parse` does.
        """
        async with self._asked(path) as child:
            return await child.picture(path, self._limits)

    @property
    def reads_pictures(self) -> bool:
        """Whether the text of pictures is recognised at all."""
        return self._limits.ocr

    @asynccontextmanager
    async def _asked(self, path: Path) -> AsyncIterator[_Child]:
        """A child for a file that may be looked at; what is said of it names the file."""
        try:
            _check_file(path, self._limits)
            async with self._slots, self._child() as child:
                yield child
        except MissingExtra:
            raise
        except Refused as refusal:
            raise type(refusal)(f"{path.name}：{refusal.message}", hint=refusal.hint) from refusal

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[_Child]:
        """A child for one file. It goes back to the others only after a sound answer."""
        child = self._idle.pop() if self._idle else await self._start()
        try:
            yield child
        finally:
            if child.is_sound and child.served < self._limits.files_per_worker:
                self._idle.append(child)
            else:
                self._all.discard(child)
                await child.stop()

    async def _start(self) -> _Child:
        child = await _Child.start()
        self._all.add(child)
        return child

    async def aclose(self) -> None:
        """Ends every child; a file that is being parsed is given up."""
        children, self._all = self._all, set()
        self._idle.clear()
        await asyncio.gather(*(child.stop() for child in children))


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.served = 0
        self.is_sound = False

    @classmethod
    async def start(cls) -> _Child:
        # Nothing of this process's environment: no key, no proxy, no path that could change what is imported.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-s", "-P", "-B", "-X", "utf8", "-m", "qianxun.ingest.sandbox.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": _IMPORT_ROOT},
            cwd="/",
            start_new_session=True,  # Ctrl-C is this process's to handle
            close_fds=True,
        )  # fmt: skip
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def parse(self, path: Path, limits: ParseLimits, wanted: Wanted = "parsed") -> ParsedFile:
        return await self._parsed(await self._served(path, limits, wanted))

    async def picture(self, path: Path, limits: ParseLimits) -> bytes:
        body = await self._served(path, limits, "picture")
        self.is_sound = True
        return body

    async def _served(self, path: Path, limits: ParseLimits, wanted: Wanted) -> bytes:
        self.is_sound = False
        first = self.served == 0
        self.served += 1
        try:
            async with asyncio.timeout(limits.total_seconds + _START_SECONDS):
                await self._ask(path, limits, wanted)
                return await self._answer(limits, _START_SECONDS if first else 0.0)
        except TimeoutError as late:
            raise TooSlow("解析超时", hint="文件过大或结构异常：请拆分，或调大 seconds 上限") from late
        except (_Died, BrokenPipeError, ConnectionResetError) as death:
            raise _verdict(await self.stop()) from death

    async def _ask(self, path: Path, limits: ParseLimits, wanted: Wanted) -> None:
        assert self._process.stdin is not None
        asked = {"path": str(_absolute(path)), "limits": asdict(limits), "wanted": wanted}
        request = json.dumps(asked).encode("ascii")
        self._process.stdin.write(len(request).to_bytes(8, "big") + request)
        await self._process.stdin.drain()

    async def _answer(self, limits: ParseLimits, grace: float) -> bytes:
        while True:
            async with asyncio.timeout(limits.seconds + grace):
                kind, body = await self._receive(limits.result_bytes)
            if kind == _PARSED:
                return body
            if kind == _REFUSED:
                raise self._refusal(body)
            if kind != _ALIVE:
                raise Unreadable("解析进程的回答无法理解", hint="文件可能有害，请检查来源")
            grace = 0.0

    async def _receive(self, most: int) -> tuple[bytes, bytes]:
        assert self._process.stdout is not None
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(8), "big")
            if not 1 <= size <= most + MIB:
                raise TooLarge("解析结果过大", hint="请拆分文件，或调大 result_bytes 上限")
            kind = await self._process.stdout.readexactly(1)
            return kind, await self._process.stdout.readexactly(size - 1)
        except asyncio.IncompleteReadError as cut:
            raise _Died from cut

    async def _parsed(self, body: bytes) -> ParsedFile:
        try:
            parsed = await asyncio.to_thread(from_json, body)  # a large workbook takes a second
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as nonsense:
            raise Unreadable("解析进程的回答无法理解", hint="文件可能有害，请检查来源") from nonsense
        self.is_sound = True
        return parsed

    def _refusal(self, body: bytes) -> QianxunError:
        try:
            held = json.loads(body)
            word, message, hint = str(held["word"]), str(held["message"]), str(held["hint"])
        except (ValueError, KeyError, TypeError) as nonsense:
            raise Unreadable("解析进程的回答无法理解", hint="文件可能有害，请检查来源") from nonsense
        # A child that met something unforeseen says so and ends itself; the next one starts clean.
        self.is_sound = held.get("sound") is True
        if word == MissingExtra.word:
            return MissingExtra(str(held.get("package")), str(held.get("extra")))
        return _REFUSALS.get(word, Unreadable)(message, hint=hint)

    async def stop(self) -> int:
        """Kills the child if it still runs; its exit code, negative for a signal."""
        self.is_sound = False
        if self._process.returncode is None:
            # A child that closed its pipe is ending by itself: its own reason is worth a moment's wait.
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


async def _parse_once(path: Path, limits: ParseLimits) -> ParsedFile:
    pool = ParserPool(1, limits)
    try:
        return await pool.parse(path)
    finally:
        await pool.aclose()


def parse_in_child(path: Path, limits: ParseLimits) -> ParsedFile:
    """One file in a child of its own. For many files keep a ParserPool: starting a child takes a second."""
    return asyncio.run(_parse_once(path, limits))


def _absolute(path: Path) -> Path:
    """For the child, which stands in another folder. A ``..`` stays: after a link it leads to another file."""
    return path.absolute()


def _check_file(path: Path, limits: ParseLimits) -> None:
    """Looks before anything is opened: a FIFO would block, a device would never end."""
    try:
        held = path.stat()
    except FileNotFoundError as failure:
        raise Unreadable("文件不存在", hint="请检查路径") from failure
    except OSError as failure:
        raise Unreadable("读不了文件", hint="请检查路径与权限") from failure
    if not stat.S_ISREG(held.st_mode):
        raise UnsupportedFile("不是普通文件", hint="请添加普通文件或文件夹")
    if held.st_size == 0:
        raise Unreadable("文件是空的", hint="请检查文件是否写完")
    if held.st_size > limits.file_bytes:
        raise TooLarge(f"文件超过 {limits.file_bytes // MIB} MB", hint="请拆分文件，或调大 file_bytes 上限")


def _verdict(code: int) -> Refused:
    """What a child's death says about the file it was parsing."""
    if code == -signal.SIGXCPU:
        return TooSlow("解析用时超限", hint="请拆分文件，或调大 total_seconds 上限")
    if code == -signal.SIGKILL:
        return TooLarge("解析进程被系统终止，多半是内存不足", hint="请拆分文件，或在内存更大的机器上添加")
    if code in (-signal.SIGABRT, -signal.SIGTRAP):
        return TooLarge("解析进程异常中止，多半是内存超限", hint="请拆分文件，或调大内存上限")
    return Unreadable("解析进程崩溃", hint="文件可能已损坏或有害，请重新导出")
