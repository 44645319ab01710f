"""A document as it is stored: metadata checked, text cleaned, structure and fingerprint known.

`read_documents` reads texts, in the workers that parse files; `indexing.files` reads files and shares the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput
from qianxun.core.governance.validity import stated_validity
from qianxun.core.ingest_types import Labels
from qianxun.core.limits import METADATA_CHARACTERS
from qianxun.core.system.gc_pause import bulk_step
from qianxun.core.types import ContentFormat, Document, Metadata, MetadataValue, QAPair, Scalar, Submission, Text
from qianxun.ingest.sandbox.pool import RawText
from qianxun.ingest.tables.from_metadata import about_table, read_content

READ_CHARACTERS = 1_000_000  # by a worker at once
# A plain text of about one chunk is read here: starting a worker takes half a second. No pattern is worse than linear
# (a test sees to that); a cubic one that slipped through would take about a second at this length, and not a minute.
READ_HERE = 500
PARSER_VERSION = "6"  # part of a fingerprint: unchanged files, and texts with headings, are read again by a better one


async def read_documents(base: OpenBase, batch: Sequence[Document], generation: int | None = None) -> list[Submission]:
    """Documents as they are stored: metadata checked, text cleaned, structure and fingerprint known.

    Raises BadInput or Refused.
    """
    checked = await asyncio.to_thread(_checked, batch)
    texts: dict[int, Text] = {}
    for places in _together(checked):
        raw = [_raw(checked[place]) for place in places]
        texts.update(zip(places, await base.parsers.read_texts(raw, base.about.tenant), strict=True))
    return await asyncio.to_thread(_submissions, base, checked, texts, generation)


def _raw(document: Document) -> RawText:
    return RawText(document.content, document.format, document.name, about_table(document.metadata))


def _checked(batch: Sequence[Document]) -> list[Document]:
    with bulk_step():
        return [_checked_document(document) for document in batch]


def _checked_document(document: Document) -> Document:
    metadata = checked_metadata({**document.stated_dates(), **document.metadata})
    format = document.format if document.structure is not None else content_format(document)
    if not metadata and not document.metadata and format == document.format:
        return document  # as most are: copying all their fields takes longer than looking at them
    return replace(document, metadata=metadata, format=format)


def _together(batch: Sequence[Document]) -> Iterator[list[int]]:
    """The places of documents that a worker has to read, in groups."""
    group: list[int] = []
    size = 0
    for at, document in enumerate(batch):
        if document.structure is None and not _is_read_here(document):
            if group and size + len(document.content) > READ_CHARACTERS:
                yield group
                group, size = [], 0
            group.append(at)
            size += len(document.content)
    if group:
        yield group


def _is_read_here(document: Document) -> bool:
    return document.format == "text" and len(document.content) <= READ_HERE


def _submissions(
    base: OpenBase, batch: Sequence[Document], texts: Mapping[int, Text], generation: int | None
) -> list[Submission]:
    with bulk_step():
        return [_submission(base, document, texts.get(at), generation) for at, document in enumerate(batch)]


def _submission(base: OpenBase, document: Document, text: Text | None, generation: int | None) -> Submission:
    if document.structure is None:
        text = text or read_content(*_raw(document))
        if document.format != "text" or text.marks or text.tables or text.content != document.content:
            document = replace(document, content=text.content, structure=text)
    labels = Labels(document.user_id, document.project_id, document.content_type, document.tags, document.metadata)
    has_headings = document.structure is not None and bool(document.structure.marks)
    reading = f"{document.format}/{PARSER_VERSION}" if has_headings else document.format
    mark = fingerprint(base, document.content, document.name, reading, labels, document.pairs)
    return Submission(document, mark, generation)


def content_format(document: Document) -> ContentFormat:
    """The document's own format or, where it names none, that of its metadata."""
    named = document.metadata.get("format") if document.format == "text" else None
    return named if named in ("html", "markdown") else document.format  # type: ignore[return-value]  # one of these


def fingerprint(
    base: OpenBase, content: str, name: str, reading: str, labels: Labels, pairs: Sequence[QAPair] = ()
) -> str:
    """Equal only for the same content, labels and chunking: such a document need not be indexed again."""
    chunking = (base.splitter.chunk_size, base.splitter.chunk_overlap, base.by_meaning)
    about = (labels.user_id, labels.project_id, labels.content_type, labels.tags, sorted(labels.metadata.items()))
    digest = hashlib.blake2b(repr((chunking, name, reading, about)).encode(), digest_size=20)
    digest.update(content.encode("utf-8", "surrogatepass"))
    if pairs:
        digest.update(repr([(pair.question, pair.answer) for pair in pairs]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def checked_metadata(metadata: Mapping[Any, Any]) -> Metadata:
    """Metadata as records and index store it: lists as tuples, without the names that have no value.

    Raises BadInput for what could be stored but never indexed: it would keep everything written after it waiting.
    """
    for name in metadata:
        if not isinstance(name, str):
            raise BadInput(f"metadata 的键 {name!r} 不是文字", hint="键写成文字")
    stated_validity(metadata)
    checked = {name: _metadata_value(name, value) for name, value in metadata.items() if value is not None}
    if (size := sum(map(_characters, (*checked, *checked.values())))) > METADATA_CHARACTERS:
        raise BadInput(
            f"metadata 共 {size} 个字符，超过 {METADATA_CHARACTERS}",
            hint="长的文字写进正文，metadata 只放用来过滤与显示的",
        )
    return checked


def _characters(value: MetadataValue) -> int:
    return sum(map(len, map(str, value))) if isinstance(value, tuple) else len(str(value))


def _metadata_value(name: str, value: Any) -> MetadataValue:
    if isinstance(value, list | tuple):
        return tuple(_scalar(name, item) for item in value)
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):  # and so bool
        return value
    kind = value if isinstance(value, float) else type(value).__name__
    raise BadInput(
        f"metadata.{name[:80]} 的值应为文字、数字、真假，或它们的列表，不能是 {kind}",
        hint="日期写成文字，如 2024-05-01；里面还有键值对的，展开成几个键",
    )
