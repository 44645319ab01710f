"""The knowledge graph: entities and relations with their evidence, derived from the facts of chunks.

A pure function of the facts and of people's aliases, whatever their order: entities are sorted by id, relations by
their ends. `restricted` derives it from fewer chunks: nothing that only other chunks state is in it.
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
from qianxun.core.system.cache import LRUCache
from qianxun.core.types import Keys, Scores
from qianxun.graph.network.aliases import forms_in, main_names, visible_names
from qianxun.graph.network.columns import DIGEST, FactColumns, FactTables, Names, Numbers, digest_of
from qianxun.graph.network.communities import Labels, Partition, partition
from qianxun.graph.network.entity_linking import Match, link_entities
from qianxun.graph.network.relations import (
    GroupedValues,
    RelationColumns,
    co_occurrences,
    distinct,
    edge_weights,
    grouped,
    importance,
    relation_columns,
)
from qianxun.graph.network.walk import Transitions, WalkResult, transitions
from qianxun.question.graph_query import units_of
from qianxun.text.chinese import fold

CANDIDATE: Final = "TERM"  # the type of a name that may be a common word: its frequency decides
FEWEST: Final = 2  # chunks in which such a name must occur
QUESTIONS: Final = 64  # whose entities are remembered
WALKS: Final = 8  # that are remembered, for other wordings of their questions
SHOWN: Final = 2_000  # entities that are remembered as they are shown
_NONE: Final = np.empty(0, dtype=np.int64)


def entity_id(name: str) -> str:
    """Depends on the name alone: the same in every build."""
    return f"e_{digest_of(fold(name).strip()).hex()}"


def _ids(digests: NDArray[np.uint64]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """`entity_id` for many names at once."""
    written = np.frombuffer(digests.tobytes().hex().encode("ascii"), dtype=np.uint8).reshape(-1, 2 * DIGEST)
    letters = np.empty((len(written), 2 + 2 * DIGEST), dtype=np.uint32)
    letters[:, :2] = ord("e"), ord("_")
    letters[:, 2:] = written
    return letters.view(f"U{2 + 2 * DIGEST}").reshape(-1)


def graph_from_facts(facts: Iterable[ChunkFacts], given: Sequence[Alias] = ()) -> KnowledgeGraph:
    columns = FactColumns()
    columns.add(facts)
    return derive_graph(columns, given)


def derive_graph(
    columns: FactColumns, given: Sequence[Alias] = (), before: KnowledgeGraph | None = None
) -> KnowledgeGraph:
    """The graph of the current chunks. Communities that have not changed are taken over from ``before``."""
    known = {} if before is None else before.known_communities
    return replace(_derived(columns.tables(), columns.names, columns.types, tuple(given)), known=known)


def _derived(
    facts: FactTables, names: Names, types: Sequence[str], given: tuple[Alias, ...], hidden: Numbers = _NONE
) -> KnowledgeGraph:
    """``hidden`` are forms of names that occur only in chunks which are filtered out."""
    main = main_names(names, facts.aliases, given)
    if len(hidden):
        main = visible_names(names, main, forms_in(facts, names), hidden)
    main_of = main[np.array(names.form_of, dtype=np.int64)] if len(main) else main  # by written name
    mentions, stated = main_of[facts.mentions[:, 1]], main_of[facts.statements[:, 1:3]]
    forms = _entities(facts, types, mentions, stated)
    digests = np.frombuffer(bytes(names.digests), dtype=">u8")[forms]
    order = np.argsort(digests, kind="stable")
    forms, ids = forms[order], _ids(digests[order])
    row_of = np.full(len(names.folded), -1, dtype=np.int64)
    row_of[forms] = np.arange(len(forms))
    mentioned = row_of[mentions]
    occurring = np.column_stack([facts.mentions[:, 0], mentioned, facts.mentions[:, 3]])[mentioned >= 0]
    statements = np.column_stack([row_of[stated], facts.statements[:, [3, 0, 4, 5]]])
    relations = relation_columns(statements, co_occurrences(occurring, facts.sentences))
    entity_of = row_of[main]
    entity_of[hidden] = -1
    return KnowledgeGraph(facts, names, types, given, ids, forms, entity_of, mentioned, relations, hidden)


def _entities(facts: FactTables, types: Sequence[str], mentions: Numbers, stated: Numbers) -> Numbers:
    """The forms that name entities: all but candidates of a single chunk of which nothing is stated."""
    size = int(max(mentions.max(initial=-1), stated.max(initial=-1))) + 1
    is_entity = np.zeros(size, dtype=np.bool_)
    is_candidate = np.array([name == CANDIDATE for name in types], dtype=np.bool_)
    is_entity[mentions[~is_candidate[facts.mentions[:, 2]]]] = True
    is_entity[stated.reshape(-1)] = True
    in_chunks = distinct(np.column_stack([mentions, facts.mentions[:, 0]]))
    is_entity |= np.bincount(in_chunks[:, 0], minlength=size) >= FEWEST
    return np.flatnonzero(is_entity)


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities have ids outside this package and row numbers inside it; relations have row numbers.

    Thread-safe. ``types`` and ``names`` are those of all chunks, also of filtered ones: whatever is shown must come
    from an entity or a relation.
    """

    facts: FactTables
    names: Names
    types: Sequence[str]
    given: tuple[Alias, ...]
    ids: np.ndarray[tuple[int], np.dtype[np.str_]]  # sorted
    forms: Numbers  # entity → the form of its main name
    entity_of: Numbers  # form → entity; -1: none
    mentioned: Numbers  # mention → entity; -1: none
    relations: RelationColumns
    hidden: Numbers = field(default_factory=lambda: _NONE, repr=False)  # forms that only filtered chunks have
    known: Mapping[bytes, Labels] = field(default_factory=dict, repr=False)  # communities found before

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def chunks(self) -> Keys:
        """The keys of the chunks that it was derived from, sorted."""
        return self.facts.keys

    def restricted(self, keys: Collection[int] | Keys) -> KnowledgeGraph:
        """The graph of these chunks alone. Names that only others have are not in it, not even as given aliases."""
        allowed = keys if isinstance(keys, np.ndarray) else np.fromiter(keys, dtype=np.int64, count=len(keys))
        facts = self.facts.only(allowed)
        hidden = _NONE
        if self.given:  # without merges by people a name that no chunk has is no entity's
            hidden = np.setdiff1d(forms_in(self.facts, self.names), forms_in(facts, self.names))
            hidden = np.union1d(hidden, self.hidden)
        fewer = _derived(facts, self.names, self.types, self.given, hidden)
        return replace(fewer, known=self.known_communities)

    def warm_up(self, before: KnowledgeGraph) -> None:
        """Computes now whatever was computed lazily of ``before``."""
        for name, attribute in vars(type(self)).items():
            if isinstance(attribute, cached_property) and name in vars(before):
                getattr(self, name)

    # ── entities ─────────────────────────────────────────────────────────────────────────────────

    def row(self, entity: str) -> int | None:
        at = int(np.searchsorted(self.ids, entity))
        return at if at < len(self.ids) and self.ids[at] == entity else None

    def rows(self, entities: Iterable[str]) -> list[int]:
        """Those of the entities that exist."""
        return [row for entity in entities if (row := self.row(entity)) is not None]

    def entity(self, entity: str) -> Entity | None:
        row = self.row(entity)
        return None if row is None else self.entity_at(row)

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All of them, by id."""
        return tuple(map(self.entity_at, range(len(self))))

    def entity_at(self, row: int, removed: Keys = _NONE) -> Entity:
        """``removed``: chunks that have been deleted since; none of their words is in it."""
        if len(removed):
            return self._entity_at(row, removed)
        known = self._entities.get(row)
        if known is None:
            known = self._entity_at(row, removed)
            self._entities.put(row, known)
        return known

    @cached_property
    def _entities(self) -> LRUCache[int, Entity]:
        return LRUCache(SHOWN)

    def _entity_at(self, row: int, removed: Keys) -> Entity:
        own = self.facts.mentions[self._mentions_by_entity.of(row)]
        live = own[~np.isin(self.facts.keys[own[:, 0]], removed)] if len(removed) else own
        is_whole = len(live) == len(own)
        own = live
        written = Counter(own[:, 1].tolist())
        if is_whole or not len(removed):
            written.update(dict.fromkeys(self._stated_names.of(row).tolist(), 0))
        main = int(self.forms[row])
        spellings: dict[int, list[tuple[int, str]]] = {}  # form → (count, as written)
        for number, count in written.items():
            spellings.setdefault(self.names.form_of[number], []).append((count, self.names.written[number]))
        types = Counter(own[:, 2].tolist())
        certain = [(count, self.types[number]) for number, count in types.items() if self.types[number] != CANDIDATE]
        return Entity(
            id=str(self.ids[row]),
            name=_most_frequent(spellings.pop(main, ())) or self.names.folded[main],
            type=_most_frequent(certain) or CANDIDATE,
            aliases=tuple(sorted(map(_most_frequent, spellings.values()))),
            chunks=len(self.chunks_by_entity.of(row)),
            importance=float(self.importance[row]),
        )

    def is_live(self, row: int, removed: Keys) -> bool:
        """Whether an entity is in a chunk that has not been deleted since."""
        if not len(removed):
            return True
        return not np.isin(self.facts.keys[self.chunks_by_entity.of(row)], removed).all()

    def name(self, row: int) -> str:
        """The folded main name."""
        return self.names.folded[int(self.forms[row])]

    @cached_property
    def importance(self) -> Scores:
        """By row, in [0, 1], the most central being 1."""
        return importance(len(self), self.relations)

    @cached_property
    def communities(self) -> Partition:
        """The communities of its entities, by row."""
        relations = self.relations
        return partition(len(self), relations.source, relations.target, edge_weights(relations), known=self.known)

    @property
    def known_communities(self) -> Mapping[bytes, Labels]:
        """For the next graph, which need not compute them again."""
        found = self.__dict__.get("communities")
        return self.known if found is None else found.known

    def rarity(self, row: int) -> float:
        """In [0, 1]: 1 for an entity in one chunk of many, 0 for one in every chunk."""
        everywhere = math.log(1 + len(self.chunks))
        return 1.0 - math.log(max(1, len(self.chunks_by_entity.of(row)))) / everywhere if everywhere else 0.0

    def find(self, text: str) -> tuple[Match, ...]:
        """The entities that a question names, most certain first; one question is analysed, searched and reworded."""
        found = self._linked.get(text)
        if found is None:
            found = link_entities(self.names, self.entity_of, text)
            self._linked.put(text, found)
        return found

    @cached_property
    def _linked(self) -> LRUCache[str, tuple[Match, ...]]:
        return LRUCache(QUESTIONS)

    # ── relations ────────────────────────────────────────────────────────────────────────────────

    def relation(self, row: int, limit: int | None = None) -> Relation:
        """With at most ``limit`` pieces of evidence."""
        keys, relations = self.facts.keys, self.relations
        return Relation(
            source=str(self.ids[relations.source[row]]),
            target=str(self.ids[relations.target[row]]),
            type=self.types[int(relations.type[row])],
            weight=float(relations.weight[row]),
            evidence=tuple(
                Evidence(int(keys[at]), start, end) for at, start, end in relations.evidence_of(row)[:limit].tolist()
            ),
        )

    def types_with(self, units: Iterable[str]) -> tuple[int, ...]:
        """Types of relations that contain one of these characters or words."""
        return tuple(sorted({kind for unit in units for kind in self._types_by_unit.get(unit, ())}))

    @cached_property
    def _types_by_unit(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for kind in np.unique(self.relations.type).tolist():
            for unit in set(units_of(self.types[kind])):
                found.setdefault(unit, []).append(kind)
        return found

    def relations_of(self, entities: Iterable[str]) -> tuple[Relation, ...]:
        """Every relation of one of these, in the order of their ends."""
        return tuple(map(self.relation, self.relation_rows(self.rows(entities)).tolist()))

    def relation_rows(self, entities: Sequence[int]) -> Numbers:
        found = [self.relations_by_entity.of(row) for row in entities]
        return np.unique(np.concatenate(found)) if found else _NONE

    def relations_among(self, entities: Sequence[int]) -> Numbers:
        """The rows of relations with both ends among these."""
        is_among = np.zeros(len(self), dtype=np.bool_)
        is_among[list(entities)] = True
        found = [self.relations_by_entity.of(row) for row in entities]
        rows = np.concatenate(found) if found else _NONE
        rows = rows[is_among[self.relations.target[rows]]]
        # Sorted last: of thousands of relations of what many texts name, few are left.
        return np.unique(rows[is_among[self.relations.source[rows]]])

    @cached_property
    def relations_by_entity(self) -> GroupedValues:
        """Entity → the relations that begin or end at it, each once."""
        source, target = self.relations.source, self.relations.target
        rows = np.arange(len(self.relations))
        other = source != target
        return grouped(len(self), np.concatenate([source, target[other]]), np.concatenate([rows, rows[other]]))

    @cached_property
    def walks(self) -> LRUCache[tuple[bytes, bytes], WalkResult]:
        """The last walks, by the nodes and weights that they started from."""
        return LRUCache(WALKS)

    @cached_property
    def transitions(self) -> Transitions:
        """For walks over entities and chunks."""
        return transitions(len(self), len(self.chunks), self.relations, self.occurrences)

    # ── chunks ───────────────────────────────────────────────────────────────────────────────────

    def chunks_of(self, entities: Iterable[str]) -> Keys:
        """The keys of the chunks in which one of these occurs, sorted."""
        found = [self.chunks_by_entity.of(row) for row in self.rows(entities)]
        return self.facts.keys[np.unique(np.concatenate(found))] if found else _NONE

    def mentions_of(self, row: int, limit: int) -> tuple[Evidence, ...]:
        own = self.facts.mentions[self._mentions_by_entity.of(row)[:limit]]
        return tuple(Evidence(int(self.facts.keys[at]), start, end) for at, start, end in own[:, [0, 3, 4]].tolist())

    @cached_property
    def occurrences(self) -> Numbers:
        """Rows (entity, place of the chunk, count, first position in the text), sorted."""
        is_entity = self.mentioned >= 0
        rows = np.column_stack([self.mentioned, self.facts.mentions[:, 0], self.facts.mentions[:, 3]])[is_entity]
        rows = rows[np.lexsort(rows.T[::-1])]
        if not len(rows):
            return np.empty((0, 4), dtype=np.int64)
        first = np.flatnonzero(np.concatenate(([True], (np.diff(rows[:, :2], axis=0) != 0).any(axis=1))))
        return np.column_stack([rows[first, :2], np.diff(np.append(first, len(rows))), rows[first, 2]])

    @cached_property
    def chunks_by_entity(self) -> GroupedValues:
        """Entity → places of its chunks."""
        return grouped(len(self), self.occurrences[:, 0], self.occurrences[:, 1])

    @cached_property
    def _stated_names(self) -> GroupedValues:
        """Entity → names that texts state it has, as written there, and the main name that people gave it."""
        form_of = np.array(self.names.form_of, dtype=np.int64)
        given = np.array([self.names.number(row.name) for row in self.given], dtype=np.int64)
        called = self.entity_of[form_of[given]]
        given = given[(called >= 0) & (self.forms[called] == form_of[given])] if len(given) else given
        names = np.concatenate([self.facts.aliases[:, 1:3].reshape(-1), given])
        entity = self.entity_of[form_of[names]]
        return grouped(len(self), entity[entity >= 0], names[entity >= 0])

    @cached_property
    def _mentions_by_entity(self) -> GroupedValues:
        rows = np.flatnonzero(self.mentioned >= 0)
        return grouped(len(self), self.mentioned[rows], rows)


def _most_frequent(counted: Iterable[tuple[int, str]]) -> str:
    """Of equally frequent ones the alphabetically first; "" for none."""
    return min(counted, key=lambda item: (-item[0], item[1]), default=(0, ""))[1]
