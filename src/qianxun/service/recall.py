"""Recall of prose alone, or of tables alone: the base's own way of searching, each in one layer."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from qianxun.pipelines.options import TOP_K_LIMIT
from qianxun.service.answers import Answer, answered, problems
from qianxun.service.asked import Asked, Number, QueryText
from qianxun.service.context import BaseId, TenantEngine, trace_id, turn
from qianxun.service.retrieval import DegradedTold
from qianxun.types import ChunkKind, Eq, Found, Recall

LAYER: Final = 1
EXAMPLES: Final[dict[str, Any]] = {
    "plain": {"summary": "只写问题", "value": {"query": "住院报销比例是多少"}},
    "few": {"summary": "最多三条", "value": {"query": "住院报销比例是多少", "top_k": 3}},
}


class RecallAsked(Asked):
    query: QueryText
    top_k: Annotated[int, Field(ge=1, le=TOP_K_LIMIT), Number] | None = Field(
        default=None, description="最多几条；不写则用知识库或服务的配置（10）", examples=[10]
    )


class RecalledTold(BaseModel):
    doc_id: str = Field(examples=["123"])
    document_name: str = Field(examples=["报销比例.xlsx"])
    chunk_id: str = Field(examples=["c_1001_123_0"])
    content: str
    score: float = Field(description="0–1，结果按它排序", examples=[0.85])
    strategy: Literal["vector", "keyword", "qa", "hybrid"] = Field(description="哪一路找到的；hybrid 为不止一路")
    layer: int = Field(description="第几层找到的，从 1 起", examples=[1])
    match_details: str = Field(description="命中的词与各路的分数", examples=["命中：住院；vector .92，keyword .31"])
    metadata: dict[str, Any]


class RecallTold(BaseModel):
    knowledge_base_id: int = Field(examples=[1001])
    results: list[RecalledTold]
    degraded: list[DegradedTold]
    time_cost_ms: int
    trace_id: str


def routes() -> APIRouter:
    router = APIRouter(tags=["检索"])
    for path, summary, handler in (("texts", "只找正文", texts), ("tables", "只找表格", tables)):
        router.post(
            f"/v1/recall/{{knowledge_base_id}}/{path}",
            summary=summary,
            response_model=Answer[RecallTold],
            responses=problems(400, 404, 413, 422),
        )(handler)
    return router


Given = Annotated[RecallAsked, Body(openapi_examples=EXAMPLES)]


async def texts(request: Request, knowledge_base_id: BaseId, engine: TenantEngine, body: Given) -> Response:
    """正文里与问题有关的块，好的在前；表格不算。"""
    return await _recalled(request, knowledge_base_id, engine, body, "text")


async def tables(request: Request, knowledge_base_id: BaseId, engine: TenantEngine, body: Given) -> Response:
    """与问题有关的表格（切开的大表按行组），好的在前；正文不算。"""
    return await _recalled(request, knowledge_base_id, engine, body, "table")


async def _recalled(
    request: Request, knowledge_base: int, engine: TenantEngine, body: RecallAsked, kind: ChunkKind
) -> Response:
    async with turn(request):
        found = await engine.retrieve(
            knowledge_base, body.query, top_k=body.top_k, where=Eq("kind", kind), trace_id=trace_id(request)
        )
    return answered(_written(knowledge_base, found))


def _written(knowledge_base: int, recall: Recall) -> dict[str, Any]:
    return {
        "knowledge_base_id": knowledge_base,
        "results": [_result(each) for each in recall.found],
        "degraded": [{"part": one.part, "reason": one.reason} for one in recall.degraded],
        "time_cost_ms": round(recall.seconds * 1000),
        "trace_id": recall.trace_id,
    }


def _result(found: Found) -> dict[str, Any]:
    chunk = found.chunk
    return {
        "doc_id": chunk.doc_id,
        "document_name": chunk.doc_name,
        "chunk_id": chunk.chunk_id,
        "content": chunk.text,
        "score": found.score,
        "strategy": found.source,
        "layer": LAYER,
        "match_details": _details(found),
        "metadata": dict(chunk.attributes.metadata),
    }


def _details(found: Found) -> str:
    words = f"命中：{'、'.join(found.matched)}；" if found.matched else ""
    return words + "，".join(f"{arm} {said.score:.2f}" for arm, said in found.arms.items())
