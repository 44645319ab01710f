"""Communities in the words that a base's model wrote of them when its graph was built (`graph_summaries`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from qianxun.bases.base import OpenBase
from qianxun.core.errors import QianxunError
from qianxun.core.graph_types import Community
from qianxun.graph.llm_build import graph_model, has_model
from qianxun.graph.network.extractive_summary import digest
from qianxun.graph.network.llm_summary import Written, with_summary
from qianxun.records import graph as facts

log = logging.getLogger(__name__)


async def in_models_words(base: OpenBase, found: Sequence[Community]) -> tuple[Community, ...]:
    """Each in the words that the base's model wrote of it, where it did and is still there."""
    if not found or not has_model(base):
        return tuple(found)
    try:
        model = await asyncio.to_thread(graph_model, base)
        held = await asyncio.to_thread(held_words, base, model.name, found)
    except QianxunError as error:
        log.info("base %s: the summaries of its model cannot be had: %s", base.id, error)
        return tuple(found)
    return tuple(
        with_summary(each, Written(kept.title, kept.summary), model.name)
        if (kept := held.get(digest(each))) is not None
        else each
        for each in found
    )


def held_words(base: OpenBase, model: str, found: Sequence[Community]) -> dict[str, facts.Summary]:
    """By what each summary was made from: what the model wrote of these communities."""
    with base.records.reading() as tx:
        return facts.summaries(tx, base.id, model, map(digest, found))
