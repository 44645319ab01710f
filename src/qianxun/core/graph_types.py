"""The types of the knowledge graph: facts of one chunk, what is derived from all of them, and results of building it.

Facts belong to one chunk and depend on its text alone (and on the model that extracted them). Entities, relations and
communities are derived from all stored facts: without a deleted document they are as if it had never been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

CO_OCCURRENCE: Final = "相关"  # the type of a relation between names that only share sentences

# ── facts of one chunk ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a chunk's text: ``text[start:end]`` is how it is written, ``name`` its full form."""

    name: str
    type: str  # PERSON, PLACE, ORGANIZATION, WORK, DISEASE, MEDICINE, TERM …
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A relation as ``text[start:end]`` states it, from ``source`` to ``target``, both of them names of mentions."""

    source: str
    target: str
    type: str  # 代表作品, 出生地, TREATS …; never empty
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StatedAlias:
    """``text[start:end]`` states that two names mean the same: 世界卫生组织（世卫组织）."""

    name: str
    alias: str
    start: int
    end: int


Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one chunk. ``sentences`` are those with two or more names, which co-occur."""

    mentions: tuple[Mention, ...] = ()
    statements: tuple[Statement, ...] = ()
    aliases: tuple[StatedAlias, ...] = ()
    sentences: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """The facts of a stored chunk, and their origin."""

    chunk: int  # its key
    document: int  # the document's key
    facts: Facts
    origin: str  # statistical:<version> | model:<name>


# ── derived from all facts ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Entity:
    id: str  # made of the name alone: the same in every build
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    chunks: int = 0  # in which it occurs
    importance: float = 0.0  # in [0, 1], the graph's most central entity having 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """The characters of a chunk's text that state it."""

    chunk: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Relation:
    """From ``source`` to ``target``, which are ids of entities."""

    source: str
    target: str
    type: str
    weight: float
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that are connected more with each other than with others, the most central first."""

    id: str  # made of its members and relations: another id means another community
    entities: tuple[str, ...]  # ids
    title: str
    summary: str
    sources: tuple[Evidence, ...]  # of the summary
    origin: str  # extractive | model:<name>
    score: float = 0.0  # how well it matches a question


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The graph context of a question, by importance; `as_dict` is its public form."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    communities: tuple[Community, ...] = ()

    def as_dict(self) -> dict[str, list[Mapping[str, Any]]]:
        return {
            "entities": [{"id": entity.id, "name": entity.name, "type": entity.type} for entity in self.entities],
            "relationships": [{"source": row.source, "target": row.target, "type": row.type} for row in self.relations],
        }


NO_CONTEXT: Final = GraphContext()


@dataclass(frozen=True, slots=True)
class RequestedRelation:
    """The relation between two entities, or of one, that a question asks for: its names, folded, and the evidence."""

    names: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Alias:
    """A merge of two names that a person decided, or a model proposed; it can be undone at any time."""

    name: str  # of both
    alias: str
    origin: str = "given"
    details: Mapping[str, Any] = field(default_factory=dict)


# ── building and showing a graph ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ExtractionProgress:
    """Chunks whose facts have been extracted."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class GraphBuilt:
    """The result of building a graph."""

    chunks: int
    read: int  # chunks whose facts were extracted by this build
    entities: int
    relations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LlmCost:
    """The estimated cost of calls to a language model, without retries."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    chunks: int = 0

    def __add__(self, other: LlmCost) -> LlmCost:
        return LlmCost(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.reply_tokens + other.reply_tokens,
            self.chunks + other.chunks,
        )


@dataclass(frozen=True, slots=True)
class ExtractionCost:
    """The cost of extracting the remaining facts with a language model."""

    model: str
    cost: LlmCost
    known: int = 0  # chunks that need no call: the model has read the same text before


@dataclass(frozen=True, slots=True)
class LlmExtractionProgress:
    """Reported first with nothing done, so that the cost is known before it arises."""

    expected: ExtractionCost
    done: int = 0  # chunks
    failed: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class LlmExtraction:
    """The result of extracting facts with a language model."""

    expected: ExtractionCost
    read: int  # chunks, with a call
    known: int  # chunks, without
    failed: int  # chunks with an unusable reply: they keep their statistical facts
    left: int  # chunks not read because the model was unavailable
    dropped: int  # names and relations of replies that the texts do not support
    calls: int
    reason: str  # why chunks failed or were left
    seconds: float

    @property
    def is_whole(self) -> bool:
        return not self.failed and not self.left

    @property
    def warning(self) -> str:
        """A message for users; "" if everything was extracted."""
        if self.is_whole:
            return ""
        what = [f"{self.left} 块还没有读"] if self.left else []
        what += [f"{self.failed} 块没有读懂"] if self.failed else []
        return f"图谱模型 {self.expected.model}：{'，'.join(what)}，先用统计的结果：{self.reason}"


@dataclass(frozen=True, slots=True)
class SummariesProgress:
    """Reported first with nothing done, so that the cost is known before it arises."""

    model: str
    cost: LlmCost
    done: int = 0


@dataclass(frozen=True, slots=True)
class SummariesResult:
    """The result of summarising communities with a language model."""

    written: int
    known: int
    failed: int  # these keep their extractive summaries
    reason: str = ""
    was_cut_off: bool = False  # by an outage


@dataclass(frozen=True, slots=True)
class GraphStatus:
    chunks: int
    entities: int
    relations: int
    communities: int  # of more than one entity
    readers: Mapping[str, int]  # statistical:<version> | model:<name> → chunks that it extracted facts from
    aliases: int  # decided by people
    model: str = ""  # that extracts facts; "": none
    unread: int = 0  # chunks that it has not read yet
    failed: int = 0  # of these, chunks with an unusable reply since the base was opened
    trouble: str = ""  # why the model is unavailable


@dataclass(frozen=True, slots=True)
class GraphCost:
    """The cost of building the graph with the base's model."""

    reading: ExtractionCost
    summaries: LlmCost  # of the current communities


@dataclass(frozen=True, slots=True)
class Quote:
    """The words of a piece of evidence."""

    doc_id: str
    doc_name: str
    chunk_id: str
    text: str


@dataclass(frozen=True, slots=True)
class EntityDetails:
    """An entity with its relations, heaviest first, the names of their other ends by id, and the words of the first
    evidence of each relation."""

    entity: Entity
    relations: tuple[Relation, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    quotes: Mapping[Evidence, Quote] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What one mirroring of a graph sent to the server: nothing where it had the same graph already."""

    entities: int = 0  # written
    relations: int = 0
    entities_removed: int = 0
    relations_removed: int = 0

    @property
    def is_unchanged(self) -> bool:
        return self == Mirrored()
