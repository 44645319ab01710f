"""A document that its metadata call a table: ``table_title``, ``table_headers``, ``table_type``.

Where the text has no table of its own, its lines are the rows, as far as they can be cut into the named columns. Lines
that cannot be stay as they are, below the title and the headers: found as a table, but no cell is made up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from qianxun.core.documents import Column, ContentFormat, Mark, PageStart, ParsedFile, Table, TableBlock, Text
from qianxun.core.filters import Metadata
from qianxun.ingest.assemble import assemble, read_structure
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.grid import Cell, clean, place
from qianxun.ingest.tables.read_table import read_table

NAMES: Final = ("table_title", "table_headers", "table_type")
_LISTED: Final = re.compile(r"[,，、;；|\t\n]")  # headers that are written as one text
# What may lie between the cells of a line, the plainest first.
_BETWEEN: Final = tuple(map(re.compile, (r"\t", r"\|", "[;；]", "[,，]", r"\s{2,}|\u3000", r"\s+", "、")))


@dataclass(frozen=True, slots=True)
class _Described:
    title: str
    headers: tuple[str, ...]


def about_table(metadata: Metadata) -> Metadata:
    """What the metadata say of the table that the document is; nothing where it is none."""
    return {name: metadata[name] for name in NAMES if metadata.get(name) not in (None, "", ())}


def read_content(
    content: str, format: ContentFormat, name: str, table: Metadata, limits: ParseLimits | None = None
) -> Text:
    """The text to store for a document, a table if anything is said of one. Raises as `read_structure` does."""
    if not table:
        return read_structure(content, format, limits, name)
    return _read_described(content, format, table, name, limits)


def _read_described(
    content: str, format: ContentFormat, metadata: Metadata, name: str, limits: ParseLimits | None
) -> Text:
    about = _Described(clean(str(metadata.get("table_title") or "")), _headers(metadata.get("table_headers")))
    text = read_structure(content, format, limits, about.title or name)
    if text.tables:
        return _under_title(text, about.title)
    table = _table(text.content, about) or Table(
        about.title, tuple(Column(header, (header,)) for header in about.headers), (), (), notes=text.content
    )
    return assemble(ParsedFile((TableBlock(table),), "text", title=name))


def _headers(given: object) -> tuple[str, ...]:
    parts = _LISTED.split(given) if isinstance(given, str) else given if isinstance(given, tuple | list) else ()
    return tuple(filter(None, (clean(str(part)) for part in parts)))


def _under_title(text: Text, title: str) -> Text:
    """With the title above it where it is not in the text: words find what is there to be read."""
    if not title or title in text.content or text.marks:
        return text
    by = len(title) + 2
    return Text(
        f"{title}\n\n{text.content}",
        (Mark(0, 1, title),),
        tuple(
            replace(
                span,
                start=span.start + by,
                end=span.end + by,
                table=replace(span.table, title=title),
                row_starts=tuple(row + by for row in span.row_starts),
            )
            for span in text.tables
        ),
        tuple(PageStart(page.start + by, page.page) for page in text.pages),
    )


def _table(content: str, about: _Described) -> Table | None:
    """None if the lines cannot be cut into the columns."""
    lines = [line.strip() for line in content.split("\n") if line.strip()]
    if lines and clean(lines[0]) == about.title:
        del lines[0]
    rows = _labelled(lines, about.headers) or _cut(lines, len(about.headers))
    if rows and about.headers and rows[0] != about.headers:
        rows = [about.headers, *rows]
    if len(rows) < 2:
        return None
    cells = ((r, c, Cell(text, header=r == 0)) for r, row in enumerate(rows) for c, text in enumerate(row))
    grid = place(list(cells))
    return read_table(grid, title=about.title, header_rows=1 if about.headers else None, titled=False)


def _cut(lines: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """Every line cut at the same mark into ``width`` cells; without a width, into as many as the first."""
    for between in _BETWEEN:
        rows = [tuple(clean(cell) for cell in between.split(line.strip("|"))) for line in lines]
        if rows and (width or len(rows[0])) > 1 and all(len(row) == (width or len(rows[0])) for row in rows):
            return rows
    return []


def _labelled(lines: Sequence[str], headers: Sequence[str]) -> list[tuple[str, ...]]:
    """Lines that name the column before each cell: 药品：胰岛素，剂量：10单位."""
    if len(headers) < 2:
        return []
    names = "|".join(map(re.escape, sorted(headers, key=len, reverse=True)))
    label = re.compile(rf"(?:^|[\s,，;；、|])({names})\s*[:：]\s*")
    rows = []
    for line in lines:
        parts = label.split(line)
        cells = {parts[at]: clean(parts[at + 1]).rstrip("。") for at in range(1, len(parts), 2)}
        if parts[0].strip() or len(cells) != len(headers):
            return []
        rows.append(tuple(cells[header] for header in headers))
    return rows
