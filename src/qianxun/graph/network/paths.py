"""Ways through the graph that say what a question says: from a thing it names, along relations it speaks of.

A way is worth the share of the question that its beginning and its relations explain; every step along a relation that
the question does not speak of costs, the more the busier the crossing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.naming import Match
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.network.ties import TOGETHER
from qianxun.question.graph_query import GraphQuery

STEPS: Final = 3
BREADTH: Final = 40  # ways that go on
CROSSING: Final = 160  # ties of one entity that are looked at
ALONG, AGAINST = 0.98, 0.9  # a relation that is asked for, in its direction and the other
UNASKED: Final = 0.5
FITTING: Final = 0.3  # the share of a relation's words that must be asked for


@dataclass(frozen=True, slots=True)
class Way:
    """``explained`` counts units of the question; ``cost`` is what the steps leave of it."""

    entity: int
    ties: tuple[int, ...]
    bits: int
    explained: float
    cost: float = 1.0

    def score(self, question: GraphQuery) -> float:
        return min(1.0, self.explained / max(1, question.telling.bit_count())) * self.cost


def ways(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> list[tuple[Way, float]]:
    """Every way that was looked at, with its score, best first."""
    found: list[tuple[Way, float]] = []
    going = list(_beginnings(graph, question, matches))
    for _ in range(STEPS):
        reached = [step for way in going for step in _steps(graph, question, way)]
        scored = sorted(((step, step.score(question)) for step in reached), key=lambda each: (-each[1], each[0].ties))
        found += scored
        going = [way for way, _ in scored[:BREADTH]]
    return sorted(found, key=lambda each: (-each[1], each[0].ties))


def _beginnings(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> Iterator[Way]:
    """A name explains the less, the more chunks have it."""
    for match in matches:
        bits = question.bits(match.start, match.end)
        explained = max(0.5, (bits & question.telling).bit_count()) * match.weight * graph.rarity(match.entity)
        yield Way(match.entity, (), bits, explained)


def _steps(graph: KnowledgeGraph, question: GraphQuery, way: Way) -> Iterator[Way]:
    ties = graph.ties
    at_hand = graph.ties_by_entity.of(way.entity)
    stated = at_hand[ties.type[at_hand] != TOGETHER]
    busy = 1.0 / (1.0 + 0.15 * math.log2(1 + len(stated)))
    alike = Counter(zip(ties.type[stated].tolist(), (ties.source[stated] == way.entity).tolist(), strict=True))
    for tie in _looked_at(graph, question, way, stated):
        if tie in way.ties:
            continue
        source, target = int(ties.source[tie]), int(ties.target[tie])
        fit = question.fit(graph.types[int(ties.type[tie])])
        new = (fit.bits & question.telling & ~way.bits).bit_count()
        is_along = source == way.entity
        fan = alike[int(ties.type[tie]), is_along]
        along = ALONG * fan**-0.05 if is_along else AGAINST * fan**-0.2
        cost = along if fit.share >= FITTING and new else UNASKED * busy * along
        explained = way.explained + fit.share * new
        other = target if source == way.entity else source
        yield Way(other, (*way.ties, tie), way.bits | (fit.bits if fit.share >= 0.5 else 0), explained, way.cost * cost)


def _looked_at(graph: KnowledgeGraph, question: GraphQuery, way: Way, stated: Numbers) -> list[int]:
    """All ties of an entity; of a busy one those that say something of the question that the way has not said yet."""
    if len(stated) <= CROSSING:
        return list(map(int, stated.tolist()))
    distinct, at, count = np.unique(graph.ties.type[stated], return_inverse=True, return_counts=True)
    fits = [question.fit(graph.types[kind]) for kind in distinct.tolist()]
    says = np.array([fit.share * (fit.bits & question.telling & ~way.bits).bit_count() for fit in fits])
    order = np.lexsort((stated, -graph.ties.weight[stated], count[at], -says[at]))
    return list(map(int, stated[order[:CROSSING]].tolist()))
