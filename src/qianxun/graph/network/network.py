"""The knowledge graph: entities, what ties them together and where texts say so, derived from the facts of chunks.

A pure function of these facts and of the aliases that people gave, whatever the order in which they came: entities are
sorted by id, ties by their ends. `restricted` derives it from fewer chunks, so that what only others tell is not there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from qianxun.core.graph_types import Alias, ChunkFacts, Entity, Evidence, Relation
from qianxun.core.types import Keys, Scores
from qianxun.graph.network.columns import DIGEST, FactColumns, Kept, Names, Numbers, digest_of
from qianxun.graph.network.communities import Labels, Partition, partition
from qianxun.graph.network.grouping import Grouped, grouped
from qianxun.graph.network.importance import importance, tie_weights
from qianxun.graph.network.merging import main_names, told_forms, visible_names
from qianxun.graph.network.naming import Match, named
from qianxun.graph.network.ties import Ties, distinct, standing_together, tied
from qianxun.graph.network.walk import Roads, roads
from qianxun.question.graph_query import units_of
from qianxun.text.chinese import fold

CANDIDATE: Final = "TERM"  # the type of a name that may be a mere word: how often it stands tells whether it is one
_NONE: Final = np.empty(0, dtype=np.int64)
FEWEST: Final = 2  # chunks in which such a name must stand


def entity_id(name: str) -> str:
    """Of the name alone: the same in every build."""
    return f"e_{digest_of(fold(name).strip()).hex()}"


def _ids(digests: NDArray[np.uint64]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """The same for many names at once."""
    written = np.frombuffer(digests.tobytes().hex().encode("ascii"), dtype=np.uint8).reshape(-1, 2 * DIGEST)
    letters = np.empty((len(written), 2 + 2 * DIGEST), dtype=np.uint32)
    letters[:, :2] = ord("e"), ord("_")
    letters[:, 2:] = written
    return letters.view(f"U{2 + 2 * DIGEST}").reshape(-1)


def graph_of_facts(facts: Iterable[ChunkFacts], given: Sequence[Alias] = ()) -> KnowledgeGraph:
    columns = FactColumns()
    columns.take(facts)
    return derived(columns, given)


def derived(columns: FactColumns, given: Sequence[Alias] = (), before: KnowledgeGraph | None = None) -> KnowledgeGraph:
    """The graph of the chunks that are there now. From the one ``before`` it takes the communities of what has not
    changed, which are those that it would find."""
    known = {} if before is None else before.known_communities
    return replace(_graph(columns.kept(), columns.names, columns.types, tuple(given)), known=known)


def _graph(
    kept: Kept, names: Names, types: Sequence[str], given: tuple[Alias, ...], hidden: Numbers = _NONE
) -> KnowledgeGraph:
    """``hidden`` are forms of names that only chunks tell which are not to be seen."""
    main = main_names(names, kept.aliases, given)
    if len(hidden):
        main = visible_names(names, main, told_forms(kept, names), hidden)
    thing_of = main[np.array(names.form_of, dtype=np.int64)] if len(main) else main  # written name → its thing's name
    mentions, stated = thing_of[kept.mentions[:, 1]], thing_of[kept.statements[:, 1:3]]
    forms = _entities(kept, types, mentions, stated)
    digests = np.frombuffer(bytes(names.digests), dtype=">u8")[forms]
    order = np.argsort(digests, kind="stable")
    forms, ids = forms[order], _ids(digests[order])
    place = np.full(len(names.folded), -1, dtype=np.int64)
    place[forms] = np.arange(len(forms))
    placed = place[mentions]
    standing = np.column_stack([kept.mentions[:, 0], placed, kept.mentions[:, 3]])[placed >= 0]
    statements = np.column_stack([place[stated], kept.statements[:, [3, 0, 4, 5]]])
    ties = tied(statements, standing_together(standing, kept.sentences))
    entity_of = place[main]
    entity_of[hidden] = -1
    return KnowledgeGraph(kept, names, types, given, ids, forms, entity_of, placed, ties, hidden)


def _entities(kept: Kept, types: Sequence[str], mentions: Numbers, stated: Numbers) -> Numbers:
    """The forms that are names of entities: all but words that nothing is stated of and that stand in one chunk."""
    size = int(max(mentions.max(initial=-1), stated.max(initial=-1))) + 1
    is_entity = np.zeros(size, dtype=np.bool_)
    is_candidate = np.array([name == CANDIDATE for name in types], dtype=np.bool_)
    is_entity[mentions[~is_candidate[kept.mentions[:, 2]]]] = True
    is_entity[stated.reshape(-1)] = True
    standing = distinct(np.column_stack([mentions, kept.mentions[:, 0]]))
    is_entity |= np.bincount(standing[:, 0], minlength=size) >= FEWEST
    return np.flatnonzero(is_entity)


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities are called by their id outside, and by their row inside this package.

    Safe to share between threads. ``types`` and ``names`` are those of all chunks, whoever may see them: whatever is
    shown has to come by way of an entity or a tie.
    """

    kept: Kept
    names: Names
    types: Sequence[str]
    given: tuple[Alias, ...]
    ids: np.ndarray[tuple[int], np.dtype[np.str_]]  # sorted
    forms: Numbers  # entity → the form of its name
    entity_of: Numbers  # form → entity; -1: none
    placed: Numbers  # mention → entity; -1: none
    ties: Ties
    hidden: Numbers = field(default_factory=lambda: _NONE, repr=False)  # forms that others than its chunks tell
    known: Mapping[bytes, Labels] = field(default_factory=dict, repr=False)  # communities found before

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def chunks(self) -> Keys:
        """The keys of all chunks that it was derived from, sorted."""
        return self.kept.keys

    def restricted(self, keep: Collection[int] | Keys) -> KnowledgeGraph:
        """The graph that these chunks alone would give. A name that only others tell is not there, neither by itself
        nor as one that people gave to what is."""
        keys = keep if isinstance(keep, np.ndarray) else np.fromiter(keep, dtype=np.int64, count=len(keep))
        kept = self.kept.only(keys)
        fewer = _graph(kept, self.names, self.types, self.given, self._hidden_from(kept))
        return replace(fewer, known=self.known_communities)

    def _hidden_from(self, kept: Kept) -> Numbers:
        """What matters only where people made names one: otherwise a name that no chunk tells is nobody's."""
        if not self.given:
            return _NONE
        hidden = np.setdiff1d(told_forms(self.kept, self.names), told_forms(kept, self.names))
        return np.union1d(hidden, self.hidden)

    def made_ready(self, before: KnowledgeGraph) -> None:
        """Works out now what was worked out of ``before`` when somebody needed it."""
        for name, held in vars(type(self)).items():
            if isinstance(held, cached_property) and name in vars(before):
                getattr(self, name)

    # ── entities ─────────────────────────────────────────────────────────────────────────────────

    def row(self, entity: str) -> int | None:
        at = int(np.searchsorted(self.ids, entity))
        return at if at < len(self.ids) and self.ids[at] == entity else None

    def rows(self, entities: Iterable[str]) -> list[int]:
        """Those of the entities that are there."""
        return [row for entity in entities if (row := self.row(entity)) is not None]

    def entity(self, entity: str) -> Entity | None:
        row = self.row(entity)
        return None if row is None else self.entity_at(row)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All of them, by id."""
        return tuple(map(self.entity_at, range(len(self))))

    def entity_at(self, row: int) -> Entity:
        own = self.kept.mentions[self._mentions_by_entity.of(row)]
        written = Counter(own[:, 1].tolist())
        written.update(dict.fromkeys(self._said_to_be.of(row).tolist(), 0))
        main = int(self.forms[row])
        name = self._most(
            [(count, self.names.written[at]) for at, count in written.items() if self.names.form_of[at] == main]
        )
        kinds = Counter(own[:, 2].tolist())
        sure = [(count, self.types[at]) for at, count in kinds.items() if self.types[at] != CANDIDATE]
        folded = self.names.folded[main]
        others: dict[str, list[tuple[int, str]]] = {}
        for at, count in written.items():
            others.setdefault(self.names.folded[self.names.form_of[at]], []).append((count, self.names.written[at]))
        return Entity(
            id=str(self.ids[row]),
            name=name or folded,
            type=self._most(sure) or CANDIDATE,
            aliases=tuple(sorted(self._most(each) for form, each in others.items() if form != folded)),
            chunks=len(self.chunks_by_entity.of(row)),
            importance=float(self.importance[row]),
        )

    @staticmethod
    def _most(counted: Iterable[tuple[int, str]]) -> str:
        """The most frequent; of equals the first in the order of letters."""
        return min(counted, key=lambda each: (-each[0], each[1]), default=(0, ""))[1]

    def name(self, row: int) -> str:
        """As it is compared."""
        return self.names.folded[int(self.forms[row])]

    @cached_property
    def importance(self) -> Scores:
        """By row, in [0, 1], the most central one having 1."""
        return importance(len(self), self.ties)

    @cached_property
    def communities(self) -> Partition:
        """The communities of its entities, by row."""
        weights = tie_weights(self.ties)
        return partition(len(self), self.ties.source, self.ties.target, weights, known=self.known)

    @property
    def known_communities(self) -> Mapping[bytes, Labels]:
        """What the next graph need not look for again."""
        found = self.__dict__.get("communities")
        return self.known if found is None else found.known

    def rarity(self, row: int) -> float:
        """In [0, 1]: 1 where an entity stands in one chunk of many, 0 where it stands in all."""
        everywhere = math.log(1 + len(self.chunks))
        return 1.0 - math.log(max(1, len(self.chunks_by_entity.of(row)))) / everywhere if everywhere else 0.0

    def find(self, text: str) -> tuple[Match, ...]:
        """The entities that a question names, the surest first."""
        return named(self.names, self.entity_of, text)

    # ── ties ─────────────────────────────────────────────────────────────────────────────────────

    def relation(self, tie: int, most: int | None = None) -> Relation:
        """With its evidence, or as much of that as is wanted."""
        keys = self.kept.keys
        return Relation(
            source=str(self.ids[self.ties.source[tie]]),
            target=str(self.ids[self.ties.target[tie]]),
            type=self.types[int(self.ties.type[tie])],
            weight=float(self.ties.weight[tie]),
            evidence=tuple(
                Evidence(int(keys[at]), start, end) for at, start, end in self.ties.evidence_of(tie)[:most].tolist()
            ),
        )

    def types_like(self, units: Iterable[str]) -> tuple[int, ...]:
        """Types of ties that have one of these characters or words."""
        return tuple(sorted({kind for unit in units for kind in self._types_by_unit.get(unit, ())}))

    @cached_property
    def _types_by_unit(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for kind in np.unique(self.ties.type).tolist():
            for unit in set(units_of(self.types[kind])):
                found.setdefault(unit, []).append(kind)
        return found

    def relations_of(self, entities: Iterable[str]) -> tuple[Relation, ...]:
        """Every relation that begins or ends at one of these, in the order of their ends."""
        return tuple(map(self.relation, self.ties_of(self.rows(entities)).tolist()))

    def ties_of(self, rows: Sequence[int]) -> Numbers:
        found = [self.ties_by_entity.of(row) for row in rows]
        return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

    @cached_property
    def ties_by_entity(self) -> Grouped:
        """Entity → the ties that begin or end at it, each once."""
        source, target = self.ties.source, self.ties.target
        rows = np.arange(len(self.ties))
        other = source != target
        return grouped(len(self), np.concatenate([source, target[other]]), np.concatenate([rows, rows[other]]))

    @cached_property
    def roads(self) -> Roads:
        """The way from every node to its neighbours, for a walk."""
        return roads(len(self), len(self.chunks), self.ties, self.standing)

    # ── chunks ───────────────────────────────────────────────────────────────────────────────────

    def chunks_of(self, entities: Iterable[str]) -> Keys:
        """The keys of the chunks in which one of these stands, sorted."""
        found = [self.chunks_by_entity.of(row) for row in self.rows(entities)]
        return self.kept.keys[np.unique(np.concatenate(found))] if found else np.empty(0, dtype=np.int64)

    def mentions_of(self, row: int, most: int) -> tuple[Evidence, ...]:
        """Where an entity stands."""
        own = self.kept.mentions[self._mentions_by_entity.of(row)[:most]]
        return tuple(Evidence(int(self.kept.keys[at]), start, end) for at, start, end in own[:, [0, 3, 4]].tolist())

    def places(self, keys: Keys) -> tuple[Numbers, NDArray[np.bool_]]:
        """Where these chunks stand among all, and which of them are there."""
        at = np.searchsorted(self.chunks, keys)
        at[at == len(self.chunks)] = 0
        return at, (self.chunks[at] == keys) if len(self.chunks) else np.zeros(len(keys), dtype=np.bool_)

    @cached_property
    def standing(self) -> Numbers:
        """(entity, chunk's place, how often, first place in the text), sorted: where entities stand."""
        is_there = self.placed >= 0
        rows = np.column_stack([self.placed, self.kept.mentions[:, 0], self.kept.mentions[:, 3]])[is_there]
        rows = rows[np.lexsort(rows.T[::-1])]
        if not len(rows):
            return np.empty((0, 4), dtype=np.int64)
        first = np.flatnonzero(np.concatenate(([True], (np.diff(rows[:, :2], axis=0) != 0).any(axis=1))))
        return np.column_stack([rows[first, :2], np.diff(np.append(first, len(rows))), rows[first, 2]])

    @cached_property
    def chunks_by_entity(self) -> Grouped:
        """Entity → places of the chunks in which it stands."""
        return grouped(len(self), self.standing[:, 0], self.standing[:, 1])

    @cached_property
    def _said_to_be(self) -> Grouped:
        """Entity → names that texts say it has, as they write them; and what people call it."""
        form_of = np.array(self.names.form_of, dtype=np.int64)
        given = np.array([self.names.number(each.name) for each in self.given], dtype=np.int64)
        called = self.entity_of[form_of[given]]
        given = given[(called >= 0) & (self.forms[called] == form_of[given])] if len(given) else given
        names = np.concatenate([self.kept.aliases[:, 1:3].reshape(-1), given])
        entity = self.entity_of[form_of[names]]
        return grouped(len(self), entity[entity >= 0], names[entity >= 0])

    @cached_property
    def _mentions_by_entity(self) -> Grouped:
        there = np.flatnonzero(self.placed >= 0)
        return grouped(len(self), self.placed[there], there)
