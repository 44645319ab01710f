"""EPUB: a zip of XHTML pages; a package file says which of them are read, and in which order.

Runs in a child process with limits on memory and time, as every parser does. A file that cannot be read is refused
with an error of `qianxun.core.errors`: its message says what is wrong, its hint what to do.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from lxml import etree

from qianxun.core.errors import TooLarge, Unreadable
from qianxun.core.types import Block, ParsedFile
from qianxun.ingest.parse.html import read_fragment
from qianxun.ingest.sandbox.limits import ParseLimits

qianxun_api = 1

CONTAINER = "META-INF/container.xml"
NAMES = {
    "c": "urn:oasis:names:tc:opendocument:xmlns:container",
    "opf": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}
# No entities, no network: a book may come from anybody.
XML = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)


class EpubParser:
    formats = (".epub",)

    def parse(self, path: Path, limits: ParseLimits) -> ParsedFile:
        """The text of a book in reading order. Raises Unreadable or TooLarge."""
        try:
            with zipfile.ZipFile(path) as book:
                if sum(member.file_size for member in book.infolist()) > limits.unpacked_bytes:
                    raise TooLarge("电子书解压后太大", hint="请拆分，或调大 unpacked_bytes 上限")
                package_name = _package_name(book)
                package = etree.fromstring(book.read(package_name), XML)
                blocks: list[Block] = []
                for page in _pages(package, posixpath.dirname(package_name)):
                    blocks += read_fragment(book.read(page).decode("utf-8", "replace"), limits)
        except (zipfile.BadZipFile, KeyError, IndexError, etree.XMLSyntaxError) as error:
            raise Unreadable("电子书已损坏或不是 EPUB", hint="用阅读器打开试试，再另存一次") from error
        title = package.xpath("string(//dc:title)", namespaces=NAMES)
        author = package.xpath("string(//dc:creator)", namespaces=NAMES)
        return ParsedFile(tuple(blocks), "epub", title.strip(), metadata={"author": author.strip()} if author else {})


def _package_name(book: zipfile.ZipFile) -> str:
    container = etree.fromstring(book.read(CONTAINER), XML)
    return str(container.xpath("//c:rootfile/@full-path", namespaces=NAMES)[0])


def _pages(package: etree._Element, folder: str) -> Iterator[str]:
    """The names of the pages in the archive, in the order of the spine."""
    files = {item.get("id"): item.get("href") for item in package.xpath("//opf:manifest/opf:item", namespaces=NAMES)}
    for reference in package.xpath("//opf:spine/opf:itemref[not(@linear='no')]/@idref", namespaces=NAMES):
        yield posixpath.normpath(posixpath.join(folder, unquote(files[reference])))


parser = EpubParser()
