"""A random walk with restart from the entities that a question names, along relations and through chunks.

Personalised PageRank (Haveliwala 2002) over entities and the chunks that mention them, as in HippoRAG (Gutiérrez et
al. 2024), for a few steps only: what is further away has nothing to do with the question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from qianxun.core.types import Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.relations import CO_OCCURRENCE_TYPE, RelationColumns, edge_weights, grouped

TypeFit: TypeAlias = Callable[[Numbers], Scores]
"""Types of relations → how well they match the question, in [0, 1]; -1, no relation, does not."""

RESTART: Final = 0.3
STEPS: Final = 3
FRONTIER: Final = 1_000  # nodes that a step goes on from
OTHER_TYPE_WEIGHT: Final = 0.25  # of a relation that does not match the question
OPENING_WEIGHT: Final = 3.0  # a chunk that begins with a name is about it
TO_CHUNKS: Final = 0.5  # share of the steps of an entity that has relations and chunks
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """From every node to its neighbours. Nodes are the entities by row, then the chunks by place."""

    entities: int
    begins: Numbers
    to: Numbers
    weight: Scores
    type: Numbers  # of the relation; -1: to or from a chunk
    share: Scores  # of the steps from its node that go along an edge, where no relation matches the question
    to_chunks: Scores  # by node, the share of its steps that lead to or from a chunk
    stated: Numbers  # edges along relations that a text states: all others are alike to every question
    stated_begins: Numbers  # by node, where its own begin among them

    def __len__(self) -> int:
        return len(self.begins) - 1


@dataclass(frozen=True, slots=True, eq=False)
class WalkResult:
    """What a walk came to, and how well the types of relations on its way match its question."""

    kinds: Numbers
    fits: Scores
    rows: Numbers
    scores: Scores


def transitions(entities: int, chunks: int, relations: RelationColumns, occurrences: Numbers) -> Transitions:
    """``occurrences`` has rows (entity, chunk, count, first position in the text)."""
    of_relation = edge_weights(relations)
    entity, chunk = occurrences[:, 0], occurrences[:, 1] + entities
    often = np.log2(1.0 + occurrences[:, 2]) * np.where(occurrences[:, 3] == 0, OPENING_WEIGHT, 1.0)
    rare = np.log2(1.0 + chunks / np.maximum(np.bincount(entity, minlength=entities), 1))
    source = np.concatenate([relations.source, relations.target, entity, chunk])
    target = np.concatenate([relations.target, relations.source, chunk, entity])
    weight = np.concatenate([of_relation, of_relation, often, often * rare[entity]])
    kind = np.concatenate([relations.type, relations.type, np.full(2 * len(occurrences), -1)])
    order = grouped(entities + chunks, source, np.arange(len(source)))
    weight, kind = weight[order.values], kind[order.values]
    share, to_chunks = _shares(order.begins, weight, kind)
    stated = np.flatnonzero(kind > CO_OCCURRENCE_TYPE)
    stated_begins = np.searchsorted(stated, order.begins)
    return Transitions(
        entities, order.begins, target[order.values], weight, kind, share, to_chunks, stated, stated_begins
    )


def _shares(begins: Numbers, weight: Scores, kind: Numbers) -> tuple[Scores, Scores]:
    """By edge and by node: what a step does that no relation of the question draws. Most steps are such, so that only
    the others are worked out for a question."""
    nodes = len(begins) - 1
    owner = np.repeat(np.arange(nodes), np.diff(begins))
    related, other = np.flatnonzero(kind >= 0), np.flatnonzero(kind < 0)
    to_related = weight[related] * OTHER_TYPE_WEIGHT
    by_relations = np.bincount(owner[related], weights=to_related, minlength=nodes)
    by_chunks = np.bincount(owner[other], weights=weight[other], minlength=nodes)
    to_chunks: Scores = np.where(by_relations > 0, np.where(by_chunks > 0, TO_CHUNKS, 0.0), 1.0)
    share: Scores = np.empty(len(weight))
    share[related] = to_related * ((1.0 - to_chunks) / np.maximum(by_relations, _TINY))[owner[related]]
    share[other] = weight[other] * (to_chunks / np.maximum(by_chunks, _TINY))[owner[other]]
    return share, to_chunks


def walk(graph: Transitions, start: Scores, fit: TypeFit) -> Scores:
    """The visiting probability of each node; ``start`` weighs the nodes that the walk starts from."""
    total = start.sum()
    visited: Scores = np.zeros(len(graph))
    if total <= 0:
        return visited
    rows = np.flatnonzero(start)
    here, left = start[rows] / total, 1.0
    for _ in range(STEPS):
        visited[rows] += RESTART * left * here
        left *= 1.0 - RESTART
        rows, here = _step(graph, rows, here, fit)
    visited[rows] += left * here
    return visited


def _step(graph: Transitions, rows: Numbers, here: Scores, fit: TypeFit) -> tuple[Numbers, Scores]:
    """The nodes that a step comes to from these rows, and how often."""
    if len(rows) > FRONTIER:
        first = _first(rows, here)
        rows, here = rows[first], here[first]
    edges, lengths = _ranges(graph.begins, rows)
    share = graph.share[edges]
    _draw(graph, rows, share, fit)
    reached = np.bincount(graph.to[edges], weights=np.repeat(here, lengths) * share, minlength=len(graph))
    found = (reached != 0.0).nonzero()[0]
    return found, reached[found]


def _first(rows: Numbers, here: Scores) -> Numbers:
    """The places of the nodes that a step goes on from: the most visited, of equal ones those of the lowest rows."""
    least = np.partition(here, len(here) - FRONTIER)[len(here) - FRONTIER]
    is_more = here > least
    ties = (here == least).nonzero()[0][: FRONTIER - np.count_nonzero(is_more)]
    is_more[ties] = True
    first: Numbers = is_more.nonzero()[0]
    return first


def _ranges(begins: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
    """The places from ``begins[row]`` to ``begins[row + 1]`` of all rows, one after the other; how many each has."""
    starts = begins[rows]
    lengths = begins[rows + 1] - starts
    places = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    places += np.arange(len(places))
    return places, lengths


def _draw(graph: Transitions, rows: Numbers, share: Scores, fit: TypeFit) -> None:
    """Puts the shares of relations that the question draws in place of those in ``share``, which has the edges of all
    rows one after the other."""
    places, counts = _ranges(graph.stated_begins, rows)
    fits = fit(graph.type[graph.stated[places]])
    matching = (fits != 0.0).nonzero()[0]
    if not len(matching):
        return
    is_drawn = np.zeros(len(rows), dtype=np.bool_)
    is_drawn[np.repeat(np.arange(len(rows)), counts)[matching]] = True
    drawn = is_drawn.nonzero()[0]
    edges, lengths = _ranges(graph.begins, rows[drawn])
    kinds = graph.type[edges]
    related = (kinds >= 0).nonzero()[0]
    owner = np.repeat(np.arange(len(drawn)), lengths)[related]
    weight = graph.weight[edges[related]] * (OTHER_TYPE_WEIGHT + fit(kinds[related]))
    by_relations = np.bincount(owner, weights=weight, minlength=len(drawn))
    # Where the edges of each of these are in ``share``.
    before = np.cumsum(graph.begins[rows + 1] - graph.begins[rows])[drawn] - lengths
    places = edges[related] + (before - graph.begins[rows[drawn]])[owner]
    share[places] = weight * ((1.0 - graph.to_chunks[rows[drawn]]) / np.maximum(by_relations, _TINY))[owner]
