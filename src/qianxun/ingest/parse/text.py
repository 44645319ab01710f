"""Plain text."""

from __future__ import annotations

from pathlib import Path

from qianxun.core.types import Block, Heading, Paragraph, ParsedFile, Table, TableBlock
from qianxun.ingest.headings import numbered_headings, outline
from qianxun.ingest.parse.encoding import read_text
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.pipes import split_at_tables


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    """Paragraphs at empty lines, numbered chapters as headings, the encoding in the metadata."""
    decoded = read_text(path)
    blocks: list[Block] = []
    for part in split_at_tables(decoded.text.splitlines(), path.stem):
        blocks += [TableBlock(part)] if isinstance(part, Table) else outline(part)
    first = blocks[0] if blocks else None
    title = ""
    if isinstance(first, Heading | Paragraph) and "\n" not in first.text and len(first.text) <= 40:
        title = " ".join(first.text.split())
    metadata = {"encoding": decoded.encoding}
    return ParsedFile(tuple(numbered_headings(blocks)), "txt", title, metadata, (), decoded.warnings)
