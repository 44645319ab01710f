"""A walk that begins at what a question names, goes along ties and through chunks, and ever again returns to its start.

Personalised PageRank (Haveliwala 2002) over entities and the chunks they stand in, as in HippoRAG (Gutiérrez et al.
2024), a few steps of it: what is further away than that has nothing to do with the question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from qianxun.core.types import Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.grouping import grouped
from qianxun.graph.network.importance import tie_weights
from qianxun.graph.network.ties import Ties

Fits: TypeAlias = Callable[[Numbers], Scores]  # types of ties → in [0, 1], how far the question asks for them

RETURN: Final = 0.3  # how often the walk begins anew
STEPS: Final = 3
FRONT: Final = 1_000  # nodes that the walk goes on from
UNASKED: Final = 0.25  # what a relation counts that the question does not speak of
AT_THE_BEGINNING: Final = 3.0  # a chunk that begins with a name is about it
TO_CHUNKS: Final = 0.5  # of the steps of an entity that has ties and chunks
TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Roads:
    """From every node to its neighbours. Nodes are the entities by row, then the chunks by place."""

    entities: int
    begins: Numbers
    to: Numbers
    weight: Scores
    type: Numbers  # of the tie; -1: to or from a chunk

    def __len__(self) -> int:
        return len(self.begins) - 1


def roads(entities: int, chunks: int, ties: Ties, standing: Numbers) -> Roads:
    """``standing`` is (entity, chunk, how often, first place in the text)."""
    heavy = tie_weights(ties)
    entity, chunk = standing[:, 0], standing[:, 1] + entities
    in_chunks = np.bincount(entity, minlength=entities)
    often = np.log2(1.0 + standing[:, 2]) * np.where(standing[:, 3] == 0, AT_THE_BEGINNING, 1.0)
    rare = np.log2(1.0 + chunks / np.maximum(in_chunks, 1))
    source = np.concatenate([ties.source, ties.target, entity, chunk])
    target = np.concatenate([ties.target, ties.source, chunk, entity])
    weight = np.concatenate([heavy, heavy, often, often * rare[entity]])
    kind = np.concatenate([ties.type, ties.type, np.full(2 * len(standing), -1)])
    order = grouped(entities + chunks, source, np.arange(len(source)))
    return Roads(entities, order.begins, target[order.values], weight[order.values], kind[order.values])


def walked(roads: Roads, start: Scores, fits: Fits) -> Scores:
    """By node, how often the walk is there; ``start`` says where it begins, ``fits`` how far types are asked for."""
    total = start.sum()
    there: Scores = np.zeros(len(roads))
    if total <= 0:
        return there
    here, left = start / total, 1.0
    for _ in range(STEPS):
        there += RETURN * left * here
        left *= 1.0 - RETURN
        here = _next(roads, here, fits)
    there += left * here
    return there


def _next(roads: Roads, here: Scores, fits: Fits) -> Scores:
    front = np.flatnonzero(here)
    if len(front) > FRONT:
        order = np.lexsort((front, -here[front]))
        front = np.sort(front[order[:FRONT]])
    lengths = roads.begins[front + 1] - roads.begins[front]
    edges = np.repeat(roads.begins[front] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    edges += np.arange(len(edges))
    owner = np.repeat(np.arange(len(front)), lengths)
    kind, weight = roads.type[edges], roads.weight[edges].copy()
    tied = kind >= 0
    weight[tied] *= UNASKED + fits(kind[tied])
    by_ties = np.bincount(owner[tied], weights=weight[tied], minlength=len(front))
    by_chunks = np.bincount(owner[~tied], weights=weight[~tied], minlength=len(front))
    to_chunks = np.where(by_ties > 0, np.where(by_chunks > 0, TO_CHUNKS, 0.0), 1.0)
    weight[tied] *= ((1.0 - to_chunks) / np.maximum(by_ties, TINY))[owner[tied]]
    weight[~tied] *= (to_chunks / np.maximum(by_chunks, TINY))[owner[~tied]]
    gone = np.bincount(roads.to[edges], weights=here[front][owner] * weight, minlength=len(roads))
    return gone.astype(np.float64)
