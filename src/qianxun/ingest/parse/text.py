"""Plain text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qianxun.core.errors import Unreadable
from qianxun.core.types import Block, Heading, Paragraph, ParsedFile, TableBlock
from qianxun.ingest.numbered_headings import numbered_headings
from qianxun.ingest.parse.encoding import Decoded, decode
from qianxun.ingest.parse.outline import outlined
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.tables.pipes import pipe_tables


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    """Paragraphs at empty lines, numbered chapters as headings, the encoding in the metadata."""
    decoded = read(path)
    blocks = _blocks(decoded.text.splitlines(), path.stem)
    first = blocks[0] if blocks else None
    title = ""
    if isinstance(first, Heading | Paragraph) and "\n" not in first.text and len(first.text) <= 40:
        title = " ".join(first.text.split())
    return ParsedFile(
        tuple(numbered_headings(blocks)), "txt", title, {"encoding": decoded.encoding}, (), decoded.warnings
    )


def _blocks(lines: Sequence[str], name: str) -> list[Block]:
    """Prose in paragraphs, and the tables that are drawn in it."""
    blocks: list[Block] = []
    at = 0
    for found in pipe_tables(lines, name):
        blocks += outlined(lines[at : found.first])
        blocks.append(TableBlock(found.table))
        at = found.last
    return blocks + outlined(lines[at:])


def read(path: Path, declared: str = "") -> Decoded:
    decoded = decode(path.read_bytes(), declared)
    if decoded is None:
        raise Unreadable("认不出文字编码", hint="请另存为 UTF-8 再试")
    return decoded
