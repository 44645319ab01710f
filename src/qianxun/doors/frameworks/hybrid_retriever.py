"""The graph and the vectors of one base behind one call, for code that awaits and for code that does not.

with open_blocking("./qianxun-data") as rag:
    retriever = HybridRetriever(rag)
    results = retriever.retrieve(query="糖尿病症状", graph_id="医学", mode="hybrid", top_k=10)

A graph is the graph of a knowledge base: ``graph_id`` is the base's name or id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from qianxun.core.answer_types import Answer
from qianxun.core.errors import BadInput
from qianxun.core.graph_types import Mirrored
from qianxun.core.options import QueryMode
from qianxun.core.types import EVERYTHING, Filter, Found, KnowledgeBase
from qianxun.doors.frameworks.engine_caller import EngineCaller, GraphId, base_of, two_forms
from qianxun.engine.blocking import BlockingEngine
from qianxun.engine.engine import Engine
from qianxun.engine.graph_mirror import BUDGET, GraphMirror, MirroredSurroundings, entity_context, mirror

Json: TypeAlias = dict[str, list[Mapping[str, Any]]]


class HybridRetriever:
    """Finds in six modes, asks with pictures and tables, and says what a graph holds around an entity.

    ``rag`` is an engine, or one from `open_blocking`. Every call has two forms: the one with an ``a`` before its name
    is awaited; the other blocks, and must not be called from the engine's own loop. ``graph_id`` here is the graph of
    calls that name none; without it, that is the only one there is. With ``neo4j_adapter`` what lies around an entity
    is read from that server, which is brought into step first.
    """

    def __init__(
        self,
        rag: Engine | BlockingEngine,
        neo4j_adapter: GraphMirror | None = None,
        *,
        graph_id: GraphId | None = None,
    ) -> None:
        self._caller = EngineCaller(rag)
        self._engine = self._caller.engine
        self._adapter = neo4j_adapter
        self._surroundings = None if neo4j_adapter is None else MirroredSurroundings(neo4j_adapter)
        self._graph_id = graph_id

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    async def _retrieve(
        self,
        query: str,
        graph_id: GraphId | None = None,
        mode: QueryMode = "mix",
        top_k: int = 10,
        *,
        where: Filter = EVERYTHING,
        doc_ids: Sequence[str] = (),
    ) -> list[Found]:
        """The best chunks, scores in (0, 1]: ``top_k`` where the base has as many; none in ``bypass``."""
        base = await self._base(graph_id)
        narrowed: dict[str, Any] = {"where": where, "doc_ids": tuple(doc_ids)}
        gathered = await self._engine.gather(
            base.id, query, mode=mode, top_k=top_k, surroundings=self._surroundings, **narrowed
        )
        return list(gathered.results)

    retrieve, aretrieve = two_forms(_retrieve)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    async def _query_with_multimodal(
        self,
        query: str,
        multimodal_content: Sequence[Mapping[str, Any]] = (),
        mode: QueryMode = "mix",
        *,
        graph_id: GraphId | None = None,
        top_k: int | None = None,
        where: Filter = EVERYTHING,
    ) -> Answer:
        """An answer to a question that comes with pictures and tables: ``{"type": "image", "img_path": …}``,
        ``{"type": "table", "table_data": …}``; what they say is searched for, and can be cited."""
        base = await self._base(graph_id)
        return await self._engine.ask(
            base.id, query, mode=mode, top_k=top_k, where=where, multimodal_content=tuple(multimodal_content)
        )

    query_with_multimodal, aquery_with_multimodal = two_forms(_query_with_multimodal)

    # ── the graph ────────────────────────────────────────────────────────────────────────────────

    async def _assemble_graph_context(
        self,
        graph_id: GraphId | None = None,
        nodes: Sequence[str] = (),
        *,
        query: str = "",
        where: Filter = EVERYTHING,
        budget: int = BUDGET,
    ) -> Json:
        """``{"entities": [{id, name, type}], "relationships": [{source, target, type}]}``, the most important first.

        ``nodes`` are ids or names of entities; with ``query`` those that it names count too. Both come with what is
        tied to them, by relations that keep their direction.
        """
        base = await self._base(graph_id)
        found = await entity_context(
            self._engine, base.id, nodes, query=query, where=where, budget=budget, surroundings=self._surroundings
        )
        return found.as_dict()

    assemble_graph_context, aassemble_graph_context = two_forms(_assemble_graph_context)

    async def _mirror(self, graph_id: GraphId | None = None) -> Mirrored:
        """Makes the copy on the server equal to the graph now; else that is done when a question needs it."""
        if self._adapter is None:
            raise BadInput("没有图数据库可同步", hint="请给出 HybridRetriever(rag, Neo4jAdapter(uri, auth))")
        return await mirror(self._engine, (await self._base(graph_id)).id, self._adapter)

    mirror, amirror = two_forms(_mirror)

    async def _base(self, graph_id: GraphId | None) -> KnowledgeBase:
        return await base_of(self._engine, self._graph_id if graph_id is None else graph_id)
