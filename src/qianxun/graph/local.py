"""What lies around the things that a question names: ways that say what it says, and a walk from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.graph.network import KnowledgeGraph
from qianxun.graph.paths import ways
from qianxun.graph.question import Question
from qianxun.graph.walk import walked
from qianxun.types import NOTHING, Keys, Ranking, Scores

NEAR: Final = 0.5  # what a chunk that the walk reaches counts beside one that a way leads to
SHOWN: Final = 64  # entities and ties that are told
DEPTH: Final = 400  # chunks


@dataclass(frozen=True, slots=True)
class Around:
    """What was found: chunks with scores in (0, 1], best first; entities and ties with theirs, by row."""

    chunks: Ranking
    entities: Mapping[int, float]
    ties: Mapping[int, float]
    named: float = 0.0  # the share of the question that names things of the graph


NOWHERE: Final = Around(NOTHING, {}, {})


def around(graph: KnowledgeGraph, question: Question, seeds: Ranking = NOTHING, weight: float = 0.0) -> Around:
    """The surroundings of what the question names; with ``seeds`` the walk begins at these chunks too, in so great a
    part as ``weight`` says."""
    matches = graph.find(question.folded)
    if not matches and not (weight and len(seeds)):
        return NOWHERE
    bits = 0
    start = np.zeros(len(graph) + len(graph.chunks))
    for match in matches:
        own = question.bits(match.start, match.end)
        bits |= own if not match.is_within else 0
        rare = 1.0 / np.log2(2.0 + len(graph.chunks_by_entity.of(match.entity)))
        start[match.entity] += match.weight * max(0.5, (own & question.telling).bit_count()) * rare
    named = question.share(bits)
    if weight and len(seeds):
        start /= start.sum() or 1.0
        start[len(graph) :] += weight * _seeded(graph, seeds)
    there = walked(graph.roads, start, fitting(graph, question))
    by_way = {tie: score for way, score in reversed(ways(graph, question, matches)) for tie in way.ties}
    return Around(
        chunks=_chunks(graph, there[len(graph) :], by_way, named),
        entities=_told(there[: len(graph)]),
        ties=dict(sorted(by_way.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]),
        named=named,
    )


def fitting(graph: KnowledgeGraph, question: Question) -> Scores:
    """By type of a relation, how much the question asks for it."""
    asked = np.zeros(len(graph.types))
    for kind in graph.types_like(question.units):
        asked[kind] = question.fit(graph.types[kind]).share
    return asked


def _seeded(graph: KnowledgeGraph, seeds: Ranking) -> Scores:
    start = np.zeros(len(graph.chunks))
    at, is_there = graph.places(seeds.keys)
    start[at[is_there]] = seeds.scores[is_there]
    return start / (start.sum() or 1.0)


def _chunks(graph: KnowledgeGraph, walked: Scores, by_way: Mapping[int, float], named: float) -> Ranking:
    largest = walked.max(initial=0.0)
    scores: Scores = NEAR * named * np.sqrt(walked / largest) if largest > 0 else walked
    for tie, score in by_way.items():
        for place in graph.ties.evidence_of(tie)[:, 0].tolist():
            scores[place] = max(scores[place], score)
    found = np.flatnonzero(scores > 0)
    keys: Keys = graph.chunks[found]
    return Ranking.ordered(keys, np.minimum(scores[found], 1.0)).head(DEPTH)


def _told(there: Scores) -> dict[int, float]:
    found = np.flatnonzero(there)
    order = found[np.lexsort((found, -there[found]))][:SHOWN]
    largest = float(there.max(initial=0.0)) or 1.0
    return {int(row): float(there[row]) / largest for row in order.tolist()}
