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
from qianxun.graph.network.relations import RelationColumns, edge_weights, grouped

TypeFit: TypeAlias = Callable[[Numbers], Scores]  # types of relations → how well they match the question, in [0, 1]

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

    def __len__(self) -> int:
        return len(self.begins) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
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
    return Transitions(entities, order.begins, target[order.values], weight[order.values], kind[order.values])


def walk(graph: Transitions, start: Scores, fit: TypeFit) -> Scores:
    """The visiting probability of each node; ``start`` weighs the nodes that the walk starts from."""
    total = start.sum()
    visited: Scores = np.zeros(len(graph))
    if total <= 0:
        return visited
    here, left = start / total, 1.0
    for _ in range(STEPS):
        visited += RESTART * left * here
        left *= 1.0 - RESTART
        here = _step(graph, here, fit)
    visited += left * here
    return visited


def _step(graph: Transitions, here: Scores, fit: TypeFit) -> Scores:
    front = np.flatnonzero(here)
    if len(front) > FRONTIER:
        order = np.lexsort((front, -here[front]))
        front = np.sort(front[order[:FRONTIER]])
    lengths = graph.begins[front + 1] - graph.begins[front]
    edges = np.repeat(graph.begins[front] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    edges += np.arange(len(edges))
    owner = np.repeat(np.arange(len(front)), lengths)
    kind, weight = graph.type[edges], graph.weight[edges]
    is_relation = kind >= 0
    # By place, each taken once: masks are gone through anew for every array.
    related, other = is_relation.nonzero()[0], (~is_relation).nonzero()[0]
    of_related, of_other = owner[related], owner[other]
    to_related = weight[related] * (OTHER_TYPE_WEIGHT + fit(kind[related]))
    to_other = weight[other]
    by_relations = np.bincount(of_related, weights=to_related, minlength=len(front))
    by_chunks = np.bincount(of_other, weights=to_other, minlength=len(front))
    to_chunks = np.where(by_relations > 0, np.where(by_chunks > 0, TO_CHUNKS, 0.0), 1.0)
    weight = np.empty(len(edges))
    weight[related] = to_related * ((1.0 - to_chunks) / np.maximum(by_relations, _TINY))[of_related]
    weight[other] = to_other * (to_chunks / np.maximum(by_chunks, _TINY))[of_other]
    reached = np.bincount(graph.to[edges], weights=here[front][owner] * weight, minlength=len(graph))
    return reached.astype(np.float64)
