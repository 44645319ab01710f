"""Questions for a tie: how two things are tied (甲和乙是什么关系), or what is tied to one (甲的妹妹是谁)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from qianxun.core.graph_types import AskedTie
from qianxun.graph.network.naming import Match
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.network.ties import TOGETHER
from qianxun.question.graph_query import GraphQuery
from qianxun.question.relation_query import asks_for_relation, relation_words

SURELY: Final = 0.55  # how surely a name must mean an entity: of three that are called the same, each does
NAMES: Final = 4  # of a question that are looked at
SAME: Final = 0.8  # how much of a relation's words the question must have
MOST: Final = 24  # places that are told


@dataclass(frozen=True, slots=True)
class _Named:
    """A name in the question, and the entities that it may mean."""

    start: int
    end: int
    entities: frozenset[int]


def asked_tie(
    graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]
) -> tuple[AskedTie | None, list[int]]:
    """What a question for a tie names, with the places that state it, and the ties themselves; None for any other
    question, and for one of a single name of which the graph knows no such tie."""
    named = _named(matches)
    for pair in combinations(named, 2):
        if asks_for_relation(question.folded, [(name.start, name.end) for name in pair]):
            ties = list(_between(graph, *pair))
            return _told(graph, question, pair, ties), ties
    for one in named:
        for word, is_along in relation_words(question.folded, (one.start, one.end)):
            if ties := list(_along(graph, question, one, question.bits(*word), is_along)):
                return _told(graph, question, (one,), ties), ties
    return None, []


def _named(matches: Sequence[Match]) -> list[_Named]:
    """The names that stand in no longer one, in the question's order."""
    found: dict[tuple[int, int], set[int]] = {}
    for match in matches:
        if match.weight >= SURELY and not match.is_within:
            found.setdefault((match.start, match.end), set()).add(match.entity)
    return [_Named(*span, frozenset(found[span])) for span in sorted(found)][:NAMES]


def _between(graph: KnowledgeGraph, one: _Named, other: _Named) -> Iterator[int]:
    ties = graph.ties
    for tie in graph.ties_of(sorted(one.entities)).tolist():
        ends = {int(ties.source[tie]), int(ties.target[tie])}
        if ends & one.entities and ends & other.entities and len(ends) == 2 and ties.type[tie] != TOGETHER:
            yield tie


def _along(graph: KnowledgeGraph, question: GraphQuery, named: _Named, asked: int, is_along: bool) -> Iterator[int]:
    """The ties that the question's word names: the end of that word says what it is, 妹妹 of 亲妹妹."""
    ends = graph.ties.source if is_along else graph.ties.target
    for tie in graph.ties_of(sorted(named.entities)).tolist():
        kind = int(graph.ties.type[tie])
        if kind == TOGETHER or int(ends[tie]) not in named.entities:
            continue
        fit = question.fit(graph.types[kind])
        if fit.share >= SAME and (fit.bits & asked) >> (asked.bit_length() - 1):
            yield tie


def _told(graph: KnowledgeGraph, question: GraphQuery, named: Sequence[_Named], ties: Sequence[int]) -> AskedTie:
    names = tuple(question.folded[each.start : each.end] for each in named)
    places = dict.fromkeys(place for tie in ties for place in graph.relation(tie, MOST).evidence)
    return AskedTie(names, tuple(places)[:MOST])
