"""Word documents: headings by style or outline level, lists, tables with merged cells, text boxes, notes, pictures.

What Word shows is parsed: automatic numbers, equations, content controls, tracked insertions but not deletions, foot-
and endnotes after the paragraph that refers to them. Pictures are read by OCR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lxml import etree

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile
from qianxun.core.errors import MissingExtra, Unreadable
from qianxun.ingest.headings import heading_level, numbered_headings, without_contents
from qianxun.ingest.parse.office.embedded import EQUATIONS, Pictures, diagram_text, diagrams_in, linear
from qianxun.ingest.parse.office.package import BROKEN, inspect
from qianxun.ingest.parse.office.word_numbering import Numbering, read_numbering
from qianxun.ingest.preprocess import superscript
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, clean, flow
from qianxun.ingest.tables.read_table import table_blocks

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_EMBED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"
_BLIP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
_CHART: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_HEADING_STYLE: Final = re.compile(r"(?:heading|标题|標題)\s?([1-9])", re.IGNORECASE)
_CAPTION: Final = re.compile(r"\s{0,8}(?:附?表|Table)\s?[\d一二三四五六七八九十A-Z]|[^\n。]{2,50}表[:：]?\s{0,8}$")
_SKIPPED: Final = (_W + "del", _W + "moveFrom", _W + "instrText", _W + "rt", _FALLBACK)
_WRAPPERS: Final = tuple(_W + name for name in ("sdt", "sdtContent", "customXml", "smartTag", "ins", "moveTo"))
_NOTE_MARKS: Final = (_W + "footnoteReference", _W + "endnoteReference")
_PARTS: Final = {"numbering": "编号", "footnotes": "脚注", "endnotes": "尾注"}
_BREAKS: Final = {_W + "br": "\n", _W + "cr": "\n", _W + "tab": "\t", _W + "noBreakHyphen": "-"}
_BOXES: Final = {  # how forms are ticked: characters of fonts that hold only signs
    "Wingdings": {"F0FE": "☑", "F0FD": "☒", "F0A8": "☐", "F06F": "☐", "F0FC": "✓", "F0FB": "✗"},
    "Wingdings 2": {"F052": "☑", "F053": "☒", "F054": "☒", "F0A3": "☐", "F02A": "☐", "F050": "✓", "F04F": "✗"},
}


@dataclass(frozen=True, slots=True)
class _Reading:
    """A document that is being parsed."""

    document: Any
    levels: dict[str, int]
    numbering: Numbering
    notes: dict[tuple[str, str], str]
    pictures: Pictures
    limits: ParseLimits
    unread: list[str]  # damaged parts other than the text


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    inspect(path, limits)
    document = _open(path)
    pictures = Pictures(limits, on_page)
    levels = _levels(document)
    unread: list[str] = []
    numbering = read_numbering(_part(document, "numbering", unread), document.styles.element)
    notes = {**_notes(document, "footnote", unread), **_notes(document, "endnote", unread)}
    reading = _Reading(document, levels, numbering, notes, pictures, limits, unread)
    blocks: list[Block] = []
    for element in document.element.body:
        blocks.extend(_blocks(element, reading, blocks))
    title = (document.core_properties.title or "").strip()
    settled = without_contents(blocks)
    title = title or next((block.text for block in settled if isinstance(block, Heading)), "")
    charts = sum(1 for _ in document.element.body.iter(_CHART))
    warnings = pictures.warnings()
    if charts:
        warnings += (f"{charts} 个图表未收录；需要其中的数据，请放入表格",)
    if unread:
        warnings += (f"{'、'.join(dict.fromkeys(unread))}已损坏，未收录；请用 Word 打开、另存后再添加",)
    return ParsedFile(tuple(numbered_headings(settled)), "docx", title, {}, (), warnings)


def _open(path: Path) -> Any:
    try:
        import docx
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError as missing:
        raise MissingExtra("python-docx", "office") from missing
    try:
        return docx.Document(str(path))
    except (PackageNotFoundError, *BROKEN) as failure:
        raise Unreadable("Word 文档已损坏", hint="请用 Word 打开后另存") from failure


def _levels(document: Any) -> dict[str, int]:
    """Style id → heading level, by the style's name or its outline level."""
    levels: dict[str, int] = {}
    for style in document.styles.element.iterfind(_W + "style"):
        name = style.find(_W + "name")
        shown = name.get(_W + "val", "") if name is not None else ""
        found = _HEADING_STYLE.match(shown)
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        if found:
            levels[style.get(_W + "styleId", "")] = int(found.group(1))
        elif outline is not None and outline.get(_W + "val", "9") in "012345678":
            levels[style.get(_W + "styleId", "")] = int(outline.get(_W + "val")) + 1
        elif shown.lower() == "title":
            levels[style.get(_W + "styleId", "")] = 1
    return levels


def _part(document: Any, name: str, unread: list[str]) -> Any | None:
    """The root of another part, such as numbering.xml; None where there is none, or a damaged one."""
    for relation in document.part.rels.values():
        if relation.reltype.endswith(f"/{name}") and not relation.is_external:
            parser = etree.XMLParser(resolve_entities=False, huge_tree=True)
            try:
                return etree.fromstring(relation.target_part.blob, parser)
            except etree.XMLSyntaxError:  # the text is whole
                unread.append(_PARTS[name])
    return None


def _notes(document: Any, kind: str, unread: list[str]) -> dict[tuple[str, str], str]:
    """Reference tag and number → the text of the note."""
    root = _part(document, f"{kind}s", unread)
    found: dict[tuple[str, str], str] = {}
    for note in root.iterfind(_W + kind) if root is not None else ():
        text = "\n".join(filter(None, (_text(paragraph).strip() for paragraph in note.iter(_W + "p"))))
        if text:
            found[f"{_W}{kind}Reference", note.get(_W + "id", "")] = text
    return found


def _blocks(element: Any, reading: _Reading, before: list[Block]) -> Iterator[Block]:
    if element.tag in _WRAPPERS:  # content controls wrap whole passages
        for child in element:
            yield from _blocks(child, reading, before)
        return
    if element.tag == _W + "p":
        yield from _paragraph(element, reading)
    elif element.tag == _W + "tbl":
        yield from _table(element, reading, before)
    else:
        return
    marks = ((mark.tag, mark.get(_W + "id", "")) for mark in element.iter(*_NOTE_MARKS))
    yield from (Paragraph(f"注：{reading.notes[mark]}") for mark in marks if mark in reading.notes)
    for relation in diagrams_in(element):
        if text := _diagram(_picture(reading.document, relation), reading.unread):
            yield Paragraph(text)
    for blip in element.iter(_BLIP):
        yield from reading.pictures.read(_picture(reading.document, blip.get(_EMBED)))


def _diagram(data: bytes, unread: list[str]) -> str:
    try:
        return diagram_text(data) if data else ""
    except etree.XMLSyntaxError:
        unread.append("图示")
        return ""


def _picture(document: Any, relation: str | None) -> bytes:
    part = document.part.related_parts.get(relation)
    return part.blob if part is not None else b""


def _paragraph(element: Any, reading: _Reading) -> Iterator[Block]:
    text = _text(element)
    label = reading.numbering.label(element)
    boxes = ["\n".join(filter(None, map(_text, box.iter(_W + "p")))) for box in _text_boxes(element)]
    if text.strip():
        style = element.find(f"{_W}pPr/{_W}pStyle")
        outline = element.find(f"{_W}pPr/{_W}outlineLvl")
        level = reading.levels.get(style.get(_W + "val", "")) if style is not None else None
        if outline is not None and outline.get(_W + "val", "9") in "012345678":
            level = int(outline.get(_W + "val")) + 1
        yield from _lines(label + (text.lstrip() if label else text), level)
    yield from (Paragraph(box) for box in boxes if box.strip())


def _lines(text: str, level: int | None) -> Iterator[Block]:
    if level is not None and len(text) <= 200:
        yield Heading(" ".join(text.split()), level)
        return
    lines: list[str] = []
    for line in text.split("\n"):
        found = heading_level(line)
        if found is None:
            lines.append(line)
            continue
        if any(part.strip() for part in lines):
            yield Paragraph("\n".join(lines).strip("\n"))
        lines = []
        yield Heading(" ".join(line.split()), found)
    if any(part.strip() for part in lines):
        yield Paragraph("\n".join(lines).strip("\n"))


def _text_boxes(element: Any) -> Iterator[Any]:
    for box in element.iter(_W + "txbxContent"):
        if next(box.iterancestors(_FALLBACK), None) is None:  # the same box once more for old readers
            yield box


def _text(paragraph: Any) -> str:
    """The paragraph's own text: deletions, field codes and text boxes inside it left out."""
    words: list[str] = []
    stack = list(reversed(paragraph))
    while stack:
        node = stack.pop()
        if node.tag in _SKIPPED or node.tag == _W + "txbxContent":
            continue
        if node.tag == _W + "r" and _is_superscript(node):
            high = "".join(one.text or "" for one in node.iterfind(_W + "t"))
            words.append(superscript("".join(words[-3:]), high))
        elif node.tag == _W + "t":
            words.append(node.text or "")
        elif node.tag in _BREAKS:
            words.append(_BREAKS[node.tag])
        elif node.tag == _W + "sym":
            words.append(_BOXES.get(node.get(_W + "font", ""), {}).get(node.get(_W + "char", "").upper(), ""))
        elif node.tag in EQUATIONS:
            words.append(linear(node))
        elif node.tag != _W + "pPr":
            stack.extend(reversed(node))
    return "".join(words)


def _is_superscript(run: Any) -> bool:
    align = run.find(f"{_W}rPr/{_W}vertAlign")
    high = align is not None and align.get(_W + "val") == "superscript"
    return high and all(child.tag in (_W + "rPr", _W + "t") for child in run)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _table(element: Any, reading: _Reading, before: list[Block]) -> Iterator[Block]:
    rows, headers = _rows(element, reading.numbering)
    grid = flow(rows, reading.limits.cells)
    return table_blocks(grid, title=_title(before), header_rows=headers or None)


def _title(before: list[Block]) -> str:
    """The heading above a table, or the caption right above it: 表 3-1 …, …一览表."""
    last = before[-1] if before else None
    if isinstance(last, Paragraph) and len(last.text) <= 60 and _CAPTION.match(last.text):
        return last.text
    return next((block.text for block in reversed(before[-20:]) if isinstance(block, Heading)), "")


def _rows(element: Any, numbering: Numbering) -> tuple[list[list[Cell]], int]:
    """Rows of cells with their spans, and how many leading rows Word repeats as header."""
    rows: list[list[Cell]] = []
    open_cells: dict[int, tuple[int, int]] = {}  # grid column → position of the merged cell above it
    headers = 0
    for row in _inside(element, _W + "tr"):
        if row.find(f"{_W}trPr/{_W}del") is not None:
            continue
        if row.find(f"{_W}trPr/{_W}tblHeader") is not None and headers == len(rows):
            headers += 1
        cells: list[Cell] = []
        column = 0
        for cell in _inside(row, _W + "tc"):
            wide = _grid_span(cell)
            merge = cell.find(f"{_W}tcPr/{_W}vMerge")
            if merge is not None and merge.get(_W + "val") != "restart" and column in open_cells:
                r, i = open_cells[column]
                above = rows[r][i]
                rows[r][i] = Cell(above.text, len(rows) - r + 1, above.col_span)
            else:
                open_cells.pop(column, None)
                if merge is not None:
                    open_cells[column] = (len(rows), len(cells))
                cells.append(Cell(_cell_text(cell, numbering), 1, wide))
            column += wide
        rows.append(cells)
    return rows, headers


def _inside(element: Any, tag: str) -> Iterator[Any]:
    """The rows of a table, or the cells of a row, be they in content controls or not."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag)


def _cell_text(cell: Any, numbering: Numbering) -> str:
    shown = (one for one in cell.iter(_W + "p") if next(one.iterancestors(_FALLBACK), None) is None)
    return clean("\n".join(numbering.label(one) + _text(one) for one in shown))


def _grid_span(cell: Any) -> int:
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    value = span.get(_W + "val", "1") if span is not None else "1"
    return int(value) if value.isascii() and value.isdigit() and len(value) < 4 else 1
