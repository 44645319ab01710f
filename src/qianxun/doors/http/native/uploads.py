"""Uploaded files: streamed to a temporary file of our own naming in the data folder, and removed afterwards.

The name that the client gives never becomes a path; only a plain extension is taken from it.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
import unicodedata
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from qianxun.core.errors import BadInput, TooLarge
from qianxun.core.limits import MIB
from qianxun.doors.http.field_errors import InvalidField

FOLDER: Final = "uploads"
FILE: Final = "file"
PARTS_LIMIT: Final = 32
FIELD_BYTES: Final = 64 * 1024
WRITE_BYTES: Final = MIB
NAME_LIMIT: Final = 255
LEFT_SECONDS: Final = 3600.0

_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}", re.ASCII)
_QUOTED: Final = re.compile(rb'"(?:\\.|[^"\\])*"', re.DOTALL)
_EXTENDED: Final = re.compile(rb";\s*filename\*\s*=\s*([\w.-]+)'[^']*'([^;\s]+)", re.ASCII | re.IGNORECASE)
_WORDS: Final = re.compile(r"=\?[\w.-]+\?[BbQq]\?[^?\s]*\?=(?:\s+=\?[\w.-]+\?[BbQq]\?[^?\s]*\?=)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Form:
    """An uploaded file and the other fields of its form."""

    path: Path
    file_name: str
    fields: dict[str, list[str]]


@asynccontextmanager
async def received(request: Request, folder: Path, max_bytes: int) -> AsyncIterator[Form]:
    """The form of a multipart request; its file is removed when the block ends. Raises BadInput or TooLarge."""
    reader = _FormReader(folder / FOLDER, max_bytes)
    try:
        yield await _read(request, reader)
    finally:
        reader.remove()


def remove_leftovers(folder: Path, *, shared: bool = False) -> None:
    """Removes the files of a process that was killed; of a folder that others share, those that are an hour old."""
    before = time.time() - (LEFT_SECONDS if shared else 0.0)
    with suppress(FileNotFoundError):
        for leftover in os.scandir(folder / FOLDER):
            with suppress(FileNotFoundError):
                if leftover.stat().st_mtime <= before:
                    os.unlink(leftover.path)


async def _read(request: Request, reader: _FormReader) -> Form:
    try:
        parser = reader.parser(request.headers.get("content-type", ""))
        async for data in request.stream():
            parser.write(data)
            if len(reader.pending) >= WRITE_BYTES:
                await asyncio.to_thread(reader.flush)
    except FormParserError as error:
        raise BadInput("表单不是合法的 multipart/form-data", hint="请用现成的库或 curl -F 上传") from error
    if not reader.is_complete:
        raise BadInput("表单不完整：没有结尾的分隔行", hint="重新上传")
    await asyncio.to_thread(reader.flush)
    reader.close()
    if reader.path is None:
        raise InvalidField(FILE, "缺少这个字段", hint="文件放在名为 file 的一项里：curl -F file=@手册.pdf")
    fields = {name: [value.decode("utf-8", "replace") for value in values] for name, values in reader.fields.items()}
    return Form(reader.path, reader.file_name, fields)


@dataclass
class _FormReader:
    """Takes the parser's callbacks: one file to the disk, some short fields to memory."""

    folder: Path
    max_bytes: int
    path: Path | None = None
    file_name: str = ""
    fields: dict[str, list[bytearray]] = field(default_factory=dict)
    pending: bytearray = field(default_factory=bytearray)  # of the file, not written yet
    is_complete: bool = False
    _handle: int = -1
    _parts: int = 0
    _bytes: int = 0
    _target: bytearray = field(default_factory=bytearray)
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
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._choose_target,
                "on_part_data": self._add,
                "on_end": self._complete,
            },
        )

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > PARTS_LIMIT:
            raise BadInput(f"表单超过 {PARTS_LIMIT} 项", hint="一次上传一个文件，附带几个字段")
        self._disposition = b""

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _choose_target(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name == FILE:
            self._open_file(file_name(self._disposition, options))
            self._target = self.pending
        else:
            self._target = bytearray()
            self.fields.setdefault(name, []).append(self._target)

    def _open_file(self, name: str | None) -> None:
        if name is None:
            raise InvalidField(FILE, "应为文件", hint="curl -F file=@手册.pdf")
        if self.path is not None:
            raise InvalidField(FILE, "一次只能上传一个文件", hint="分几次上传")
        self.file_name, suffix = name, Path(name).suffix
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._handle, path = tempfile.mkstemp(suffix if _SUFFIX.fullmatch(suffix) else "", "", self.folder)
        self.path = Path(path)

    def _add(self, data: bytes, start: int, end: int) -> None:
        self._target.extend(data[start:end])
        if self._target is self.pending:
            self._bytes += end - start
            if self._bytes > self.max_bytes:
                message = f"文件超过 {self.max_bytes / MIB:g} MB 的上限"
                raise TooLarge(message, hint="拆小后再上传，或调高 parsing.file_megabytes")
        elif len(self._target) > FIELD_BYTES:
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
            os.close(self._handle)
            self._handle = -1

    def remove(self) -> None:
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


# ── file names ───────────────────────────────────────────────────────────────────────────────────

# Browsers, curl, Go, OkHttp and httpx write ``filename="价目表.xlsx"`` in UTF-8. .NET writes it twice, as an encoded
# word (RFC 2047) and as ``filename*`` (RFC 5987); aiohttp percent-encodes it; an old urllib3 has ``filename*`` alone.


def file_name(disposition: bytes, options: Mapping[bytes, bytes]) -> str | None:
    """The name in a part's Content-Disposition, whose plain parameters are ``options``; None if it names no file."""
    extended = _extended_name(disposition)
    if extended is not None:
        return _plain_name(extended)
    plain = options.get(b"filename")
    return None if plain is None else _plain_name(_decoded(plain.decode("utf-8", "replace")))


def _plain_name(name: str) -> str:
    """A file's own name without folders, which some clients send along, or unprintable characters."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    printable = "".join(sign for sign in last if sign.isprintable()).strip()
    return printable[-NAME_LIMIT:] or "未命名"


def _extended_name(disposition: bytes) -> str | None:
    """``filename*=UTF-8''…`` as a parameter, and not within the value of another one."""
    found = _EXTENDED.search(_QUOTED.sub(b'""', disposition))
    if found is None:
        return None
    charset, value = found.groups()
    try:
        return unquote_to_bytes(value).decode(charset.decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None


def _decoded(name: str) -> str:
    """Decodes an encoded word or percent signs; a name that only looks like that is left as it is."""
    if not name.isascii():
        return name
    if _WORDS.fullmatch(name):
        try:
            return str(make_header(decode_header(name))) or name
        except (LookupError, UnicodeDecodeError, HeaderParseError):
            return name
    try:
        decoded = unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        return name
    # A plain ASCII name like "100%25.txt" is ambiguous and stays; a quotation mark is always written as %22.
    return name.replace("%22", '"') if decoded.isascii() else decoded
