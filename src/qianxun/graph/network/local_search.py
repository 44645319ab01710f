"""What lies around the things that a question names: ways that say what it says, and a walk from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.graph_types import AskedTie
from qianxun.core.types import NOTHING, Keys, Ranking, Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.naming import Match
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.network.paths import ways
from qianxun.graph.network.relation_question import asked_tie
from qianxun.graph.network.ties import TOGETHER
from qianxun.graph.network.walk import walked
from qianxun.question.graph_query import GraphQuery

NEAR: Final = 0.6  # what a chunk that the walk reaches counts beside one that a way leads to
SHOWN: Final = 64  # entities and ties that are told
DEPTH: Final = 400  # chunks


@dataclass(frozen=True, slots=True)
class Around:
    """What was found: chunks with scores in (0, 1], best first; entities and ties with theirs, by row."""

    chunks: Ranking
    entities: Mapping[int, float]
    ties: Mapping[int, float]
    asked: AskedTie | None = None  # where the question asks for a tie: what states it


NOWHERE: Final = Around(NOTHING, {}, {})


def around(graph: KnowledgeGraph, question: GraphQuery) -> Around:
    """The surroundings of what the question names; nothing where it names nothing."""
    matches = graph.find(question.folded)
    if not matches:
        return NOWHERE
    there = walked(graph.roads, _start(graph, question, matches), Fitting(graph, question))
    by_way = {tie: score for way, score in reversed(ways(graph, question, matches)) for tie in way.ties}
    asked, ties = asked_tie(graph, question, matches)
    by_way.update(dict.fromkeys(ties, 1.0))  # nothing says more of the question than what states its answer
    return Around(
        chunks=_chunks(graph, there[len(graph) :], by_way, _named(graph, question, matches)),
        entities=_told(there[: len(graph)]),
        ties=dict(sorted(by_way.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]),
        asked=asked,
    )


def _start(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> Scores:
    """Where the walk begins: at what is named, the more of the question the name takes up and the fewer chunks have
    it."""
    start = np.zeros(len(graph.roads))
    for match in matches:
        telling = (question.bits(match.start, match.end) & question.telling).bit_count()
        rare = 1.0 / np.log2(2.0 + len(graph.chunks_by_entity.of(match.entity)))
        start[match.entity] += match.weight * max(0.5, telling) * rare
    return start


def _named(graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]) -> float:
    """The share of the question that names things, rare ones more than common ones."""
    seen, share = 0, 0.0
    for match in sorted(matches, key=lambda match: (match.start - match.end, match.start, match.entity)):
        if not match.is_within:
            new = question.bits(match.start, match.end) & question.telling & ~seen
            seen |= new
            share += question.share(new) * match.weight * graph.rarity(match.entity) ** 0.5
    return share


class Fitting:
    """How far a question asks for relations of some types; every type is looked at once."""

    def __init__(self, graph: KnowledgeGraph, question: GraphQuery) -> None:
        self._types, self._question = graph.types, question
        self._shares: Scores = np.zeros(len(graph.types))
        self._is_known = np.zeros(len(graph.types), dtype=np.bool_)
        self._is_known[TOGETHER] = True

    def __call__(self, kinds: Numbers) -> Scores:
        is_new = np.zeros(len(self._shares), dtype=np.bool_)
        is_new[kinds] = True
        for kind in np.flatnonzero(is_new & ~self._is_known).tolist():
            self._shares[kind] = self._question.fit(self._types[kind]).share
        self._is_known[kinds] = True
        asked: Scores = self._shares[kinds]
        return asked


def _chunks(graph: KnowledgeGraph, walked: Scores, by_way: Mapping[int, float], named: float) -> Ranking:
    """``named`` is the share of the question that names things: the walk knows no more of it than that."""
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
