"""The graph and the vectors of one base behind one call, for code that awaits and for code that does not.

with open_blocking("./qianxun-data") as rag:
    retriever = HybridRetriever(rag)
    results = retriever.retrieve(query="糖尿病症状", graph_id="医学", mode="hybrid", top_k=10)

A graph is the graph of a knowledge base: ``graph_id`` is the base's name or id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from qianxun.core.answer_types import Answer
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.graph_types import GraphContext, Mirrored
from qianxun.core.options import QueryMode
from qianxun.core.types import EVERYTHING, Filter, Found, KnowledgeBase
from qianxun.engine.blocking import BlockingEngine
from qianxun.engine.engine import Engine
from qianxun.engine.graph_mirror import BUDGET, GraphMirror, MirroredSurroundings, entity_context, mirror

if TYPE_CHECKING:
    from qianxun.doors.client import Client

log = logging.getLogger(__name__)

GraphId: TypeAlias = str | int
Result = TypeVar("Result")
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
        self._rag = rag if isinstance(rag, BlockingEngine) else here(rag)
        self._engine = rag.engine if isinstance(rag, BlockingEngine) else rag
        self._adapter = neo4j_adapter
        self._surroundings = None if neo4j_adapter is None else MirroredSurroundings(neo4j_adapter)
        self._graph_id = graph_id

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def retrieve(
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
        return self._wait(self._found(query, graph_id, mode, top_k, where, doc_ids), "aretrieve")

    async def aretrieve(
        self,
        query: str,
        graph_id: GraphId | None = None,
        mode: QueryMode = "mix",
        top_k: int = 10,
        *,
        where: Filter = EVERYTHING,
        doc_ids: Sequence[str] = (),
    ) -> list[Found]:
        return await self._join(self._found(query, graph_id, mode, top_k, where, doc_ids))

    async def _found(
        self, query: str, graph_id: GraphId | None, mode: QueryMode, top_k: int, where: Filter, doc_ids: Sequence[str]
    ) -> list[Found]:
        base = await self._base(graph_id)
        narrowed: dict[str, Any] = {"where": where, "doc_ids": tuple(doc_ids)}
        gathered = await self._engine.gather(
            base.id, query, mode=mode, top_k=top_k, surroundings=self._surroundings, **narrowed
        )
        return list(gathered.results)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def query_with_multimodal(
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
        work = self._answer(query, multimodal_content, mode, graph_id, top_k, where)
        return self._wait(work, "aquery_with_multimodal")

    async def aquery_with_multimodal(
        self,
        query: str,
        multimodal_content: Sequence[Mapping[str, Any]] = (),
        mode: QueryMode = "mix",
        *,
        graph_id: GraphId | None = None,
        top_k: int | None = None,
        where: Filter = EVERYTHING,
    ) -> Answer:
        return await self._join(self._answer(query, multimodal_content, mode, graph_id, top_k, where))

    async def _answer(
        self,
        query: str,
        content: Sequence[Mapping[str, Any]],
        mode: QueryMode,
        graph_id: GraphId | None,
        top_k: int | None,
        where: Filter,
    ) -> Answer:
        base = await self._base(graph_id)
        return await self._engine.ask(
            base.id, query, mode=mode, top_k=top_k, where=where, multimodal_content=tuple(content)
        )

    # ── the graph ────────────────────────────────────────────────────────────────────────────────

    def assemble_graph_context(
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
        return self._wait(self._context(graph_id, nodes, query, where, budget), "aassemble_graph_context").as_dict()

    async def aassemble_graph_context(
        self,
        graph_id: GraphId | None = None,
        nodes: Sequence[str] = (),
        *,
        query: str = "",
        where: Filter = EVERYTHING,
        budget: int = BUDGET,
    ) -> Json:
        return (await self._join(self._context(graph_id, nodes, query, where, budget))).as_dict()

    async def _context(
        self, graph_id: GraphId | None, nodes: Sequence[str], query: str, where: Filter, budget: int
    ) -> GraphContext:
        base = await self._base(graph_id)
        return await entity_context(
            self._engine, base.id, nodes, query=query, where=where, budget=budget, surroundings=self._surroundings
        )

    def mirror(self, graph_id: GraphId | None = None) -> Mirrored:
        """Makes the copy on the server equal to the graph now; else that is done when a question needs it."""
        return self._wait(self._mirrored(graph_id), "amirror")

    async def amirror(self, graph_id: GraphId | None = None) -> Mirrored:
        return await self._join(self._mirrored(graph_id))

    async def _mirrored(self, graph_id: GraphId | None) -> Mirrored:
        if self._adapter is None:
            raise BadInput("没有图数据库可同步", hint="请给出 HybridRetriever(rag, Neo4jAdapter(uri, auth))")
        return await mirror(self._engine, (await self._base(graph_id)).id, self._adapter)

    # ── where the engine lives ───────────────────────────────────────────────────────────────────

    async def _base(self, graph_id: GraphId | None) -> KnowledgeBase:
        return await base_of(self._engine, self._graph_id if graph_id is None else graph_id)

    def _wait(self, work: Coroutine[Any, Any, Result], instead: str) -> Result:
        if self._rag is None:
            work.close()
            raise BadInput(
                "不知道引擎在哪个事件循环里，没法阻塞等待",
                hint=f"请用 open_blocking 打开引擎，或在事件循环里建 HybridRetriever，或改用 {instead}",
            )
        return self._rag.run(work, instead=instead)

    async def _join(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await (work if self._rag is None else self._rag.join(work))


def here(engine: Engine) -> BlockingEngine | None:
    """The engine on the loop that is running, where one is."""
    try:
        return BlockingEngine(engine, asyncio.get_running_loop())
    except RuntimeError:
        return None


async def base_of(engine: Engine | Client, graph_id: GraphId | None) -> KnowledgeBase:
    """The base of that name or id; None: the only one. Raises NotFound, or BadInput where there are several."""
    if graph_id is not None:
        return await engine.knowledge_base(graph_id)
    bases = await engine.knowledge_bases(limit=2)
    if len(bases) > 1:
        raise BadInput("有多个知识库，没有说是哪一个", hint="请给出 graph_id：知识库的名称或编号")
    if not bases:
        raise NotFound("还没有知识库", hint="请先建一个：qianxun kb create 名称")
    return bases[0]
