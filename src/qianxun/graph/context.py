"""The graph context of a question: entities, relations and communities by importance, within a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadInput
from qianxun.core.graph_types import CO_OCCURRENCE, Community, Entity, GraphContext, Relation
from qianxun.core.system.quick_work import QuickWork
from qianxun.core.types import NOTHING, Keys
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.global_search import GlobalResult
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.local_search import LocalResult
from qianxun.graph.summaries import EVIDENCE_PER_RELATION, live_relations, summarised_communities
from qianxun.text.tokens import fitted

BUDGET: Final = 2000  # tokens
ENTITIES: Final = 32
RELATIONS: Final = 48
CO_OCCURRENCE_WEIGHT: Final = 0.5  # of a relation that is only a co-occurrence
_RANKING: Final = QuickWork()


def ranked_context(
    entities: Iterable[Entity],
    relations: Iterable[Relation] = (),
    *,
    relevance: Mapping[str, float] | None = None,
    communities: Sequence[Community] = (),
    budget: int = BUDGET,
) -> GraphContext:
    """Returns entities and the relations among them, ranked by relevance and centrality, within ``budget`` tokens.

    ``relevance`` maps entity ids to [0, 1]; without it all are equally relevant. Centrality can at most double an
    entity's weight. Communities keep their order. Both ends of every relation are among the entities. Tokens are
    counted by `tokens.context_tokens`. Raises BadInput for a negative budget.
    """
    if budget < 0:
        raise BadInput("上下文预算不能为负", hint="budget 是词元数，0 表示不要图谱上下文")
    by_id = {entity.id: entity for entity in entities}
    weights = {
        entity.id: (1.0 + entity.importance) * (1.0 if relevance is None else relevance.get(entity.id, 0.0))
        for entity in by_id.values()
    }
    ranked = sorted(by_id.values(), key=lambda entity: (-weights[entity.id], -entity.importance, entity.id))
    return fitted(GraphContext(tuple(ranked), tuple(_ranked(relations, weights)), tuple(communities)), budget)


def assemble_graph_context(
    entities: Iterable[Entity | Mapping[str, Any]],
    relations: Iterable[Relation | Mapping[str, Any]] = (),
    *,
    relevance: Mapping[str, float] | None = None,
    communities: Sequence[Community] = (),
    budget: int = BUDGET,
) -> dict[str, list[Mapping[str, Any]]]:
    """`ranked_context` as ``{"entities": [{id, name, type}], "relationships": [{source, target, type}]}``.

    Entities and relations may be given in this form, too. Raises BadInput for what lacks one of these keys.
    """
    nodes = [
        entity if isinstance(entity, Entity) else Entity(**_fields(entity, "id", "name", "type")) for entity in entities
    ]
    edges = [
        relation
        if isinstance(relation, Relation)
        else Relation(**_fields(relation, "source", "target", "type"), weight=1.0)
        for relation in relations
    ]
    return ranked_context(nodes, edges, relevance=relevance, communities=communities, budget=budget).as_dict()


def _fields(one: Mapping[str, Any], *names: str) -> dict[str, Any]:
    if not isinstance(one, Mapping) or any(name not in one for name in names):
        raise BadInput(f"图谱里的 {one!r} 不完整", hint=f"要有 {'、'.join(names)}")
    return {name: str(one[name]) for name in names}


def _ranked(relations: Iterable[Relation], weights: Mapping[str, float]) -> list[Relation]:
    """Distinct relations whose ends are both known, ranked by the weights of the ends and their own."""
    known = {
        (relation.source, relation.target, relation.type): relation
        for relation in sorted(relations, key=lambda relation: relation.weight)
        if relation.source in weights and relation.target in weights
    }
    heaviest = max((relation.weight for relation in known.values()), default=0.0) or 1.0

    def weight(relation: Relation) -> float:
        of_type = CO_OCCURRENCE_WEIGHT if relation.type == CO_OCCURRENCE else 1.0
        return of_type * (1.0 + relation.weight / heaviest) * (weights[relation.source] + weights[relation.target])

    return [known[key] for key in sorted(known, key=lambda key: (-weight(known[key]), *key))]


# ── of a search ──────────────────────────────────────────────────────────────────────────────────


async def context_of(
    base: OpenBase, graph: KnowledgeGraph, local: LocalResult, seen: GlobalResult, removed: Keys = NOTHING.keys
) -> GraphContext:
    """The entities, relations and communities that local and global search came across. ``removed``: chunks that were
    deleted since the graph was derived; nothing is shown that is of these alone."""
    relevance = _relevance(graph, local, seen)
    rows = sorted(relevance, key=lambda row: (-relevance[row], row))
    rows = [row for row in rows if graph.is_live(row, removed)][:ENTITIES]
    relations = _relations(graph, rows, local, seen)
    ends = graph.relations.source[relations].tolist(), graph.relations.target[relations].tolist()
    rows = [row for row in dict.fromkeys((*rows, *ends[0], *ends[1])) if graph.is_live(row, removed)]
    communities = await summarised_communities(base, graph, seen.themes, removed)
    return await _RANKING.run(
        len(rows) + len(relations),
        lambda: ranked_context(
            [graph.entity_at(row, removed) for row in rows],
            live_relations(graph, relations.tolist(), EVIDENCE_PER_RELATION, removed),
            relevance={str(graph.ids[row]): relevance.get(row, 0.1) for row in rows},
            communities=communities,
        ),
    )


def _relevance(graph: KnowledgeGraph, local: LocalResult, seen: GlobalResult) -> dict[int, float]:
    """By entity row, in [0, 1]."""
    relevance = dict(local.entities)
    scored = [(row, theme.score / (1 + rank)) for theme in seen.themes for rank, row in enumerate(theme.entities)]
    for relations in (local.relations, seen.relations):
        for ends in (graph.relations.source, graph.relations.target):
            scored += [(int(ends[relation]), score) for relation, score in relations.items()]
    for row, score in scored:
        relevance[row] = max(relevance.get(row, 0.0), min(score, 1.0))
    return relevance


def _relations(graph: KnowledgeGraph, rows: Sequence[int], local: LocalResult, seen: GlobalResult) -> Numbers:
    """Relations that match the question, then the heaviest ones among the entities."""
    matching = sorted((*local.relations.items(), *seen.relations.items()), key=lambda item: (-item[1], item[0]))
    among = graph.relations_among(rows)
    heavy = among[np.lexsort((among, -graph.relations.weight[among]))]
    first = list(dict.fromkeys((*(relation for relation, _ in matching[: RELATIONS // 2]), *heavy.tolist())))
    return np.array(first[:RELATIONS], dtype=np.int64)
