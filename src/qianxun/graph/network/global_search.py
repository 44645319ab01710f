"""Global search: the communities that a question is about, and relations of the types that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.types import NOTHING, Ranking, Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.local_search import TypeFits
from qianxun.question.graph_query import GraphQuery

THEMES: Final = 6
MATCHES: Final = 200  # relations that match the question
MEMBERS: Final = 24  # entities of a community that are shown
DEPTH: Final = 400  # chunks
TYPE_WEIGHT, NAME_WEIGHT = 0.5, 0.5  # of a relation whose type, or one of whose ends, is in the question
CENTRALITY: Final = 0.1  # weight of a community's place in the graph beside its match with the question
HALF_SCORE: Final = 2.0  # matching relations at which a community scores half


@dataclass(frozen=True, slots=True)
class Theme:
    """A community: the rows of its entities, most central first, and how well it matches the question."""

    entities: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class GlobalResult:
    """The best communities, their chunks with scores in (0, 1], best first, and matching relations by row."""

    themes: tuple[Theme, ...]
    chunks: Ranking
    relations: Mapping[int, float]


NO_GLOBAL_RESULT: Final = GlobalResult((), NOTHING, {})


def global_search(graph: KnowledgeGraph, question: GraphQuery) -> GlobalResult:
    """For a question that names no entity and no relation: what the graph is about in general."""
    if not len(graph):
        return NO_GLOBAL_RESULT
    match = _match(graph, question)
    score = _scores(graph, match)
    best = np.lexsort((np.arange(len(score)), -score))[:THEMES]
    themes = tuple(Theme(_members(graph, community), float(score[community])) for community in best.tolist())
    found = np.flatnonzero(match > 0)
    rows = found[np.lexsort((found, -match[found]))][:MATCHES]
    relations = {int(row): float(match[row]) for row in rows.tolist()}
    return GlobalResult(themes, _chunks(graph, match, score, best), relations)


def central_themes(graph: KnowledgeGraph, limit: int) -> tuple[Theme, ...]:
    """The heaviest communities of more than one entity, without a question."""
    if not len(graph):
        return ()
    score = _scores(graph, np.zeros(len(graph.relations)))
    groups = graph.communities.groups()
    order = [at for at in np.lexsort((np.arange(len(score)), -score)).tolist() if len(groups[at]) > 1]
    return tuple(Theme(_members(graph, at), float(score[at])) for at in order[:limit])


def _match(graph: KnowledgeGraph, question: GraphQuery) -> Scores:
    """By relation, how well it matches the question."""
    relations = graph.relations
    named = np.zeros(len(graph))
    for match in graph.find(question.folded):
        share = question.share(question.bits(match.start, match.end))
        named[match.entity] = max(named[match.entity], match.weight * min(1.0, 2.0 * share))
    kinds = np.array(graph.types_with(question.sought), dtype=np.int64)
    by_type = np.zeros(len(graph.types))
    by_type[kinds] = TypeFits(graph, question)(kinds)
    by_name = np.maximum(named[relations.source], named[relations.target])
    scores: Scores = TYPE_WEIGHT * by_type[relations.type] + NAME_WEIGHT * by_name
    return scores


def _scores(graph: KnowledgeGraph, match: Scores) -> Scores:
    """By community; a relation between two of them counts for that of its source."""
    count, labels = len(graph.communities), graph.communities.labels
    matching = np.bincount(labels[graph.relations.source], weights=match, minlength=count)
    weight = np.bincount(labels, weights=graph.importance, minlength=count)
    relevance = matching / (matching + HALF_SCORE)
    scores: Scores = (1.0 - CENTRALITY) * relevance + CENTRALITY * weight / (weight.max() or 1.0)
    return scores


def _members(graph: KnowledgeGraph, community: int) -> tuple[int, ...]:
    members = np.flatnonzero(graph.communities.labels == community)
    order = np.lexsort((members, -graph.importance[members]))
    return tuple(members[order[:MEMBERS]].tolist())


def _chunks(graph: KnowledgeGraph, match: Scores, score: Scores, best: Numbers) -> Ranking:
    """The evidence of matching relations, and of central relations of the best communities."""
    relations, labels = graph.relations, graph.communities.labels
    central = (graph.importance[relations.source] + graph.importance[relations.target]) / 2
    own = labels[relations.source]
    within = np.isin(own, best) & (own == labels[relations.target])
    of_theme = score[own] * (0.6 + 0.25 * match + 0.15 * central)
    strength = np.maximum(np.where(within, of_theme, 0.0), 0.8 * match)
    chosen = np.flatnonzero(strength > 0)
    chosen = chosen[np.lexsort((chosen, -strength[chosen]))][: 4 * DEPTH]
    scores = np.zeros(len(graph.chunks))
    for row, strong in zip(chosen.tolist(), strength[chosen].tolist(), strict=True):
        places = relations.evidence_of(row)[:, 0]
        scores[places] = np.maximum(scores[places], strong)
    found = np.flatnonzero(scores)
    return Ranking.ordered(graph.chunks[found], np.minimum(scores[found], 1.0)).head(DEPTH)
