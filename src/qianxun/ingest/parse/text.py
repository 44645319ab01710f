"""Plain text: the text of record is the given text, line by line, with marks where headings and tables stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from qianxun.core.documents import Block, Heading, Mark, Paragraph, ParsedFile, TableBlock, TableSpan, Text
from qianxun.ingest.headings import may_have_headings, numbered_headings, outline
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.preprocess import normalise
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.pipes import pipe_tables

_LONGEST_TITLE = 40


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    """The text of a file, its first line as title if it is alone or a heading, the encoding in the metadata."""
    decoded = read_text(path)
    text = parse_text(decoded.text, path.stem)
    line, _, below = text.content.partition("\n")
    is_alone = below[:1] in ("", "\n") or (bool(text.marks) and text.marks[0] == Mark(0, text.marks[0].level, line))
    is_title = is_alone and len(line) <= _LONGEST_TITLE and not (text.tables and text.tables[0].start == 0)
    metadata = {"encoding": decoded.encoding}
    return ParsedFile((), "txt", line if is_title else "", metadata, (), decoded.warnings, text)


def parse_text(content: str, name: str = "") -> Text:
    """Every line of ``content``, normalised; tables drawn in it, its chapters and numbered headings are marked.

    ``name``, the document's, becomes the title of a table without caption.
    """
    content = normalise(content)
    lines = content.split("\n")
    if "|" not in content and not may_have_headings(lines):
        return Text(content)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    blocks: list[Block] = []
    prose: list[int] = []  # where the lines of these blocks begin
    tables: list[TableSpan] = []
    at = 0
    for found in pipe_tables(lines, name) if "|" in content else ():
        rows = tuple(starts[row] for row in found.rows)
        tables.append(TableSpan(starts[found.first], starts[found.last] - 1, found.table, rows))
        blocks += [*outline(lines[at : found.first]), TableBlock(found.table)]
        prose += (starts[line] for line in range(at, found.first) if lines[line])
        at = found.last
    blocks += outline(lines[at:])
    prose += (starts[line] for line in range(at, len(lines)) if lines[line])
    return Text(content, tuple(_marks(numbered_headings(blocks), prose)), tuple(tables))


def _marks(blocks: Iterable[Block], starts: Iterable[int]) -> Iterator[Mark]:
    """The headings among blocks that hold, in order, the lines which begin at ``starts``."""
    places = iter(starts)
    for block in blocks:
        if isinstance(block, TableBlock):
            continue
        start, *_ = [next(places) for _ in block.text.split("\n")]
        if isinstance(block, Heading):
            yield Mark(start, block.level, block.text)
        elif isinstance(block, Paragraph) and block.opens:
            yield Mark(start, block.level, block.opens)
