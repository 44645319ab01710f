"""Files on their way in: streamed to a file of the server's own naming in the data folder, and gone afterwards.

What the user calls a file is kept as its name and never becomes a path; of it only a plain extension is taken over.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from qianxun.core.errors import BadInput, TooLarge
from qianxun.core.limits import MIB
from qianxun.doors.http.native.file_names import file_name
from qianxun.doors.http.responses import InvalidField

FOLDER: Final = "uploads"
FILE: Final = "file"
PARTS: Final = 32
FIELD_BYTES: Final = 64 * 1024
WRITTEN_AT_ONCE: Final = MIB

_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Form:
    """A file that has arrived, and what was said beside it."""

    path: Path
    file_name: str
    fields: dict[str, list[str]]


@asynccontextmanager
async def received(request: Request, folder: Path, most: int) -> AsyncIterator[Form]:
    """The form of a multipart request, its file at most ``most`` bytes; the file is removed when the block ends.

    Raises BadInput, InvalidField or TooLarge.
    """
    reader = _Reader(folder / FOLDER, most)
    try:
        yield await _read(request, reader)
    finally:
        reader.remove()


def sweep(folder: Path) -> None:
    """Removes what a process that was killed left behind. The caller owns the data folder."""
    with suppress(FileNotFoundError):
        for left in os.scandir(folder / FOLDER):
            os.unlink(left.path)


async def _read(request: Request, reader: _Reader) -> Form:
    try:
        parser = reader.parser(request.headers.get("content-type", ""))
        async for data in request.stream():
            parser.write(data)
            if len(reader.pending) >= WRITTEN_AT_ONCE:
                await asyncio.to_thread(reader.flush)
    except FormParserError as error:
        raise BadInput("表单不是合法的 multipart/form-data", hint="请用现成的库或 curl -F 上传") from error
    if not reader.is_complete:
        raise BadInput("表单不完整：没有结尾的分隔行", hint="重新上传")
    await asyncio.to_thread(reader.close)
    if reader.path is None:
        raise InvalidField(FILE, "缺少这个字段", hint="文件放在名为 file 的一项里：curl -F file=@手册.pdf")
    fields = {name: [each.decode("utf-8", "replace") for each in values] for name, values in reader.fields.items()}
    return Form(reader.path, reader.file_name, fields)


@dataclass
class _Reader:
    """Takes the parser's calls: one file to the disk, some short fields to memory."""

    folder: Path
    most: int
    path: Path | None = None
    file_name: str = ""
    fields: dict[str, list[bytearray]] = field(default_factory=dict)
    pending: bytearray = field(default_factory=bytearray)  # of the file, not written yet
    is_complete: bool = False
    _handle: int = -1
    _parts: int = 0
    _bytes: int = 0
    _into: bytearray = field(default_factory=bytearray)
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _disposition: bytes = b""

    def parser(self, content_type: str) -> MultipartParser:
        _, options = parse_options_header(content_type)
        if not options.get(b"boundary"):
            raise FormParserError("no boundary")
        return MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_read,
                "on_headers_finished": self._sort,
                "on_part_data": self._take,
                "on_end": self._complete,
            },
        )

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > PARTS:
            raise BadInput(f"表单超过 {PARTS} 项", hint="一次上传一个文件，附带几个字段")
        self._disposition = b""

    def _header_read(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _sort(self) -> None:
        """Says where the part that begins goes to."""
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name == FILE:
            told = file_name(self._disposition, options)
            if told is None:
                raise InvalidField(FILE, "应为文件", hint="curl -F file=@手册.pdf")
            self._open(told)
            self._into = self.pending
        else:
            self._into = bytearray()
            self.fields.setdefault(name, []).append(self._into)

    def _open(self, told: str) -> None:
        if self.path is not None:
            raise InvalidField(FILE, "一次只能上传一个文件", hint="分几次上传")
        self.file_name = told
        suffix = Path(self.file_name).suffix
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._handle, path = tempfile.mkstemp(suffix if _SUFFIX.fullmatch(suffix) else "", "", self.folder)
        self.path = Path(path)

    def _take(self, data: bytes, start: int, end: int) -> None:
        self._into.extend(data[start:end])
        if self._into is self.pending:
            self._bytes += end - start
            if self._bytes > self.most:
                limit = f"{self.most / MIB:g} MB"
                raise TooLarge(f"文件超过 {limit} 的上限", hint="拆小后再上传，或调高 parsing.file_megabytes")
        elif len(self._into) > FIELD_BYTES:
            raise TooLarge(f"表单字段超过 {FIELD_BYTES // 1024} KB", hint="正文请放在文件里")

    def _complete(self) -> None:
        self.is_complete = True

    def flush(self) -> None:
        view = memoryview(self.pending)
        written = 0
        while written < len(view):
            written += os.write(self._handle, view[written:])
        view.release()
        self.pending.clear()

    def close(self) -> None:
        if self._handle >= 0:
            self.flush()
            os.close(self._handle)
            self._handle = -1

    def remove(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self.path is not None:
            self.path.unlink(missing_ok=True)
