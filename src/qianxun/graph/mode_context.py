"""What the graph says of a question, to stand beside the chunks that a mode found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from qianxun.bases.base import OpenBase, read
from qianxun.core.graph_types import Community, Evidence, GraphContext
from qianxun.graph.network.columns import Numbers
from qianxun.graph.network.context import assemble_graph_context
from qianxun.graph.network.extractive_summary import evidence_for, summarised
from qianxun.graph.network.global_search import Overview, Theme
from qianxun.graph.network.local_search import Around
from qianxun.graph.network.network import KnowledgeGraph
from qianxun.graph.stored_summaries import in_models_words
from qianxun.records import chunks

ENTITIES: Final = 32
TIES: Final = 48
PLACES: Final = 8  # of a relation that are told
READ: Final = 40  # places of a community that its summary is made from


async def context_of(base: OpenBase, graph: KnowledgeGraph, near: Around, seen: Overview) -> GraphContext:
    """The entities and relations that the modes came by, and the communities that they saw."""
    relevance = _relevance(graph, near, seen)
    rows = sorted(relevance, key=lambda row: (-relevance[row], row))[:ENTITIES]
    ties = _ties(graph, rows, near, seen)
    rows = list(dict.fromkeys((*rows, *graph.ties.source[ties].tolist(), *graph.ties.target[ties].tolist())))
    communities = await communities_of(base, graph, seen.themes)
    return await asyncio.to_thread(
        lambda: assemble_graph_context(
            map(graph.entity_at, rows),
            [graph.relation(tie, PLACES) for tie in ties.tolist()],
            relevance={str(graph.ids[row]): relevance.get(row, 0.1) for row in rows},
            communities=communities,
        )
    )


def _relevance(graph: KnowledgeGraph, near: Around, seen: Overview) -> dict[int, float]:
    """By row of an entity."""
    found = dict(near.entities)
    told = [(row, theme.score / (1 + at)) for theme in seen.themes for at, row in enumerate(theme.entities)]
    for ties in (near.ties, seen.ties):
        told += [(int(graph.ties.source[tie]), score) for tie, score in ties.items()]
        told += [(int(graph.ties.target[tie]), score) for tie, score in ties.items()]
    for row, score in told:
        found[row] = max(found.get(row, 0.0), min(score, 1.0))
    return found


def _ties(graph: KnowledgeGraph, rows: Sequence[int], near: Around, seen: Overview) -> Numbers:
    """Those that the question speaks of, then those among the entities."""
    told = sorted((*near.ties.items(), *seen.ties.items()), key=lambda each: (-each[1], each[0]))
    at_hand = graph.ties_of(rows)
    among = at_hand[np.isin(graph.ties.source[at_hand], rows) & np.isin(graph.ties.target[at_hand], rows)]
    heavy = among[np.lexsort((among, -graph.ties.weight[among]))]
    first = list(dict.fromkeys((*(tie for tie, _ in told[: TIES // 2]), *heavy.tolist())))
    return np.array(first[:TIES], dtype=np.int64)


async def communities_of(base: OpenBase, graph: KnowledgeGraph, themes: Iterable[Theme]) -> tuple[Community, ...]:
    """The communities of these entities, in a model's words where one wrote of them, each scored as its theme is."""
    return await in_models_words(base, await quoted_communities(base, graph, themes))


async def quoted_communities(base: OpenBase, graph: KnowledgeGraph, themes: Iterable[Theme]) -> tuple[Community, ...]:
    """The same in sentences of their sources."""
    drafts = await asyncio.to_thread(lambda: [(theme, *_material(graph, theme)) for theme in themes])
    wanted = sorted({place.chunk for _, _, places in drafts for place in places})
    held = await read(base, chunks.by_keys, wanted) if wanted else {}
    texts = {key: chunk.text for key, chunk in held.items()}
    told = await asyncio.to_thread(lambda: [_summarised(graph, *draft, texts) for draft in drafts])
    return tuple(replace(each, score=theme.score) for each, (theme, _, _) in zip(told, drafts, strict=True))


def _material(graph: KnowledgeGraph, theme: Theme) -> tuple[list[int], tuple[Evidence, ...]]:
    """The ties among a theme's entities, and where they are stated; of an entity without any, where it stands."""
    at_hand = graph.ties_of(theme.entities)
    rows = np.array(theme.entities, dtype=np.int64)
    within = np.isin(graph.ties.source[at_hand], rows) & np.isin(graph.ties.target[at_hand], rows)
    ties = [int(tie) for tie in at_hand[within].tolist()]
    mentions = () if ties else graph.mentions_of(theme.entities[0], READ)
    return ties, evidence_for([graph.relation(tie, PLACES) for tie in ties], mentions)[:READ]


def _summarised(
    graph: KnowledgeGraph, theme: Theme, ties: Sequence[int], places: Sequence[Evidence], texts: Mapping[int, str]
) -> Community:
    relations = [graph.relation(tie, PLACES) for tie in ties]
    return summarised(
        [graph.entity_at(row) for row in theme.entities], relations, texts, mentions=() if ties else places
    )
