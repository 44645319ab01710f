"""How many tokens a text or a graph context costs a language model, and what fits into a budget of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from qianxun.core.graph_types import Community, Entity, GraphContext, Relation
from qianxun.core.system.cache import cached_texts

Item = TypeVar("Item")

COUNTED: Final = 50_000  # characters of many texts: some ten milliseconds
_LETTERS_PER_TOKEN: Final = 4
_DIGITS_PER_TOKEN: Final = 3
_SIGNS: Final = 8  # tokens around the names of a line: its marks, brackets, arrow and end
_HALF: Final = 0.5  # of what is left: more for the first would leave nothing to the others
_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")  # the basic plane
_RUN: Final = re.compile(r"[a-zA-Z]+|[0-9]+|\s+")


def tokens(text: str) -> int:
    """An estimate on the safe side: a Chinese character is one, and so are a sign, four letters, three digits, a line's
    end.

    For Chinese it says 1.02 times what the WordPiece of bge-small-zh counts (300 texts each of cmrc2018, rageval_zh_fin
    and kbqa_zh_mh_train); byte-pair vocabularies that know Chinese need less.
    """
    runs = _RUN.findall(text)
    signs = len(text) - sum(map(len, runs))
    beyond = 0 if text.isascii() else len(_BEYOND.findall(text))  # what is left there is bytes
    return signs + beyond + sum(map(_cost, runs))


def tokens_of_all(texts: Iterable[str]) -> int:
    """About the same of many texts, in a time that has a bound: what comes after the first of them is taken to cost
    as much for its length."""
    counted = total = length = 0
    for text in texts:
        length += len(text)
        if counted < COUNTED:
            part = text[: COUNTED - counted]
            counted, total = counted + len(part), total + tokens(part)
    return total if length == counted else round(total * length / counted)


def _cost(run: str) -> int:
    first = run[0]
    if first.isspace():
        return run.count("\n")  # a blank goes with the word after it
    return -(-len(run) // (_LETTERS_PER_TOKEN if first.isalpha() else _DIGITS_PER_TOKEN))


@dataclass(slots=True)
class Budget:
    """Tokens that may be spent; never more than there are."""

    left: int

    def take(self, offered: Iterable[Item], cost: Callable[[Item], int], share: float = 1.0) -> list[Item]:
        """Those that fit, from the first on, into a ``share`` of what is left; a large one is passed over for small
        ones that come after it."""
        room = int(max(self.left, 0) * share)
        taken = []
        for item in offered:
            price = cost(item)
            if price <= room:
                taken.append(item)
                room -= price
                self.left -= price
        return taken


# ── graph contexts ────────────────────────────────────────────────────────────────────────────


def context_tokens(context: GraphContext) -> int:
    """What a context costs: every entity and every relation on a line of its own, every summary whole."""
    names = {entity.id: entity.name for entity in context.entities}
    relations = sum(_relation_cost(relation, names) for relation in context.relations)
    return sum(map(_entity_cost, context.entities)) + relations + sum(map(_community_cost, context.communities))


def fitted(context: GraphContext, budget: int) -> GraphContext:
    """As much of a context, from the front of each of its lists, as costs at most ``budget`` tokens.

    The ends of every relation are among the entities.
    """
    names = {entity.id: entity.name for entity in context.entities}
    related = [relation for relation in context.relations if relation.source in names and relation.target in names]
    purse = Budget(budget)
    communities = purse.take(context.communities, _community_cost, _HALF if names else 1.0)
    chosen = {entity.id for entity in purse.take(context.entities, _entity_cost, _HALF if related else 1.0)}
    among = (one for one in related if one.source in chosen and one.target in chosen)
    relations = purse.take(among, lambda one: _relation_cost(one, names))
    chosen.update(one.id for one in purse.take((e for e in context.entities if e.id not in chosen), _entity_cost))
    entities = tuple(entity for entity in context.entities if entity.id in chosen)
    return GraphContext(entities, tuple(relations), tuple(communities))


def _entity_cost(entity: Entity) -> int:
    return _of_name(entity.name) + _of_name(entity.type) + _SIGNS


def _relation_cost(relation: Relation, names: Mapping[str, str]) -> int:
    ends = _of_name(names.get(relation.source, "")) + _of_name(names.get(relation.target, ""))
    return ends + _of_name(relation.type) + _SIGNS


@cached_texts(1_024)
def _of_name(name: str) -> int:
    """Cached: an entity has many relations, and their types are few."""
    return tokens(name)


def _community_cost(community: Community) -> int:
    return tokens(community.title) + tokens(community.summary) + _SIGNS
