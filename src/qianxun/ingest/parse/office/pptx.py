"""PowerPoint: slide by slide, titles as headings, text, tables, charts, diagrams, notes, pictures by OCR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from lxml import etree

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile
from qianxun.core.errors import MissingExtra, TooLarge, Unreadable
from qianxun.ingest.parse.office.embedded import EQUATIONS, Pictures, diagram_text, diagrams_in, linear
from qianxun.ingest.parse.office.package import BROKEN, inspect
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, clean, place
from qianxun.ingest.tables.read_table import table_blocks

_DEEPEST_GROUP: Final = 20
_LONGEST_TITLE: Final = 40
_CHOICE: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Choice"
_SHAPES: Final = tuple(
    "{http://schemas.openxmlformats.org/presentationml/2006/main}" + name
    for name in ("sp", "graphicFrame", "pic", "grpSp")
)
_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    inspect(path, limits)
    show = _open(path)
    pictures = Pictures(limits, on_page)
    blocks: list[Block] = []
    slides = list(show.slides)
    if len(slides) > limits.pages:
        raise TooLarge(f"幻灯片超过 {limits.pages} 页", hint="请拆分文件")
    unread: list[int] = []
    for page, slide in enumerate(slides, 1):
        blocks.extend(_headed(list(_slide(slide, page, pictures, limits, unread)), page))
    title = (show.core_properties.title or "").strip()
    named = (block.text for block in blocks if isinstance(block, Heading) and block.text != _numbered(block.page))
    title = title or next(named, "")
    warnings = pictures.warnings()
    if unread:
        where = "、".join(str(page) for page in sorted(set(unread))[:20])
        warnings += (f"{len(unread)} 个图表或图示未能读出（第 {where} 页）",)
    return ParsedFile(tuple(blocks), "pptx", title, {"pages": len(slides)}, (), warnings)


def _open(path: Path) -> Any:
    try:
        import pptx
        from pptx.exc import PackageNotFoundError
    except ImportError as missing:
        raise MissingExtra("python-pptx", "office") from missing
    try:
        return pptx.Presentation(str(path))
    except (PackageNotFoundError, *BROKEN) as failure:
        raise Unreadable("演示文稿已损坏", hint="请用 PowerPoint 打开后另存") from failure


def _headed(blocks: list[Block], page: int) -> list[Block]:
    """A slide below a heading of its own, not below the one before: PowerPoint has many titles as text boxes."""
    if not blocks or isinstance(blocks[0], Heading):
        return blocks
    first = blocks[0]
    if isinstance(first, Paragraph) and len(first.text) <= _LONGEST_TITLE and "\n" not in first.text:
        return [Heading(first.text, 1, page), *blocks[1:]]
    return [Heading(_numbered(page), 1, page), *blocks]


def _numbered(page: int | None) -> str:
    return f"第 {page} 页"


def _slide(slide: Any, page: int, pictures: Pictures, limits: ParseLimits, unread: list[int]) -> Iterator[Block]:
    heading = slide.shapes.title
    title = clean(heading.text_frame.text) if heading is not None else ""
    if title:
        yield Heading(title, 1, page)
    for shape in _flat([*slide.shapes, *_alternatives(slide)]):
        if heading is not None and shape.shape_id == heading.shape_id:
            continue
        if getattr(shape, "has_chart", False) or diagrams_in(shape._element):
            try:
                yield from _drawing(shape, page, title, limits)
            except (etree.XMLSyntaxError, *BROKEN):
                unread.append(page)
            continue
        yield from _shape(shape, page, title, pictures, limits)
    if slide.has_notes_slide:
        notes = slide.notes_slide.notes_text_frame
        if notes is not None and notes.text.strip():
            yield Paragraph(f"备注：{notes.text.strip()}", page)


def _alternatives(slide: Any) -> list[Any]:
    """Shapes that old readers are shown a picture of: those with equations. python-pptx passes over them."""
    from pptx.shapes.shapetree import SlideShapeFactory

    choices = slide.shapes._spTree.iter(_CHOICE)
    return [SlideShapeFactory(shape, slide.shapes) for choice in choices for shape in choice if shape.tag in _SHAPES]


def _flat(shapes: Sequence[Any], depth: int = 0) -> Iterator[Any]:
    """From the top down; what is grouped stays together."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes") and depth < _DEEPEST_GROUP:
            yield from _flat(list(shape.shapes), depth + 1)
        else:
            yield shape


def _shape(shape: Any, page: int, title: str, pictures: Pictures, limits: ParseLimits) -> Iterator[Block]:
    if getattr(shape, "has_table", False):
        yield from _table(shape.table, page, title, limits)
    elif shape.has_text_frame:
        lines = [_line(paragraph) for paragraph in shape.text_frame.paragraphs]
        if text := "\n".join(line for line in lines if line.strip()):
            yield Paragraph(text, page)
    elif hasattr(shape, "image"):
        try:
            data = shape.image.blob
        except (ValueError, KeyError, AttributeError):  # a linked picture, or one whose part is missing
            return
        yield from pictures.read(data, page)


def _line(paragraph: Any) -> str:
    if next(paragraph._p.iter(*EQUATIONS), None) is None:
        return str(paragraph.text).replace("\v", "\n")
    words = []
    for node in paragraph._p.iter(_A + "t", _A + "br", EQUATIONS[0]):
        words.append("\n" if node.tag == _A + "br" else linear(node) if node.tag == EQUATIONS[0] else node.text or "")
    return "".join(words)


def _drawing(shape: Any, page: int, title: str, limits: ParseLimits) -> Iterator[Block]:
    """A chart as the table it was drawn from, a diagram as its words. Raises what python-pptx and lxml raise."""
    for relation in diagrams_in(shape._element):
        if text := diagram_text(shape.part.related_part(relation).blob):
            yield Paragraph(text, page)
    if not getattr(shape, "has_chart", False):
        return
    chart = shape.chart
    named = clean(chart.chart_title.text_frame.text) if chart.has_title and chart.chart_title.has_text_frame else ""
    for plot in chart.plots:
        columns = [(one.name or f"系列{at}", _figures(one)) for at, one in enumerate(plot.series, 1)]
        if not 0 < len(plot.categories) * len(columns) <= limits.cells:
            raise ValueError("no categories, or too many")
        rows = [["类别", *(name for name, _ in columns)]]
        rows += [[label, *(values.get(at, "") for _, values in columns)] for at, label in enumerate(_labels(plot))]
        grid = place(
            (r, c, Cell(clean(text), header=r == 0)) for r, row in enumerate(rows) for c, text in enumerate(row)
        )
        yield from table_blocks(grid, page, title=named or title, header_rows=1)


def _labels(plot: Any) -> list[str]:
    """What the values belong to; days as days, which a chart keeps as Excel's numbers."""
    from openpyxl.styles.numbers import is_date_format

    code = plot._element.findtext(f"{_C}ser/{_C}cat//{_C}formatCode")
    return [_day(str(label)) if is_date_format(code) else str(label) for label in plot.categories]


def _day(text: str) -> str:
    from openpyxl.utils.datetime import from_excel

    try:
        return str(from_excel(float(text))).removesuffix(" 00:00:00")
    except (ValueError, OverflowError):
        return text


def _figures(series: Any) -> dict[int, str]:
    """Place → the value drawn there. Read in one go: python-pptx goes through all points for each of them."""
    points = series._element.iterfind(f"{_C}val//{_C}pt")
    values = ((point.get("idx", ""), _figure(point.findtext(_C + "v") or "")) for point in points)
    return {int(at): value for at, value in values if at.isdecimal()}


def _figure(text: str) -> str:
    try:
        value = float(text)
    except ValueError:  # #N/A: nothing is drawn there
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


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
    return table_blocks(place(placed), page, title=title)
