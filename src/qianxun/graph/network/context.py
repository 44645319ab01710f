"""What a graph says to a question, as a context: entities and directed relations by importance, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from qianxun.core.errors import BadInput
from qianxun.core.graph_types import CO_OCCURRENCE, Community, Entity, GraphContext, Relation
from qianxun.text.tokens import fitted

BUDGET: Final = 2000  # tokens
_LOOSE: Final = 0.5  # what a relation counts of which no more is known than that two names share a sentence


def assemble_graph_context(
    entities: Iterable[Entity],
    relations: Iterable[Relation] = (),
    *,
    relevance: Mapping[str, float] | None = None,
    communities: Sequence[Community] = (),
    budget: int = BUDGET,
) -> GraphContext:
    """Entities and the relations among them, the most important first, by centrality and relevance.

    ``relevance`` says by id how well an entity fits the question, in [0, 1]; without it all fit equally. It counts
    before centrality, which can double an entity's weight and no more. Communities stay in their order. The ends of
    every relation are among the entities. All of it costs at most ``budget`` tokens, as `tokens.context_tokens` says.
    """
    if budget < 0:
        raise BadInput("上下文预算不能为负", hint="budget 是词元数，0 表示不要图谱上下文")
    known = {each.id: each for each in entities}
    weights = {each.id: _weight(each, relevance) for each in known.values()}
    ranked = sorted(known.values(), key=lambda each: (-weights[each.id], -each.importance, each.id))
    return fitted(GraphContext(tuple(ranked), tuple(_ranked(relations, weights)), tuple(communities)), budget)


def _weight(entity: Entity, relevance: Mapping[str, float] | None) -> float:
    return (1.0 + entity.importance) * (1.0 if relevance is None else relevance.get(entity.id, 0.0))


def _ranked(relations: Iterable[Relation], weights: Mapping[str, float]) -> list[Relation]:
    """By the weight of their ends and their own; none twice, and none of whose ends one is unknown."""
    known = {
        (each.source, each.target, each.type): each
        for each in sorted(relations, key=lambda each: each.weight)
        if each.source in weights and each.target in weights
    }
    heaviest = max((each.weight for each in known.values()), default=0.0) or 1.0

    def weight(each: Relation) -> float:
        stated = _LOOSE if each.type == CO_OCCURRENCE else 1.0
        return stated * (1.0 + each.weight / heaviest) * (weights[each.source] + weights[each.target])

    return sorted(known.values(), key=lambda each: (-weight(each), each.source, each.target, each.type))
