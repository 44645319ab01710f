"""Rules that people made for questions: for this one, or one like it, this chunk first, or never.

`matched_rules` is the function to read first. A question is a rule's own if it has the same words, or if its vector is
as near as the rule demands. A person's word is the surest evidence there is: a pinned chunk shows the score 1, says
that it is pinned and by which rule, and so stays in the order and the thresholds that hold for all results.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, Serving, in_model_thread, read
from qianxun.core.governance.corrections import QuestionRule
from qianxun.core.types import Degraded, Generation, Vector
from qianxun.records import bases
from qianxun.records.governance import corrections
from qianxun.text.chinese import fold

log = logging.getLogger(__name__)

PINNED: Final = "rule"  # the source of a chunk that no arm found
PINNED_SCORE: Final = 1.0


@dataclass(frozen=True, slots=True)
class MatchedRules:
    """The rules that hold for one question: chunk → the rule. Of two for one chunk the later one counts."""

    pinned: Mapping[int, int] = field(default_factory=dict)
    excluded: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.pinned or self.excluded)


NO_RULES: Final = MatchedRules()


def plain_question(text: str) -> str:
    """A question by its letters and figures alone: ＡＢＣ 报销？ and abc报销 are one."""
    return "".join(sign for sign in fold(text) if sign.isalnum())


async def question_rules(base: OpenBase, generation: Generation | None = None) -> tuple[QuestionRule, ...]:
    """The rules of a base at this state of it; or as it is now. Each with its vector, where the base has a model."""
    state = (generation.records if generation is not None else await read(base, bases.generation), base.model_name)
    if base.rules_at != state:
        known = await asyncio.to_thread(_read, base)
        base.rules, base.rules_at = await _with_vectors(base, known), state
    return base.rules


def _read(base: OpenBase) -> list[QuestionRule]:
    with base.records.reading() as tx:
        return corrections.rules(tx, base.id)


async def _with_vectors(base: OpenBase, known: Sequence[QuestionRule]) -> tuple[QuestionRule, ...]:
    """A question that has no stored vector of this model is embedded here, once for as long as the base is open."""
    found = []
    embedded = {(rule.id, rule.question): rule for rule in base.rules if rule.model == base.model_name}
    for rule in known:
        if base.model is not None and rule.like < 1.0 and rule.model != base.model_name:
            before = embedded.get((rule.id, rule.question))
            rule = (
                await _embedded(base, rule)
                if before is None
                else replace(rule, vector=before.vector, model=before.model)
            )
        vector = rule.vector if rule.model == base.model_name else None
        found.append(replace(rule, vector=_unit(vector), plain=plain_question(rule.question)))
    return tuple(found)


def _unit(vector: Vector | None) -> Vector | None:
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if vector is None or length == 0.0 else vector / np.float32(length)


async def _embedded(base: OpenBase, rule: QuestionRule) -> QuestionRule:
    model = base.model
    assert model is not None
    try:
        vector: Vector = await in_model_thread(base, "embedding", model.name, model.embed_query, rule.question)
    except Exception as error:  # any model may raise anything; the rule still holds for its own words
        log.warning("the question of rule %s of base %s has no vector: %s", rule.id, base.id, error)
        return rule
    return replace(rule, vector=vector, model=model.name)


async def matched_rules(
    base: OpenBase, serving: Serving, rules: Sequence[QuestionRule], text: str, vector: Vector | None = None
) -> tuple[MatchedRules, list[Degraded]]:
    """The rules that hold for a question. Without its ``vector`` it is embedded, where a rule goes by meaning."""
    if not rules:
        return NO_RULES, []
    degraded: list[Degraded] = []
    own = plain_question(text)
    by_meaning = any(rule.vector is not None and rule.plain != own for rule in rules)
    if vector is None and by_meaning and serving.model is not None:
        try:
            model = serving.model
            vector = await in_model_thread(base, "embedding", model.name, model.embed_query, text)
        except Exception as error:  # any model may raise anything
            degraded.append(Degraded("rules", f"没有问题的向量，只按字面比对规则：{error}"))
    vector = _unit(vector)
    pinned: dict[int, int] = {}
    excluded: dict[int, int] = {}
    for rule in rules:
        if rule.plain == own or _is_like(rule, vector):
            here, there = (pinned, excluded) if rule.kind == "pin" else (excluded, pinned)
            for key in rule.chunk_keys:
                there.pop(key, None)
                here[key] = rule.id
    return MatchedRules(pinned, excluded), degraded


def _is_like(rule: QuestionRule, vector: Vector | None) -> bool:
    if rule.vector is None or vector is None or rule.vector.shape != vector.shape:
        return False
    return float(rule.vector @ vector) >= rule.like
