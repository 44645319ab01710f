"""Blocks to the text that is stored: joined, with exact offsets of headings, tables and pages.

`assemble` takes a parsed file, `read_structure` content that a caller passes as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qianxun.core.documents import (
    Block,
    ContentFormat,
    Heading,
    Mark,
    PageStart,
    Paragraph,
    ParsedFile,
    TableSpan,
    Text,
)
from qianxun.core.errors import BadInput
from qianxun.ingest.parse.text import parse_text
from qianxun.ingest.preprocess import normalise
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.pipes import title_from
from qianxun.ingest.tables.render import render

_GAP = "\n\n"
_UNIT = re.compile(r"[（(【\[]?(?:(?:金额|计量|货币|数量|计价)的?)?单位[:：][^。；;\n]{1,20}(?=[。；;\n]|$)")
_INDENTED = ("markdown", "html")  # formats whose paragraphs may be program code or nested lists


def assemble(parsed: ParsedFile) -> Text:
    """Blocks separated by blank lines, normalised one by one, with marks, table spans and page starts.

    A table without a title gets the file's, and the unit that the text right above or below it states; its text stays
    as the file shows it. Plain text stays whole.
    """
    if parsed.text is not None:
        return parsed.text
    parts: list[str] = []
    marks: list[Mark] = []
    pages: list[PageStart] = []
    around: list[tuple[TableSpan | None, str]] = []  # tables, and the paragraphs between them
    offset = 0
    for block in parsed.blocks:
        body, rows = _body(block, indent=parsed.format in _INDENTED)
        if not body:
            continue
        start = offset + len(_GAP) if parts else 0
        if block.page is not None and (not pages or pages[-1].page != block.page):
            pages.append(PageStart(start, block.page))
        if isinstance(block, Heading):
            marks.append(Mark(start, block.level, body))
            around.append((None, ""))
        elif isinstance(block, Paragraph):
            if block.opens:
                marks.append(Mark(start, block.level, normalise(block.opens)))
            around.append((None, body))
        else:
            row_starts = tuple(start + row for row in rows)
            table = block.table if block.table.title else replace(block.table, title=parsed.title)
            around.append((TableSpan(start, start + len(body), table, row_starts), ""))
            if len(block.row_pages) == len(row_starts):
                pages.extend(_page_starts(row_starts, block.row_pages, pages[-1].page if pages else None))
        parts.append(body)
        offset = start + len(body)
    return Text(_GAP.join(parts), tuple(marks), tuple(_state_units(around)), tuple(pages))


def _state_units(around: Sequence[tuple[TableSpan | None, str]]) -> Iterator[TableSpan]:
    """The tables, each with the unit that is all of the line above it, or begins the text below it.

    A line between two tables that says nothing but a unit is the second one's.
    """
    nothing = (None, "")
    for (_, above), (span, _), (_, below), (following, _) in zip(
        [nothing, *around], around, [*around[1:], nothing], [*around[2:], nothing, nothing], strict=False
    ):
        if span is None:
            continue
        stated = _UNIT.fullmatch(above) or _UNIT.match(below)
        if stated and not (stated.string is below and following and stated.end() == len(below)):
            notes = "\n".join(filter(None, (stated.group(), span.table.notes)))
            span = replace(span, table=replace(span.table, notes=notes))
        yield span


def _page_starts(starts: Iterable[int], rows: Iterable[int], page: int | None) -> Iterator[PageStart]:
    """Where the rows of a table move to another page."""
    for start, at in zip(starts, rows, strict=True):
        if at != page:
            yield PageStart(start, at)
            page = at


def _body(block: Block, indent: bool) -> tuple[str, tuple[int, ...]]:
    if isinstance(block, Heading):
        return " ".join(normalise(block.text).split()), ()
    if isinstance(block, Paragraph):
        return normalise(block.text, indent=indent), ()
    return render(block.table, _one_line)


def _one_line(text: str) -> str:
    return normalise(text).replace("\n", " ")


# ── content that a caller hands over as text ──────────────────────────────────────────────────────


def read_structure(content: str, format: ContentFormat, limits: ParseLimits | None = None, name: str = "") -> Text:
    """The text to store for ``content``. Plain text keeps every line as it is; headings and tables in it are marked.

    ``name``, the document's, becomes the title of a table without caption and heading. Raises BadInput.
    """
    if format == "text":
        return parse_text(content, name)
    # Each loads its library only when needed.
    if format == "html":
        from qianxun.ingest.parse.html import parse_text as parse_marked_up
    elif format == "markdown":
        from qianxun.ingest.parse.markdown import parse_text as parse_marked_up
    else:
        raise BadInput(f"不认识的内容格式 {format!r}", hint="可用：text、html、markdown")
    text = assemble(parse_marked_up(content, limits or ParseLimits()))
    return replace(text, tables=tuple(_titled(span, title_from(name)) for span in text.tables))


def _titled(span: TableSpan, title: str) -> TableSpan:
    return span if span.table.title else replace(span, table=replace(span.table, title=title))
