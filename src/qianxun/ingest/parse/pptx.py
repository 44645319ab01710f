"""PowerPoint: slide by slide, titles as headings, text, tables, notes, pictures by OCR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from qianxun.errors import MissingExtra, TooLarge, Unreadable
from qianxun.ingest.limits import ParseLimits
from qianxun.ingest.parse.package import inspect
from qianxun.ingest.parse.pictures import Pictures
from qianxun.ingest.tables import Cell, as_text, clean, place, read_table
from qianxun.types import Block, Heading, Paragraph, ParsedFile, TableBlock

_BROKEN: Final = (KeyError, ValueError, AttributeError, TypeError, IndexError, SyntaxError, OSError)
_DEEPEST_GROUP: Final = 20


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    inspect(path, limits)
    show = _open(path)
    pictures = Pictures(limits, on_page)
    blocks: list[Block] = []
    slides = list(show.slides)
    if len(slides) > limits.pages:
        raise TooLarge(f"幻灯片超过 {limits.pages} 页", hint="请拆分文件，或调大 pages 上限")
    for page, slide in enumerate(slides, 1):
        blocks.extend(_slide(slide, page, pictures, limits))
    title = (show.core_properties.title or "").strip()
    title = title or next((block.text for block in blocks if isinstance(block, Heading)), "")
    return ParsedFile(tuple(blocks), "pptx", title, {"pages": len(slides)}, (), pictures.warnings())


def _open(path: Path) -> Any:
    try:
        import pptx
        from pptx.exc import PackageNotFoundError
    except ImportError as missing:
        raise MissingExtra("python-pptx", "office") from missing
    try:
        return pptx.Presentation(str(path))
    except (PackageNotFoundError, *_BROKEN) as failure:
        raise Unreadable("演示文稿已损坏", hint="请用 PowerPoint 打开后另存") from failure


def _slide(slide: Any, page: int, pictures: Pictures, limits: ParseLimits) -> Iterator[Block]:
    heading = slide.shapes.title
    title = clean(heading.text_frame.text) if heading is not None else ""
    if title:
        yield Heading(title, 1, page)
    shapes = sorted(_flat(slide.shapes), key=lambda shape: (shape.top or 0, shape.left or 0))
    for shape in shapes:
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        yield from _shape(shape, page, title, pictures, limits)
    if slide.has_notes_slide:
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            yield Paragraph(f"备注：{notes.text.strip()}", page)


def _flat(shapes: Any, depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEEPEST_GROUP:
            yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _shape(shape: Any, page: int, title: str, pictures: Pictures, limits: ParseLimits) -> Iterator[Block]:
    if getattr(shape, "has_table", False):
        yield from _table(shape.table, page, title, limits)
    elif shape.has_text_frame:
        lines = [paragraph.text.replace("\v", "\n") for paragraph in shape.text_frame.paragraphs]
        if text := "\n".join(line for line in lines if line.strip()):
            yield Paragraph(text, page)
    elif hasattr(shape, "image"):
        try:
            data = shape.image.blob
        except (ValueError, KeyError, AttributeError):  # a linked picture, or one whose part is missing
            return
        yield from pictures.read(data, page)


def _table(table: Any, page: int, title: str, limits: ParseLimits) -> Iterator[Block]:
    rows, columns = len(table.rows), len(table.columns)
    if rows * columns > limits.cells:
        raise TooLarge(f"表格超过 {limits.cells} 个单元格", hint="请拆分表格")
    placed = []
    for r in range(rows):
        for c, cell in enumerate(table.rows[r].cells):
            if not cell.is_spanned:
                tall = min(cell.span_height, rows - r) if cell.is_merge_origin else 1
                wide = min(cell.span_width, columns - c) if cell.is_merge_origin else 1
                placed.append((r, c, Cell(clean(cell.text), tall, wide)))
    grid = place(placed)
    found = read_table(grid, title=title)
    if found is not None:
        yield TableBlock(found, page)
    elif text := as_text(grid):
        yield Paragraph(text, page)
