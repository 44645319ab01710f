"""The graph of one base as people see and correct it: its contents, its cost, and which names are one entity's."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, read
from qianxun.core.errors import ModelError, NotFound
from qianxun.core.graph_types import (
    Alias,
    Community,
    Entity,
    EntityDetails,
    Evidence,
    GraphCost,
    GraphStatus,
    LlmExtraction,
    Quote,
    SummariesResult,
)
from qianxun.core.ports import nothing
from qianxun.core.types import EVERYTHING, Filter
from qianxun.core.unicode import storable
from qianxun.graph.build import graph_of
from qianxun.graph.llm_build import (
    Watch,
    extract_with_model,
    extraction_cost,
    graph_model,
    has_model,
    in_graph_thread,
)
from qianxun.graph.network import aliases as decisions
from qianxun.graph.network.aliases import PROPOSED_AMONG, Decision
from qianxun.graph.network.knowledge_graph import KnowledgeGraph
from qianxun.graph.network.relations import CO_OCCURRENCE_TYPE
from qianxun.graph.summaries import Watch as SummariesWatch
from qianxun.graph.summaries import communities, summaries_cost, summarise_communities
from qianxun.records import chunks
from qianxun.records import graph as facts
from qianxun.text.chinese import fold

SUGGESTIONS: Final = 5  # for an unknown name
_COMPARED: Final = 5_000  # names
_OPENING: Final = {"》": "《", "〉": "〈", "”": "“", "」": "「", "』": "『", "）": "（", ")": "("}


@dataclass(frozen=True, slots=True)
class GraphCurator:
    base: OpenBase

    # ── contents ─────────────────────────────────────────────────────────────────────────────────

    async def status(self) -> GraphStatus:
        base, graph = self.base, await graph_of(self.base)
        model, trouble = await self._model()

        def counts(tx: Connection) -> tuple[dict[str, int], int, int]:
            unread = facts.unread_count(tx, base.id, f"model:{model}"[:220]) if model and not trouble else 0
            return facts.origins(tx, base.id), unread, len(facts.aliases(tx, base.id))

        readers, unread, decided = await base.records.read(counts)
        sizes = np.bincount(graph.communities.labels) if len(graph) else np.empty(0)
        return GraphStatus(
            chunks=len(graph.chunks),
            entities=len(graph),
            relations=len(graph.relations),
            communities=int((sizes > 1).sum()),
            readers=readers,
            aliases=decided,
            model=model,
            unread=unread,
            failed=len(base.reader.failed) if model else 0,
            trouble=trouble,
        )

    async def _model(self) -> tuple[str, str]:
        """The name of the model that extracts facts, and why it is unavailable."""
        if not self.has_model:
            return "", ""
        try:
            return (await asyncio.to_thread(graph_model, self.base)).name, ""
        except (ModelError, NotFound) as error:
            return str(self.base.about.config.get("graph_model") or ""), str(error)

    async def show(self, name: str, *, where: Filter = EVERYTHING, limit: int = 50) -> EntityDetails:
        """An entity by its id, name or alias. Raises NotFound with similar names."""
        graph = await graph_of(self.base, where)
        shown = await asyncio.to_thread(_details, graph, _expected(graph, name), limit)
        places = [relation.evidence[0] for relation in shown.relations if relation.evidence]
        found = await read(self.base, chunks.by_keys, sorted({place.chunk for place in places}))
        quotes = {
            place: Quote(chunk.doc_id, chunk.doc_name, chunk.chunk_id, _words(chunk.text, place))
            for place in places
            if (chunk := found.get(place.chunk)) is not None
        }
        return replace(shown, quotes=quotes)

    async def communities(self, *, where: Filter = EVERYTHING, limit: int = 20) -> tuple[Community, ...]:
        """The heaviest ones with their summaries."""
        return await communities(self.base, where, limit)

    @property
    def has_model(self) -> bool:
        """Whether the base names a model that extracts facts."""
        return has_model(self.base)

    # ── with a model ─────────────────────────────────────────────────────────────────────────────

    async def cost(self) -> GraphCost:
        """Before any call. Raises NotFound if the base names no model."""
        return GraphCost(await extraction_cost(self.base), await summaries_cost(self.base))

    async def forget(self) -> int:
        """Deletes all facts, statistical and by models, so that they are extracted anew; returns of how many chunks."""

        def delete(tx: Connection) -> int:
            keys = facts.graph_chunks(tx, self.base.id).keys.tolist()
            facts.remove_facts(tx, self.base.id, keys)
            return len(keys)

        return await self.base.records.write(delete)

    async def read(self, watch: Watch = nothing) -> LlmExtraction:
        return await extract_with_model(self.base, watch)

    async def summarise(self, watch: SummariesWatch = nothing) -> SummariesResult:
        return await summarise_communities(self.base, watch)

    # ── aliases ──────────────────────────────────────────────────────────────────────────────────

    async def aliases(self) -> list[Alias]:
        """The decisions of people, in the order of the aliases."""
        return await self.base.records.read(lambda tx: facts.aliases(tx, self.base.id))

    async def merge(self, name: str, alias: str, origin: str = decisions.GIVEN) -> Entity:
        """Makes both one entity called ``name``, until `split`, and returns it. Raises NotFound if neither exists.

        An existing entity may be given a name that occurs nowhere.
        """
        graph = await graph_of(self.base)
        rows = [row_of(graph, given) for given in (name, alias)]
        if rows == [None, None]:
            raise _unknown(graph, name)
        name, alias = (_name_of(graph, given, row) for given, row in zip((name, alias), rows, strict=True))
        await self._decide(lambda decided: decisions.merge(decided, name, alias, origin))
        after = await graph_of(self.base)
        return after.entity_at(_expected(after, name))

    async def split(self, name: str) -> tuple[str, ...]:
        """Undoes a merge, or separates a name from those that texts give it; returns the names that are entities again.

        Raises NotFound if it has no other name.
        """
        graph, name = await graph_of(self.base), storable(name)
        row = row_of(graph, name)
        name = _name_of(graph, name, row)
        stated = _stated_names(graph, row, name)
        decision = await self._decide(lambda decided: decisions.split(decided, name, stated))
        return tuple(dict.fromkeys((*decision.removed, *(row.alias for row in decision.added))))

    async def propose(self) -> tuple[Alias, ...]:
        """The aliases that the base's model sees among the most central names; decides nothing.

        Raises NotFound if no model is named, ModelUnavailable or BadModelReply.
        """
        model = await asyncio.to_thread(graph_model, self.base)
        graph = await graph_of(self.base)
        order = np.lexsort((np.arange(len(graph)), -graph.importance))[:PROPOSED_AMONG]
        names = [graph.entity_at(row).name for row in order.tolist()]
        found: Sequence[Alias] = await in_graph_thread(self.base, decisions.propose, model, names)
        known = {decisions.form(row.alias) for row in await self.aliases()}
        return tuple(row for row in found if decisions.form(row.alias) not in known)

    async def _decide(self, decide: Callable[[Sequence[Alias]], Decision]) -> Decision:
        """Reads the current decisions and stores the new one in one transaction."""

        def store(tx: Connection) -> Decision:
            decision = decide(facts.aliases(tx, self.base.id))
            for removed in decision.removed:
                facts.remove_alias(tx, self.base.id, removed)
            for added in decision.added:
                facts.add_alias(tx, self.base.id, added)
            return decision

        return await self.base.records.write(store)


# ── entities by name ─────────────────────────────────────────────────────────────────────────────


def row_of(graph: KnowledgeGraph, name: str) -> int | None:
    """By its id, name or alias."""
    if _is_id(name) and (row := graph.row(name)) is not None:
        return row
    form = graph.names.forms.get(fold(name).strip())
    if form is None or form >= len(graph.entity_of) or graph.entity_of[form] < 0:
        return None
    return int(graph.entity_of[form])


def _is_id(name: str) -> bool:
    return name.startswith("e_")


def _name_of(graph: KnowledgeGraph, given: str, row: int | None) -> str:
    """The name of an entity that is given by its id; any other name as it is."""
    return graph.entity_at(row).name if row is not None and _is_id(given) else given


def _expected(graph: KnowledgeGraph, name: str) -> int:
    row = row_of(graph, name)
    if row is None:
        raise _unknown(graph, name)
    return row


def _unknown(graph: KnowledgeGraph, name: str) -> NotFound:
    folded = fold(name)[:80]
    known = {own: row for row in range(len(graph)) if set(own := graph.name(row)) & set(folded)}
    similar = difflib.get_close_matches(folded, list(known)[:_COMPARED], SUGGESTIONS, 0.5)
    shown = "、".join(graph.entity_at(known[own]).name for own in similar)
    return NotFound(
        f"图谱里没有实体“{storable(name[:80])}”", hint=f"相近的：{shown}" if shown else "先放入提到它的文档，或核对写法"
    )


def _stated_names(graph: KnowledgeGraph, row: int | None, name: str) -> list[str]:
    """The names that become entities if this one is separated from what texts call it."""
    if row is None:
        return []
    if fold(name).strip() != graph.name(row):
        return [name]
    forms = np.flatnonzero(graph.entity_of == row).tolist()
    return [graph.names.folded[form] for form in forms if form != graph.forms[row]]


def _words(text: str, place: Evidence) -> str:
    """The words of the evidence, with the closing mark of what they open: a relation ends where its name does."""
    words, following = text[place.start : place.end], text[place.end : place.end + 1]
    opening = _OPENING.get(following)
    return words + following if opening and words.count(opening) > words.count(following) else words


def _details(graph: KnowledgeGraph, row: int, limit: int) -> EntityDetails:
    relations, rows = graph.relations, graph.relation_rows([row])
    order = np.lexsort((rows, -relations.weight[rows], relations.type[rows] == CO_OCCURRENCE_TYPE))
    best = rows[order][:limit]
    ends = np.unique(np.concatenate([relations.source[best], relations.target[best]])).tolist()
    return EntityDetails(
        graph.entity_at(row),
        tuple(map(graph.relation, best.tolist())),
        {str(graph.ids[end]): graph.entity_at(end).name for end in ends},
    )
