"""PDF: text page by page, ruled tables as tables, pages without text by OCR."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile, TableBlock
from qianxun.core.errors import MissingExtra, TooLarge, Unreadable
from qianxun.ingest.headings import heading_level, numbered_headings
from qianxun.ingest.parse.pages.pdf_lines import Line, in_reading_order, lines_of, ran_to_margin
from qianxun.ingest.parse.pages.pdf_tables import RuledTable, Tables
from qianxun.ingest.parse.pages.reflow import reflow
from qianxun.ingest.sandbox.limits import ParseLimits

_LITTLE_TEXT: Final = 30  # characters: a page with fewer and a picture on it is a scan with a stray label
_SCAN_SCALE: Final = 200 / 72
_SCAN_PIXELS: Final = 9_000_000
_NUMBER: Final = re.compile(r"\d+|^[IVXLC]{1,6}(?![A-Za-z])|(?<![A-Za-z])[IVXLC]{1,6}$")
_REPEATED: Final = 0.2  # a line that opens or closes this share of the pages is a running head or foot
_GOES_ON: Final = re.compile(r"^[(（]?(?:接上页|续上表|续表)|^表.{0,40}[(（]续[一二三四五六七八九十\d]{0,3}[)）]")
_SENTENCE_ENDS: Final = ("。", "！", "？", "；", "!", "?", ";")
_REGULAR: Final = 0.7  # of its steps from page to page
_PAGE_OF: Final = re.compile(r"[第共]\s*\d+\s*页|\bpage\s*\d+(?:\s*of\s*\d+)?", re.IGNORECASE)
_PAGE_NUMBER: Final = re.compile(
    r"第\s?\d{1,4}\s?页(?:[\s/，,]{0,3}[（(]?共\s?\d{1,4}\s?页[)）]?)?|page\s?\d{1,4}(?:\s?of\s?\d{1,4})?|"
    r"[-–—]{1,2}\s?\d{1,4}\s?[-–—]{1,2}|\d{1,4}\s?/\s?\d{1,4}",
    re.IGNORECASE,
)
_MANY_PAGES: Final = 4  # of fewer, what all have in their margins repeats
_MARGIN: Final = 0.1  # of the height of a page
_MOST_ANNOTATIONS: Final = 2_000
_ODD: Final = re.compile("[\ufffd\ue000-\uf8ff]")


@dataclass(slots=True)
class _Page:
    number: int
    height: float = 0.0
    bands: list[list[Line] | RuledTable] = field(default_factory=list)
    recognised: list[Block] = field(default_factory=list)


def parse(path: Path, limits: ParseLimits, on_page: Callable[[], None] = lambda: None) -> ParsedFile:
    document = _open(path)
    try:
        if len(document) > limits.pages:
            raise TooLarge(f"文档超过 {limits.pages} 页", hint="请拆分文件")
        notes: list[str] = []
        pages = list(_pages(document, path, limits, on_page, notes))
        headings = _bookmarks(document)
        information = document.get_metadata_dict()
    finally:
        document.close()
    running = _running_lines(pages)
    _join_tables(pages, running)
    blocks = [block for page in pages for block in _blocks(page, running, headings)]
    metadata = {"pages": len(pages), "ocr_pages": sum(bool(page.recognised) for page in pages)}
    return ParsedFile(tuple(numbered_headings(blocks)), "pdf", _title(information, path), metadata, (), tuple(notes))


def _open(path: Path) -> Any:
    try:
        import pypdfium2
    except ImportError as missing:
        raise MissingExtra("pypdfium2", "pdf") from missing
    try:
        document = pypdfium2.PdfDocument(path)
        document.init_forms()  # fields that were saved without their appearance get one
        return document
    except pypdfium2.PdfiumError as failure:
        if "assword" in str(failure):
            raise Unreadable("PDF 有密码", hint="请去掉密码后再添加") from failure
        raise Unreadable("PDF 已损坏或不完整", hint="请重新下载或导出") from failure


def _title(information: dict[str, str], path: Path) -> str:
    title = (information.get("Title") or "").strip()
    return title if len(title) > 1 and not title.startswith(("doi:", "Microsoft Word")) else path.stem


def _bookmarks(document: Any) -> dict[tuple[int, str], int]:
    """(page, title without spaces) → level, from the document's own outline."""
    found: dict[tuple[int, str], int] = {}
    for mark in document.get_toc(max_depth=6):
        target = mark.get_dest()
        title = "".join((mark.get_title() or "").split())
        if target is not None and title and len(found) < 10_000:
            page = target.get_index()
            if page is not None:
                found[page + 1, title] = mark.level + 1
    return found


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


def _pages(
    document: Any, path: Path, limits: ParseLimits, on_page: Callable[[], None], notes: list[str]
) -> Iterator[_Page]:
    unread = 0
    with closing(Tables(path, notes)) as tables:
        for index in range(len(document)):
            page, ok = _page(document, index, tables, limits)
            unread += not ok
            yield page
            on_page()
    if unread:
        notes.append(f"{unread} 页没有文字层，也未能识别（需要 qianxun[ocr] 并打开 ocr）")


def _page(document: Any, index: int, tables: Tables, limits: ParseLimits) -> tuple[_Page, bool]:
    """One page; the second value is False when it shows something that could not be read."""
    import pypdfium2

    try:
        page = _filled_in(document, index)
    except pypdfium2.PdfiumError:
        return _Page(index + 1), False
    try:
        text = page.get_textpage()
        content = text.get_text_range()
        if (len(content.strip()) < _LITTLE_TEXT and _has_picture(page, content)) or _is_garbled(content):
            blocks = _recognised(page, index + 1, limits)
            if blocks:
                return _Page(index + 1, recognised=blocks), True
            if not content.strip():
                return _Page(index + 1), blocks is not None
        return _Page(index + 1, page.get_height(), list(_bands(page, text, content, index, tables))), True
    finally:
        page.close()


def _filled_in(document: Any, index: int) -> Any:
    """A page with filled-in form fields and typed annotations, which are not part of its text otherwise."""
    import pypdfium2.raw as raw

    page = document[index]
    shown = False
    for at in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS) - 1, -1, -1):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        kind = raw.FPDFAnnot_GetSubtype(annotation) if annotation else raw.FPDF_ANNOT_UNKNOWN
        drawn = bool(annotation) and raw.FPDFAnnot_HasKey(annotation, b"AP")
        raw.FPDFPage_CloseAnnot(annotation)
        shown = shown or kind == raw.FPDF_ANNOT_WIDGET or (kind == raw.FPDF_ANNOT_FREETEXT and drawn)
        if kind == raw.FPDF_ANNOT_FREETEXT and not drawn:
            raw.FPDFPage_RemoveAnnot(page, at)  # pdfium would write it in an encoding of its own
    if not shown:
        return page
    raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)  # in memory; the page has to be opened anew
    page.close()
    return document[index]


def _has_picture(page: Any, content: str) -> bool:
    """Whether there is something to recognise: a picture, or, without any text, whatever is drawn (outlined type)."""
    import pypdfium2.raw as raw

    kinds = [raw.FPDF_PAGEOBJ_IMAGE] if content.strip() else None
    return any(True for _ in page.get_objects(filter=kinds, max_depth=3))


def _is_garbled(content: str) -> bool:
    """Text of a font without a character map comes out as private or replacement characters."""
    return len(_ODD.findall(content)) * 3 > len(content.strip()) > 0


def _recognised(page: Any, number: int, limits: ParseLimits) -> list[Block] | None:
    """The page by OCR; None when that is not possible here."""
    if not limits.ocr:
        return None
    from qianxun.ingest.parse.pages.image import read_page

    width, height = page.get_size()
    scale = min(_SCAN_SCALE, (_SCAN_PIXELS / max(width * height, 1.0)) ** 0.5)
    try:
        return read_page(page.render(scale=scale, rev_byteorder=False).to_numpy()[:, :, :3].copy(), number)
    except MissingExtra:
        return None


def _bands(page: Any, text: Any, content: str, index: int, tables: Tables) -> Iterator[list[Line] | RuledTable]:
    """The text in reading order; where it enters a table, the table instead."""
    found = tables.on(index, page, text)
    lines: list[Line] = []
    shown: set[int] = set()
    for part in lines_of(text, content, page.get_height(), found):
        if isinstance(part, Line):
            lines.append(part)
        elif part not in shown:
            shown.add(part)
            yield in_reading_order(lines)
            lines = []
            yield found[part]
    yield in_reading_order(lines)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _shape(line: str) -> str:
    return _NUMBER.sub("#", "".join(line.split()))


def _edge_lines(page: _Page) -> list[str]:
    """The two outermost rows at the top and at the bottom, wherever in the file they are written."""
    rows = [[one.text for one in row] for row in _rows(_lines_from_the_top(page))]
    rows += [[block.text] for block in page.recognised if isinstance(block, Paragraph)]
    return [text for row in (*rows[:2], *rows[-2:]) for text in row]


def _lines_from_the_top(page: _Page) -> list[Line]:
    return sorted((line for band in page.bands if isinstance(band, list) for line in band), key=lambda one: one.middle)


def _rows(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Lines from the top that stand side by side, together."""
    row: list[Line] = []
    for line in lines:
        if row and line.middle - row[-1].middle > row[-1].height / 2:
            yield row
            row = []
        row.append(line)
    if row:
        yield row


def _running_lines(pages: Sequence[_Page]) -> set[str]:
    """What many pages begin or end with, page numbers aside: heads, feet. In a short document all of them do."""
    written = [page for page in pages if page.bands or page.recognised]
    found: dict[str, list[tuple[int, list[int]]]] = {}
    for page in written:
        edges = _edge_lines(page) if len(written) >= _MANY_PAGES else _margins(page)
        for shape, line in {_shape(line): line for line in edges if len(line) <= 200}.items():
            numbers = [int(digits[:9]) for digits in re.findall(r"\d+", _PAGE_OF.sub("", line))]
            found.setdefault(shape, []).append((page.number, numbers))
    fewest = max(_MANY_PAGES, _REPEATED * len(written)) if len(written) >= _MANY_PAGES else max(len(written), 2)
    running = {
        shape for shape, lines in found.items() if len(lines) >= fewest and len(shape) <= 80 and _counts_pages(lines)
    }
    within = Counter(shape for page in written for shape in _shapes_within(page) if shape in running)
    return {shape for shape in running if within[shape] < len(found[shape])}  # a clause that paragraphs end in is text


def _shapes_within(page: _Page) -> Iterator[str]:
    """The lines of a page that are not at its edges."""
    rows = list(_rows(_lines_from_the_top(page)))
    return (_shape(line.text) for row in rows[2:-2] for line in row)


def _margins(page: _Page) -> list[str]:
    """The outermost rows where they lie in the margin, in type that is no larger than the rest: a title is."""
    lines = _lines_from_the_top(page)
    if not lines:
        return []
    usual = median(line.height for line in lines)
    rows = list(_rows(lines))
    return [
        line.text
        for row in (*rows[:2], *rows[-2:])
        for line in row
        if not _MARGIN * page.height < line.middle < (1 - _MARGIN) * page.height and line.height <= 1.1 * usual
    ]


def _counts_pages(lines: Sequence[tuple[int, list[int]]]) -> bool:
    """Whether the numbers stay as they are or count the pages, which begin at 1 again where files were put together.

    合计：1,250 元 under every receipt does neither.
    """
    steps = regular = 0
    for (page, numbers), (next_page, next_numbers) in pairwise(lines):
        if len(numbers) == len(next_numbers):
            steps += 1
            pairs = zip(numbers, next_numbers, strict=True)
            regular += all(0 <= b - a <= next_page - page or b == 1 for a, b in pairs)
    return regular >= _REGULAR * steps


def _running_on(page: _Page, running: set[str]) -> set[str]:
    numbers = {line for line in _margins(page) if _PAGE_NUMBER.fullmatch(line) or line == str(page.number)}
    return {line for line in _edge_lines(page) if _shape(line) in running} | numbers


def _join_tables(pages: Sequence[_Page], running: set[str]) -> None:
    """A table that goes on at the top of the next page becomes one, on the page where it begins."""
    open_table: tuple[_Page, int] | None = None  # a table with nothing below it, and its place on its page
    for page in pages:
        edges = _running_on(page, running)
        filled = [at for at, band in enumerate(page.bands) if _has_text(band, edges)]
        top = page.bands[filled[0]] if filled else None
        if open_table is not None and isinstance(top, RuledTable):
            above = open_table[0].bands[open_table[1]]
            whole = above.followed_by(top) if isinstance(above, RuledTable) else None
            if whole is not None:
                open_table[0].bands[open_table[1]] = whole
                page.bands[filled[0]] = []
                if len(filled) == 1:
                    continue
        open_table = (page, filled[-1]) if filled and isinstance(page.bands[filled[-1]], RuledTable) else None


def _has_text(band: list[Line] | RuledTable, edges: set[str]) -> bool:
    """Whether there is more than heads, feet and 续表 in it."""
    return isinstance(band, RuledTable) or any(
        line.text not in edges and not _GOES_ON.search(line.text) for line in band
    )


def _blocks(page: _Page, running: set[str], headings: dict[tuple[int, str], int]) -> Iterator[Block]:
    edges = _running_on(page, running)
    yield from (block for block in page.recognised if not (isinstance(block, Paragraph) and block.text in edges))
    last = ""
    for band in page.bands:
        if isinstance(band, RuledTable):
            table = band.read(last)
            if table is None:
                yield Paragraph(band.text(), page.number)
            else:
                yield TableBlock(table, page.number, band.pages_of(table))
            continue
        for paragraph in _paragraphs(_without_running(page, band, edges), page.number, headings):
            if not paragraph.text.endswith(_SENTENCE_ENDS):  # what is above a sentence may still be the title
                last = paragraph.text if len(paragraph.text) <= 60 else ""
            yield paragraph


def _without_running(page: _Page, band: Sequence[Line], edges: set[str]) -> list[Line]:
    """What is written again within the page stays: the title of a manual whose head repeats it."""
    rows = list(_rows(_lines_from_the_top(page)))
    outer = {id(line) for row in (*rows[:2], *rows[-2:]) for line in row}
    return [line for line in band if line.text not in edges or id(line) not in outer]


def _paragraphs(
    lines: Sequence[Line], page: int, headings: dict[tuple[int, str], int]
) -> Iterator[Heading | Paragraph]:
    run: list[Line] = []
    for line in lines:
        level = headings.get((page, "".join(line.text.split()))) or heading_level(line.text)
        if level is None:
            run.append(line)
            continue
        yield from _flowing(run, page)
        run = []
        yield Heading(" ".join(line.text.split()), level, page)
    yield from _flowing(run, page)


def _flowing(run: Sequence[Line], page: int) -> Iterator[Paragraph]:
    yield from (Paragraph(text, page) for text in reflow([line.text for line in run], ran_to_margin(run)))
