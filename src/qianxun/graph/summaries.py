"""What the communities of a base's graph are about: in sentences of their sources, or in a model's words.

A model writes when the graph is built, never while a question waits. What it wrote is kept by what it was made from:
once a community, or a sentence that was quoted of it, is another, the sources speak for themselves again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from qianxun.bases.base import OpenBase
from qianxun.core.errors import BadModelReply, ModelUnavailable
from qianxun.core.graph_types import Community
from qianxun.core.ports import ChatModel, nothing
from qianxun.core.types import EVERYTHING, Filter
from qianxun.graph.build import graph_of
from qianxun.graph.extract.llm import Cost
from qianxun.graph.llm_build import graph_model, in_graph_thread, side_by_side
from qianxun.graph.mode_context import communities_of, quoted_communities
from qianxun.graph.network.extractive_summary import digest
from qianxun.graph.network.global_search import central_themes
from qianxun.graph.network.llm_summary import Written, estimate, summarise
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.stored_summaries import held_words
from qianxun.records import graph as facts

log = logging.getLogger(__name__)

SUMMARISED: Final = 100  # communities, those of most weight
LEAST: Final = 3  # entities: a pair says all there is to say of it
AT_ONCE: Final = 4
CALL_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class SummariesProgress:
    """How far a model has come; told first with nothing done, so that the cost is known before it arises."""

    model: str
    cost: Cost
    done: int = 0


Watch: TypeAlias = Callable[[SummariesProgress], None]


@dataclass(frozen=True, slots=True)
class Summarised:
    """What one go at a base's communities did."""

    written: int
    known: int
    failed: int  # whose extractive summary stays
    reason: str = ""
    was_cut_off: bool = False  # by an outage


async def communities(base: OpenBase, where: Filter = EVERYTHING, limit: int = 20) -> tuple[Community, ...]:
    """The communities of most weight, under a filter those of what passes it."""
    graph = await graph_of(base, where)
    themes = await asyncio.to_thread(central_themes, graph, limit)
    return await communities_of(base, graph, themes)


# ── written ──────────────────────────────────────────────────────────────────────────────────────


async def summaries_cost(base: OpenBase) -> Cost:
    """What `summarise_communities` will take, of the graph as it is now. Raises NotFound where no model is named."""
    model = await asyncio.to_thread(graph_model, base)
    graph, wanted = await _wanted(base)
    held = await asyncio.to_thread(held_words, base, model.name, wanted)
    return estimate((each, _names(graph, each)) for each in wanted if digest(each) not in held)


async def summarise_communities(base: OpenBase, watch: Watch = nothing) -> Summarised:
    """Has the model write of the communities that it has not written of; forgets what it wrote of those that are gone.

    Raises NotFound where the base names no model. An outage ends it early: the result says so, the rest stays quoted.
    """
    model = await asyncio.to_thread(graph_model, base)
    async with base.reader.reading:
        graph, wanted = await _wanted(base)
        held = await asyncio.to_thread(held_words, base, model.name, wanted)
        unknown = [each for each in wanted if digest(each) not in held]
        cost = estimate((each, _names(graph, each)) for each in unknown)
        await asyncio.to_thread(_forget, base, wanted)
        watch(SummariesProgress(model.name, cost))
        writing = _Writing(base, model, graph, iter(unknown), watch, cost)
        await side_by_side(writing.work, AT_ONCE)
    failed = len(unknown) - writing.written
    if failed:
        log.warning("base %s: %d communities keep their quoted summaries: %s", base.id, failed, writing.reason)
    return Summarised(writing.written, len(held), failed, writing.reason, writing.is_down)


async def _wanted(base: OpenBase) -> tuple[KnowledgeGraph, list[Community]]:
    graph = await graph_of(base)
    themes = await asyncio.to_thread(central_themes, graph, SUMMARISED)
    found = await quoted_communities(base, graph, [each for each in themes if len(each.entities) >= LEAST])
    return graph, [each for each in found if each.summary]


def _names(graph: KnowledgeGraph, community: Community) -> list[str]:
    return [graph.entity_at(row).name for row in graph.rows(community.entities)]


def _forget(base: OpenBase, kept: Sequence[Community]) -> None:
    with base.records.writing() as tx:
        facts.remove_other_summaries(tx, base.id, map(digest, kept))


@dataclass
class _Writing:
    base: OpenBase
    model: ChatModel
    graph: KnowledgeGraph
    waiting: Iterator[Community]
    watch: Watch
    cost: Cost
    written: int = 0
    reason: str = ""
    is_down: bool = False

    async def work(self) -> None:
        for community in self.waiting:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    names = _names(self.graph, community)
                    told: Written = await in_graph_thread(self.base, summarise, self.model, community, names)
            except BadModelReply as error:
                self.reason = self.reason or str(error)
                continue
            except (ModelUnavailable, TimeoutError) as error:
                self.reason, self.is_down = str(error) or f"模型 {self.model.name} 没有答完", True
            except Exception as error:  # the door of a model, which may be anybody's
                log.exception("the graph model %s failed", self.model.name)
                self.reason, self.is_down = f"模型 {self.model.name} 出错：{type(error).__name__}", True
            if self.is_down:
                return
            await asyncio.to_thread(self._keep, community, told)
            self.written += 1
            self.watch(SummariesProgress(self.model.name, self.cost, self.written))

    def _keep(self, community: Community, told: Written) -> None:
        with self.base.records.writing() as tx:
            kept = facts.Summary(digest(community), told.title, told.summary)
            facts.store_summaries(tx, self.base.id, self.model.name, [kept])
