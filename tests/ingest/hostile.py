"""Files that mean harm, made on the spot. Each function writes one into a folder and returns its path."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import openpyxl

MIB = 1024 * 1024
SECRET = "绝密内容不可外泄"
_TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
_SHEET = '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def _package(path: Path, members: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _workbook(rows: list[list[object]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    held = io.BytesIO()
    book.save(held)
    return held.getvalue()


def _with_sheet(path: Path, sheet: bytes) -> Path:
    """A real workbook whose first sheet is replaced."""
    with zipfile.ZipFile(io.BytesIO(_workbook([["a"]]))) as archive:
        members: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    return _package(path, members | {"xl/worksheets/sheet1.xml": sheet})


def _blown(path: Path, name: str, pieces: Sequence[tuple[bytes, int]]) -> Path:
    """A sound archive with a member that is each piece, so many times. Only one of each is packed: it is all the same
    to whoever unpacks them, and half a gigabyte takes seconds."""
    packed, size, checksum = b"", 0, 0
    for piece, times in pieces:
        packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed += (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)) * times
        size += len(piece) * times
        for _ in range(times):
            checksum = zlib.crc32(piece, checksum)
    packed += zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    member = zipfile.ZipInfo(name)
    member.compress_type, member.CRC, member.file_size, member.compress_size = 8, checksum, size, len(packed)
    with zipfile.ZipFile(_package(path, {"[Content_Types].xml": _TYPES}), "a") as archive:
        assert archive.fp is not None
        archive.fp.seek(member_at := archive.start_dir)
        archive.fp.write(member.FileHeader() + packed)
        member.header_offset, archive.start_dir = member_at, archive.fp.tell()
        archive.filelist.append(member)
        archive.NameToInfo[name] = member
        archive.comment = b""  # so that the list of members is written anew
    return path


def zip_bomb_xlsx(folder: Path) -> Path:
    return _blown(folder / "bomb.xlsx", "xl/media/x.bin", [(bytes(MIB), 610)])


def huge_part_docx(folder: Path) -> Path:
    content = [(b"<w:document>", 1), (b" " * MIB, 257), (b"</w:document>", 1)]
    return _blown(folder / "bomb.docx", "word/document.xml", content)


def billion_laughs_docx(folder: Path) -> Path:
    entities = '<!ENTITY a0 "哈">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    content = f'<?xml version="1.0"?><!DOCTYPE x [{entities}]><x>&a9;</x>'
    return _package(folder / "laughs.docx", {"[Content_Types].xml": _TYPES, "word/document.xml": content})


def external_entity_xlsx(folder: Path) -> Path:
    secret = folder / "secret"
    secret.write_text(SECRET, "utf-8")
    doctype = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]>'
    sheet = _SHEET.replace("?>", f"?>{doctype}", 1)
    sheet += '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>&e;</t></is></c></row></sheetData></worksheet>'
    return _with_sheet(folder / "entity.xlsx", sheet.encode())


def millions_of_cells_xlsx(folder: Path) -> Path:
    row = "".join(f'<c r="{chr(65 + i)}{{n}}"><v>1</v></c>' for i in range(20))
    rows = "".join(f'<row r="{n}">{row.format(n=n)}</row>' for n in range(1, 52_001))
    return _with_sheet(folder / "cells.xlsx", f"{_SHEET}<sheetData>{rows}</sheetData></worksheet>".encode())


def everything_merged_xlsx(folder: Path) -> Path:
    sheet = _SHEET + '<sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData>'
    sheet += '<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells></worksheet>'
    return _with_sheet(folder / "merged.xlsx", sheet.encode())


def looping_pdf(folder: Path) -> Path:
    body = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2/Parent 2 0 R>>endobj\n"
        b"trailer<</Root 1 0 R/Prev 0>>\nstartxref\n0\n%%EOF"
    )
    return _write(folder / "loop.pdf", body)


def recursive_forms_pdf(folder: Path, levels: int = 6, calls: int = 10) -> Path:
    """A page that draws a form, which draws another one ten times, and so on: a million of them in two kilobytes."""

    def stream(content: bytes, about: bytes = b"") -> bytes:
        return b"<<%s/Length %d>>stream\n%s\nendstream" % (about, len(content), content)

    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</XObject<</F 6 0 R>>>>>>",
        stream(b"/F Do"),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for level in range(levels):
        inner = b"XObject<</F %d 0 R>>" % (len(objects) + 2) if level + 1 < levels else b"Font<</T 5 0 R>>"
        drawn = b"/F Do " * calls if level + 1 < levels else b"BT /T 1 Tf (a) Tj ET"
        about = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</%s>>" % inner
        objects.append(stream(drawn, about))
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(b"%010d 00000 n \n" % len(body))
        body += b"%d 0 obj%sendobj\n" % (number, content)
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, b"".join(places))
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(body))
    return _write(folder / "forms.pdf", body + table + end)


def truncated_pdf(folder: Path) -> Path:
    return _write(folder / "cut.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Cat")


def deep_html(folder: Path) -> Path:
    return _write(folder / "deep.html", b"<html><body>" + b"<div>" * 200_000 + "深处".encode())


def span_bomb_html(folder: Path) -> Path:
    cells = b"<td rowspan=60000 colspan=1000>x</td>" * 50
    return _write(folder / "spans.html", b"<table>" + (b"<tr>" + cells + b"</tr>") * 2_000 + b"</table>")


def deep_json(folder: Path) -> Path:
    return _write(folder / "deep.json", b"[" * 500_000 + b"]" * 500_000)


def long_number_json(folder: Path) -> Path:
    return _write(folder / "number.json", b'{"a": ' + b"9" * 100_000 + b"}")


def truncated_docx(folder: Path) -> Path:
    whole = _package(folder / "whole.docx", {"[Content_Types].xml": _TYPES, "word/document.xml": "<x/>" * 9_000})
    return _write(folder / "cut.docx", whole.read_bytes()[:300])


def damaged_xlsx(folder: Path) -> Path:
    return _with_sheet(folder / "damaged.xlsx", b"<worksheet><sheetData><row><c r='?'>")


def encrypted_office(folder: Path) -> Path:
    name = "EncryptedPackage".encode("utf-16-le")
    return _write(folder / "locked.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + name + bytes(2048))


def password_zip(folder: Path) -> Path:
    whole = _package(folder / "w.docx", {"[Content_Types].xml": _TYPES, "word/document.xml": "<x/>"}).read_bytes()
    marked = bytearray(whole)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = whole.find(signature)
        while at >= 0:
            marked[at + offset] |= 1
            at = whole.find(signature, at + 1)
    return _write(folder / "password.docx", bytes(marked))


def picture_bomb(folder: Path) -> Path:
    size = 60_000

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(size // 10 * size // 10), 9))
    return _write(folder / "bomb.png", b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b""))


def truncated_jpeg(folder: Path) -> Path:
    return _write(folder / "cut.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + bytes(64))


def program_named_txt(folder: Path) -> Path:
    return _write(folder / "program.txt", b"\x7fELF" + os.urandom(20_000))


def archive(folder: Path) -> Path:
    return _package(folder / "archive.zip", {"a.txt": "x"})


def empty(folder: Path) -> Path:
    return _write(folder / "empty.txt", b"")


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.txt")
    return folder / "pipe.txt"


def device(folder: Path) -> Path:
    (folder / "zero.txt").symlink_to("/dev/zero")
    return folder / "zero.txt"


def broken_link(folder: Path) -> Path:
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    return folder / "gone.txt"


def directory(folder: Path) -> Path:
    (folder / "folder.txt").mkdir()
    return folder / "folder.txt"


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# Kind → (maker, the error words it may end with; none: it must parse)
REFUSED: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "zip bomb": (zip_bomb_xlsx, ("too_large",)),
    "huge part": (huge_part_docx, ("too_large",)),
    "billion laughs": (billion_laughs_docx, ("unreadable",)),
    "external entity": (external_entity_xlsx, ("unreadable",)),
    "millions of cells": (millions_of_cells_xlsx, ("too_large",)),
    "everything merged": (everything_merged_xlsx, ("too_large",)),
    "looping pdf": (looping_pdf, ("unreadable",)),
    "truncated pdf": (truncated_pdf, ("unreadable",)),
    "deep html": (deep_html, ("too_large",)),
    "span bomb": (span_bomb_html, ("too_large",)),
    "deep json": (deep_json, ("too_large",)),
    "truncated docx": (truncated_docx, ("unreadable",)),
    "damaged xlsx": (damaged_xlsx, ("unreadable",)),
    "encrypted office": (encrypted_office, ("unreadable",)),
    "password": (password_zip, ("unreadable",)),
    "picture bomb": (picture_bomb, ("too_large",)),
    "truncated jpeg": (truncated_jpeg, ("unreadable",)),
    "program": (program_named_txt, ("unsupported_file", "unreadable")),
    "archive": (archive, ("unsupported_file",)),
    "empty": (empty, ("unreadable",)),
    "pipe": (pipe, ("unsupported_file",)),
    "device": (device, ("unsupported_file",)),
    "broken link": (broken_link, ("unreadable",)),
    "directory": (directory, ("unsupported_file",)),
}


# ── harmless to read, if reading is linear ───────────────────────────────────────────────────────


def far_corner_xlsx(folder: Path) -> Path:
    sheet = _SHEET + '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>近处</t></is></c></row>'
    sheet += '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row></sheetData></worksheet>'
    return _with_sheet(folder / "corner.xlsx", sheet.encode())


def repeated(folder: Path, name: str, piece: str, times: int = 60_000) -> Path:
    return _write(folder / name, (piece * times).encode("utf-8"))


BENIGN: dict[str, Callable[[Path], Path]] = {
    "far corner": far_corner_xlsx,
    "long number": long_number_json,  # as it is written: Python makes no integer of it
    "open tags": lambda folder: repeated(folder, "open.html", "<b><i><a href="),
    "open comments": lambda folder: repeated(folder, "comments.md", "<!-- -- {{ "),
    "open brackets": lambda folder: repeated(folder, "brackets.md", "[![("),
    "many emphasis marks": lambda folder: repeated(folder, "stars.md", "**_`a "),
    "numerals": lambda folder: repeated(folder, "numerals.txt", "第一二三四五六七八九十 "),
    "chapter lines": lambda folder: repeated(folder, "chapters.txt", "第一章\n第二章\n"),
    "one open quote": lambda folder: _write(folder / "quote.csv", b'a,b\n"' + b"x,y\n" * 100_000),
    "spaces": lambda folder: repeated(folder, "spaces.html", "<td> \n\t "),
    "digits": lambda folder: repeated(folder, "digits.csv", "1,234,567,890.12.34万元（元\n", 5_000),
}
