"""Why a chunk was returned, or not, and the request that would return it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Field

from qianxun.core.codec.wire import written_explained
from qianxun.core.limits import CHUNK_ID_LIMIT
from qianxun.doors.http.context import BaseId, TenantEngine, recall_slot, trace_id
from qianxun.doors.http.native.retrieval import ArmScore, ChunkInfo, DegradedInfo, ResultInfo, Retrieved
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.request_models import Search, blaming_reranker
from qianxun.doors.http.responses import Envelope, success


class ExplainRequest(Search):
    chunk_id: str | None = Field(
        default=None,
        max_length=CHUNK_ID_LIMIT,
        description="要问的片段；不写则只说明每个结果的分数从何而来",
        examples=["c_1001_123_0"],
    )


class ArmVote(BaseModel):
    weight: float
    score: float


class ScoreSum(BaseModel):
    """分数怎样得来。

    fused = Σ 权重·分 ÷ Σ 权重；total = (1 − rerank_share)·fused + rerank_share·rerank；score 是 total 校准之后的。
    """

    fusion: str
    votes: dict[str, ArmVote]
    fused: float
    rerank: float | None
    rerank_share: float
    total: float
    score: float


class FoundExplained(ResultInfo):
    sum: ScoreSum


class RetrievedExplained(Retrieved):
    chunks: list[FoundExplained]  # type: ignore[assignment]  # the same, each with its sum


class ExplanationInfo(BaseModel):
    """没有写 chunk_id 时，只有 chunk_id（为空）、request、weights、recall 与查询本身。"""

    knowledge_base_id: int
    query: str
    trace_id: str
    chunk_id: str | None
    returned: bool = Field(default=False, description="在不在结果里")
    step: Literal[
        "returned", "records", "index", "filter", "recall", "fuse", "threshold", "tier", "rerank", "top_k"
    ] = Field(default="returned", description="returned，或把它挡下的那一步")
    reason: str = ""
    hint: str = ""
    rank: int | None = Field(default=None, description="在所有放行的片段里的名次")
    rank_before: int | None = Field(default=None, description="重排之前的名次")
    score: float | None = None
    tier: Literal["strict", "document", "fuzzy"] | None = None
    similarity: float | None = None
    coverage: float = 0.0
    matched: list[str] = []
    arms: dict[str, ArmScore] = {}
    sum: ScoreSum | None = None
    failing: list[dict[str, Any]] = Field(default=[], description="没有满足的过滤条件")
    status: str = ""
    changes: dict[str, Any] = Field(default={}, description="最少改动哪些选项就会返回它；为空则无需或无法")
    degraded: list[DegradedInfo] = []
    chunk: ChunkInfo | None = None
    request: dict[str, Any] | None = Field(description="照此请求 POST /v1/retrieval/{id}，就会返回它")
    weights: dict[str, float] = Field(description="实际使用的权重")
    recall: RetrievedExplained


router = APIRouter(tags=["检索"])


@router.post(
    "/v1/explain/{knowledge_base_id}",
    summary="为什么返回，或没有返回",
    **returns(Envelope[ExplanationInfo], 400, 404, 413, 422),
)
async def explain(
    request: Request,
    knowledge_base_id: BaseId,
    engine: TenantEngine,
    body: Annotated[ExplainRequest, Body(openapi_examples=request_examples("explain"))],
) -> Response:
    """检索一次，说明每个结果的分数，以及指定的片段在哪一步被挡下、最少改动什么就会返回它。"""
    choices = body.choices()
    async with recall_slot(request):
        with blaming_reranker(choices):
            explained = await engine.explain(knowledge_base_id, body.query, body.chunk_id or "", **choices)
    if traced := trace_id(request):
        explained = replace(explained, answer=replace(explained.answer, trace_id=traced))
    return success(written_explained(knowledge_base_id, explained, choices))
