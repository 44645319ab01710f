"""The vectors of the questions that people made rules for, by which a question like one of them is known."""

from __future__ import annotations

import logging

from qianxun.bases.base import OpenBase
from qianxun.core.ports import EmbeddingModel
from qianxun.records.governance import corrections

log = logging.getLogger(__name__)


def store_rule_vectors(base: OpenBase, model: EmbeddingModel | None) -> int:
    """Embeds the questions of rules that have no vector of this model yet, and stores the vectors. Returns how many.

    Where the model is made use of anyhow: when a rule is made, and when an index is built. A search writes nothing.
    """
    if model is None:
        return 0
    with base.records.reading() as tx:
        missing = [rule for rule in corrections.rules(tx, base.id) if rule.like < 1.0 and rule.model != model.name]
    try:
        found = [(rule.id, model.embed_query(rule.question)) for rule in missing]
    except Exception as error:  # any model may raise anything; a rule still holds for its own words
        log.warning("the questions of %s rules of base %s have no vector yet: %s", len(missing), base.id, error)
        return 0
    if found:
        with base.records.writing() as tx:
            for number, vector in found:
                corrections.write_vector(tx, number, model.name, vector)
    return len(found)
