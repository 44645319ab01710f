"""The text of a document in small messages: what a worker sends of a file, or of a content that came as text.

Whoever reads them never has a second copy of a long text, nor stops for long at one of them. JSON as in `serial`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from qianxun.core.documents import Mark, PageStart, ParsedFile, QAPair, TableSpan, Text
from qianxun.ingest.sandbox.serial import columns_of, read_metadata, read_table

MESSAGE_CHARACTERS: Final = 128 * 1024
_TOGETHER: Final = 6_000  # cells, or fields of marks, pages and questions


def messages_of(texts: Iterable[Text | ParsedFile]) -> Iterator[bytes]:
    """Texts, one after the other, as messages of about `MESSAGE_CHARACTERS`."""
    gathered: list[list[Any]] = []
    size = 0
    for text in texts:
        for record in _records(text):
            gathered.append(record)
            size += _size(record)
            if size >= MESSAGE_CHARACTERS:
                yield _message(gathered)
                gathered, size = [], 0
    if gathered:
        yield _message(gathered)


def _message(records: list[list[Any]]) -> bytes:
    return json.dumps(records, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _size(record: list[Any]) -> int:
    """Roughly the characters of a record."""
    if record[0] == "content":
        return len(record[1])
    return 10 * sum(len(part) if isinstance(part, list | tuple) else 1 for part in record[1])


def _records(text: Text | ParsedFile) -> Iterator[list[Any]]:
    if isinstance(text, Text):
        yield from _text_records(text)
        yield ["text", []]
    elif text.text is not None:
        yield from (["pairs", [[pair.question, pair.answer] for pair in part]] for part in _parts(text.pairs))
        yield from _text_records(text.text)
        yield ["file", [text.format, text.title, dict(text.metadata), list(text.warnings)]]


def _text_records(text: Text) -> Iterator[list[Any]]:
    for start in range(0, len(text.content), MESSAGE_CHARACTERS):
        yield ["content", text.content[start : start + MESSAGE_CHARACTERS]]
    yield from (["marks", [[mark.start, mark.level, mark.title] for mark in part]] for part in _parts(text.marks))
    yield from (["pages", [[page.start, page.page] for page in part]] for part in _parts(text.pages))
    for span in text.tables:
        table = span.table
        yield ["table", [span.start, span.end, table.title, columns_of(table), table.source, table.notes]]
        yield from (["starts", part] for part in _parts(span.row_starts))
        yield from (["rows", part] for part in _parts(table.rows, len(table.columns)))
        yield from (["texts", part] for part in _parts(table.texts, len(table.columns)))


def _parts(values: Sequence[Any], width: int = 3) -> Iterator[Sequence[Any]]:
    step = max(_TOGETHER // max(width, 1), 1)
    return (values[start : start + step] for start in range(0, len(values), step))


@dataclass
class _Table:
    fields: list[Any]
    starts: list[int] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    texts: list[Any] = field(default_factory=list)

    def span(self) -> TableSpan:
        start, end, title, columns, source, notes = self.fields
        table = read_table(title, columns, self.rows, self.texts, source, notes)
        return TableSpan(int(start), int(end), table, tuple(self.starts))


class TextReader:
    """Takes the messages of `messages_of`; ``texts`` and ``file`` have what is complete. Raises as `from_json` does."""

    def __init__(self) -> None:
        self.texts: list[Text] = []
        self.file: ParsedFile | None = None  # with the text that came last, if that is a file's
        self._begin()

    def _begin(self) -> None:
        self._content: list[str] = []
        self._marks: list[Mark] = []
        self._pages: list[PageStart] = []
        self._pairs: list[QAPair] = []
        self._tables: list[_Table] = []

    def read(self, message: bytes) -> None:
        for kind, value in json.loads(message.decode("utf-8", "surrogatepass")):
            if kind == "text":
                self.texts.append(self._text())
            elif kind == "file":
                self.file = self._file(*value)
            else:
                self._take(kind, value)

    def _take(self, kind: str, value: Any) -> None:
        match kind:
            case "content":
                self._content.append(str(value))
            case "marks":
                self._marks += [Mark(int(start), int(level), str(title)) for start, level, title in value]
            case "pages":
                self._pages += [PageStart(int(start), int(page)) for start, page in value]
            case "pairs":
                self._pairs += [QAPair(str(question), str(answer)) for question, answer in value]
            case "table":
                self._tables.append(_Table(value))
            case "starts":
                self._tables[-1].starts += map(int, value)
            case "rows":
                self._tables[-1].rows += value
            case "texts":
                self._tables[-1].texts += value
            case _:
                raise ValueError(f"unknown record {kind!r}")

    def _text(self) -> Text:
        tables = tuple(table.span() for table in self._tables)
        text = Text("".join(self._content), tuple(self._marks), tables, tuple(self._pages))
        self._begin()
        return text

    def _file(self, format: str, title: str, metadata: dict[str, Any], warnings: list[str]) -> ParsedFile:
        about = (str(format), str(title), read_metadata(metadata), tuple(self._pairs), tuple(map(str, warnings)))
        return ParsedFile((), *about, self._text())
