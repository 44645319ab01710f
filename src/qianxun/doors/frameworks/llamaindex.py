"""A LlamaIndex retriever over a knowledge base; comes with the extra ``llamaindex``.

with open_blocking("./qianxun-data") as rag:
    retriever = QianxunRetriever(rag, "医保", top_k=5)
    answer = RetrieverQueryEngine.from_args(retriever, llm=model).query("住院报销比例是多少")
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from qianxun.core.codec.passage import passage_text
from qianxun.core.codec.wire import to_wire
from qianxun.core.errors import MissingExtra
from qianxun.core.types import Found, Recall
from qianxun.doors.frameworks.callers import Rag, caller_of
from qianxun.doors.frameworks.recall import chunk_metadata, recalling

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.instrumentation.events import BaseEvent
    from llama_index.core.schema import (
        IndexNode,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
    from llama_index_instrumentation import get_dispatcher
except ModuleNotFoundError as error:
    raise MissingExtra("llama-index-core", "llamaindex") from error

# What tells a program of a chunk, and a language model nothing; its headings are in its text.
NOT_FOR_MODELS: Final = ("doc_id", "chunk_id", "score", "source", "tier", "trace_id", "degraded", "headings")


class RecallDegraded(BaseEvent):
    """A recall that went on without a part of it."""

    trace_id: str
    degraded: list[dict[str, str]]

    @classmethod
    def class_name(cls) -> str:
        return "RecallDegraded"


class ChunkNode(TextNode):
    """A chunk. The same chunk has the same hash however it was found: a fusion of several queries counts it once."""

    @property
    def hash(self) -> str:
        return hashlib.sha256(f"{self.node_id}\n{self.text}".encode("utf-8", "surrogatepass")).hexdigest()


class QianxunRetriever(BaseRetriever):
    """Nodes of one knowledge base, best first, with our scores.

    ``rag`` is an engine, one from `open_blocking`, or a `Client`; somebody else closes it. ``knowledge_base`` is a name
    or a number; ``options`` are those of `Engine.retrieve`. A query's own embedding is not looked at: the base has its
    model.

    Raises what `Engine.retrieve` raises. A recall that went on without a part of it is a warning in the log, an event
    `RecallDegraded`, and stands in the metadata.
    """

    def __init__(
        self,
        rag: Rag,
        knowledge_base: str | int,
        *,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(callback_manager, object_map, objects, verbose)
        self._caller = caller_of(rag)
        self._knowledge_base = knowledge_base
        self._options = options
        recalling(knowledge_base, "", options)  # what is wrong with the options is event now

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        call = recalling(self._knowledge_base, query_bundle.query_str, self._options)
        return _nodes(self._caller.wait(call, instead="aretrieve"))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        call = recalling(self._knowledge_base, query_bundle.query_str, self._options)
        return _nodes(await self._caller.join(call))


def _nodes(recall: Recall) -> list[NodeWithScore]:
    if recall.degraded:
        event = RecallDegraded(trace_id=recall.trace_id, degraded=to_wire(recall.degraded))
        get_dispatcher(__name__).event(event)
    return [NodeWithScore(node=_node(recall, found), score=found.score) for found in recall.results]


def _node(recall: Recall, found: Found) -> ChunkNode:
    chunk = found.chunk
    metadata = chunk_metadata(recall, found)
    unknown = [] if metadata["page"] else ["page"]
    return ChunkNode(
        id_=chunk.chunk_id,
        text=passage_text(chunk),
        extra_info=metadata,  # which is what it calls its metadata
        excluded_llm_metadata_keys=[*NOT_FOR_MODELS, *unknown],
        excluded_embed_metadata_keys=[*NOT_FOR_MODELS, *unknown],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.doc_id)},
        start_char_idx=chunk.start,
        end_char_idx=chunk.end,
    )
