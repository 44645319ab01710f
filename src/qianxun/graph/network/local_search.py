"""Local search: paths through the graph that match the question, and a walk from the entities that it names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from qianxun.core.graph_types import RequestedRelation
from qianxun.core.types import NOTHING, Keys, Ranking, Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.entity_linking import Match
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.relations import CO_OCCURRENCE_TYPE
from qianxun.graph.network.walk import WalkResult, walk
from qianxun.question.graph_query import GraphQuery
from qianxun.question.relation_query import is_relation_query, relation_words

WALK_WEIGHT: Final = 0.6  # of a chunk that the walk reaches, where one on a path has up to 1
SHOWN: Final = 64  # entities and relations
DEPTH: Final = 400  # chunks

# Paths
STEPS: Final = 3
BEAM: Final = 40  # paths that are extended
MOST_RELATIONS: Final = 160  # of one entity that are followed
FORWARD, BACKWARD = 0.98, 0.9  # what a step along a matching relation leaves of the score
OTHER_TYPE: Final = 0.5  # … and along any other
MATCHING: Final = 0.3  # the share of a relation's words that must be in the question
BRANCHING: Final = 0.15
CERTAIN: Final = 0.55  # weight of a match: three homonyms still have it
NAMES: Final = 4  # of a question
TYPE_SHARE: Final = 0.8  # of a relation's words that the question must have
MOST_EVIDENCE: Final = 24


@dataclass(frozen=True, slots=True)
class LocalResult:
    """Chunks with scores in (0, 1], best first; entities and relations with theirs, by row."""

    chunks: Ranking
    entities: Mapping[int, float]
    relations: Mapping[int, float]
    requested: RequestedRelation | None = None  # the relation that the question asks for


NO_LOCAL_RESULT: Final = LocalResult(NOTHING, {}, {})


def local_search(graph: KnowledgeGraph, question: GraphQuery) -> LocalResult:
    """The neighbourhood of the entities that the question names; empty if it names none."""
    matches = graph.find(question.folded)
    if not matches:
        return NO_LOCAL_RESULT
    visited = _visited(graph, question, matches)
    on_paths = {row: score for path, score in reversed(_paths(graph, question, matches)) for row in path.relations}
    requested, rows = requested_relation(graph, question, matches)
    on_paths.update(dict.fromkeys(rows, 1.0))  # nothing matches better than a relation that is the answer
    return LocalResult(
        chunks=_chunks(graph, visited[len(graph) :], on_paths, _named_share(graph, question, matches)),
        entities=_best(visited[: len(graph)]),
        relations=dict(sorted(on_paths.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]),
        requested=requested,
    )


def _visited(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> Scores:
    """How often a walk from the named entities comes to each node. Another wording of a question mostly names the same
    entities and relations: its walk is the same, and is not walked again."""
    start, fits = _start(graph, question, matches), TypeFits(graph, question)
    rows = (start != 0.0).nonzero()[0]
    key = (rows.tobytes(), start[rows].tobytes())
    known = graph.walks.get(key)
    if known is not None and np.array_equal(fits(known.kinds), known.fits):
        visited: Scores = np.zeros(len(start))
        visited[known.rows] = known.scores
        return visited
    visited = walk(graph.transitions, start, fits)
    reached, kinds = (visited != 0.0).nonzero()[0], fits.kinds
    graph.walks.put(key, WalkResult(kinds, fits(kinds), reached, visited[reached]))
    return visited


def _start(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> Scores:
    """Start weights of the named entities: higher for longer names and for rarer entities."""
    start = np.zeros(len(graph.transitions))
    for match in matches:
        informative = (question.bits(match.start, match.end) & question.informative).bit_count()
        rare = 1.0 / np.log2(2.0 + len(graph.chunks_by_entity.of(match.entity)))
        start[match.entity] += match.weight * max(0.5, informative) * rare
    return start


def _named_share(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> float:
    """The share of the question that names entities, rare ones counting more."""
    seen, share = 0, 0.0
    for match in sorted(matches, key=lambda match: (match.start - match.end, match.start, match.entity)):
        if not match.is_nested:
            new = question.bits(match.start, match.end) & question.informative & ~seen
            seen |= new
            share += question.share(new) * match.weight * graph.rarity(match.entity) ** 0.5
    return share


class TypeFits:
    """How well types of relations match a question; each type is computed once. The last place is for -1, no type."""

    def __init__(self, graph: KnowledgeGraph, question: GraphQuery) -> None:
        self._types, self._question = graph.types, question
        self._shares: Scores = np.zeros(len(graph.types) + 1)
        self._is_known = np.zeros(len(graph.types) + 1, dtype=np.bool_)
        self._is_known[[CO_OCCURRENCE_TYPE, -1]] = True

    @property
    def kinds(self) -> Numbers:
        """The types that were computed so far."""
        return np.flatnonzero(self._is_known[:-1])

    def __call__(self, kinds: Numbers) -> Scores:
        is_new = np.zeros(len(self._shares), dtype=np.bool_)
        is_new[kinds] = True
        new = np.flatnonzero(is_new & ~self._is_known)
        for kind in new.tolist():
            self._shares[kind] = self._question.fit(self._types[kind]).share
        self._is_known[new] = True
        shares: Scores = self._shares[kinds]
        return shares


def _chunks(graph: KnowledgeGraph, visited: Scores, on_paths: Mapping[int, float], named_share: float) -> Ranking:
    """The walk knows no more of the question than the names in it, so it counts by their share."""
    largest = visited.max(initial=0.0)
    scores: Scores = WALK_WEIGHT * named_share * np.sqrt(visited / largest) if largest > 0 else visited
    for row, score in on_paths.items():
        for place in graph.relations.evidence_of(row)[:, 0].tolist():
            scores[place] = max(scores[place], score)
    found = np.flatnonzero(scores > 0)
    scores = np.minimum(scores[found], 1.0)
    if len(found) > DEPTH:  # no more need be sorted than may be shown
        first = scores >= np.partition(scores, len(found) - DEPTH)[len(found) - DEPTH]
        found, scores = found[first], scores[first]
    keys: Keys = graph.chunks[found]
    return Ranking.ordered(keys, scores).head(DEPTH)


def _best(visited: Scores) -> dict[int, float]:
    found = (visited != 0.0).nonzero()[0]
    if len(found) > SHOWN:  # no more need be sorted than may be shown
        found = found[visited[found] >= np.partition(visited[found], len(found) - SHOWN)[len(found) - SHOWN]]
    order = found[np.lexsort((found, -visited[found]))][:SHOWN]
    largest = float(visited.max(initial=0.0)) or 1.0
    return {int(row): float(visited[row]) / largest for row in order.tolist()}


# ── paths ────────────────────────────────────────────────────────────────────────────────────────


class Path(NamedTuple):
    """From a named entity along relations. Its score is the share of the question that its name and relations cover;
    a step along a relation that is not in the question costs, more so at an entity with many relations. A tuple:
    hundreds are made for a question."""

    entity: int
    relations: tuple[int, ...]
    bits: int  # units of the question that are covered
    covered: float  # units, by how well they match
    cost: float = 1.0

    def score(self, question: GraphQuery) -> float:
        return min(1.0, self.covered / max(1, question.informative.bit_count())) * self.cost


def _paths(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> list[tuple[Path, float]]:
    """Every path of a beam search with its score, best first."""
    found: list[tuple[Path, float]] = []
    beam = list(_starts(graph, question, matches))
    for _ in range(STEPS):
        reached = [step for path in beam for step in _extended(graph, question, path)]
        scored = sorted(((path, path.score(question)) for path in reached), key=_path_order)
        found += scored
        beam = [path for path, _ in scored[:BEAM]]
    return sorted(found, key=_path_order)


def _path_order(scored: tuple[Path, float]) -> tuple[float, tuple[int, ...]]:
    return -scored[1], scored[0].relations


def _starts(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> Iterator[Path]:
    """The more chunks a name is in, the less it counts."""
    for match in matches:
        bits = question.bits(match.start, match.end)
        covered = max(0.5, (bits & question.informative).bit_count()) * match.weight * graph.rarity(match.entity)
        yield Path(match.entity, (), bits, covered)


def _extended(graph: KnowledgeGraph, question: GraphQuery, path: Path) -> Iterator[Path]:
    relations = graph.relations
    rows = graph.relations_by_entity.of(path.entity)
    stated = rows[relations.type[rows] != CO_OCCURRENCE_TYPE]
    branching = 1.0 / (1.0 + BRANCHING * math.log2(1 + len(stated)))
    is_source = (relations.source[stated] == path.entity).tolist()
    alike = Counter(zip(relations.type[stated].tolist(), is_source, strict=True))
    followed = _followed(graph, question, path, stated)
    columns = (relations.source, relations.target, relations.type)
    sources, targets, kinds = (column[followed].tolist() for column in columns)
    for row, source, target, kind in zip(followed.tolist(), sources, targets, kinds, strict=True):
        if row in path.relations:
            continue
        fit = question.fit(graph.types[kind])
        new = (fit.bits & question.informative & ~path.bits).bit_count()
        is_forward = source == path.entity
        fan = alike[kind, is_forward]
        step = FORWARD * fan**-0.05 if is_forward else BACKWARD * fan**-0.2
        yield Path(
            target if is_forward else source,
            (*path.relations, row),
            path.bits | (fit.bits if fit.share >= 0.5 else 0),
            path.covered + fit.share * new,
            path.cost * (step if fit.share >= MATCHING and new else OTHER_TYPE * branching * step),
        )


def _followed(graph: KnowledgeGraph, question: GraphQuery, path: Path, stated: Numbers) -> Numbers:
    """All relations of an entity; if they are too many, those that best match what the path does not cover yet."""
    if len(stated) <= MOST_RELATIONS:
        return stated
    kinds, at, count = np.unique(graph.relations.type[stated], return_inverse=True, return_counts=True)
    fits = [question.fit(graph.types[kind]) for kind in kinds.tolist()]
    gain = np.array([fit.share * (fit.bits & question.informative & ~path.bits).bit_count() for fit in fits])
    order = np.lexsort((stated, -graph.relations.weight[stated], count[at], -gain[at]))
    best: Numbers = stated[order[:MOST_RELATIONS]]
    return best


# ── questions for a relation ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Name:
    """A name in the question, and the entities that it may mean."""

    start: int
    end: int
    entities: frozenset[int]


def requested_relation(
    graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]
) -> tuple[RequestedRelation | None, list[int]]:
    """The relation that a question asks for with its evidence, and the rows of the relations that answer it.

    None for any other question, and for one about a single entity if the graph has no such relation.
    """
    names = _names(matches)
    for pair in combinations(names, 2):
        if is_relation_query(question.folded, [(name.start, name.end) for name in pair]):
            rows = list(_between(graph, *pair))
            return _requested(graph, question, pair, rows), rows
    for name in names:
        for word, is_forward in relation_words(question.folded, (name.start, name.end)):
            if rows := list(_of_type(graph, question, name, question.bits(*word), is_forward)):
                return _requested(graph, question, (name,), rows), rows
    return None, []


def _names(matches: Sequence[Match]) -> list[_Name]:
    """The names that are not part of a longer one, in the order of the question."""
    found: dict[tuple[int, int], set[int]] = {}
    for match in matches:
        if match.weight >= CERTAIN and not match.is_nested:
            found.setdefault((match.start, match.end), set()).add(match.entity)
    return [_Name(*span, frozenset(found[span])) for span in sorted(found)][:NAMES]


def _between(graph: KnowledgeGraph, one: _Name, other: _Name) -> Iterator[int]:
    relations = graph.relations
    for row in graph.relation_rows(sorted(one.entities)).tolist():
        ends = {int(relations.source[row]), int(relations.target[row])}
        is_stated = relations.type[row] != CO_OCCURRENCE_TYPE
        if ends & one.entities and ends & other.entities and len(ends) == 2 and is_stated:
            yield row


def _of_type(graph: KnowledgeGraph, question: GraphQuery, name: _Name, word: int, is_forward: bool) -> Iterator[int]:
    """The relations that the word names: its last character decides, 妹 of 亲妹妹."""
    ends = graph.relations.source if is_forward else graph.relations.target
    for row in graph.relation_rows(sorted(name.entities)).tolist():
        kind = int(graph.relations.type[row])
        if kind == CO_OCCURRENCE_TYPE or int(ends[row]) not in name.entities:
            continue
        fit = question.fit(graph.types[kind])
        if fit.share >= TYPE_SHARE and (fit.bits & word) >> (word.bit_length() - 1):
            yield row


def _requested(
    graph: KnowledgeGraph, question: GraphQuery, names: Sequence[_Name], rows: Sequence[int]
) -> RequestedRelation:
    written = tuple(question.folded[name.start : name.end] for name in names)
    evidence = dict.fromkeys(place for row in rows for place in graph.relation(row, MOST_EVIDENCE).evidence)
    return RequestedRelation(written, tuple(evidence)[:MOST_EVIDENCE])
