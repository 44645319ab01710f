"""What the whole graph has to say to a question: the communities it is about, and relations of the kind it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.types import NOTHING, Ranking, Scores
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.local_search import Fitting
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.question.graph_query import GraphQuery

THEMES: Final = 6
MATCHES: Final = 200  # relations of the kind that is asked for
MEMBERS: Final = 24  # entities of a community that are told
DEPTH: Final = 400  # chunks
OF_TYPE, OF_NAME = 0.5, 0.5  # what it counts that a relation is asked for, and that one of its ends is named
CENTRAL: Final = 0.1  # what a community's place in the graph counts beside what it has to do with the question
ENOUGH: Final = 2.0  # relations that speak of the question, at which a community scores half


@dataclass(frozen=True, slots=True)
class Theme:
    """A community by the rows of its entities, the most central first, and how well it fits the question."""

    entities: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Overview:
    """The best communities, and the chunks that tell of them, with scores in (0, 1], best first."""

    themes: tuple[Theme, ...]
    chunks: Ranking
    ties: Mapping[int, float]


NO_OVERVIEW: Final = Overview((), NOTHING, {})


def overview(graph: KnowledgeGraph, question: GraphQuery) -> Overview:
    """Of a question that names nothing and asks for no relation: what the graph is about at all."""
    if not len(graph):
        return NO_OVERVIEW
    asked = _asked(graph, question)
    score = _scores(graph, asked)
    best = np.lexsort((np.arange(len(score)), -score))[:THEMES]
    themes = tuple(Theme(_members(graph, community), float(score[community])) for community in best.tolist())
    return Overview(themes, _chunks(graph, asked, score, best), _best_ties(asked))


def central_themes(graph: KnowledgeGraph, limit: int) -> tuple[Theme, ...]:
    """What the graph is about, without a question: the communities of most weight, none of a single entity."""
    if not len(graph):
        return ()
    score = _scores(graph, np.zeros(len(graph.ties)))
    groups = graph.communities.groups()
    order = [at for at in np.lexsort((np.arange(len(score)), -score)).tolist() if len(groups[at]) > 1]
    return tuple(Theme(_members(graph, at), float(score[at])) for at in order[:limit])


def _asked(graph: KnowledgeGraph, question: GraphQuery) -> Scores:
    """By tie, how far the question speaks of it."""
    ties = graph.ties
    named = np.zeros(len(graph))
    for match in graph.find(question.folded):
        share = question.share(question.bits(match.start, match.end))
        named[match.entity] = max(named[match.entity], match.weight * min(1.0, 2.0 * share))
    kinds = np.array(graph.types_like(question.sought), dtype=np.int64)
    by_type = np.zeros(len(graph.types))
    by_type[kinds] = Fitting(graph, question)(kinds)
    of_type = by_type[ties.type]
    of_name = np.maximum(named[ties.source], named[ties.target])
    asked: Scores = OF_TYPE * of_type + OF_NAME * of_name
    return asked


def _scores(graph: KnowledgeGraph, asked: Scores) -> Scores:
    """By community; a tie between two of them speaks for that of its source."""
    count, labels = len(graph.communities), graph.communities.labels
    told = np.bincount(labels[graph.ties.source], weights=asked, minlength=count)
    weight = np.bincount(labels, weights=graph.importance, minlength=count)
    scores: Scores = (1.0 - CENTRAL) * told / (told + ENOUGH) + CENTRAL * weight / (weight.max() or 1.0)
    return scores


def _members(graph: KnowledgeGraph, community: int) -> tuple[int, ...]:
    members = np.flatnonzero(graph.communities.labels == community)
    order = np.lexsort((members, -graph.importance[members]))
    return tuple(members[order[:MEMBERS]].tolist())


def _chunks(graph: KnowledgeGraph, asked: Scores, score: Scores, best: Numbers) -> Ranking:
    """The evidence of what is asked for, and of what is central to the best communities."""
    ties = graph.ties
    central = (graph.importance[ties.source] + graph.importance[ties.target]) / 2
    labels = graph.communities.labels
    within = np.isin(labels[ties.source], best) & (labels[ties.source] == labels[ties.target])
    of_theme = score[labels[ties.source]] * (0.6 + 0.25 * asked + 0.15 * central)
    strength = np.maximum(np.where(within, of_theme, 0.0), 0.8 * asked)
    chosen = np.flatnonzero(strength > 0)
    chosen = chosen[np.lexsort((chosen, -strength[chosen]))][: 4 * DEPTH]
    scores = np.zeros(len(graph.chunks))
    for tie, strong in zip(chosen.tolist(), strength[chosen].tolist(), strict=True):
        places = ties.evidence_of(tie)[:, 0]
        scores[places] = np.maximum(scores[places], strong)
    found = np.flatnonzero(scores)
    return Ranking.ordered(graph.chunks[found], np.minimum(scores[found], 1.0)).head(DEPTH)


def _best_ties(asked: Scores) -> dict[int, float]:
    found = np.flatnonzero(asked > 0)
    order = found[np.lexsort((found, -asked[found]))][:MATCHES]
    return {int(tie): float(asked[tie]) for tie in order.tolist()}
