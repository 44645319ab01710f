"""What a knowledge graph is made of: what one text tells it, and what follows from all texts together.

Facts belong to one chunk and depend on nothing but its text (and on the model that read it, where one did). Entities,
relations and communities are worked out from all facts that are of record: a document that is deleted takes its facts
with it, and what is left is what would have been without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

CO_OCCURRENCE: Final = "相关"  # the type of a relation of which nothing is known but that both names share sentences

# ── what one chunk tells ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a chunk's text: ``text[start:end]`` is how it stands there, ``name`` how it is called."""

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
    """``text[start:end]`` says that two names are one thing's: 世界卫生组织（世卫组织）."""

    name: str
    alias: str
    start: int
    end: int


Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """What one chunk tells the graph. ``sentences`` are those in which two or more names stand: they co-occur."""

    mentions: tuple[Mention, ...] = ()
    statements: tuple[Statement, ...] = ()
    aliases: tuple[StatedAlias, ...] = ()
    sentences: tuple[Span, ...] = ()


NO_FACTS: Final = Facts()


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """The facts of a chunk of record, and whose they are."""

    chunk: int  # its key
    document: int  # the document's key
    facts: Facts
    origin: str  # statistical:<version> | model:<name>


# ── what follows from all of them ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Entity:
    id: str  # made of the name alone: the same in every build
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    chunks: int = 0  # in which it stands
    importance: float = 0.0  # in [0, 1], the graph's most central entity having 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """The characters of a chunk's text that say so."""

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
    """Entities that belong together more than with others, the most central first."""

    id: str  # made of its members and relations: another id means another community
    entities: tuple[str, ...]  # ids
    title: str
    summary: str
    sources: tuple[Evidence, ...]  # what the summary rests on
    origin: str  # extractive | model:<name>
    score: float = 0.0  # how well it fits a question, where one was asked


@dataclass(frozen=True, slots=True)
class GraphContext:
    """What a graph has to say to a question, by importance; `as_dict` is the form that is handed out."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    communities: tuple[Community, ...] = ()

    def as_dict(self) -> dict[str, list[Mapping[str, Any]]]:
        return {
            "entities": [{"id": each.id, "name": each.name, "type": each.type} for each in self.entities],
            "relationships": [
                {"source": each.source, "target": each.target, "type": each.type} for each in self.relations
            ],
        }


NO_CONTEXT: Final = GraphContext()


@dataclass(frozen=True, slots=True)
class AskedTie:
    """A question asks how two things are tied, or what is tied to one: the names as it says them, folded, and where
    texts state it."""

    names: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Alias:
    """A merge that a person, or a model asked by one, decided: can be taken back at any time."""

    name: str  # what both are called from now on
    alias: str
    origin: str = "given"
    details: Mapping[str, Any] = field(default_factory=dict)
