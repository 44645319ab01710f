"""The format of a file by its first bytes; its ending only distinguishes the text formats and those of plug-ins."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from qianxun.core.errors import Unreadable, UnsupportedFile
from qianxun.ingest.parse.encoding import decode
from qianxun.ingest.parse.plugins import PluginParser, parser_for, troubles

_HEAD: Final = 16_384
_BY_SUFFIX: Final = {
    ".txt": "txt", ".text": "txt", ".log": "txt", ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".csv": "csv", ".tsv": "csv", ".json": "json",
    ".jsonl": "json", ".ndjson": "json", ".pdf": "pdf", ".docx": "docx", ".docm": "docx", ".pptx": "pptx",
    ".pptm": "pptx", ".xlsx": "xlsx", ".xlsm": "xlsx", ".png": "image", ".jpg": "image", ".jpeg": "image",
    ".bmp": "image", ".webp": "image", ".gif": "image", ".eml": "mail", ".mht": "mail", ".mhtml": "mail",
}  # fmt: skip
_TEXTS: Final = ("txt", "markdown", "html", "csv", "json", "mail")
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"BM", "image"),
    (b"%PDF-", "pdf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_STREAMS: Final = (  # of an old container: its directory names them
    ("WordDocument", "docx"), ("Workbook", "xlsx"), ("PowerPoint Document", "pptx"),
)  # fmt: skip
_OLD_SUFFIXES: Final = {
    ".doc": "docx", ".dot": "docx", ".wps": "docx", ".xls": "xlsx", ".et": "xlsx", ".ppt": "pptx", ".dps": "pptx",
}  # fmt: skip
_OPEN_DOCUMENTS: Final = {
    "application/vnd.oasis.opendocument.text": "docx",
    "application/vnd.oasis.opendocument.spreadsheet": "xlsx",
    "application/vnd.oasis.opendocument.presentation": "pptx",
}
_OFFICE: Final = (("xl/", "xlsx"), ("word/", "docx"), ("ppt/", "pptx"))
_TAKEN: Final = "可以放入 TXT、Markdown、HTML、CSV、XLSX、JSON、DOCX、PPTX、PDF、EML 与 PNG、JPEG 图片"
_ADVICE: Final = dict.fromkeys((".tif", ".tiff", ".heic", ".heif", ".avif"), "请另存为 PNG、JPEG 或 PDF 再添加")
_MARKUP: Final = (b"<!doctype html", b"<html")
_MARKUP_OF_EXPORTS: Final = (*_MARKUP, b"<head", b"<meta", b"<body", b"<style", b"<table", b"<div")  # without a frame
_XML_OF_OFFICE: Final = ((b'progid="excel.sheet"', "xlsx"), (b'progid="word.document"', "docx"))
_WEB_ARCHIVE: Final = b"content-type: multipart/related"  # a page with its pictures in one file
_SHEETS: Final = (".xls", ".xlsx", ".xlsm", ".et")
_DELIMITED: Final = (",", "\t", ";", "|", "，")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
HOW_TO_INSTALL: Final = (
    "装上 LibreOffice 即可直接添加（Debian/Ubuntu：apt install libreoffice-writer-nogui libreoffice-calc-nogui "
    "libreoffice-impress-nogui；macOS：brew install --cask libreoffice），或另存为 .docx、.xlsx、.pptx"
)


class OldFormat(UnsupportedFile):
    """A file that LibreOffice can turn into ``target``. Only where it cannot, a caller sees this."""

    word = "old_format"

    def __init__(self, target: str) -> None:
        super().__init__("旧版 Office、WPS、RTF 与 OpenDocument 要由 LibreOffice 转换", hint=HOW_TO_INSTALL)
        self.target = target


@dataclass(frozen=True, slots=True)
class Kind:
    format: str
    warnings: tuple[str, ...] = ()
    plugin: PluginParser | None = None
    is_fallback: bool = False  # plain text, for want of anything better


def sniff(path: Path) -> Kind:
    """The format. Raises UnsupportedFile or Unreadable, saying why and what to do.

    A plug-in gets what would be refused or, for want of a format, be taken for plain text; never what is ours.
    """
    ending = path.suffix.lower()
    try:
        kind = _own_kind(path)
    except UnsupportedFile as refusal:
        if (parser := _plugin_for(ending)) is not None:
            return Kind(parser.plugin.name, plugin=parser)
        if isinstance(refusal, OldFormat):
            raise
        if broken := troubles():
            hint = f"{refusal.hint}；{'；'.join(broken)}"
            raise UnsupportedFile(refusal.message, hint=hint) from refusal
        raise
    if kind.is_fallback and (parser := _plugin_for(ending)) is not None:
        return Kind(parser.plugin.name, plugin=parser)
    return kind


def _plugin_for(ending: str) -> PluginParser | None:
    return parser_for(ending) if ending and ending not in _BY_SUFFIX else None


def _own_kind(path: Path) -> Kind:
    with path.open("rb") as opened:
        head = opened.read(_HEAD)
    if not head:
        raise Unreadable("文件是空的", hint="请检查文件是否写完")
    named = _BY_SUFFIX.get(path.suffix.lower(), "")
    found = _by_content(path, head)
    if found in ("", "text"):
        return _text_kind(path, head, named)
    if named and named != found:
        return Kind(found, (f"扩展名是 {path.suffix}，内容是 {found}，已按内容解析",))
    return Kind(found)


def _by_content(path: Path, head: bytes) -> str:
    for magic, kind in _MAGIC:
        if head.startswith(magic) and not (kind == "image" and magic == b"BM" and not _is_bitmap(head)):
            return _container(path, kind)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    return "pdf" if b"%PDF-" in head[:1024] else ""


def _is_bitmap(head: bytes) -> bool:
    return head[6:10] == b"\x00\x00\x00\x00" and len(head) > 26


def _container(path: Path, kind: str) -> str:
    if kind == "ole":
        return _old_office(path)
    if kind != "zip":
        return kind
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as failure:
        raise Unreadable("文件已损坏或不完整", hint="请重新下载，或用 Office 打开后另存") from failure
    if target := _open_document(path, names):
        raise OldFormat(target)
    for folder, office in _OFFICE:
        if any(name.startswith(folder) for name in names) and "[Content_Types].xml" in names:
            return office
    raise UnsupportedFile("不支持压缩包", hint="请解压后添加其中的文件")


def _old_office(path: Path) -> str:
    """Word 97, WPS and the like, or a new Office file with a password: all come in this container."""
    with path.open("rb") as opened:
        content = opened.read(4_000_000)
    if "EncryptedPackage".encode("utf-16-le") in content:
        raise Unreadable("文件有密码", hint="请去掉密码后再添加")
    for stream, target in _STREAMS:
        if stream.encode("utf-16-le") in content:
            raise OldFormat(target)
    if path.suffix.lower() in _OLD_SUFFIXES:  # the directory of a large file may stand at its end
        raise OldFormat(_OLD_SUFFIXES[path.suffix.lower()])
    raise UnsupportedFile("不支持这种文件（OLE 容器，例如 Outlook 的 .msg）", hint=_TAKEN)


def _open_document(path: Path, names: list[str]) -> str:
    """What an OpenDocument file becomes; empty for any other archive."""
    if "mimetype" not in names:
        return ""
    with zipfile.ZipFile(path) as archive, archive.open("mimetype") as opened:
        return _OPEN_DOCUMENTS.get(opened.read(100).strip().decode("ascii", "replace"), "")


def _text_kind(path: Path, head: bytes, named: str) -> Kind:
    if not _is_text(head):
        if named and named not in _TEXTS:
            raise Unreadable(f"内容不是 {path.suffix} 文件", hint="文件可能已损坏或改过扩展名")
        if named:
            raise Unreadable("认不出文字编码，或内容不是文字", hint="请用原来的程序打开，另存为 UTF-8 再添加")
        hint = _ADVICE.get(path.suffix.lower(), _TAKEN)
        raise UnsupportedFile(f"不支持的文件类型 {path.suffix or '（无扩展名）'}", hint=hint)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:2_000].lower()
    if named in _TEXTS:
        return Kind("html") if named == "txt" and start.startswith(_MARKUP) else Kind(named)
    if head.startswith(b"{\\rtf"):
        raise OldFormat("docx")
    if target := next((target for sign, target in _XML_OF_OFFICE if sign in start), ""):
        raise OldFormat(target)
    suffix = path.suffix.lower()
    if start.startswith(_MARKUP if not suffix else _MARKUP_OF_EXPORTS):
        return Kind("html", (f"扩展名是 {path.suffix}，内容是网页，已按网页解析",) if suffix else ())
    if _WEB_ARCHIVE in start:
        return Kind("mail", (f"扩展名是 {path.suffix}，内容是单个文件网页，已按网页解析",) if suffix else ())
    if suffix == ".xls" or (suffix in _SHEETS and _is_delimited(head)):
        return Kind("csv", (f"扩展名是 {path.suffix}，内容是文本表格，已按 CSV 解析",))
    if named:
        raise Unreadable(f"内容不是 {path.suffix} 文件，而是普通文字", hint="请检查文件，或改为 .txt")
    return Kind("txt", is_fallback=True)


def _is_delimited(head: bytes) -> bool:
    """Whether two of the first lines hold as many fields: a CSV by another name, no message of an error."""
    lines = [line for line in (_decoded(head) or "").splitlines()[:10] if line.strip()]
    if not lines or lines[0].lstrip().startswith(("{", "[")):
        return False
    fields = [[count for line in lines if (count := line.count(mark))] for mark in _DELIMITED]
    return any(len(counts) > len(set(counts)) for counts in fields)


def _decoded(head: bytes) -> str | None:
    # The cut at the end of the sample may fall inside a character.
    cuts = range(4) if len(head) == _HEAD else (0,)
    decoded = next((found for cut in cuts if (found := decode(head[: len(head) - cut]))), None)
    return decoded.text if decoded is not None else None


def _is_text(head: bytes) -> bool:
    text = _decoded(head)
    return text is not None and len(_CONTROLS.findall(text)) * 200 <= len(text)
