"""The text of record of a parsed file: its blocks joined, every offset exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from qianxun.core.types import Block, Heading, Mark, PageStart, Paragraph, ParsedFile, Table, TableSpan, Text
from qianxun.ingest.preprocess import normalise
from qianxun.ingest.tables.grid import lines

_GAP = "\n\n"
_INDENTED = ("markdown", "html")  # formats whose paragraphs may be program code or nested lists


def assemble(parsed: ParsedFile) -> Text:
    """Blocks separated by blank lines, cleaned one by one, with marks, table spans and page starts.

    A table with no title of its own is known by the file's; its text stays as the file shows it.
    """
    parts: list[str] = []
    marks: list[Mark] = []
    tables: list[TableSpan] = []
    pages: list[PageStart] = []
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
        elif isinstance(block, Paragraph):
            if block.opens:
                marks.append(Mark(start, block.level, normalise(block.opens)))
        else:
            row_starts = tuple(start + row for row in rows)
            table = block.table if block.table.title else replace(block.table, title=parsed.title)
            tables.append(TableSpan(start, start + len(body), table, row_starts))
            if len(block.row_pages) == len(row_starts):
                pages.extend(_turned(row_starts, block.row_pages, pages[-1].page if pages else None))
        parts.append(body)
        offset = start + len(body)
    return Text(_GAP.join(parts), tuple(marks), tuple(tables), tuple(pages))


def _turned(starts: Iterable[int], rows: Iterable[int], page: int | None) -> Iterator[PageStart]:
    """Where the rows of a table come to another page."""
    for start, at in zip(starts, rows, strict=True):
        if at != page:
            yield PageStart(start, at)
            page = at


def _body(block: Block, indent: bool) -> tuple[str, tuple[int, ...]]:
    if isinstance(block, Heading):
        return " ".join(normalise(block.text).split()), ()
    if isinstance(block, Paragraph):
        return normalise(block.text, indent=indent), ()
    return _table_body(block.table)


def _table_body(table: Table) -> tuple[str, tuple[int, ...]]:
    above, rows, below = lines(table)
    parts = list(_cleaned(above))
    offset = sum(len(line) + 1 for line in parts)
    starts: list[int] = []
    for row in rows:
        line = _one_line(row)
        starts.append(offset)
        parts.append(line)
        offset += len(line) + 1
    parts.extend(_cleaned(below))
    return "\n".join(parts), tuple(starts)


def _cleaned(texts: Iterable[str]) -> Iterable[str]:
    return filter(None, map(_one_line, texts))


def _one_line(text: str) -> str:
    return normalise(text).replace("\n", " ")
