"""What flows through Qianxun: frozen values, no behaviour beyond what each value can say of itself.

The shapes are explained on one page in ``docs/datamodel.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qianxun.core.documents import Block as Block
from qianxun.core.documents import CellValue as CellValue
from qianxun.core.documents import Column as Column
from qianxun.core.documents import ColumnKind as ColumnKind
from qianxun.core.documents import ContentFormat as ContentFormat
from qianxun.core.documents import CorrectedRows as CorrectedRows
from qianxun.core.documents import Document as Document
from qianxun.core.documents import Heading as Heading
from qianxun.core.documents import Mark as Mark
from qianxun.core.documents import PageStart as PageStart
from qianxun.core.documents import Paragraph as Paragraph
from qianxun.core.documents import ParsedFile as ParsedFile
from qianxun.core.documents import Piece as Piece
from qianxun.core.documents import QAPair as QAPair
from qianxun.core.documents import Table as Table
from qianxun.core.documents import TableBlock as TableBlock
from qianxun.core.documents import TableSpan as TableSpan
from qianxun.core.documents import Text as Text
from qianxun.core.filters import CHUNK_KINDS as CHUNK_KINDS
from qianxun.core.filters import EVERYTHING as EVERYTHING
from qianxun.core.filters import And as And
from qianxun.core.filters import Attributes as Attributes
from qianxun.core.filters import ChunkKind as ChunkKind
from qianxun.core.filters import Eq as Eq
from qianxun.core.filters import Everything as Everything
from qianxun.core.filters import Filter as Filter
from qianxun.core.filters import In as In
from qianxun.core.filters import Metadata as Metadata
from qianxun.core.filters import MetadataValue as MetadataValue
from qianxun.core.filters import Not as Not
from qianxun.core.filters import Or as Or
from qianxun.core.filters import Range as Range
from qianxun.core.filters import Scalar as Scalar
from qianxun.core.filters import Spelled as Spelled
from qianxun.core.filters import all_of as all_of
from qianxun.core.filters import matches as matches
from qianxun.core.filters import predicate as predicate
from qianxun.core.filters import same_scalar as same_scalar
from qianxun.core.governance.corrections import Corrected as Corrected
from qianxun.core.governance.corrections import CorrectionOutcome as CorrectionOutcome
from qianxun.core.governance.validity import NO_VALIDITY, AsOf, Validity
from qianxun.core.options import BM25 as BM25
from qianxun.core.options import Bm25 as Bm25

Vector: TypeAlias = NDArray[np.float32]  # one vector, unit length
Vectors: TypeAlias = NDArray[np.float32]  # (n, dimension), each row unit length
Keys: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float64]
VectorField: TypeAlias = Literal["content", "question"]


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as the records hold it."""

    key: int  # never reused: a later generation of the same document has other keys
    chunk_id: str  # c_{kb}_{doc}_{i}
    doc_id: str
    doc_name: str
    index: int
    text: str
    start: int
    end: int
    kind: ChunkKind
    headings: tuple[str, ...]
    page: int | None
    generation: int
    attributes: Attributes
    corrected: Corrected | None = None  # by people; None: it is as the document has it

    @property
    def is_edited(self) -> bool:
        """Whether people rewrote its text, which is then not at ``start`` of the document."""
        return self.corrected is not None and self.corrected.original is not None

    @property
    def page_content(self) -> str:
        """As LangChain's documents call the text …"""
        return self.text

    @property
    def metadata(self) -> Metadata:
        """… and the metadata, which are those of the chunk's document."""
        return self.attributes.metadata


# ── queries, rankings, results ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Terms:
    """An analysed query. ``words`` are segmented, ``grams`` single characters and bigrams of the same text."""

    words: tuple[str, ...]
    grams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    terms: Terms
    vector: Vector | None
    where: Filter = EVERYTHING


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The documents that there are for a search, by key, ascending. What an index counts, it counts among them alone.

    Two with the same ``digest`` are the same.
    """

    documents: Keys
    digest: str


class Hit(NamedTuple):
    """A chunk's key and a score. Text and metadata are joined from the records."""

    key: int
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Hits as columns, best first, ties by key. Columns, because hundreds of candidates go through every search.

    ``ceiling`` is the most this query could have scored, where that is known. ``raw`` is what the engine said before
    an arm brought it to [0, 1], row by row.
    """

    keys: Keys
    scores: Scores
    ceiling: float | None = None
    raw: Scores | None = None

    @staticmethod
    def of(scored: Iterable[tuple[int, float]], ceiling: float | None = None) -> Ranking:
        pairs = list(scored)
        keys = np.array([key for key, _ in pairs], dtype=np.int64)
        return Ranking.ordered(keys, np.array([score for _, score in pairs], dtype=np.float64), ceiling)

    @staticmethod
    def ordered(keys: Keys, scores: Scores, ceiling: float | None = None, raw: Scores | None = None) -> Ranking:
        """The ranking of columns that stand in any order."""
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        if (ranked[1:] == ranked[:-1]).any():  # to sort by both at once takes several times as long
            order = np.lexsort((keys, -scores))
            ranked = scores[order]
        return Ranking(keys[order], ranked, ceiling, None if raw is None else raw[order])

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self.hits_between(0, len(self))

    def hits_between(self, start: int, end: int) -> tuple[Hit, ...]:
        return tuple(map(Hit, self.keys[start:end].tolist(), self.scores[start:end].tolist()))

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranking) and self.ceiling == other.ceiling and self.hits == other.hits

    __hash__ = None  # type: ignore[assignment]

    def head(self, limit: int) -> Ranking:
        raw = None if self.raw is None else self.raw[:limit]
        return Ranking(self.keys[:limit], self.scores[:limit], self.ceiling, raw)


NOTHING = Ranking(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class TermCounts:
    """In how many of an index's entries each term stands."""

    entries: int
    words: Mapping[str, int]
    grams: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part of a recall that could not answer, said aloud."""

    part: str
    reason: str


Tier: TypeAlias = Literal["strict", "document", "fuzzy"]
TIERS: tuple[Tier, ...] = ("strict", "document", "fuzzy")  # from the tightest to the loosest


@dataclass(frozen=True, slots=True)
class ArmScore:
    """What one arm said of one chunk: its place there, the engine's own number, and the same brought to [0, 1]."""

    rank: int  # from 1
    raw: float
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """One result: the chunk, the score that orders it, and where that score comes from."""

    chunk: Chunk
    score: float
    source: str  # vector | keyword | qa | hybrid
    arms: Mapping[str, ArmScore]
    tier: Tier = "fuzzy"
    matched: tuple[str, ...] = ()  # words of the query that stand in the text
    coverage: float = 0.0  # their share of the query, each word counting by its rarity
    fused: float = 0.0  # before the reranker spoke
    rerank: float | None = None  # what the reranker said
    highlights: tuple[str, ...] = ()
    outdated: str = ""  # why its document is not in force today, where it is not
    pinned: int = 0  # the rule by which people put it first for this question; 0: none


@dataclass(frozen=True, slots=True)
class Generation:
    """The state of a base that an answer was made from: the same one gives the same answer."""

    records: int  # the last write to the base
    index: int  # the last write that its index holds
    model: str
    analysis: str

    def __str__(self) -> str:
        return f"{self.records}.{self.index}.{self.model or '-'}.{self.analysis}"


@dataclass(frozen=True, slots=True)
class StepTime:
    name: str  # rewrite | arms.vector | fuse | rerank …
    seconds: float
    count: int = 0  # how many went on from here
    start: float = field(default=0.0, compare=False)  # by this process's `time.perf_counter`; 0: not known


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer to a search."""

    query: str
    mode: str
    results: tuple[Found, ...]  # best first
    degraded: tuple[Degraded, ...] = ()
    seconds: float = 0.0
    trace_id: str = ""
    queries: tuple[str, ...] = ()  # what was searched for: the query, its rewritings, its corrections
    steps: tuple[StepTime, ...] = ()
    generation: Generation | None = None
    from_cache: bool = False
    as_of: AsOf | None = None  # the day whose documents were searched; None: those of all times

    @property
    def found(self) -> tuple[Found, ...]:
        """The same as ``results``, by its former name."""
        return self.results

    @property
    def tier(self) -> Tier | None:
        """How far the search had to go: the loosest tier among the results."""
        tiers = {hit.tier for hit in self.results}
        return next((tier for tier in reversed(TIERS) if tier in tiers), None)


@dataclass(frozen=True, slots=True)
class Message:
    """One message to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str
    images: tuple[str, ...] = ()  # as data URLs, for a model that sees


# ── what goes into an index ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A chunk (or a question) as an index sees it: keys, tokens and a vector, no text of record."""

    key: int
    document: int  # the document's key; an update or delete removes entries by it
    words: str  # segmented words, separated by spaces, folded for search
    grams: str  # characters and bigrams, separated by spaces
    vector: Vector | None
    attributes: Attributes
    field: VectorField = "content"


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """Work for an index, all or nothing: first every entry of ``removed`` documents goes, then ``entries`` come.

    ``sequence`` is the last outbox row that this batch covers; it becomes the index's watermark. Applying a batch
    twice changes nothing. ``fence`` tells who writes, where several processes share an index: one that has seen a
    higher one refuses the batch with LeaseLost (docs/extending.md). 0: nobody else writes.
    """

    sequence: int
    removed: tuple[int, ...] = ()
    entries: tuple[IndexEntry, ...] = ()
    fence: int = 0


@dataclass(frozen=True, slots=True)
class IndexStamp:
    """What an index was built by. Another stamp means another index."""

    model: str  # "" without a model
    dimension: int  # 0 without a model
    analysis: str  # version of the text analysis
    origin: str = ""  # the base of whose records it was made (`KnowledgeBase.identity`); "" where that is not known


@dataclass(frozen=True, slots=True)
class Inventory:
    """The keys an index holds, sorted: what `verify` compares with the records."""

    keywords: Keys
    vectors: Mapping[VectorField, Keys]


# ── knowledge bases ──────────────────────────────────────────────────────────────────────────────

LOCAL_TENANT = "local"


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    id: int
    name: str
    kind: str = "documents"
    embedding_model: str = ""
    dimension: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    tenant: str = LOCAL_TENANT
    # What no other base is called, of whatever folder or tenant; a service does not tell it.
    identity: str = field(default="", compare=False)


# ── what goes into the records ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a piece answers; ``piece`` is the piece's position in its document."""

    pair: QAPair
    piece: int
    origin: str = "given"  # or model:<name>


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document cut into pieces and embedded: everything the records need to serve it."""

    pieces: tuple[Piece, ...]
    vectors: Vectors | None  # one row per piece; None without a model
    model: str = ""
    questions: tuple[Question, ...] = ()
    question_vectors: Vectors | None = None  # one row per question; None without a model or without questions
    corrections: int = 0  # the newest change of the document's corrections that the pieces have in them
    outcomes: tuple[CorrectionOutcome, ...] = ()  # what became of these corrections
    corrected_rows: Mapping[int, CorrectedRows] = field(default_factory=dict)  # of tables, by their position


@dataclass(frozen=True, slots=True)
class Submission:
    """A document handed to the records.

    ``generation`` comes from the caller's own event stream, where there is one; without it the next number is taken.
    ``prepared`` makes the write searchable at once; without it the indexer prepares the document later.
    """

    document: Document
    fingerprint: str
    generation: int | None = None
    prepared: Prepared | None = None


Outcome: TypeAlias = Literal["created", "updated", "unchanged", "stale", "deleted"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the records did with a submission. ``chunk_keys`` is empty until the document is prepared.

    ``pair_keys`` are those of the questions that came with it prepared, in their order. ``warnings`` say what of an
    uploaded file was left out, and why.
    """

    doc_id: str
    document_key: int
    generation: int
    outcome: Outcome
    chunk_keys: range = range(0)
    pair_keys: range = range(0)
    warnings: tuple[str, ...] = ()


DocumentStatus: TypeAlias = Literal["pending", "indexed", "retrying", "quarantined", "failed", "deleted"]
STORED_STATUSES = ("pending", "indexed", "retrying", "quarantined", "failed")  # all but deleted ones


@dataclass(frozen=True, slots=True)
class DocumentState:
    """Where a document stands on its way into the index."""

    doc_id: str
    name: str
    status: DocumentStatus
    generation: int
    served: int
    attempts: int
    reason: str
    content_type: str
    user_id: str
    project_id: str
    chunks: int
    updated_at: str
    source: str = ""  # where it came from: a path, a URL; a service tells it to those who may write
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    validity: Validity = NO_VALIDITY
    access: tuple[str, ...] = ()  # labels of those who may see it; none: everybody
    disabled: bool = False  # by people: no search finds anything of it
