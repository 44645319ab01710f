"""Word documents: headings by style or outline level, lists, tables with merged cells, text boxes, pictures by OCR."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from qianxun.errors import MissingExtra, Unreadable
from qianxun.ingest.limits import ParseLimits
from qianxun.ingest.parse.outline import heading_level, without_contents
from qianxun.ingest.parse.package import inspect
from qianxun.ingest.parse.pictures import Pictures
from qianxun.ingest.tables import Cell, as_text, clean, flow, read_table
from qianxun.types import Block, Heading, Paragraph, ParsedFile, TableBlock

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_EMBED: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}embed"
_BLIP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_HEADING_STYLE: Final = re.compile(r"(?:heading|标题|標題)\s?([1-9])", re.IGNORECASE)
_CAPTION: Final = re.compile(r"\s{0,8}(?:附?表|Table)\s?[\d一二三四五六七八九十A-Z]|[^\n。]{2,50}表[:：]?\s{0,8}$")
_BROKEN: Final = (KeyError, ValueError, AttributeError, TypeError, IndexError, SyntaxError, OSError)
_SKIPPED: Final = (_W + "del", _W + "moveFrom", _W + "instrText", _FALLBACK)


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    inspect(path, limits)
    document = _open(path)
    levels = _levels(document)
    pictures = Pictures(limits, on_page)
    blocks: list[Block] = []
    for element in document.element.body:
        blocks.extend(_blocks(element, levels, document, pictures, blocks, limits))
    title = (document.core_properties.title or "").strip()
    settled = tuple(without_contents(blocks))
    title = title or next((block.text for block in settled if isinstance(block, Heading)), "")
    return ParsedFile(settled, "docx", title, {}, (), pictures.warnings())


def _open(path: Path) -> Any:
    try:
        import docx
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError as missing:
        raise MissingExtra("python-docx", "office") from missing
    try:
        return docx.Document(str(path))
    except (PackageNotFoundError, *_BROKEN) as failure:
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


def _blocks(
    element: Any, levels: dict[str, int], document: Any, pictures: Pictures, before: list[Block], limits: ParseLimits
) -> Iterator[Block]:
    if element.tag == _W + "p":
        yield from _paragraph(element, levels)
        for blip in element.iter(_BLIP):
            yield from pictures.read(_picture(document, blip.get(_EMBED)))
    elif element.tag == _W + "tbl":
        yield from _table(element, before, limits)
    elif element.tag == _W + "sdt":  # content controls wrap whole passages
        for child in element.iterfind(f"{_W}sdtContent/*"):
            yield from _blocks(child, levels, document, pictures, before, limits)


def _picture(document: Any, relation: str | None) -> bytes:
    part = document.part.related_parts.get(relation)
    return part.blob if part is not None else b""


def _paragraph(element: Any, levels: dict[str, int]) -> Iterator[Block]:
    text = _text(element)
    boxes = ["\n".join(filter(None, map(_text, box.iter(_W + "p")))) for box in _text_boxes(element)]
    if text.strip():
        style = element.find(f"{_W}pPr/{_W}pStyle")
        outline = element.find(f"{_W}pPr/{_W}outlineLvl")
        level = levels.get(style.get(_W + "val", "")) if style is not None else None
        if outline is not None and outline.get(_W + "val", "9") in "012345678":
            level = int(outline.get(_W + "val")) + 1
        yield from _lines(text, level)
    yield from (Paragraph(box) for box in boxes if box.strip())


def _lines(text: str, level: int | None) -> Iterator[Block]:
    if level is not None and len(text) <= 200:
        yield Heading(" ".join(text.split()), level)
        return
    kept: list[str] = []
    for line in text.split("\n"):
        found = heading_level(line)
        if found is None:
            kept.append(line)
            continue
        if any(part.strip() for part in kept):
            yield Paragraph("\n".join(kept).strip("\n"))
        kept = []
        yield Heading(" ".join(line.split()), found)
    if any(part.strip() for part in kept):
        yield Paragraph("\n".join(kept).strip("\n"))


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
        if node.tag == _W + "t":
            words.append(node.text or "")
        elif node.tag in (_W + "br", _W + "cr"):
            words.append("\n")
        elif node.tag == _W + "tab":
            words.append("\t")
        elif node.tag != _W + "pPr":
            stack.extend(reversed(node))
    return "".join(words)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def _table(element: Any, before: list[Block], limits: ParseLimits) -> Iterator[Block]:
    rows, headers = _rows(element)
    grid = flow(rows, limits.cells)
    table = read_table(grid, title=_title(before), header_rows=headers or None)
    if table is not None:
        yield TableBlock(table)
    elif text := as_text(grid):
        yield Paragraph(text)


def _title(before: list[Block]) -> str:
    """The heading a table stands under, or the caption right above it: 表 3-1 …, …一览表."""
    last = before[-1] if before else None
    if isinstance(last, Paragraph) and len(last.text) <= 60 and _CAPTION.match(last.text):
        return last.text
    return next((block.text for block in reversed(before[-20:]) if isinstance(block, Heading)), "")


def _rows(element: Any) -> tuple[list[list[Cell]], int]:
    """Rows of cells with their spans, and how many leading rows Word repeats as header."""
    rows: list[list[Cell]] = []
    open_cells: dict[int, tuple[int, int]] = {}  # grid column → where the merged cell above it stands
    headers = 0
    for row in element.iterfind(_W + "tr"):
        if row.find(f"{_W}trPr/{_W}tblHeader") is not None and headers == len(rows):
            headers += 1
        cells: list[Cell] = []
        column = 0
        for cell in row.iterfind(_W + "tc"):
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
                cells.append(Cell(clean("\n".join(map(_text, cell.iter(_W + "p")))), 1, wide))
            column += wide
        rows.append(cells)
    return rows, headers


def _grid_span(cell: Any) -> int:
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    value = span.get(_W + "val", "1") if span is not None else "1"
    return int(value) if value.isascii() and value.isdigit() and len(value) < 4 else 1
