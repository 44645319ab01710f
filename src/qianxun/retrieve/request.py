"""A search as one value, and its results as plain ones: `Retrieve(engine, RetrievalRequest(…))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from qianxun.core.errors import BadQuery
from qianxun.core.filters import read_filters
from qianxun.core.model_types import REF_PREFIX
from qianxun.core.options import Mode
from qianxun.core.types import Found, Metadata, Recall


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """A search of one knowledge base. ``filters`` are written as in a request over HTTP."""

    query: str
    knowledge_base_id: int
    top_k: int = 10
    score_threshold: float = 0.0
    doc_ids: Sequence[str] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = "hybrid"
    hybrid_weights: Mapping[str, float] | None = None  # {"vector": 0.7, "keyword": 0.3}; None: as the base has them
    use_rerank: bool = False
    rerank_model_id: int | str = 0  # the number of a registered model, or the name of another


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    chunk_id: str
    content: str
    score: float
    metadata: Metadata
    source: str  # vector, keyword, qa; hybrid: found by several


class Retriever(Protocol):
    """What searches: an `Engine` or a `Client`."""

    async def retrieve(self, knowledge_base: int, query: str, **choices: Any) -> Recall: ...


async def Retrieve(ctx: Retriever, req: RetrievalRequest) -> list[RetrievalResult]:
    """The chunks that answer a request, best first. Raises BadQuery, BadFilter or NotFound."""
    if req.use_rerank and not req.rerank_model_id:
        raise BadQuery("use_rerank 要有 rerank_model_id", hint="写上重排模型的编号，或名字（如 maxsim）")
    rerank = req.rerank_model_id if isinstance(req.rerank_model_id, str) else f"{REF_PREFIX}{req.rerank_model_id}"
    recall = await ctx.retrieve(
        req.knowledge_base_id,
        req.query,
        top_k=req.top_k,
        threshold=req.score_threshold,
        doc_ids=tuple(req.doc_ids),
        where=read_filters(dict(req.filters)),
        mode=req.mode,
        weights=None if req.hybrid_weights is None else dict(req.hybrid_weights),
        rerank=rerank if req.use_rerank else None,
    )
    return [_result(found) for found in recall.results]


def _result(found: Found) -> RetrievalResult:
    chunk = found.chunk
    about: Metadata = {"doc_id": chunk.doc_id, "doc_name": chunk.doc_name, "chunk_index": chunk.index}
    return RetrievalResult(
        chunk.chunk_id, chunk.text, found.score, {**chunk.attributes.metadata, **about}, found.source
    )
