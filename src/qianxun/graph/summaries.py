"""Summaries of a base's communities: extractive, or written by the base's language model.

The model writes when the graph is built, never during a query. Its summaries are stored by a digest of what they were
made from: once the community or a quoted sentence changes, the extractive summary is used again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from qianxun.bases.base import OpenBase, read
from qianxun.core.errors import BadModelReply, ModelUnavailable, QianxunError
from qianxun.core.graph_types import Community, Evidence, LlmCost, Relation, SummariesProgress, SummariesResult
from qianxun.core.ports import ChatModel, nothing
from qianxun.core.types import EVERYTHING, NOTHING, Filter, Keys
from qianxun.graph.build import graph_of
from qianxun.graph.llm_build import graph_model, has_model, in_graph_thread, run_workers
from qianxun.graph.network.global_search import Theme, central_themes
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.summaries import (
    WrittenSummary,
    digest,
    estimate,
    evidence_for,
    extractive_summary,
    llm_summary,
    with_summary,
)
from qianxun.records import chunks
from qianxun.records import graph as facts

log = logging.getLogger(__name__)

EVIDENCE_PER_RELATION: Final = 8
EVIDENCE_PER_COMMUNITY: Final = 40
SUMMARISED: Final = 100  # communities, the heaviest
SMALLEST: Final = 3  # entities: the relation of a pair says as much as its summary
CONCURRENT_CALLS: Final = 4
CALL_SECONDS: Final = 300.0


Watch: TypeAlias = Callable[[SummariesProgress], None]


async def communities(base: OpenBase, where: Filter = EVERYTHING, limit: int = 20) -> tuple[Community, ...]:
    """The heaviest communities of the documents that pass the filter."""
    graph = await graph_of(base, where)
    themes = await asyncio.to_thread(central_themes, graph, limit)
    return await summarised_communities(base, graph, themes)


async def summarised_communities(
    base: OpenBase, graph: KnowledgeGraph, themes: Iterable[Theme], removed: Keys = NOTHING.keys
) -> tuple[Community, ...]:
    """The communities of these themes, with the model's stored summaries where there are any, scored as the themes;
    without what only ``removed`` chunks have, which were deleted since."""
    found = await _extractive(base, graph, themes, removed)
    if not found or not has_model(base):
        return found
    try:
        model = await asyncio.to_thread(graph_model, base)
        stored = await asyncio.to_thread(_stored, base, model.name, found)
    except QianxunError as error:
        log.info("base %s: the summaries of its model are not available: %s", base.id, error)
        return found
    return tuple(
        with_summary(community, WrittenSummary(summary.title, summary.summary), model.name)
        if (summary := stored.get(digest(community))) is not None
        else community
        for community in found
    )


async def _extractive(
    base: OpenBase, graph: KnowledgeGraph, themes: Iterable[Theme], removed: Keys = NOTHING.keys
) -> tuple[Community, ...]:
    live = [replace(theme, entities=_live(graph, theme.entities, removed)) for theme in themes]
    if not live:
        return ()
    drafts = await asyncio.to_thread(
        lambda: [(theme, *_material(graph, theme, removed)) for theme in live if theme.entities]
    )
    keys = sorted({place.chunk for _, _, places in drafts for place in places})
    texts = {key: chunk.text for key, chunk in (await read(base, chunks.by_keys, keys)).items()} if keys else {}
    return await asyncio.to_thread(lambda: tuple(_summarised(graph, *draft, texts, removed) for draft in drafts))


def _live(graph: KnowledgeGraph, rows: tuple[int, ...], removed: Keys) -> tuple[int, ...]:
    return tuple(row for row in rows if graph.is_live(row, removed)) if len(removed) else rows


def live_relations(graph: KnowledgeGraph, rows: Iterable[int], limit: int, removed: Keys) -> list[Relation]:
    """These relations with so many pieces of evidence; none that only ``removed`` chunks state."""
    if not len(removed):
        return [graph.relation(row, limit) for row in rows]
    gone = frozenset(removed.tolist())
    found = []
    for relation in map(graph.relation, rows):
        evidence = tuple(place for place in relation.evidence if place.chunk not in gone)
        if evidence:
            found.append(replace(relation, weight=float(len(evidence)), evidence=evidence[:limit]))
    return found


def _material(graph: KnowledgeGraph, theme: Theme, removed: Keys) -> tuple[list[int], tuple[Evidence, ...]]:
    """The relations among a theme's entities with their evidence; without any, the mentions of the first entity."""
    relations: list[int] = graph.relations_among(theme.entities).tolist()
    mentions = () if relations else graph.mentions_of(theme.entities[0], EVIDENCE_PER_COMMUNITY)
    stated = live_relations(graph, relations, EVIDENCE_PER_RELATION, removed)
    return relations, evidence_for(stated, mentions)[:EVIDENCE_PER_COMMUNITY]


def _summarised(
    graph: KnowledgeGraph,
    theme: Theme,
    rows: Sequence[int],
    places: Sequence[Evidence],
    texts: Mapping[int, str],
    removed: Keys,
) -> Community:
    entities = [graph.entity_at(row, removed) for row in theme.entities]
    relations = live_relations(graph, rows, EVIDENCE_PER_RELATION, removed)
    found = extractive_summary(entities, relations, texts, mentions=() if rows else places)
    return replace(found, score=theme.score)


def _stored(base: OpenBase, model: str, found: Sequence[Community]) -> dict[str, facts.Summary]:
    with base.records.reading() as tx:
        return facts.summaries(tx, base.id, model, map(digest, found))


# ── written by the model ─────────────────────────────────────────────────────────────────────────


async def summaries_cost(base: OpenBase) -> LlmCost:
    """The cost of `summarise_communities` for the graph as it is now. Raises NotFound if the base names no model."""
    model = await asyncio.to_thread(graph_model, base)
    return (await _pending(base, model)).cost


async def summarise_communities(base: OpenBase, watch: Watch = nothing) -> SummariesResult:
    """Has the model summarise new communities and deletes the summaries of communities that no longer exist.

    Raises NotFound if the base names no model. An outage ends it early: the result says so, the rest stays extractive.
    """
    model = await asyncio.to_thread(graph_model, base)
    async with base.reader.reading:
        pending = await _pending(base, model)
        await asyncio.to_thread(_delete_outdated, base, pending.communities)
        watch(SummariesProgress(model.name, pending.cost))
        writer = _Writer(base, model, pending, iter(pending.missing), watch)
        await run_workers(writer.work, CONCURRENT_CALLS)
    failed = len(pending.missing) - writer.written
    if failed:
        log.warning("base %s: %d communities keep their extractive summaries: %s", base.id, failed, writer.reason)
    return SummariesResult(writer.written, pending.stored, failed, writer.reason, writer.is_down)


@dataclass(frozen=True, slots=True)
class _Pending:
    graph: KnowledgeGraph
    communities: Sequence[Community]
    missing: Sequence[Community]  # without a stored summary
    stored: int
    cost: LlmCost


async def _pending(base: OpenBase, model: ChatModel) -> _Pending:
    graph = await graph_of(base)
    themes = await asyncio.to_thread(central_themes, graph, SUMMARISED)
    found = await _extractive(base, graph, [theme for theme in themes if len(theme.entities) >= SMALLEST])
    found = tuple(community for community in found if community.summary)
    stored = await asyncio.to_thread(_stored, base, model.name, found)
    missing = [community for community in found if digest(community) not in stored]
    cost = estimate((community, _names(graph, community)) for community in missing)
    return _Pending(graph, found, missing, len(stored), cost)


def _names(graph: KnowledgeGraph, community: Community) -> list[str]:
    return [graph.entity_at(row).name for row in graph.rows(community.entities)]


def _delete_outdated(base: OpenBase, current: Sequence[Community]) -> None:
    with base.records.writing() as tx:
        facts.remove_other_summaries(tx, base.id, map(digest, current))


@dataclass
class _Writer:
    base: OpenBase
    model: ChatModel
    pending: _Pending
    queue: Iterator[Community]
    watch: Watch
    written: int = 0
    reason: str = ""
    is_down: bool = False

    async def work(self) -> None:
        for community in self.queue:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    names = _names(self.pending.graph, community)
                    summary: WrittenSummary = await in_graph_thread(
                        self.base, llm_summary, self.model, community, names
                    )
            except BadModelReply as error:
                self.reason = self.reason or str(error)
                continue
            except (ModelUnavailable, TimeoutError) as error:
                self.reason, self.is_down = str(error) or f"模型 {self.model.name} 没有答完", True
            except Exception as error:  # third-party models may raise anything
                log.exception("the graph model %s failed", self.model.name)
                self.reason, self.is_down = f"模型 {self.model.name} 出错：{type(error).__name__}", True
            if self.is_down:
                return
            await asyncio.to_thread(self._store, community, summary)
            self.written += 1
            self.watch(SummariesProgress(self.model.name, self.pending.cost, self.written))

    def _store(self, community: Community, summary: WrittenSummary) -> None:
        with self.base.records.writing() as tx:
            row = facts.Summary(digest(community), summary.title, summary.summary)
            facts.store_summaries(tx, self.base.id, self.model.name, [row])
