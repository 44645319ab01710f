"""The graph of one base in the hands of people: what it holds, what it costs, which names are one thing's."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from sqlalchemy import Connection

from qianxun.bases.base import OpenBase, read
from qianxun.core.errors import ModelError, NotFound
from qianxun.core.graph_types import Alias, Community, Entity, Evidence, Relation
from qianxun.core.ports import nothing
from qianxun.core.types import EVERYTHING, Filter
from qianxun.core.unicode import storable
from qianxun.graph.build import graph_of
from qianxun.graph.extract.llm import Cost
from qianxun.graph.llm_build import (
    ModelRead,
    ReadingCost,
    Watch,
    graph_model,
    has_model,
    in_graph_thread,
    read_with_model,
    reading_cost,
)
from qianxun.graph.network import aliases as naming
from qianxun.graph.network.aliases import Decision
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.network.ties import TOGETHER
from qianxun.graph.summaries import Summarised, communities, summaries_cost, summarise_communities
from qianxun.graph.summaries import Watch as SummariesWatch
from qianxun.records import chunks
from qianxun.records import graph as facts
from qianxun.text.chinese import fold

PROPOSED_AMONG: Final = 200  # entities that a model is shown, the most central ones
_COMPARED: Final = 5_000  # names that one is compared with
_OPENING: Final = {"》": "《", "〉": "〈", "”": "“", "」": "「", "』": "『", "）": "（", ")": "("}
NEAR: Final = 5  # names that are suggested in the place of one that is unknown


@dataclass(frozen=True, slots=True)
class GraphStatus:
    chunks: int
    entities: int
    relations: int
    communities: int  # of more than one entity
    readers: Mapping[str, int]  # who read how many chunks: statistical:<version> | model:<name>
    aliases: int  # decisions of people
    model: str = ""  # that is to read them; "": none
    unread: int = 0  # chunks that it has still to read
    failed: int = 0  # of these, what it could make no sense of since the base was opened
    trouble: str = ""  # why the model cannot be had


@dataclass(frozen=True, slots=True)
class GraphCost:
    """What building the graph with the base's model will take."""

    reading: ReadingCost
    summaries: Cost  # of the communities as they are now


@dataclass(frozen=True, slots=True)
class Quote:
    """The words that say so."""

    doc_id: str
    doc_name: str
    chunk_id: str
    text: str


@dataclass(frozen=True, slots=True)
class EntityShown:
    """An entity, what is stated of it (the weightiest first), the names of the other ends by id, and for the first
    evidence of each relation its words."""

    entity: Entity
    relations: tuple[Relation, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    quotes: Mapping[Evidence, Quote] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphKeeper:
    base: OpenBase

    # ── what there is ────────────────────────────────────────────────────────────────────────────

    async def status(self) -> GraphStatus:
        base, graph = self.base, await graph_of(self.base)
        model, trouble = await self._model()

        def told(tx: Connection) -> tuple[dict[str, int], int, int]:
            unread = facts.unread_count(tx, base.id, f"model:{model}"[:220]) if model and not trouble else 0
            return facts.origins(tx, base.id), unread, len(facts.aliases(tx, base.id))

        readers, unread, decided = await base.records.read(told)
        sizes = np.bincount(graph.communities.labels) if len(graph) else np.empty(0)
        return GraphStatus(
            chunks=len(graph.chunks),
            entities=len(graph),
            relations=len(graph.ties),
            communities=int((sizes > 1).sum()),
            readers=readers,
            aliases=decided,
            model=model,
            unread=unread,
            failed=len(base.reader.failed) if model else 0,
            trouble=trouble,
        )

    async def _model(self) -> tuple[str, str]:
        """The name of the model that is to read, and why it cannot be had."""
        if not self.has_model:
            return "", ""
        try:
            return (await asyncio.to_thread(graph_model, self.base)).name, ""
        except (ModelError, NotFound) as error:
            return str(self.base.about.config.get("graph_model") or ""), str(error)

    async def show(self, name: str, *, where: Filter = EVERYTHING, limit: int = 50) -> EntityShown:
        """An entity by its id, its name or one of its aliases. Raises NotFound, with names that are like it."""
        graph = await graph_of(self.base, where)
        shown = await asyncio.to_thread(_shown, graph, _expected(graph, name), limit)
        places = [each.evidence[0] for each in shown.relations if each.evidence]
        held = await read(self.base, chunks.by_keys, sorted({place.chunk for place in places}))
        quotes = {
            place: Quote(own.doc_id, own.doc_name, own.chunk_id, _words(own.text, place))
            for place in places
            if (own := held.get(place.chunk)) is not None
        }
        return replace(shown, quotes=quotes)

    async def communities(self, *, where: Filter = EVERYTHING, limit: int = 20) -> tuple[Community, ...]:
        """Those of most weight, with their summaries."""
        return await communities(self.base, where, limit)

    @property
    def has_model(self) -> bool:
        """Whether the base names a model to read its chunks."""
        return has_model(self.base)

    # ── read by a model ──────────────────────────────────────────────────────────────────────────

    async def cost(self) -> GraphCost:
        """Before anything is asked. Raises NotFound where the base names no model."""
        return GraphCost(await reading_cost(self.base), await summaries_cost(self.base))

    async def forget(self) -> int:
        """All that was read of the chunks, by statistics and by models, is to be read anew; answers of how many."""

        def forgotten(tx: Connection) -> int:
            held = facts.graph_chunks(tx, self.base.id).keys.tolist()
            facts.remove_facts(tx, self.base.id, held)
            return len(held)

        return await self.base.records.write(forgotten)

    async def read(self, watch: Watch = nothing) -> ModelRead:
        return await read_with_model(self.base, watch)

    async def summarise(self, watch: SummariesWatch = nothing) -> Summarised:
        return await summarise_communities(self.base, watch)

    # ── which names are one thing's ──────────────────────────────────────────────────────────────

    async def aliases(self) -> list[Alias]:
        """What people decided, in the order of the aliases."""
        return await self.base.records.read(lambda tx: facts.aliases(tx, self.base.id))

    async def merge(self, name: str, alias: str, origin: str = naming.GIVEN) -> Entity:
        """Both are one entity, called ``name``, until `split`; answers it. Raises NotFound where there is neither.

        A name that stands nowhere may be given to an entity that is there.
        """
        graph = await graph_of(self.base)
        rows = [row_of(graph, each) for each in (name, alias)]
        if rows == [None, None]:
            raise _unknown(graph, name)
        name, alias = (
            each if row is None or not _is_id(each) else graph.entity_at(row).name
            for each, row in zip((name, alias), rows, strict=True)
        )
        await self._decided(lambda decided: naming.merge(decided, name, alias, origin))
        after = await graph_of(self.base)
        return after.entity_at(_expected(after, name))

    async def split(self, name: str) -> tuple[str, ...]:
        """Takes a merge of people back, or parts a name from those that texts give it; answers the names that stand for
        themselves again. Raises NotFound where it goes by no other name."""
        graph, name = await graph_of(self.base), storable(name)
        row = row_of(graph, name)
        name = graph.entity_at(row).name if row is not None and _is_id(name) else name
        stated = _stated_of(graph, row, name)
        decision = await self._decided(lambda decided: naming.split(decided, name, stated))
        return tuple(dict.fromkeys((*decision.removed, *(each.alias for each in decision.kept))))

    async def propose(self) -> tuple[Alias, ...]:
        """Which of the most central names the base's model takes for one thing's; decides nothing.

        Raises NotFound where no model is named, ModelUnavailable or BadModelReply.
        """
        model = await asyncio.to_thread(graph_model, self.base)
        graph = await graph_of(self.base)
        order = np.lexsort((np.arange(len(graph)), -graph.importance))[:PROPOSED_AMONG]
        names = [graph.entity_at(row).name for row in order.tolist()]
        found: Sequence[Alias] = await in_graph_thread(self.base, naming.propose, model, names)
        known = {naming.form(row.alias) for row in await self.aliases()}
        return tuple(each for each in found if naming.form(each.alias) not in known)

    async def _decided(self, decide: Callable[[Sequence[Alias]], Decision]) -> Decision:
        """Decides upon what is of record, in the same transaction."""

        def keep(tx: Connection) -> Decision:
            decision = decide(facts.aliases(tx, self.base.id))
            for gone in decision.removed:
                facts.remove_alias(tx, self.base.id, gone)
            for kept in decision.kept:
                facts.add_alias(tx, self.base.id, kept)
            return decision

        return await self.base.records.write(keep)


# ── entities by what people call them ────────────────────────────────────────────────────────────


def row_of(graph: KnowledgeGraph, name: str) -> int | None:
    """By its id, its name or one of its aliases."""
    if _is_id(name) and (row := graph.row(name)) is not None:
        return row
    form = graph.names.forms.get(fold(name).strip())
    if form is None or form >= len(graph.entity_of) or graph.entity_of[form] < 0:
        return None
    return int(graph.entity_of[form])


def _is_id(name: str) -> bool:
    return name.startswith("e_")


def _expected(graph: KnowledgeGraph, name: str) -> int:
    row = row_of(graph, name)
    if row is None:
        raise _unknown(graph, name)
    return row


def _unknown(graph: KnowledgeGraph, name: str) -> NotFound:
    wanted = fold(name)[:80]
    known = {each: row for row in range(len(graph)) if set(each := graph.name(row)) & set(wanted)}
    like = difflib.get_close_matches(wanted, list(known)[:_COMPARED], NEAR, 0.5)
    shown = "、".join(graph.entity_at(known[each]).name for each in like)
    return NotFound(
        f"图谱里没有实体“{storable(name[:80])}”", hint=f"相近的：{shown}" if shown else "先放入提到它的文档，或核对写法"
    )


def _stated_of(graph: KnowledgeGraph, row: int | None, name: str) -> list[str]:
    """The names that stand for themselves once this one is parted from what texts call it."""
    if row is None:
        return []
    own = fold(name).strip()
    if own != graph.name(row):
        return [name]
    return [
        graph.names.folded[form] for form in np.flatnonzero(graph.entity_of == row).tolist() if form != graph.forms[row]
    ]


def _words(text: str, place: Evidence) -> str:
    """The characters that say so, with the mark that closes what they open: a relation ends where its name does."""
    said, following = text[place.start : place.end], text[place.end : place.end + 1]
    opened = _OPENING.get(following)
    return said + following if opened and said.count(opened) > said.count(following) else said


def _shown(graph: KnowledgeGraph, row: int, limit: int) -> EntityShown:
    ties = graph.ties_of([row])
    order = ties[np.lexsort((ties, -graph.ties.weight[ties], graph.ties.type[ties] == TOGETHER))][:limit]
    relations = tuple(graph.relation(tie) for tie in order.tolist())
    ends = {int(end) for tie in order.tolist() for end in (graph.ties.source[tie], graph.ties.target[tie])}
    return EntityShown(
        graph.entity_at(row), relations, {str(graph.ids[end]): graph.entity_at(end).name for end in sorted(ends)}
    )
