"""From a parsed file to a text of record: tables, blocks, pieces; a `Document` as a caller hands it over; and a chunk
of one with its vector, as a vector database takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from qianxun.core.errors import BadInput
from qianxun.core.filters import ChunkKind, Metadata
from qianxun.core.governance.corrections import Corrected

Made = TypeVar("Made")
CellValue: TypeAlias = str | int | float | bool | None
ContentFormat: TypeAlias = Literal["text", "html", "markdown"]
FIELD_ORDER: Final = (
    "id", "user_id", "project_id", "content", "content_type", "metadata", "created_at", "updated_at",
)  # fmt: skip


# ── tables and parsed documents ──────────────────────────────────────────────────────────────────

ColumnKind: TypeAlias = Literal["text", "category", "number", "percent", "money", "date", "boolean"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``path`` holds every header above it: ("2023年", "销售额")."""

    name: str
    path: tuple[str, ...]
    kind: ColumnKind = "text"
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as structure. ``rows`` are typed, ``texts`` the same cells as the author showed them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    source: str = ""  # where in the file: sheet name, page, caption
    notes: str = ""


@dataclass(frozen=True, slots=True)
class RowCells:
    """One row of a table: its values and, as the author showed them, its texts."""

    values: tuple[CellValue, ...]
    texts: tuple[str, ...]


CorrectedRows: TypeAlias = Mapping[int, tuple[RowCells, ...]]
"""What corrections put in the place of a table's rows, by their numbers; nothing: the row was taken out."""


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question and its answer: given, imported, or made by a model."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int  # 1 is the top
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text. ``opens`` is the number with which it begins a section of ``level``, where it has no line to itself."""

    text: str
    page: int | None = None
    opens: str = ""
    level: int = 0


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table. ``row_pages`` says of each row where it stands, where they stand on more than one page."""

    table: Table
    page: int | None = None
    row_pages: tuple[int, ...] = ()


Block: TypeAlias = Heading | Paragraph | TableBlock


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a parser found in one file, in reading order."""

    blocks: tuple[Block, ...]
    format: str  # "pdf", "xlsx", ...
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    pairs: tuple[QAPair, ...] = ()
    warnings: tuple[str, ...] = ()  # what was left out and why, for people to read
    text: Text | None = None  # instead of blocks, where the text is stored as the file has it


# ── the text of record and its chunks ────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Mark:
    """A heading in a text: everything from ``start`` to the next mark of its level or above is below it."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class TableSpan:
    """Where a table's rendering stands in a text. ``row_starts`` are absolute offsets of its data rows."""

    start: int
    end: int
    table: Table
    row_starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PageStart:
    start: int
    page: int


@dataclass(frozen=True, slots=True)
class Text:
    """The text of record of one document, with what is known of its structure."""

    content: str
    marks: tuple[Mark, ...] = ()
    tables: tuple[TableSpan, ...] = ()
    pages: tuple[PageStart, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk as the splitter cuts it.

    ``content[start:end]`` is the piece's body. ``lead`` stands before the body and is not part of that span:
    the repeated header of a table's later rows; empty for prose. ``text`` is what is embedded and shown.
    ``page`` is the one that holds most of it.
    """

    start: int
    end: int
    body: str
    lead: str = ""
    kind: ChunkKind = "text"
    headings: tuple[str, ...] = ()
    page: int | None = None
    table: int | None = None  # position in Text.tables
    corrected: Corrected | None = None  # by people; the body of one that was edited is not at its span

    @property
    def text(self) -> str:
        return self.lead + self.body


# ── documents ────────────────────────────────────────────────────────────────────────────────────


class Unstated(datetime):
    """The moment at which a document was made into a value: not a date that anybody gave it."""

    @classmethod
    def here(cls) -> Self:
        return cls.now()

    def __repr__(self) -> str:
        return "Unstated()"


def _in_either_order(made: type[Made]) -> type[Made]:
    """``(id, content)``, or everything in `FIELD_ORDER`: what could be meant either way is refused, never guessed."""
    init: Any = made.__init__

    @wraps(init)
    def __init__(self: Made, *given: Any, **named: Any) -> None:
        if len(given) < 3 and not (len(given) == 2 and "content" in named):
            init(self, *given, **named)
            return
        by_order = dict(zip(FIELD_ORDER, given, strict=False))
        # (id, content, name, format) was an order, too, and the fourth is never a format in this one.
        is_unclear = len(given) == 4 and given[3] in ("text", "html", "markdown")
        if is_unclear or len(given) > len(FIELD_ORDER) or not {"content", "content_type"} <= {*by_order, *named}:
            raise BadInput(
                f"Document 有 {len(given)} 个没有写名字的值，说不清哪个是正文",
                hint=f"写成 Document(id, content, user_id=…)，或依次写 {'、'.join(FIELD_ORDER)}",
            )
        if twice := sorted(by_order.keys() & named.keys()):
            raise BadInput(f"Document 的 {'、'.join(twice)} 给了两次", hint="按次序写了的，不要再写名字")
        if wrong := [name for name in FIELD_ORDER[:5] if not isinstance(by_order.get(name, ""), str)]:
            raise BadInput(f"Document 的 {'、'.join(wrong)} 须为文字", hint=f"次序是 {'、'.join(FIELD_ORDER)}")
        init(self, **by_order, **named)

    setattr(made, "__init__", __init__)  # noqa: B010  # mypy lets no method be assigned
    return made


@_in_either_order
@dataclass(frozen=True, slots=True)
class Document:
    """A document as a caller hands it over: parsed, not yet chunked.

    ``Document("faq-1", "门诊报销 60%。", user_id="u1")``, or by position in the order of `FIELD_ORDER`:
    ``Document("d1", "u1", "p1", "第一章……", "chapter")``. A date that is given is kept in the metadata, where the age
    of results is read from.
    """

    id: str
    content: str
    _: KW_ONLY
    name: str = ""
    format: ContentFormat = "text"
    content_type: str = ""
    user_id: str = ""
    project_id: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    structure: Text | None = None  # set by the file parsers; otherwise derived from content and format
    pairs: tuple[QAPair, ...] = ()
    source: str = ""  # where it came from: a path, a URL, an event
    label_names: tuple[str, ...] = ()  # of a file's metadata, the names that people gave; the rest is the file's own
    access: tuple[str, ...] | None = None  # labels of those who may see it; None: as before, or as a rule has it
    created_at: datetime = field(default_factory=Unstated.here, compare=False)
    updated_at: datetime = field(default_factory=Unstated.here, compare=False)

    def stated_dates(self) -> dict[str, str]:
        """``created_at`` and ``updated_at`` in ISO form, those that were given."""
        dates = {"created_at": self.created_at, "updated_at": self.updated_at}
        return {name: date.isoformat() for name, date in dates.items() if not isinstance(date, Unstated)}


@dataclass(frozen=True, slots=True)
class VectorDocument:
    """A chunk with its vector. ``metadata`` say whose it is: user_id, project_id, content_type."""

    id: str  # of the chunk
    document_id: str
    chunk_index: int
    chunk_text: str
    embedding: Sequence[float]
    metadata: Metadata = field(default_factory=dict)

    def to_milvus_entity(self) -> dict[str, Any]:
        """The row of a collection with the fields of this class, and the metadata as JSON."""
        owner = {name: self.metadata.get(name, "") for name in ("user_id", "project_id", "content_type")}
        return {
            "id": self.id,
            "document_id": self.document_id,
            "chunk_index": self.chunk_index,
            "chunk_text": self.chunk_text,
            "embedding": [float(number) for number in self.embedding],
            **owner,
            # Milvus counts the bytes of a VARCHAR: escaped, a Chinese character would be six of them.
            "metadata_json": json.dumps(self.metadata, ensure_ascii=False, default=str),
        }
