"""A parsed file as JSON and back: what a parsing worker sends. Never pickle: the worker is not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from qianxun.core.documents import (
    Block,
    Column,
    Heading,
    Mark,
    PageStart,
    Paragraph,
    ParsedFile,
    QAPair,
    Table,
    TableBlock,
    TableSpan,
    Text,
)
from qianxun.core.filters import Metadata

Rows: TypeAlias = list[list[Any]]


def to_json(parsed: ParsedFile) -> bytes:
    return json.dumps(
        {
            "blocks": [_block(block) for block in parsed.blocks],
            "format": parsed.format,
            "title": parsed.title,
            "metadata": dict(parsed.metadata),
            "pairs": [[pair.question, pair.answer] for pair in parsed.pairs],
            "warnings": parsed.warnings,
            "text": None if parsed.text is None else _text(parsed.text),
        },
        ensure_ascii=True,  # halves of surrogates survive the way
    ).encode("ascii")


def from_json(data: bytes) -> ParsedFile:
    """Raises ValueError, KeyError or TypeError when this is not a parsed file."""
    fields = json.loads(data)
    return ParsedFile(
        tuple(_read_block(block) for block in fields["blocks"]),
        str(fields["format"]),
        str(fields["title"]),
        read_metadata(fields["metadata"]),
        tuple(QAPair(str(question), str(answer)) for question, answer in fields["pairs"]),
        tuple(str(warning) for warning in fields["warnings"]),
        None if fields["text"] is None else _read_text(*fields["text"]),
    )


def _block(block: Block) -> list[Any]:
    if isinstance(block, Heading):
        return ["h", block.page, block.text, block.level]
    if isinstance(block, Paragraph):
        return ["p", block.page, block.text, block.opens, block.level]
    return ["t", block.page, _table(block.table), block.row_pages]


def _read_block(fields: list[Any]) -> Block:
    kind, page, content = fields[0], fields[1], fields[2]
    if page is not None and not isinstance(page, int):
        raise ValueError("page")
    if kind == "h":
        return Heading(str(content), int(fields[3]), page)
    if kind == "p":
        return Paragraph(str(content), page, str(fields[3]), int(fields[4]))
    if kind != "t":
        raise ValueError(f"unknown block {kind!r}")
    return TableBlock(read_table(*content), page, tuple(int(row) for row in fields[3]))


def _table(table: Table) -> list[Any]:
    return [table.title, columns_of(table), table.rows, table.texts, table.source, table.notes]


def columns_of(table: Table) -> Rows:
    return [[column.name, column.path, column.kind, column.unit] for column in table.columns]


def read_table(title: str, columns: Rows, rows: Rows, texts: Rows, source: str, notes: str) -> Table:
    return Table(
        str(title),
        tuple(Column(str(name), tuple(path), cell_kind, str(unit)) for name, path, cell_kind, unit in columns),
        tuple(tuple(row) for row in rows),
        tuple(tuple(row) for row in texts),
        str(source),
        str(notes),
    )


def _text(text: Text) -> list[Any]:
    marks = [[mark.start, mark.level, mark.title] for mark in text.marks]
    tables = [[span.start, span.end, _table(span.table), span.row_starts] for span in text.tables]
    return [text.content, marks, tables, [[page.start, page.page] for page in text.pages]]


def _read_text(content: str, marks: Rows, tables: Rows, pages: Rows) -> Text:
    return Text(
        str(content),
        tuple(Mark(int(start), int(level), str(title)) for start, level, title in marks),
        tuple(
            TableSpan(int(start), int(end), read_table(*table), tuple(int(row) for row in rows))
            for start, end, table, rows in tables
        ),
        tuple(PageStart(int(start), int(page)) for start, page in pages),
    )


def read_metadata(fields: Mapping[str, Any]) -> Metadata:
    return {str(name): tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
