"""HTML: the visible text with headings and tables, without scripts, styles and navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lxml import etree, html

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile
from qianxun.core.errors import TooLarge, Unreadable
from qianxun.ingest.headings import numbered_headings
from qianxun.ingest.parse.boilerplate import HEADINGS, INLINE, INVISIBLE, boilerplate
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.preprocess import superscript
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, clean, flow
from qianxun.ingest.tables.read_table import table_blocks

_CHARSET: Final = re.compile(rb"""charset\s{0,4}=\s{0,4}["']?([A-Za-z0-9_\-]{2,20})""", re.IGNORECASE)
_SPACE: Final = re.compile(r"[ \t\r\n\f\u200b]+")


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    with path.open("rb") as opened:
        declared = _CHARSET.search(opened.read(4096))
    decoded = read_text(path, declared.group(1).decode("ascii") if declared else "")
    return replace(parse_text(decoded.text, limits), metadata={"encoding": decoded.encoding}, warnings=decoded.warnings)


def parse_text(text: str, limits: ParseLimits) -> ParsedFile:
    """A page that is decoded already."""
    root = _tree(text)
    title = clean("".join(root.xpath("string(//title)")))
    blocks = tuple(_Reader(limits).read(root))
    if not title or sum(isinstance(b, Heading) and b.level == 1 for b in blocks) == 1:
        title = next((b.text for b in blocks if isinstance(b, Heading) and b.level == 1), title)
    return ParsedFile(tuple(numbered_headings(blocks)), "html", title)


def read_fragment(text: str, limits: ParseLimits) -> list[Block]:
    """The blocks of a piece of HTML inside another document; none when it has no text."""
    try:
        return _Reader(limits).read(_tree(text))
    except Unreadable:
        return []


def _tree(text: str) -> Any:
    # huge_tree: without it libxml2 drops silently what lies deeper than 256 elements. Entities are never fetched.
    parser = html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    source = re.sub(r"^\s*<\?xml[^>]{0,200}\?>", "", text.replace("\x00", ""))
    try:
        root = html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError) as failure:
        raise Unreadable("网页是空的或已损坏", hint="请用浏览器另存后再试") from failure
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise TooLarge("网页嵌套超过 2048 层", hint="请用浏览器另存为纯文本")  # what lies deeper would be lost
    return root


class _Reader:
    """Walks a tree once, gathering inline text into paragraphs. An explicit stack: hostile pages nest deeply."""

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._words: list[str] = []
        self._blocks: list[Block] = []
        self._heading = ""

    def read(self, root: Any) -> list[Block]:
        left_out = boilerplate(root)
        stack: list[tuple[Any, bool]] = [(root, False)]
        while stack:
            element, leaving = stack.pop()
            if leaving:
                self._leave(element)
                continue
            if not self._enter(element, left_out):
                self._words.append(_squeezed(element.tail))
                continue
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element))
        self._close()
        return self._blocks

    def _enter(self, element: Any, left_out: set[Any]) -> bool:
        """Begins an element; False when its content is done or invisible."""
        tag = element.tag
        if not isinstance(tag, str) or tag in INVISIBLE or element in left_out or _is_hidden(element):
            return False
        if tag in HEADINGS:
            self._close()
            text = clean("".join(element.itertext()))
            if text:
                self._heading = text
                self._blocks.append(Heading(text, HEADINGS[tag]))
            return False
        if tag == "table" and not _is_layout(element):
            self._close()
            self._blocks.extend(_table(element, self._heading, self._limits))
            return False
        if tag == "pre":
            self._close()
            self._add("".join(element.itertext()).strip("\n"))
            return False
        if tag == "sup" and (power := self._power(element)):
            self._words.append(power)
            return False
        if tag == "br":
            self._words.append("\n")
        elif tag not in INLINE:
            self._close()
        if tag == "li":
            self._words.append("- ")
        self._words.append(_squeezed(element.text))
        return True

    def _power(self, element: Any) -> str:
        """A superscript number as a power; empty for anything else, such as the mark of a note."""
        text = _squeezed("".join(element.itertext()))
        power = superscript("".join(self._words[-3:]), text)
        return power if power != text else ""

    def _leave(self, element: Any) -> None:
        if element.tag not in INLINE:
            self._close()
        self._words.append(_squeezed(element.tail))

    def _close(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._words).split("\n"))
        self._words.clear()
        self._add("\n".join(line for line in lines if line and line != "-"))

    def _add(self, text: str) -> None:
        if not text.strip():
            return
        last = self._blocks[-1] if self._blocks else None
        if text.startswith("- ") and isinstance(last, Paragraph) and last.text.startswith("- "):
            self._blocks[-1] = Paragraph(f"{last.text}\n{text}")  # items of one list stay together
        else:
            self._blocks.append(Paragraph(text))


def _squeezed(text: str | None) -> str:
    return _SPACE.sub(" ", text) if text else ""


def _is_hidden(element: Any) -> bool:
    style = (element.get("style") or "").replace(" ", "").lower()
    return "display:none" in style or element.get("hidden") is not None or element.get("aria-hidden") == "true"


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _is_layout(table: Any) -> bool:
    """A table around other tables or headings only arranges a page."""
    return next(table.iterdescendants("table", "h1", "h2", "h3"), None) is not None


def _table(element: Any, heading: str, limits: ParseLimits) -> Iterator[Block]:
    rows, headers = _rows(element)
    grid = flow(rows, limits.cells)
    caption = element.find("caption")
    title = clean("".join(caption.itertext())) if caption is not None else heading
    return table_blocks(grid, title=title, header_rows=headers if headers or _heads_rows(rows) else None)


def _rows(element: Any) -> tuple[list[list[Cell]], int]:
    """The rows in reading order and how many of them the page itself marks as header."""
    rows: list[list[Cell]] = []
    headers = 0
    leading = True
    for row in element.iterdescendants("tr"):
        cells = [_cell(cell) for cell in row if cell.tag in ("td", "th")]
        if not cells:
            continue
        marked = _parent(row) == "thead" or all(cell.header for cell in cells)
        leading = leading and marked
        headers += leading
        rows.append(cells)
    return rows, headers


def _heads_rows(rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether every row begins with its name and there is no header row: 前提：| 会一点 HTML."""
    return all(len(row) > 1 and row[0].header and not any(cell.header for cell in row[1:]) for row in rows)


def _parent(row: Any) -> str:
    parent = row.getparent()
    return str(parent.tag) if parent is not None else ""


def _cell(element: Any) -> Cell:
    words: list[str] = []
    for node in element.iter():
        if not isinstance(node.tag, str) or node.tag in ("script", "style"):
            continue
        if node.tag in ("br", "p", "div", "li"):
            words.append("\n")
        words.append(superscript("".join(words[-3:]), node.text or "") if node.tag == "sup" else node.text or "")
        if node is not element:
            words.append(node.tail or "")
    return Cell(clean("".join(words)), _span(element, "rowspan"), _span(element, "colspan"), header=element.tag == "th")


def _span(element: Any, name: str) -> int:
    value = (element.get(name) or "1").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 1
