"""Content that a caller hands over as text: cleaned, with its headings and tables known."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from qianxun.core.errors import BadInput
from qianxun.core.types import ContentFormat, TableSpan, Text
from qianxun.ingest.assemble import assemble
from qianxun.ingest.preprocess import normalise
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.pipes import pipe_tables, title_from


def read_structure(content: str, format: ContentFormat, limits: ParseLimits | None = None, name: str = "") -> Text:
    """The text of record for ``content``. Plain text keeps every line as it is; tables drawn in it are known as such.

    ``name`` is the document's: the title of a table that has no caption and no heading above it.
    """
    if format == "text":
        return _plain(normalise(content), name)
    # Each needs its library only when it is asked for.
    if format == "html":
        from qianxun.ingest.parse.html import parse_text
    elif format == "markdown":
        from qianxun.ingest.parse.markdown import parse_text
    else:
        raise BadInput(f"不认识的内容格式 {format!r}", hint="可用：text、html、markdown")
    text = assemble(parse_text(content, limits or ParseLimits()))
    return replace(text, tables=tuple(_titled(span, title_from(name)) for span in text.tables))


def _titled(span: TableSpan, title: str) -> TableSpan:
    return span if span.table.title else replace(span, table=replace(span.table, title=title))


def _plain(content: str, name: str) -> Text:
    if "|" not in content:
        return Text(content)
    lines = content.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    spans = tuple(
        TableSpan(starts[found.first], starts[found.last] - 1, found.table, tuple(starts[row] for row in found.rows))
        for found in pipe_tables(lines, name)
    )
    return Text(content, tables=spans)
