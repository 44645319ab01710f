"""Documents, tables and facts to rows and back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Row

from qianxun.core.codec.passage import PATH
from qianxun.core.graph_types import Facts, Mention, StatedAlias, Statement
from qianxun.core.ingest_types import Labels
from qianxun.core.types import (
    Attributes,
    ChunkKind,
    Column,
    Document,
    Mark,
    Metadata,
    PageStart,
    QAPair,
    Table,
    TableSpan,
    Text,
)
from qianxun.core.unicode import storable
from qianxun.records.schema import VersionRow

VERSION = (
    "name", "format", "content_type", "user_id", "project_id", "tags", "metadata", "source", "structure", "content",
)  # fmt: skip
ATTRIBUTES = (  # what `attributes_of` reads
    VersionRow.user_id,
    VersionRow.project_id,
    VersionRow.content_type,
    VersionRow.tags,
    VersionRow.extra.label("metadata"),
)
PARSER_NAMES = frozenset(("format", "title", PATH, "encoding", "delimiter", "pages", "ocr_pages"))
TABLE = ("start", "end", "row_starts", "title", "source", "notes", "columns", "rows", "texts")


def version_values(document: Document) -> tuple[Any, ...]:
    """The columns `VERSION`, which come from the document itself."""
    return (
        document.name[:512],
        document.format,
        document.content_type,
        document.user_id,
        document.project_id,
        list(document.tags),
        {key: _plain(value) for key, value in document.metadata.items()},
        document.source,
        _structure(document.structure, document.label_names),
        document.content,
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _structure(text: Text | None, label_names: Sequence[str]) -> dict[str, Any] | None:
    """Headings, pages, and which metadata people gave; tables have rows of their own. None: still to be derived from
    the content."""
    if text is None:
        return None
    return {
        "marks": [[mark.start, mark.level, mark.title] for mark in text.marks],
        "pages": [[page.start, page.page] for page in text.pages],
        "labels": list(label_names),
    }


def structure_texts(text: Text | None) -> Iterator[str]:
    """Every text of a structure that is stored besides the content; a table's cells in one."""
    if text is None:
        return
    yield from (mark.title for mark in text.marks)
    for span in text.tables:
        table = span.table
        yield from (table.title, table.source, table.notes)
        yield "\n".join(name for column in table.columns for name in (column.name, column.unit, *column.path))
        yield "\n".join(cell for row in (*table.texts, *table.rows) for cell in row if isinstance(cell, str))


def table_values(span: TableSpan) -> tuple[Any, ...]:
    """The columns `TABLE`."""
    table = span.table
    return (
        span.start,
        span.end,
        list(span.row_starts),
        table.title,
        table.source,
        table.notes,
        [[column.name, list(column.path), column.kind, column.unit] for column in table.columns],
        [[None if is_endless(cell) else cell for cell in row] for row in table.rows],
        [list(row) for row in table.texts],
    )


def table_of(row: Any) -> Table:
    """``row`` has the columns of a stored table by their names."""
    return Table(
        title=row.title,
        columns=columns_of(row.columns),
        rows=tuple(tuple(cells) for cells in row.rows),
        texts=tuple(tuple(cells) for cells in row.texts),
        source=row.source,
        notes=row.notes,
    )


def columns_of(stored: Sequence[Sequence[Any]]) -> tuple[Column, ...]:
    return tuple(Column(name, tuple(path), kind, unit) for name, path, kind, unit in stored)


def document_of(doc_id: str, version: Row[Any], tables: Sequence[Row[Any]], pairs: Sequence[Row[Any]]) -> Document:
    return Document(
        id=doc_id,
        content=version.content,
        name=version.name,
        format=version.format,
        content_type=version.content_type,
        user_id=version.user_id,
        project_id=version.project_id,
        tags=tuple(version.tags),
        metadata=metadata_of(version.metadata),
        structure=_text_of(version, tables),
        pairs=tuple(QAPair(pair.question, pair.answer) for pair in pairs),
        source=version.source,
        label_names=tuple((version.structure or {}).get("labels", ())),
    )


def labels_of(version: Row[Any]) -> Labels:
    """What people gave with a document. A version that does not say which of its metadata that is was stored by
    an earlier program: all that parsers do not write themselves."""
    names = (version.structure or {}).get("labels")
    metadata = {
        name: value
        for name, value in metadata_of(version.metadata).items()
        if (name not in PARSER_NAMES if names is None else name in names)
    }
    return Labels(version.user_id, version.project_id, version.content_type, tuple(version.tags), metadata)


def _text_of(version: Row[Any], tables: Sequence[Row[Any]]) -> Text | None:
    if version.structure is None:
        return None
    return Text(
        content=version.content,
        marks=tuple(Mark(start, level, title) for start, level, title in version.structure["marks"]),
        tables=tuple(TableSpan(row.start, row.end, table_of(row), tuple(row.row_starts)) for row in tables),
        pages=tuple(PageStart(start, page) for start, page in version.structure["pages"]),
    )


def metadata_of(stored: dict[str, Any]) -> Metadata:
    return {
        key: tuple(map(_scalar_of, value)) if isinstance(value, list) else _scalar_of(value)
        for key, value in stored.items()
    }


def _scalar_of(value: Any) -> Any:
    """Objects and lists within lists were stored once, and no index can store them: they come back as text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def attributes_of(doc_id: str, version: Row[Any], kind: ChunkKind = "text") -> Attributes:
    return Attributes(
        doc_id=doc_id,
        user_id=version.user_id,
        project_id=version.project_id,
        content_type=version.content_type,
        tags=tuple(version.tags),
        metadata=metadata_of(version.metadata),
        kind=kind,
    )


def attributes_from(document: Document, kind: ChunkKind) -> Attributes:
    return Attributes(
        doc_id=document.id,
        user_id=document.user_id,
        project_id=document.project_id,
        content_type=document.content_type,
        tags=document.tags,
        metadata=document.metadata,
        kind=kind,
    )


def is_endless(value: object) -> bool:
    """True for infinity and NaN: JSON has neither, and PostgreSQL refuses the words that Python has for them."""
    return isinstance(value, float) and not math.isfinite(value)


# ── facts of the graph ────────────────────────────────────────────────────────────────────────────


def pack_facts(facts: Facts) -> str:
    """Facts as compact JSON (there is one for every chunk): every name once, then numbers.

    [names with their types, mentions, statements, aliases, sentences]. A mention is a name's number and how far after
    the one before it begins; most end where their name does, the others have their length after a -1.
    """
    names: dict[tuple[str, str], int] = {}
    by_name: dict[str, int] = {}  # a statement refers to mentions by name, whatever their type

    def at(name: str, kind: str = "") -> int:
        if not kind and name in by_name:
            return by_name[name]
        found = names.setdefault((name, kind), len(names))
        by_name.setdefault(name, found)
        return found

    mentions: list[int] = []
    before = 0
    for mention in facts.mentions:
        length = mention.end - mention.start
        mentions += (at(mention.name, mention.type), mention.start - before)
        mentions += () if length == len(mention.name) else (-1, length)
        before = mention.start
    statements = [
        part
        for stated in facts.statements
        for part in (at(stated.source), at(stated.target), at(stated.type), stated.start, stated.end)
    ]
    aliases = [part for alias in facts.aliases for part in (at(alias.name), at(alias.alias), alias.start, alias.end)]
    sentences = [part for span in facts.sentences for part in span]
    written: list[list[Any]] = [[storable(part) for pair in names for part in pair]]
    parts = [*written, mentions, statements, aliases, sentences]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def unpack_facts(stored: str) -> Facts:
    """What `pack_facts` was given."""
    parts: list[list[Any]] = json.loads(stored)
    parts += [[]] * (5 - len(parts))
    pairs, mentions, statements, aliases, sentences = parts
    names, kinds = pairs[::2], pairs[1::2]
    return Facts(
        tuple(_mentions(names, kinds, mentions)),
        tuple(
            Statement(names[source], names[target], names[kind], start, end)
            for source, target, kind, start, end in _by(5, statements)
        ),
        tuple(StatedAlias(names[name], names[alias], start, end) for name, alias, start, end in _by(4, aliases)),
        tuple((start, end) for start, end in _by(2, sentences)),
    )


def _mentions(names: Sequence[str], kinds: Sequence[str], flat: Sequence[int]) -> Iterator[Mention]:
    place = start = 0
    while place < len(flat):
        name = names[flat[place]]
        start += flat[place + 1]
        size, step = (flat[place + 3], 4) if flat[place + 2 : place + 3] == [-1] else (len(name), 2)
        yield Mention(name, kinds[flat[place]], start, start + size)
        place += step


def _by(count: int, flat: Sequence[int]) -> Iterable[tuple[int, ...]]:
    return zip(*[iter(flat)] * count, strict=True)
