"""What goes with documents into a base, and what is reported of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from qianxun.core.filters import EVERYTHING, Filter
from qianxun.core.types import Chunk, DocumentState, Metadata, Scalar, Text


@dataclass(frozen=True, slots=True)
class Labels:
    """What the caller sets on every file of one `add`."""

    user_id: str = ""
    project_id: str = ""
    content_type: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    access: tuple[str, ...] | None = None  # labels of those who may see them; None: as before, or as a rule has it


@dataclass(frozen=True, slots=True)
class Refusal:
    """A path that is not taken in, and why, in words for people."""

    path: Path
    reason: str
    passed_over: bool = False  # not named by the caller and no document: a warning, not a failure


@dataclass(frozen=True, slots=True)
class Excluded:
    """A file or folder that the caller's patterns or an ignore file leave out."""

    path: Path


@dataclass(frozen=True, slots=True)
class Step:
    """Progress, for people: what has happened since the last one."""

    # found | unchanged | refused | parsed | cut (texts to embed) | embedded | waiting | warned | added
    # reading (chunks, for the graph, by the model of that name; the reason says at what cost) | read
    kind: str
    count: int = 1
    name: str = ""
    reason: str = ""


Watch: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one `add`. ``chunks`` counts those of added documents; ``updated`` of these replaced an earlier
    version."""

    added: int = 0
    unchanged: int = 0
    refused: tuple[Refusal, ...] = ()
    chunks: int = 0
    waiting: int = 0  # accepted, but not searchable yet: the model could not be reached
    warnings: tuple[str, ...] = ()
    updated: int = 0
    excluded: int = 0  # files and folders that patterns left out
    deleted: tuple[Path, ...] = ()  # files whose documents people deleted: left out where that is not taken back


Handled: TypeAlias = Literal["accepted", "unchanged", "duplicate", "stale", "rejected"]


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """What became of one document event."""

    result: Handled
    document_id: str = ""
    generation: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which records and index disagree."""

    # missing_in_index | not_in_records | other_vector | orphan_{chunk,facts} | {chunk,question}_without_vector |
    # chunk_without_facts | waiting | corrupt | damaged_{settings,document,chunk,table,question,vector}: not what was
    # written, by its checksum; the detail names documents
    kind: str
    count: int
    examples: tuple[int, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of `verify` for one knowledge base."""

    knowledge_base: str
    documents: int
    chunks: int
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        return not self.findings


# ── looking through a base ───────────────────────────────────────────────────────────────────────

DocumentOrder: TypeAlias = Literal["id", "name", "newest", "oldest"]


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents of a base, and in which order; what is empty does not narrow."""

    name: str = ""  # within the name or the id
    status: str = ""  # a `DocumentStatus`
    content_type: str = ""
    suffix: str = ""  # how the name ends: "pdf"
    field: str = ""  # of the metadata …
    value: Scalar = ""  # … whose value is this
    order: DocumentOrder = "id"
    where: Filter = EVERYTHING  # as searches have it
    folder: str = ""  # in which the files were, or below
    valid_on: str = ""  # a day on which it is in force, as a search of that day has it
    since: datetime | None = None  # changed then or later …
    until: datetime | None = None  # … and before then
    access: str = ""  # those with this access label


@dataclass(frozen=True, slots=True)
class DocumentListing:
    """Some documents of a base; ``next`` is where the following page begins, "" after the last."""

    documents: tuple[DocumentState, ...]
    next: str = ""
    total: int | None = None  # of all pages; None where nobody wanted it counted


@dataclass(frozen=True, slots=True)
class Facet:
    """A field that filters know, as the documents of a base have it: the most frequent values, each with its count."""

    field: str  # content_type, tags, user_id, project_id, metadata.<name>
    values: tuple[tuple[Scalar, int], ...]


@dataclass(frozen=True, slots=True)
class StoredPair:
    """A question that a document answers, and where it came from: given | model:<name>."""

    question: str
    answer: str
    origin: str = "given"


@dataclass(frozen=True, slots=True)
class DocumentContent:
    """A document as it is served: its text of record with its structure, and what was made of it."""

    state: DocumentState
    text: Text
    chunks: tuple[Chunk, ...]
    pairs: tuple[StoredPair, ...] = ()
    entities: tuple[tuple[str, str, int], ...] = ()  # name, type, mentions; the most frequent first
