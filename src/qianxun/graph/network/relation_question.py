"""Questions for a relation: between two entities (甲和乙是什么关系), or what is related to one (甲的妹妹是谁)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from qianxun.core.graph_types import AskedTie
from qianxun.graph.network.entity_linking import Match
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.relations import CO_OCCURRENCE_TYPE
from qianxun.question.graph_query import GraphQuery
from qianxun.question.relation_query import is_relation_query, relation_words

CERTAIN: Final = 0.55  # weight of a match: three homonyms still have it
NAMES: Final = 4  # of a question
TYPE_SHARE: Final = 0.8  # of a relation's words that the question must have
MOST_EVIDENCE: Final = 24


@dataclass(frozen=True, slots=True)
class _Name:
    """A name in the question, and the entities that it may mean."""

    start: int
    end: int
    entities: frozenset[int]


def requested_relation(
    graph: KnowledgeGraph, question: GraphQuery, matches: Sequence[Match]
) -> tuple[AskedTie | None, list[int]]:
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


def _requested(graph: KnowledgeGraph, question: GraphQuery, names: Sequence[_Name], rows: Sequence[int]) -> AskedTie:
    written = tuple(question.folded[name.start : name.end] for name in names)
    evidence = dict.fromkeys(place for row in rows for place in graph.relation(row, MOST_EVIDENCE).evidence)
    return AskedTie(written, tuple(evidence)[:MOST_EVIDENCE])
