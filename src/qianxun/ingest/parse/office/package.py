"""Office files are zip archives of XML. Checked before any library opens them: size, number, document types."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final
from xml.parsers import expat

from qianxun.core.errors import TooLarge, Unreadable
from qianxun.core.limits import MIB
from qianxun.ingest.sandbox.limits import ParseLimits

_MOST_MEMBERS: Final = 20_000
_MOST_XML: Final = 256 * MIB  # of one part: a library builds a tree of it several times that size
_HEAD: Final = 65_536
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, OSError)
# What the office libraries raise for a damaged file.
BROKEN: Final = (KeyError, ValueError, AttributeError, TypeError, IndexError, SyntaxError, OSError)
_CELL: Final = re.compile(rb"<(?:[a-z]{1,8}:)?c[ >]")
_MERGE: Final = re.compile(rb'<(?:[a-z]{1,8}:)?mergeCell [^>]{0,80}?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_UNSOLVED: Final = re.compile(rb"</f>(?:<v\s{0,4}/>|<v></v>)?</c>")
_CHUNK: Final = 1 * MIB


def inspect(path: Path, limits: ParseLimits) -> list[str]:
    """The names of the members of a sound archive. Raises TooLarge for a bomb, Unreadable for anything damaged."""
    at = ""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_sizes(members, limits)
            for member in members:
                at = f"（{member.filename} 无法读出）"
                if member.flag_bits & 1:
                    raise Unreadable("文件有密码", hint="请去掉密码后再添加")
                if member.filename.endswith((".xml", ".rels", ".vml")):
                    with archive.open(member) as stream:
                        _check_prologue(stream)
            return [member.filename for member in members]
    except _DAMAGED as failure:
        raise Unreadable(f"文件已损坏或不完整{at}", hint="请重新下载，或用 Office 打开后另存，再添加一次") from failure


def _check_sizes(members: list[zipfile.ZipInfo], limits: ParseLimits) -> None:
    if len(members) > _MOST_MEMBERS or sum(member.file_size for member in members) > limits.unpacked_bytes:
        largest = max(members, key=lambda member: member.file_size)
        raise TooLarge(
            f"解压后超过 {limits.unpacked_bytes // MIB} MB（疑似压缩炸弹；最大的部分是 {largest.filename}）",
            hint="请拆分文件",
        )
    huge = [member for member in members if member.filename.endswith(".xml") and member.file_size > _MOST_XML]
    if huge:
        raise TooLarge(f"{huge[0].filename} 解压后超过 {_MOST_XML // MIB} MB", hint="请拆分文件")


def _check_prologue(stream: IO[bytes]) -> None:
    """Office never writes a document type; entities are an attack on the parser. It may come after any number of blanks
    and comments, and before the first element."""
    seen: list[str] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: seen.append("type")
    parser.StartElementHandler = lambda *_: seen.append("element")
    try:
        while not seen and (chunk := stream.read(_HEAD)):
            parser.Parse(chunk, False)
    except expat.ExpatError as error:
        if not seen:
            raise Unreadable("文件内的 XML 已损坏", hint="请用 Office 打开后另存") from error
    if seen[:1] == ["type"]:
        raise Unreadable("文件内含 XML 实体定义，可能有害，已拒绝", hint="请用 Office 打开后另存")


def count_cells(path: Path, limits: ParseLimits) -> int:
    """Refuses a workbook with more cells than allowed before anything is built from them.

    Returns how many formulas were saved without their result: nothing can be read there.
    """
    cells = unsolved = 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not (name.startswith("xl/worksheets/") and name.endswith(".xml")):
                continue
            for piece in _pieces(archive, name):
                cells += len(_CELL.findall(piece)) + sum(map(_area, _MERGE.findall(piece)))
                unsolved += len(_UNSOLVED.findall(piece))
                if cells > limits.cells:
                    raise TooLarge(f"表格超过 {limits.cells} 个单元格", hint="请拆分工作簿")
    return unsolved


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """A member piece by piece, cut between cells, so that no tag looked for is divided."""
    rest = b""
    with archive.open(name) as stream:
        while chunk := stream.read(_CHUNK):
            whole = rest + chunk
            cut = max(whole.rfind(b"<c "), whole.rfind(b"<mergeCell "))
            cut = cut if cut > 0 else len(whole)
            yield whole[:cut]
            rest = whole[cut:]
    yield rest


def _area(ref: tuple[bytes, bytes, bytes, bytes]) -> int:
    left, top, right, bottom = ref
    return max(0, _column(right) - _column(left) + 1) * max(0, int(bottom) - int(top) + 1)


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number
